//! The output of `dev`: each record that the flow writes, as a line of JSON on standard output, or as a short line for people
//! where that is a terminal.
//!
//! Lines are made where records are written, and printed by a thread of its own: together while they come quickly, at
//! once when no more come. A reader that is slower than the flow makes the flow wait. When the reader has gone, as
//! `head` does, what comes after is let go and the run is told, once.

use std::io::{self, ErrorKind, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_kafka::memory::{Observer, Stored};
use loom_types::{Batch, printable};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::origins;

/// Bytes that may wait to be printed; at that bound the flow waits.
const WAITING: usize = 1 << 20;

/// How records are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// All of a record, as JSON.
    Json,
    /// Topic, key, payload and where it comes from, on a line of about so many columns.
    Short { width: usize },
}

/// Prints lines to an output.
pub struct Printer {
    rows: Rows,
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// There is something to print, or nothing more will come; or there is room again.
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    waiting: Vec<u8>,
    /// Nothing more will come.
    ended: bool,
    /// Why printing stopped.
    stopped: Option<io::Error>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room and appends one line.
    fn append(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = self.lock();
        while lines.waiting.len() >= WAITING && lines.stopped.is_none() {
            lines = self.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
        if lines.stopped.is_none() {
            write(&mut lines.waiting);
            self.changed.notify_all();
        }
    }
}

impl Printer {
    /// Prints to `out`. `gone` is called once when that fails, also because nobody reads any more; it must not wait.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(
        rows: Rows,
        out: impl Write + Send + 'static,
        gone: impl FnOnce() + Send + 'static,
    ) -> io::Result<Printer> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        let thread =
            thread::Builder::new().name("output".to_owned()).spawn(move || print(out, &of_thread, gone))?;
        Ok(Printer { rows, shared, thread })
    }

    /// What the memory broker tells of each record that is written to a topic.
    pub fn observer(&self) -> Observer {
        let (rows, shared) = (self.rows, self.shared.clone());
        Box::new(move |topic, stored, _| {
            shared.append(|line| match rows {
                Rows::Json => write_record(line, topic, stored),
                Rows::Short { width } => {
                    let record = &stored.record;
                    let from = origins::of_written();
                    let row = Short {
                        into: topic,
                        key: record.key.as_deref(),
                        payload: record.payload.as_deref(),
                        from,
                    };
                    line.extend_from_slice(row.line(width).as_bytes());
                }
            });
        })
    }

    /// Prints what sinks would write.
    pub fn sink_lines(&self) -> SinkLines {
        SinkLines { rows: self.rows, shared: self.shared.clone() }
    }

    /// Prints the end, waits until all is printed, and says how it went; a reader that has gone is no error.
    ///
    /// # Errors
    /// What writing answered first.
    pub fn finish(self, end: &str) -> io::Result<()> {
        self.shared.append(|lines| lines.extend_from_slice(end.as_bytes()));
        self.shared.lock().ended = true;
        self.shared.changed.notify_all();
        if self.thread.join().is_err() {
            return Err(io::Error::other("the printing thread panicked"));
        }
        match self.shared.lock().stopped.take() {
            Some(error) if error.kind() != ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// Prints rows that sinks would write.
pub struct SinkLines {
    rows: Rows,
    shared: Arc<Shared>,
}

impl SinkLines {
    /// Prints a row of a batch, for the sink of this name.
    pub fn print(&self, sink: &str, batch: &Batch, row: u32) {
        if let Rows::Short { width } = self.rows {
            let from = Some(origins::place(batch.source(row)));
            let row = Short { into: sink, key: batch.key(row), payload: batch.payload(row), from };
            return self.shared.append(|lines| lines.extend_from_slice(row.line(width).as_bytes()));
        }
        let headers = batch.headers(row).map(|(name, value)| (Text(name), Bytes(value))).collect();
        let line = SinkLine {
            sink,
            key: Bytes(batch.key(row)),
            headers,
            timestamp_ms: batch.source(row).timestamp_ms,
            payload: Bytes(batch.payload(row)),
        };
        self.shared.append(|lines| write_json(lines, &line));
    }
}

/// The thread: takes all that waits, prints it, and flushes before it sleeps.
fn print(mut out: impl Write, shared: &Shared, gone: impl FnOnce()) {
    let mut taken = Vec::new();
    loop {
        let mut lines = shared.lock();
        while lines.waiting.is_empty() && !lines.ended {
            lines = shared.changed.wait(lines).unwrap_or_else(PoisonError::into_inner);
        }
        if lines.waiting.is_empty() {
            return;
        }
        taken.clear();
        std::mem::swap(&mut taken, &mut lines.waiting);
        drop(lines);
        shared.changed.notify_all();
        if let Err(error) = out.write_all(&taken).and_then(|()| out.flush()) {
            let mut lines = shared.lock();
            lines.stopped = Some(error);
            lines.waiting = Vec::new();
            drop(lines);
            shared.changed.notify_all();
            gone();
            return;
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    key: Bytes<'a>,
    headers: Vec<(Text<'a>, Bytes<'a>)>,
    timestamp_ms: Option<i64>,
    payload: Bytes<'a>,
}

/// As [`Line`], of what has no topic.
#[derive(Serialize)]
struct SinkLine<'a> {
    sink: &'a str,
    key: Bytes<'a>,
    headers: Vec<(Text<'a>, Bytes<'a>)>,
    timestamp_ms: Option<i64>,
    payload: Bytes<'a>,
}

/// A record that people look at.
struct Short<'a> {
    into: &'a str,
    key: Option<&'a [u8]>,
    payload: Option<&'a [u8]>,
    from: Option<String>,
}

/// Columns that a payload has at least.
const LEAST_PAYLOAD: usize = 30;

impl Short<'_> {
    fn line(&self, width: usize) -> String {
        let key = self.key.map_or_else(|| "-".to_owned(), |key| readable(key, LEAST_PAYLOAD));
        let from = self.from.as_ref().map_or_else(String::new, |from| format!("  from {}", printable(from)));
        let head = format!("{}  {key}  ", printable(self.into));
        let taken = head.chars().count() + from.chars().count();
        let most = width.saturating_sub(taken).max(LEAST_PAYLOAD);
        let payload = self.payload.map_or_else(|| "null".to_owned(), |payload| readable(payload, most));
        format!("{head}{payload}{from}\n")
    }
}

/// Bytes on one line of so many characters at most.
fn readable(bytes: &[u8], most: usize) -> String {
    // A character has at most four bytes: no more of a large payload is looked at.
    let looked = &bytes[..bytes.len().min(4 * (most + 1))];
    let text = match std::str::from_utf8(looked) {
        Ok(text) => text,
        // The cut may lie within a character.
        Err(error) if error.error_len().is_none() && looked.len() < bytes.len() => {
            std::str::from_utf8(&looked[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return format!("({} bytes)", bytes.len()),
    };
    let shown = printable(text);
    if shown.chars().count() <= most && looked.len() == bytes.len() {
        return shown.into_owned();
    }
    shown.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

fn write_record(line: &mut Vec<u8>, topic: &str, stored: &Stored) {
    let record = &stored.record;
    let headers = record.headers.iter().map(|(name, value)| (Text(name), Bytes(value.as_deref()))).collect();
    write_json(
        line,
        &Line {
            topic,
            partition: stored.partition,
            offset: stored.offset.0,
            key: Bytes(record.key.as_deref()),
            headers,
            timestamp_ms: record.timestamp_ms,
            payload: Bytes(record.payload.as_deref()),
        },
    );
}

fn write_json(line: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(&mut *line, value)
        .expect("what is printed is made of strings, numbers, lists and maps");
    line.push(b'\n');
}

/// Bytes in JSON: null, a string where they are UTF-8, else `{"base64": …}`.
struct Bytes<'a>(Option<&'a [u8]>);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(bytes) = self.0 else { return serializer.serialize_none() };
        match std::str::from_utf8(bytes) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry("base64", &STANDARD.encode(bytes))?;
                map.end()
            }
        }
    }
}

