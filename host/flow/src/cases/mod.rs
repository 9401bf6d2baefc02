//! Test files: cases of a flow, read as a flow is, every problem at once and at its place.
//!
//! A case says what the flow reads, what goes wrong on the way, and what must have come of it at the end. Here it is
//! understood; it is run elsewhere. What only the flow tells (whether there is such a topic, sink or node) is checked
//! there too, against the places that are kept with everything. Nothing is interpolated from outside: a case that
//! depends on where it runs proves nothing.

mod read;
mod records;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use loom_types::ErrorKind;

use crate::ask::Environment;
use crate::expr::ExactJson;
use crate::issue::{Code, Issue, Severity, Stretch};
use crate::reader::{self, Part};
use crate::render::{self, HumanStyle};
use crate::report::{Problem, Report};
use crate::secrets::Secrets;
use crate::spec::Cx;
use crate::text::{Span, Text};
use crate::{CompileOptions, Mode, SourceFile};

/// A value with its place in the test file.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub at: Stretch,
}

/// A test file.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseFile {
    /// The flow's file, as written.
    pub flow: Option<Placed<String>>,
    /// Files that are laid over it, as written.
    pub overlays: Vec<Placed<String>>,
    /// At least one.
    pub cases: Vec<Case>,
}

/// One run of a flow.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// What it shows; the place is the name's.
    pub name: Placed<String>,
    /// Worker threads.
    pub workers: Option<usize>,
    /// Partitions of each input topic.
    pub partitions: Option<i32>,
    /// Whether the sinks' components are left out, and what they would get is kept.
    pub captures_sinks: bool,
    /// How long after the last record the flow may take.
    pub timeout: Duration,
    /// What it reads.
    pub records: Vec<InputRecord>,
    /// What goes wrong.
    pub faults: Vec<Fault>,
    /// What must have come of it.
    pub expect: Expect,
}

/// Name and value of a header; none is null.
pub type Header = (Vec<u8>, Option<Vec<u8>>);

/// A record that the flow reads.
#[derive(Clone, Debug, PartialEq)]
pub struct InputRecord {
    /// Where it stands.
    pub at: Stretch,
    /// Its topic; none for the flow's first.
    pub topic: Option<Placed<String>>,
    /// Its partition; none for by its key, or in turn.
    pub partition: Option<Placed<i32>>,
    /// Its key.
    pub key: Option<Vec<u8>>,
    /// Its payload; none is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Its headers, in order.
    pub headers: Vec<Header>,
    /// Its time in milliseconds since 1970-01-01 UTC; none for now.
    pub timestamp_ms: Option<i64>,
}

/// A record of an input, by its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordAt {
    /// The topic; none for the flow's first.
    pub topic: Option<String>,
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// Something that goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Where it stands.
    pub at: Stretch,
    /// What.
    pub what: FaultKind,
    /// The record that it happens on; none for every one.
    pub record: Option<Placed<RecordAt>>,
    /// How often; none for every time.
    pub times: Option<u64>,
    /// What is said of it.
    pub reason: Option<String>,
}

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// A call of a plugin.
    Call {
        /// The plugin's name, or a node's path.
        whom: Placed<String>,
        /// How it ends.
        ends: CallEnd,
    },
    /// A sink's flush.
    Flush {
        /// The plugin's name, or a node's path.
        whom: Placed<String>,
        /// How it ends.
        ends: CallEnd,
    },
    /// An output refuses the record for good.
    Refuse {
        /// The output's logical name.
        output: Placed<String>,
    },
    /// The process is killed, and another begins.
    Kill(KillAt),
}

/// How a call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEnd {
    /// The plugin traps.
    Trap,
    /// It runs longer than it may.
    Timeout,
    /// It answers that it cannot.
    Fail,
    /// It rejects the record.
    Reject,
    /// It asks to be called again later.
    Retry,
}

/// When a process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillAt {
    /// As the record is about to be read.
    Read,
    /// When an output of the record was just written.
    Written,
}

/// What must have come of a case. What is none is not compared, `errors` and `stops` apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Expect {
    /// Where it stands.
    pub at: Stretch,
    /// Whether nothing stands there, to be filled.
    pub unfilled: bool,
    /// What is replaced where it is written anew; none where its text is another place's too (an anchor).
    pub place: Option<ExpectPlace>,
    /// By topic: all of its records.
    pub topics: Option<BTreeMap<String, Placed<Vec<OutputRecord>>>>,
    /// By plugin: all that it wrote.
    pub sinks: Option<BTreeMap<String, Placed<Vec<OutputRecord>>>>,
    /// Whether records may come in any order.
    pub any_order: bool,
    /// Failures that no route took, all of them.
    pub errors: Vec<ExpectedError>,
    /// Counts of the ledger, by name.
    pub ledger: BTreeMap<String, Placed<u64>>,
    /// Rows by their ending's name.
    pub ended: BTreeMap<String, Placed<u64>>,
    /// Committed offsets, by topic and partition.
    pub offsets: BTreeMap<(String, i32), Placed<i64>>,
    /// What a failure that stops the flow says; none for no failure.
    pub stops: Option<Placed<String>>,
}

