//! The commands that the probe guests obey, so that a test can say in a record, or in the plugin's configuration, how
//! the guest shall behave, and a handful of components serve every test.
//!
//! Where a record's command comes from: `command` of the configuration; else `do` of a payload that is a JSON object;
//! else the payload itself, as text. What is no known command means "change nothing".
//!
//! | command | effect |
//! |---|---|
//! | `upper` | payload in upper case |
//! | `set:TEXT`, `clear` | sets the payload; makes it a tombstone |
//! | `set-key:TEXT`, `clear-key` | the same with the key |
//! | `set-headers:NAME=VALUE,NAME` | replaces the headers; without `=` a header's value is absent |
//! | `reject:WHY`, `retry:WHY`, `fail:WHY` | answers with that failure |
//! | `retry-n:N` | `retry` for the first N calls for that record, then "change nothing" |
//! | `loop`, `recurse`, `trap`, `alloc`, `invalid-utf8` | runs for ever; overflows the stack; panics; allocates without bound; answers text that is not UTF-8 |
//! | `sleep`, `sleep:MS` | waits in the host for an hour, or for so long |
//! | `doze:TIMES:MS` | waits so many times for so long |
//! | `spin:TURNS` | computes: so many turns of a short loop |
//! | `huge-output`, `huge-output:BYTES` | a payload of 128 MiB, or of so many bytes |
//! | `env:NAME`, `read:PATH`, `list:PATH` | payload becomes the variable, file or folder, or `error: …` |
//! | `write:PATH` | appends a line to the file; payload becomes `written` or `error: …` |
//! | `connect:HOST:PORT` | payload becomes `connected` or `error: …` |
//! | `log:LINE`, `log-flood:N`, `print:LINE`, `eprint:LINE` | writes to the log, the log N times, stdout, stderr |
//! | `leak:BYTES`, `keep-open:PATH` | forgets so much memory; forgets an open file |
//! | `context`, `message` | payload becomes, as JSON, what the host says of the node; what arrived |
//! | `calls` | payload becomes the number of records that this instance has seen, from 1 |
//!
//! What makes rows, and what chooses, knows the commands of [`rows`] too.

pub mod columns;
pub mod rows;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io::Write;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `config:` of a probe plugin; every field may be left out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The command for every record.
    pub command: Option<String>,
    /// `configure` answers with this error.
    pub refuse: Option<String>,
    /// `configure` obeys this command: `loop`, `sleep`, `recurse`, `trap`, `alloc`, `log:…`.
    pub in_configure: Option<String>,
    /// Column form: the fields that `reads` names; all when left out.
    pub reads: Option<Vec<String>>,
    /// Column form: the headers that `reads` narrows to.
    pub header_names: Vec<String>,
    /// Column form and batch roles: the whole call answers with `fail` and this.
    pub fail_call: Option<String>,
    /// Column form: what is wrong with the answer: `short` (a row less), `offsets` (beyond the data), `order` (offsets
    /// that go down), `validity` (bits for fewer rows), `failure-row` (a failure for a row that is not there); of rows
    /// also `origin` (one that is not there) and `origins` (one too few).
    pub bad_columns: Option<String>,
    /// Column form of rows: they come last origin first.
    pub backwards: bool,
    /// Column form of rows: leaves out the columns of keys and headers, so that rows have those of their origins.
    pub inherit: bool,
    /// Batch steps: so many answers too many, or too few.
    pub answers_off: i32,
    /// Typed expanders: what `types` names; `a`, `b` and `c` when left out.
    pub types: Option<Vec<String>>,
    /// Predicates: the answer is whether the payload contains this.
    pub contains: Option<String>,
}

thread_local! {
    static CONFIG: RefCell<Config> = RefCell::default();
    static CALLS: Cell<u64> = const { Cell::new(0) };
    static RETRIES: RefCell<HashMap<String, u32>> = RefCell::default();
}

/// What the host says of the node that calls.
#[derive(Serialize)]
pub struct Context {
    /// The flow's name.
    pub flow: String,
    /// The node's path.
    pub node: String,
    /// The plugin's name.
    pub plugin: String,
    /// The worker's index.
    pub worker: u32,
}

/// The host functions that differ from guest to guest only by their generated types.
pub struct Host {
    /// Asks for the context.
    pub context: fn() -> Context,
    /// Writes an `info` line to the log.
    pub log: fn(&str),
}

