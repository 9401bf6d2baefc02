//! The input of `dev`: a file or standard input, one record a line, read while it is consumed.
//!
//! A thread of its own reads and parses, so that no worker waits for a disk or for someone who types; a short queue of
//! chunks stands between it and the broker, so the size of the input does not matter. What was read is handed on before
//! the thread waits for more. The first line that is wrong ends the input, behind all records before it.

mod line;

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use loom_kafka::memory::{Pulled, RecordStream};
use loom_kafka::{KafkaError, Kind, Waker};

use self::line::{Lines, Parsed};
use crate::flow_file::words;

pub use self::line::Target;

/// Records of one chunk, at most.
const CHUNK_ROWS: usize = 512;
/// Bytes of one chunk: the line that reaches it is its last.
const CHUNK_BYTES: usize = 1 << 20;
/// Chunks that may wait.
const CHUNKS: usize = 4;
/// What is read at once.
const BUFFER: usize = 256 << 10;
/// No line is longer: it bounds what an input without line ends can take.
const MAX_LINE: u64 = 256 << 20;

/// What is wrong with an input, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// The input's name: its path, or `standard input`.
    name: String,
    /// The line, from 1, where it is about one.
    line: Option<u64>,
    message: String,
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.name, self.message),
            None => write!(f, "cannot read the input {}: {}", self.name, self.message),
        }
    }
}

impl std::error::Error for InputError {}

/// The records of an input, as the memory broker pulls them.
pub struct Input {
    /// What the thread will read; none once it has begun.
    source: Option<Source>,
    chunks: Option<Receiver<Chunk>>,
    chunk: Chunk,
}

struct Source {
    name: String,
    bytes: Box<dyn Read + Send>,
    lines: Lines,
}

/// What the thread hands over: records in order, and what comes behind them.
struct Chunk {
    records: VecDeque<Parsed>,
    then: Then,
}

enum Then {
    More,
    End,
    Failed(InputError),
}

impl Input {
    /// Opens a file, or standard input for `-`. `topics` are the flow's, with their partitions; records without a topic
    /// of their own go to the first. With `envelope` a line is an object, else a payload.
    ///
    /// # Errors
    /// The file cannot be opened, or is a folder.
    pub fn open(path: &Path, envelope: bool, topics: Vec<Target>) -> Result<Input, InputError> {
        if path == Path::new("-") {
            return Ok(Input::of("standard input", Box::new(io::stdin()), envelope, topics));
        }
        let name = path.display().to_string();
        let failed = |error: io::Error| InputError { name: name.clone(), line: None, message: words(&error) };
        let file = File::open(path).map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(InputError { name, line: None, message: "it is a folder".to_owned() });
        }
        Ok(Input::of(&name, Box::new(file), envelope, topics))
    }

    fn of(name: &str, bytes: Box<dyn Read + Send>, envelope: bool, topics: Vec<Target>) -> Input {
        let source = Source { name: name.to_owned(), bytes, lines: Lines::new(envelope, topics) };
        Input {
            source: Some(source),
            chunks: None,
            chunk: Chunk { records: VecDeque::new(), then: Then::More },
        }
    }
}

impl RecordStream for Input {
    fn bind(&mut self, waker: Waker) {
        let Some(source) = self.source.take() else { return };
        let (sender, receiver) = sync_channel(CHUNKS);
        let name = source.name.clone();
        let started =
            thread::Builder::new().name("input".to_owned()).spawn(move || read(source, &sender, &waker));
        match started {
            Ok(_) => self.chunks = Some(receiver),
            Err(error) => {
                self.chunk.then = Then::Failed(InputError { name, line: None, message: words(&error) })
            }
        }
    }

    fn pull(&mut self) -> Pulled {
        loop {
            if let Some(Parsed { topic, partition, record }) = self.chunk.records.pop_front() {
                return Pulled::Record { topic, partition, record };
            }
            match &self.chunk.then {
                Then::End => return Pulled::End,
                Then::Failed(error) => return Pulled::Failed(as_broker_error(error)),
                Then::More => {}
            }
            let Some(chunks) = &self.chunks else { return Pulled::Pending };
            match chunks.try_recv() {
                Ok(chunk) => self.chunk = chunk,
                Err(TryRecvError::Empty) => return Pulled::Pending,
                // The thread hands its last chunk over before it ends.
                Err(TryRecvError::Disconnected) => return Pulled::End,
            }
        }
    }
}

fn as_broker_error(error: &InputError) -> KafkaError {
    KafkaError { kind: Kind::Configuration, code: "INPUT_INVALID", message: error.to_string() }
}

/// Gathers records into chunks and hands them over; the waker is called after each.
struct Handover<'a> {
    sender: &'a SyncSender<Chunk>,
    waker: &'a Waker,
    records: VecDeque<Parsed>,
    bytes: usize,
}

impl Handover<'_> {
    fn push(&mut self, parsed: Parsed) {
        self.bytes += parsed.record.bytes();
        self.records.push_back(parsed);
    }

    fn is_full(&self) -> bool {
        self.records.len() >= CHUNK_ROWS || self.bytes >= CHUNK_BYTES
    }

    /// False when nobody takes chunks any more.
    fn hand_over(&mut self, then: Then) -> bool {
        self.bytes = 0;
        let taken = self.sender.send(Chunk { records: std::mem::take(&mut self.records), then }).is_ok();
        (self.waker)();
        taken
    }
}

/// The thread: reads to the end, to the first wrong line, or until nobody wants more.
fn read(source: Source, sender: &SyncSender<Chunk>, waker: &Waker) {
    let Source { name, bytes, mut lines } = source;
    let mut reader = BufReader::with_capacity(BUFFER, bytes);
    let mut out = Handover { sender, waker, records: VecDeque::new(), bytes: 0 };
    let mut number = 0;
    let mut line = Vec::new();
    let then = loop {
        let would_wait = !reader.buffer().contains(&b'\n');
        if (out.is_full() || (would_wait && !out.records.is_empty())) && !out.hand_over(Then::More) {
            return;
        }
        number += 1;
        let fault = |message| Then::Failed(InputError { name: name.clone(), line: Some(number), message });
        line.clear();
        match reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(0) => break Then::End,
            Ok(_) => {}
            Err(error) => break fault(format!("cannot read on: {}", words(&error))),
        }
        if line.len() as u64 == MAX_LINE && !line.ends_with(b"\n") {
            break fault(format!("the line is longer than {} MiB", MAX_LINE >> 20));
        }
        match lines.parse(without_end(&line)) {
            Ok(parsed) => out.push(parsed),
            Err(message) => break fault(message),
        }
    };
    out.hand_over(then);
}

/// A line without its end, `\n` or `\r\n`; the last line of an input may have none.
fn without_end(line: &[u8]) -> &[u8] {
    match line.strip_suffix(b"\n") {
        Some(line) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    }
}

#[cfg(test)]
mod tests;