impl Expect {
    /// Whether it names nothing: the case holds for whatever the flow writes, if it ends well.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let Expect {
            at: _,
            unfilled: _,
            place: _,
            topics,
            sinks,
            any_order: _,
            errors,
            ledger,
            ended,
            offsets,
            stops,
        } = self;
        topics.is_none()
            && sinks.is_none()
            && errors.is_empty()
            && ledger.is_empty()
            && ended.is_empty()
            && offsets.is_empty()
            && stops.is_none()
    }
}

/// The text of an expectation, from after the colon of its key to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectPlace {
    /// Its first byte.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
    /// The column of its key, where it may be a block; none between braces.
    pub indent: Option<usize>,
}

/// A record that must have been written; what is none is not compared.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputRecord {
    /// Where it stands.
    pub at: Stretch,
    /// Its key; an inner none for no key.
    pub key: Option<Option<Vec<u8>>>,
    /// Headers that it has, among others.
    pub headers: Vec<Header>,
    /// Its time.
    pub timestamp_ms: Option<i64>,
    /// Its payload.
    pub body: Body,
}

/// What is said of a payload.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Nothing.
    Any,
    /// These bytes, or none at all.
    Bytes(Option<Vec<u8>>),
    /// This JSON, whatever its form.
    Json(ExactJson),
    /// JSON that has these fields, at every depth.
    Fields(ExactJson),
}

/// A failure that no route took; what is none is not compared.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedError {
    /// Where it stands.
    pub at: Stretch,
    /// Its kind.
    pub kind: Option<ErrorKind>,
    /// The node's path.
    pub node: Option<String>,
    /// The record's topic, partition and offset.
    pub topic: Option<String>,
    /// See `topic`.
    pub partition: Option<i32>,
    /// See `topic`.
    pub offset: Option<i64>,
    /// A part of the reason.
    pub reason: Option<String>,
}

/// A test file that was read.
pub struct ReadCases {
    /// The cases; none if an issue is an error.
    pub file: Option<CaseFile>,
    /// Every problem, in the order of the file.
    pub issues: Vec<Issue>,
    name: String,
    text: String,
}

impl ReadCases {
    /// A problem that only the flow shows, at a place of the file.
    #[must_use]
    pub fn issue(&self, code: Code, at: Stretch, message: String, hint: Option<String>) -> Issue {
        let (severity, file, path) = (Severity::Error, self.name.clone(), String::new());
        Issue { severity, code, message, file, at, related: None, path, hint }
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Issues of this file for people, each with its excerpt.
    #[must_use]
    pub fn render(&self, issues: &[Issue], style: HumanStyle) -> String {
        render::human(issues, &[(self.name.clone(), self.text.clone())], style)
    }
}

impl std::fmt::Debug for ReadCases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadCases")
            .field("file", &self.file)
            .field("issues", &self.issues)
            .finish_non_exhaustive()
    }
}

/// A test file takes nothing from outside.
struct Nothing;

impl Environment for Nothing {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::Error::other("a test file takes nothing from other files"))
    }
}

/// Whether an `expect:` with nothing is wrong, or is about to be filled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unfilled {
    /// It is wrong: it would hold whatever comes.
    Refused,
    /// It will be filled.
    Taken,
}

/// Reads a test file. Never panics, whatever the bytes are.
#[must_use]
pub fn read(source: &SourceFile) -> ReadCases {
    read_as(source, Unfilled::Refused)
}

/// As [`read`], for expectations that are about to be written: an `expect:` with nothing is taken as one that names
/// nothing.
#[must_use]
pub fn read_to_fill(source: &SourceFile) -> ReadCases {
    read_as(source, Unfilled::Taken)
}

fn read_as(source: &SourceFile, unfilled: Unfilled) -> ReadCases {
    let (text, not_text) = Text::decode(&source.bytes);
    let shown = text.as_str().to_owned();
    let mut report = Report::new(vec![(source.name.clone(), text)]);
    let mut file = None;
    if let Some(bad) = not_text {
        let problem = Problem::error(Code::FileInvalid, bad.message).maybe_hint(bad.hint);
        report.push_at(Span::at(0, bad.at), "", problem);
    } else if let Some(root) = reader::read(&mut report, 0, Part::Cases) {
        let mut cx = Cx {
            report: &mut report,
            env: &Nothing,
            dir: &source.dir,
            options: CompileOptions { mode: Mode::Run, require_env: true, plugins: false },
            outside: Secrets::default(),
            secrets: Secrets::default(),
            masks: Vec::new(),
            expression_env: BTreeMap::new(),
        };
        file = read::file(&mut cx, &root, unfilled);
    }
    let file = file.filter(|_| !report.has_errors());
    ReadCases { file, issues: report.finish(), name: source.name.clone(), text: shown }
}

#[cfg(test)]
mod tests;