/// A record as a probe sees it; borrowed, so that the column form need not copy it.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Record<'a> {
    /// None = tombstone.
    pub payload: Option<&'a [u8]>,
    /// None = no key.
    pub key: Option<&'a [u8]>,
    /// In order; values may be absent.
    pub headers: Vec<(&'a str, Option<&'a [u8]>)>,
    /// Source topic.
    pub topic: &'a str,
    /// Source partition.
    pub partition: u32,
    /// Source offset.
    pub offset: u64,
    /// Milliseconds since 1970, where there is a time.
    pub timestamp_ms: Option<i64>,
    /// The row's place among those made from one record.
    pub row: &'a str,
}

/// What becomes of one field.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Change {
    /// As it was.
    #[default]
    Keep,
    /// None.
    Clear,
    /// This.
    Set(Vec<u8>),
}

/// What becomes of a record.
#[derive(Clone, Debug, Default)]
pub struct Patch {
    /// The payload.
    pub payload: Change,
    /// The key.
    pub key: Change,
    /// None keeps them.
    pub headers: Option<Headers>,
}

/// Headers in order.
pub type Headers = Vec<(String, Option<Vec<u8>>)>;

/// A failure of the contract.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The record is bad.
    Reject(String),
    /// Later.
    Retry(String),
    /// The plugin could not.
    Fail(String),
}

/// `setup.configure`: keeps the configuration, and misbehaves if it says so.
pub fn configure(json: &str, host: &Host) -> Result<Config, String> {
    let config =
        serde_json::from_str::<Option<Config>>(json).map_err(|e| format!("config: {e}"))?.unwrap_or_default();
    if let Some(command) = &config.in_configure {
        obey(command, &Record::default(), host).map_err(|failure| format!("{failure:?}"))?;
    }
    if let Some(why) = &config.refuse {
        return Err(why.clone());
    }
    CONFIG.set(config.clone());
    Ok(config)
}

/// The configuration; the default before `configure`.
pub fn config() -> Config {
    CONFIG.with_borrow(Clone::clone)
}

/// The command for a record, as the head of this module says.
pub fn command(record: &Record) -> String {
    #[derive(Deserialize)]
    struct Doing {
        r#do: String,
    }
    if let Some(command) = CONFIG.with_borrow(|config| config.command.clone()) {
        return command;
    }
    let payload = record.payload.unwrap_or_default();
    match serde_json::from_slice::<Doing>(payload) {
        Ok(doing) => doing.r#do,
        Err(_) => String::from_utf8_lossy(payload).into_owned(),
    }
}

/// A step's whole work on one record.
pub fn process(record: &Record, host: &Host) -> Result<Patch, Failure> {
    CALLS.set(CALLS.get() + 1);
    obey(&command(record), record, host)
}

/// A predicate's whole work on one record: `contains` of the configuration; else the command is obeyed, and the answer
/// is yes to `yes` alone.
pub fn test(record: &Record, host: &Host) -> Result<bool, Failure> {
    CALLS.set(CALLS.get() + 1);
    let payload = String::from_utf8_lossy(record.payload.unwrap_or_default());
    if let Some(text) = CONFIG.with_borrow(|config| config.contains.clone()) {
        return Ok(payload.contains(&text));
    }
    let command = command(record);
    obey(&command, record, host)?;
    Ok(command == "yes")
}

