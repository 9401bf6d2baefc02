//! A sink that completes tokens well or badly, as its configuration says.
//!
//! What it has written durably it appends to `<folder>/<worker>.jsonl`, one line a record, so that a test can compare
//! the file with the committed offsets. A record whose payload is a command of a few kinds is treated by it:
//! `trap` panics in `write`; `reject:WHY`, `retry:WHY`, `fail:WHY` make the call of `write` fail at that record;
//! `verdict:WHY` fails that record alone through the tracker; `spin:TURNS` computes before it is written.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;

use exports::loom::plugin::sink::TrackedMessage;
use exports::loom::plugin::{setup, sink};
use loom::plugin::context;
use loom::plugin::delivery::Token;
use loom::plugin::types::{Failure, Message};
use serde::Deserialize;

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package test:probe;
        world probe-sink {
            include loom:plugin/sink-plugin@0.1.0;
            include loom:plugin/configured@0.1.0;
        }
    ",
    generate_all,
});

/// `config:` of the plugin; every field may be left out.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// When tokens are completed.
    complete: Complete,
    /// The granted folder, as the guest sees it. Without it nothing is kept.
    folder: Option<String>,
    /// So many calls of `write` fail, counted over instances where there is a folder, else within one.
    fail_writes: u32,
    /// So many calls of `flush` fail, counted likewise.
    fail_flushes: u32,
    /// How they fail.
    fail_with: FailWith,
    /// `close` leaves a file `closed-<worker>` in the folder.
    note_close: bool,
    /// `close` answers with this error.
    close_error: Option<String>,
    /// `configure` answers with this error.
    refuse: Option<String>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Complete {
    /// In `write`.
    Write,
    /// In `flush`.
    #[default]
    Flush,
    /// Never.
    Never,
    /// In `write`, and again in `flush`.
    Twice,
    /// In `flush`, and before it a token that nobody was given.
    Foreign,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum FailWith {
    #[default]
    Fail,
    Reject,
    Retry,
    Trap,
}

#[derive(Default)]
struct State {
    config: Config,
    tracker: Option<CommitTracker>,
    lines: Vec<String>,
    tokens: Vec<Token>,
    failed_writes: u32,
    failed_flushes: u32,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

struct Probe;
export!(Probe);

impl setup::Guest for Probe {
    fn configure(config: String) -> Result<(), String> {
        let config: Option<Config> = serde_json::from_str(&config).map_err(|e| format!("config: {e}"))?;
        let config = config.unwrap_or_default();
        if let Some(why) = config.refuse {
            return Err(why);
        }
        if let Some(folder) = &config.folder {
            end_torn_line(&format!("{folder}/{}.jsonl", context::worker()))
                .map_err(|e| format!("{folder}: {e}"))?;
        }
        STATE.with_borrow_mut(|state| state.config = config);
        Ok(())
    }
}

impl Guest for Probe {
    fn bind_commit_tracker(tracker: CommitTracker) {
        STATE.with_borrow_mut(|state| state.tracker = Some(tracker));
    }
}

impl sink::Guest for Probe {
    fn write(messages: Vec<TrackedMessage>) -> Result<(), Failure> {
        STATE.with_borrow_mut(|state| state.write(messages))
    }

    fn flush() -> Result<(), Failure> {
        STATE.with_borrow_mut(State::flush)
    }

    fn close() -> Result<(), String> {
        STATE.with_borrow_mut(|state| {
            if let (true, Some(folder)) = (state.config.note_close, &state.config.folder) {
                append(&format!("{folder}/closed-{}", context::worker()), "closed\n")
                    .map_err(|e| format!("{folder}: {e}"))?;
            }
            state.config.close_error.take().map_or(Ok(()), Err)
        })
    }
}

impl State {
    fn write(&mut self, messages: Vec<TrackedMessage>) -> Result<(), Failure> {
        if self.fails("write") {
            return Err(self.failure("write"));
        }
        let kept = (self.lines.len(), self.tokens.len());
        for TrackedMessage { message, token } in messages {
            let payload =
                String::from_utf8_lossy(message.payload.as_deref().unwrap_or_default()).into_owned();
            let (verb, why) = payload.split_once(':').unwrap_or((&payload, ""));
            let failure = match verb {
                "trap" => panic!("told to trap: {why}"),
                "reject" => Failure::Reject(why.to_owned()),
                "retry" => Failure::Retry(why.to_owned()),
                "fail" => Failure::Fail(why.to_owned()),
                "verdict" => {
                    self.tracker().fail(token, &Failure::Reject(why.to_owned()));
                    continue;
                }
                _ => {
                    if verb == "spin" {
                        probe::spin(why);
                    }
                    self.lines.push(line(&message, &payload));
                    self.tokens.push(token);
                    continue;
                }
            };
            // After an error the sink forgets the rows of this call.
            self.lines.truncate(kept.0);
            self.tokens.truncate(kept.1);
            return Err(failure);
        }
        if matches!(self.config.complete, Complete::Write | Complete::Twice) {
            self.persist()?;
            self.tracker().complete(&self.tokens);
            if self.config.complete == Complete::Write {
                self.tokens.clear();
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        if self.fails("flush") {
            return Err(self.failure("flush"));
        }
        self.persist()?;
        let tokens = std::mem::take(&mut self.tokens);
        match self.config.complete {
            Complete::Never => {}
            Complete::Foreign => {
                self.tracker().complete(&[0xdead_beef]);
                self.tracker().complete(&tokens);
            }
            Complete::Write | Complete::Flush | Complete::Twice => self.tracker().complete(&tokens),
        }
        Ok(())
    }

    fn tracker(&self) -> &CommitTracker {
        self.tracker.as_ref().expect("the host binds the tracker before the first write")
    }

    /// Whether this call is one of those that fail; counts it.
    fn fails(&mut self, call: &str) -> bool {
        let (limit, count) = match call {
            "write" => (self.config.fail_writes, &mut self.failed_writes),
            _ => (self.config.fail_flushes, &mut self.failed_flushes),
        };
        let Some(folder) = &self.config.folder else {
            *count += 1;
            return *count <= limit;
        };
        let path = format!("{folder}/failed-{call}-{}", context::worker());
        let so_far = std::fs::read(&path).map_or(0, |bytes| bytes.len() as u32);
        let fails = so_far < limit;
        if fails {
            append(&path, "x").expect("the granted folder can be written");
        }
        fails
    }

    fn failure(&self, call: &str) -> Failure {
        let why = format!("told to fail in {call}");
        match self.config.fail_with {
            FailWith::Fail => Failure::Fail(why),
            FailWith::Reject => Failure::Reject(why),
            FailWith::Retry => Failure::Retry(why),
            FailWith::Trap => panic!("{why}"),
        }
    }

    fn persist(&mut self) -> Result<(), Failure> {
        let text: String = self.lines.drain(..).collect();
        match &self.config.folder {
            Some(folder) if !text.is_empty() => {
                append(&format!("{folder}/{}.jsonl", context::worker()), &text)
                    .map_err(|e| Failure::Fail(format!("{folder}: {e}")))
            }
            _ => Ok(()),
        }
    }
}

fn line(message: &Message, payload: &str) -> String {
    let key = message.key.as_deref().map(String::from_utf8_lossy);
    let line = serde_json::json!({
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "row": message.row,
        "key": key,
        "payload": payload,
    });
    format!("{line}\n")
}

/// A host that was killed may have left a part of a line, of records that were never completed.
fn end_torn_line(path: &str) -> std::io::Result<()> {
    match std::fs::read(path) {
        Ok(bytes) if bytes.last().is_some_and(|last| *last != b'\n') => append(path, "\n"),
        _ => Ok(()),
    }
}

fn append(path: &str, text: &str) -> std::io::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