/// A header's name; Kafka has it as text, so what is not is shown as well as that goes.
struct Text<'a>(&'a [u8]);

impl Serialize for Text<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&String::from_utf8_lossy(self.0))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind, Write};
    use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use loom_kafka::memory::{Record, Stored};
    use loom_types::RecordOffset;

    use super::{Printer, Rows, Short, WAITING};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// An output that hands on what it flushes.
    struct Sent {
        pending: Vec<u8>,
        flushed: Sender<String>,
    }

    impl Write for Sent {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.pending.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            let text = String::from_utf8(std::mem::take(&mut self.pending)).unwrap();
            self.flushed.send(text).map_err(|_| ErrorKind::BrokenPipe.into())
        }
    }

    fn sent() -> (Sent, Receiver<String>) {
        let (flushed, receiver) = channel();
        (Sent { pending: Vec::new(), flushed }, receiver)
    }

    fn stored(offset: i64, record: Record) -> Stored {
        Stored { partition: 2, offset: RecordOffset(offset), record }
    }

    #[test]
    fn a_short_row_is_one_line_whatever_is_in_it() {
        let row = |key: Option<&'static [u8]>, payload: Option<&'static [u8]>| Short {
            into: "out",
            key,
            payload,
            from: Some("in/0 at 41".to_owned()),
        };
        assert_eq!(row(Some(b"c-1"), Some(b"{\"a\":1}")).line(80), "out  c-1  {\"a\":1}  from in/0 at 41\n");
        assert_eq!(row(None, None).line(80), "out  -  null  from in/0 at 41\n");
        assert_eq!(
            row(Some(b"\xff\x00"), Some(b"a\n\x1b[31mb")).line(80),
            "out  (2 bytes)  a\\n\\u{1b}[31mb  from in/0 at 41\n"
        );
        let long = row(None, Some("ü".repeat(5000).leak().as_bytes())).line(80);
        assert_eq!((long.chars().count(), long.contains("ü…")), (81, true), "{long}");
    }

    #[test]
    fn a_record_is_one_line_that_shows_every_part() {
        let (out, flushed) = sent();
        let printer = Printer::start(Rows::Json, out, || panic!("nothing is gone")).unwrap();
        let record = Record::value("a\n\"ü\"")
            .keyed([255, 0])
            .header("b", Some(b"1"))
            .header("b", None)
            .header("c", Some(&[128]))
            .at(1_700_000_000_000);
        printer.observer()("out", &stored(7, record), None);
        let line = flushed.recv_timeout(PATIENCE).expect("a line that is alone is printed at once");
        assert_eq!(
            line,
            "{\"topic\":\"out\",\"partition\":2,\"offset\":7,\"key\":{\"base64\":\"/wA=\"},\
             \"headers\":[[\"b\",\"1\"],[\"b\",null],[\"c\",{\"base64\":\"gA==\"}]],\
             \"timestamp_ms\":1700000000000,\"payload\":\"a\\n\\\"ü\\\"\"}\n"
        );
        printer.observer()("out", &stored(8, Record::tombstone()), None);
        let line = flushed.recv_timeout(PATIENCE).unwrap();
        assert!(
            line.ends_with("\"key\":null,\"headers\":[],\"timestamp_ms\":null,\"payload\":null}\n"),
            "{line}"
        );
        printer.finish("{\"offsets\":{}}\n").unwrap();
        assert_eq!(flushed.recv_timeout(PATIENCE).unwrap(), "{\"offsets\":{}}\n");
    }

    #[test]
    fn the_last_line_comes_behind_all_records() {
        let (out, flushed) = sent();
        let printer = Printer::start(Rows::Json, out, || panic!("nothing is gone")).unwrap();
        let mut observers = [printer.observer(), printer.observer()];
        for number in 0..5000 {
            observers[number % 2]("out", &stored(number as i64, Record::value("x".repeat(1000))), None);
        }
        printer.finish("end\n").unwrap();
        let text: String = flushed.iter().collect();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5001);
        for (number, line) in lines[..5000].iter().enumerate() {
            assert!(line.contains(&format!("\"offset\":{number},")), "{line}");
        }
        assert_eq!(lines[5000], "end");
    }

    /// An output that takes nothing before it is let, and then fails.
    struct Stuck {
        let_go: Receiver<ErrorKind>,
    }

    impl Write for Stuck {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.let_go.recv().expect("the test lets go").into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_slow_reader_makes_the_flow_wait_and_one_that_has_gone_lets_it_end() {
        for (kind, fine) in [(ErrorKind::BrokenPipe, true), (ErrorKind::StorageFull, false)] {
            let (let_it, let_go) = sync_channel(1);
            let gone = Arc::new(Mutex::new(0));
            let seen = gone.clone();
            let printer =
                Printer::start(Rows::Json, Stuck { let_go }, move || *seen.lock().unwrap() += 1).unwrap();
            let mut observer = printer.observer();
            let (done, finished) = channel();
            let flow = std::thread::spawn(move || {
                let mut offset = 0;
                while done.send(offset).is_ok() && offset < 64 {
                    observer("out", &stored(offset, Record::value("x".repeat(WAITING / 4))), None);
                    offset += 1;
                }
            });
            // More than may wait, and what the thread has taken, cannot have been accepted.
            let mut accepted = 0;
            while let Ok(offset) = finished.recv_timeout(Duration::from_millis(200)) {
                accepted = offset;
            }
            assert!(accepted < 16, "{accepted} records were taken by an output that prints none");
            let_it.send(kind).unwrap();
            flow.join().expect("the flow runs to its end");
            let ended = printer.finish("end\n");
            assert_eq!(ended.is_ok(), fine, "{kind:?}: {ended:?}");
            assert_eq!(*gone.lock().unwrap(), 1, "the run is told once");
        }
    }
}