/// Carries out one command.
pub fn obey(command: &str, record: &Record, host: &Host) -> Result<Patch, Failure> {
    let (verb, rest) = command.split_once(':').unwrap_or((command, ""));
    let payload = |text: String| Ok(Patch { payload: Change::Set(text.into_bytes()), ..Patch::default() });
    let key = |key| Ok(Patch { key, ..Patch::default() });
    match verb {
        "upper" => {
            let text = String::from_utf8_lossy(record.payload.unwrap_or_default());
            payload(text.to_uppercase())
        }
        "set" => payload(rest.to_owned()),
        "clear" => Ok(Patch { payload: Change::Clear, ..Patch::default() }),
        "set-key" => key(Change::Set(rest.as_bytes().to_vec())),
        "clear-key" => key(Change::Clear),
        "set-headers" => Ok(Patch { headers: Some(headers(rest)), ..Patch::default() }),
        "reject" => Err(Failure::Reject(rest.to_owned())),
        "retry" => Err(Failure::Retry(rest.to_owned())),
        "fail" => Err(Failure::Fail(rest.to_owned())),
        "retry-n" => retry(record, rest.parse().unwrap_or(1)),
        "loop" => endless(),
        "recurse" => payload(deep(1).to_string()),
        "trap" => panic!("told to trap: {rest}"),
        "alloc" => payload(hoard().to_string()),
        "invalid-utf8" => Err(Failure::Reject(not_text())),
        "sleep" => {
            std::thread::sleep(Duration::from_millis(rest.parse().unwrap_or(3_600_000)));
            Ok(Patch::default())
        }
        "doze" => {
            let (times, millis) = rest.split_once(':').unwrap_or((rest, "1"));
            for _ in 0..times.parse().unwrap_or(1) {
                std::thread::sleep(Duration::from_millis(millis.parse().unwrap_or(1)));
            }
            Ok(Patch::default())
        }
        "spin" => {
            spin(rest);
            Ok(Patch::default())
        }
        "huge-output" => {
            let size = rest.parse().unwrap_or(128 << 20);
            Ok(Patch { payload: Change::Set(vec![b'x'; size]), ..Patch::default() })
        }
        "env" => payload(std::env::var(rest).unwrap_or_else(|e| format!("error: {e}"))),
        "read" => payload(std::fs::read_to_string(rest).unwrap_or_else(|e| format!("error: {e}"))),
        "list" => payload(list(rest).unwrap_or_else(|e| format!("error: {e}"))),
        "write" => payload(append(rest).map_or_else(|e| format!("error: {e}"), |()| "written".to_owned())),
        "connect" => payload(match std::net::TcpStream::connect(rest) {
            Ok(_) => "connected".to_owned(),
            Err(e) => format!("error: {e}"),
        }),
        "log" => {
            (host.log)(rest);
            Ok(Patch::default())
        }
        "log-flood" => {
            for line in 0..rest.parse().unwrap_or(100_000_u64) {
                (host.log)(&format!("flood {line}"));
            }
            Ok(Patch::default())
        }
        "print" => {
            println!("{rest}");
            Ok(Patch::default())
        }
        "eprint" => {
            eprintln!("{rest}");
            Ok(Patch::default())
        }
        "leak" => {
            std::mem::forget(std::hint::black_box(vec![1_u8; rest.parse().unwrap_or(1 << 10)]));
            Ok(Patch::default())
        }
        "keep-open" => match std::fs::File::open(rest) {
            Ok(file) => {
                std::mem::forget(file);
                Ok(Patch::default())
            }
            Err(e) => Err(Failure::Fail(e.to_string())),
        },
        "context" => payload(json(&(host.context)())),
        "message" => payload(json(record)),
        "calls" => payload(CALLS.get().to_string()),
        _ => Ok(Patch::default()),
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|e| format!("error: {e}"))
}

fn headers(text: &str) -> Headers {
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| match part.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.as_bytes().to_vec())),
            None => (part.to_owned(), None),
        })
        .collect()
}

fn retry(record: &Record, times: u32) -> Result<Patch, Failure> {
    let id = format!("{}/{}/{}/{}", record.topic, record.partition, record.offset, record.row);
    RETRIES.with_borrow_mut(|retries| {
        let seen = retries.entry(id).or_default();
        *seen += 1;
        if *seen <= times {
            Err(Failure::Retry(format!("try {seen} of {times}")))
        } else {
            Ok(Patch::default())
        }
    })
}

/// Computes for so many turns.
pub fn spin(turns: &str) {
    for turn in 0..turns.parse().unwrap_or(0_u64) {
        std::hint::black_box(turn);
    }
}

fn endless() -> ! {
    let mut turn = 0_u64;
    loop {
        // Without an effect the loop could be optimised into a trap.
        turn = std::hint::black_box(turn.wrapping_add(1));
    }
}

#[expect(unconditional_recursion, reason = "the stack must overflow")]
#[inline(never)]
fn deep(level: u64) -> u64 {
    let frame = std::hint::black_box([level; 32]);
    deep(level + 1).wrapping_add(frame[(level % 32) as usize])
}

fn hoard() -> usize {
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        held.push(std::hint::black_box(vec![1; 1 << 20]));
        if held.len() > 1 << 20 {
            return held.len();
        }
    }
}

fn not_text() -> String {
    // SAFETY: none; the broken invariant is the point. The string is only handed to the host, which must check it.
    unsafe { String::from_utf8_unchecked(vec![b'a', 0xff, 0xfe]) }
}

fn list(path: &str) -> std::io::Result<String> {
    let mut names = std::fs::read_dir(path)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names.join(","))
}

fn append(path: &str) -> std::io::Result<()> {
    std::fs::File::options().append(true).create(true).open(path)?.write_all(b"written\n")
}
