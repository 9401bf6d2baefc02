//! A sink: appends each record to a file as one line of JSON.
//!
//! The one promise of a sink is that it completes a record's token only when the record can no longer be lost. Here
//! `write` gathers lines in memory, `flush` appends them, waits for the disk, and only then completes. If the process
//! dies before that, the host sends the records again; `id` in each line, which is the same on every re-delivery, tells
//! the reader which lines are repeats.
//!
//! Invariant: the file is made of whole lines up to `durable`. What lies beyond is the rest of an append that did not
//! end, of records that were never completed, and is cut off before the next append.

use std::cell::RefCell;
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use exports::loom::plugin::sink::TrackedMessage;
use exports::loom::plugin::{setup, sink};
use loom::plugin::context;
use loom::plugin::delivery::Token;
use loom::plugin::types::{Failure, Message};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "
        package example:archive;
        world archive {
            include loom:plugin/sink-plugin@0.1.0;
            include loom:plugin/configured@0.1.0;
        }
    ",
    generate_all,
});

/// `config:` of the plugin in flow.yaml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// A folder as the plugin sees it: `guest:` of the grant under `allow.dirs`.
    folder: String,
}

/// One line of the file.
#[derive(Serialize)]
struct Entry<'a> {
    /// Where the record came from: topic/partition/offset, and the row where an earlier node made several.
    id: String,
    order: &'a RawValue,
}

struct Archive {
    file: File,
    /// Length of the file up to the last line that is on disk.
    durable: u64,
    /// Lines that are not in the file yet, and the tokens of their records.
    lines: Vec<u8>,
    tokens: Vec<Token>,
}

thread_local! {
    static ARCHIVE: RefCell<Option<Archive>> = const { RefCell::new(None) };
    static TRACKER: RefCell<Option<CommitTracker>> = const { RefCell::new(None) };
}

struct Plugin;
export!(Plugin);

impl setup::Guest for Plugin {
    fn configure(config: String) -> Result<(), String> {
        let config: Config = serde_json::from_str(&config).map_err(|e| format!("config: {e}"))?;
        // Each node has an instance of its own on each worker, and so a file of its own: two instances on one file would
        // write over each other's lines.
        let path = Path::new(&config.folder).join(file_name(&context::node(), context::worker()));
        let archive = Archive::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        ARCHIVE.set(Some(archive));
        Ok(())
    }
}

impl Guest for Plugin {
    fn bind_commit_tracker(tracker: CommitTracker) {
        TRACKER.set(Some(tracker));
    }
}

impl sink::Guest for Plugin {
    fn write(messages: Vec<TrackedMessage>) -> Result<(), Failure> {
        with_archive(|archive, tracker| {
            for TrackedMessage { message, token } in &messages {
                match archive.append(message) {
                    Ok(()) => archive.tokens.push(*token),
                    Err(reason) => tracker.fail(*token, &Failure::Reject(reason)),
                }
            }
            Ok(())
        })
    }

    fn flush() -> Result<(), Failure> {
        with_archive(|archive, tracker| {
            // A full disk may be emptied: the lines are kept, and the host calls `flush` again later.
            archive.persist().map_err(|e| Failure::Retry(format!("cannot write to the archive: {e}")))?;
            tracker.complete(&std::mem::take(&mut archive.tokens));
            Ok(())
        })
    }

    fn close() -> Result<(), String> {
        ARCHIVE.set(None);
        Ok(())
    }
}

/// The file of one instance, such as `orders-process-1-fork-when-0-process-0-0.jsonl`; the worker comes last.
fn file_name(node: &str, worker: u32) -> String {
    let words = node.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let node = words.collect::<Vec<_>>().join("-");
    format!("orders-{node}-{worker}.jsonl")
}

fn with_archive(
    work: impl FnOnce(&mut Archive, &CommitTracker) -> Result<(), Failure>,
) -> Result<(), Failure> {
    ARCHIVE.with_borrow_mut(|archive| {
        TRACKER.with_borrow(|tracker| match (archive, tracker) {
            (Some(archive), Some(tracker)) => work(archive, tracker),
            _ => Err(Failure::Fail("the archive is not open: configuration names no folder".to_owned())),
        })
    })
}

impl Archive {
    fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path)?;
        let durable =
            std::fs::read(path)?.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at as u64 + 1);
        Ok(Self { file, durable, lines: Vec::new(), tokens: Vec::new() })
    }

    /// Adds a record's line to those that wait for the next flush.
    fn append(&mut self, message: &Message) -> Result<(), String> {
        let payload = message.payload.as_deref().unwrap_or_default();
        let order: &RawValue = serde_json::from_slice(payload).map_err(|e| format!("not JSON: {e}"))?;
        let mut id = format!("{}/{}/{}", message.topic, message.partition, message.offset);
        if !message.row.is_empty() {
            id = format!("{id}/{}", message.row);
        }
        let start = self.lines.len();
        serde_json::to_writer(&mut self.lines, &Entry { id, order }).map_err(|e| e.to_string())?;
        // Line ends in JSON stand only between its tokens (in strings they are escaped), so a blank says the same.
        self.lines[start..]
            .iter_mut()
            .filter(|byte| matches!(byte, b'\n' | b'\r'))
            .for_each(|byte| *byte = b' ');
        self.lines.push(b'\n');
        Ok(())
    }

    /// Brings the waiting lines to disk. After an error the file may end in a part of them; the next call cuts it off.
    fn persist(&mut self) -> std::io::Result<()> {
        if self.lines.is_empty() {
            return Ok(());
        }
        self.file.set_len(self.durable)?;
        self.file.seek(SeekFrom::Start(self.durable))?;
        self.file.write_all(&self.lines)?;
        self.file.sync_all()?;
        self.durable += self.lines.len() as u64;
        self.lines.clear();
        Ok(())
    }
}
