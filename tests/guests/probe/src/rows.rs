//! What the probes make of records that become several, and what they choose: commands beside those of the crate's head.
//!
//! | command | effect |
//! |---|---|
//! | `rows:ROW,ROW` | these rows; none without a ROW. A ROW is a payload, `KEY=PAYLOAD`, or either after `TYPE/` |
//! | `many:N:BYTES` | N rows of so many bytes |
//! | `all:TEXT` | batch expanders: one row that names no record |
//! | `of:I+J:TEXT` | batch expanders: one row that names these records of the batch |
//! | `label:TEXT`, `key:TEXT` | selectors, partitioners: the answer |
//! | `none` | selectors, partitioners: no answer |
//!
//! All else is obeyed as by a step: it makes one row of the record as it then is. A row without a key of its own has its
//! record's key, and every row has its record's headers.

use std::borrow::Cow;

use crate::{CALLS, Change, Failure, Headers, Host, Record, command, config, obey};

/// A new record.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Of a typed expander; `a` where the command names none.
    pub r#type: String,
    /// None = tombstone.
    pub payload: Option<Vec<u8>>,
    /// None = no key.
    pub key: Option<Vec<u8>>,
    /// In order.
    pub headers: Headers,
}

/// A row of a batch, with the records that it names.
#[derive(Clone, Debug)]
pub struct Derived {
    /// The row.
    pub row: Row,
    /// Places in the batch.
    pub origins: Vec<u32>,
}

/// An expander's whole work on one record.
pub fn expand(record: &Record, host: &Host) -> Result<Vec<Row>, Failure> {
    CALLS.set(CALLS.get() + 1);
    made(&command(record), record, host)
}

/// A batch expander's whole work.
pub fn expand_batch(records: &[Record], host: &Host) -> Result<Vec<Derived>, Failure> {
    if let Some(why) = config().fail_call {
        return Err(Failure::Fail(why));
    }
    let mut derived = Vec::new();
    for (place, record) in records.iter().enumerate() {
        CALLS.set(CALLS.get() + 1);
        let command = command(record);
        let (verb, rest) = command.split_once(':').unwrap_or((&command, ""));
        match verb {
            "all" => derived.push(Derived { row: row(record, rest), origins: Vec::new() }),
            "of" => {
                let (origins, text) = rest.split_once(':').unwrap_or((rest, ""));
                let origins = origins.split('+').filter_map(|place| place.parse().ok()).collect();
                derived.push(Derived { row: row(record, text), origins });
            }
            _ => derived.extend(
                made(&command, record, host)?
                    .into_iter()
                    .map(|row| Derived { row, origins: vec![place as u32] }),
            ),
        }
    }
    Ok(derived)
}

/// A selector's or partitioner's whole work on one record.
pub fn choose(record: &Record, host: &Host) -> Result<Option<String>, Failure> {
    CALLS.set(CALLS.get() + 1);
    let command = command(record);
    match command.split_once(':') {
        Some(("label" | "key", text)) => Ok(Some(text.to_owned())),
        _ => obey(&command, record, host).map(|_| None),
    }
}

/// What `types` names.
pub fn types() -> Vec<String> {
    config().types.unwrap_or_else(|| ["a", "b", "c"].map(str::to_owned).to_vec())
}

fn made(command: &str, record: &Record, host: &Host) -> Result<Vec<Row>, Failure> {
    let (verb, rest) = command.split_once(':').unwrap_or((command, ""));
    match verb {
        "rows" => Ok(rest.split(',').filter(|text| !text.is_empty()).map(|text| row(record, text)).collect()),
        "many" => {
            let (rows, bytes) = rest.split_once(':').unwrap_or((rest, "10"));
            let text = "x".repeat(bytes.parse().unwrap_or(10));
            Ok((0..rows.parse().unwrap_or(1)).map(|_| row(record, &text)).collect())
        }
        _ => {
            let patch = obey(command, record, host)?;
            let field = |change, before: Option<&[u8]>| match change {
                Change::Keep => before.map(<[u8]>::to_vec),
                Change::Clear => None,
                Change::Set(bytes) => Some(bytes),
            };
            Ok(vec![Row {
                r#type: "a".to_owned(),
                payload: field(patch.payload, record.payload),
                key: field(patch.key, record.key),
                headers: patch.headers.unwrap_or_else(|| headers(record)),
            }])
        }
    }
}

fn row(record: &Record, text: &str) -> Row {
    let (r#type, text) = text.split_once('/').unwrap_or(("a", text));
    let (key, payload) = match text.split_once('=') {
        Some((key, payload)) => (Some(Cow::Borrowed(key.as_bytes())), payload),
        None => (record.key.map(Cow::Borrowed), text),
    };
    Row {
        r#type: r#type.to_owned(),
        payload: Some(payload.as_bytes().to_vec()),
        key: key.map(Cow::into_owned),
        headers: headers(record),
    }
}

fn headers(record: &Record) -> Headers {
    record.headers.iter().map(|(name, value)| ((*name).to_owned(), value.map(<[u8]>::to_vec))).collect()
}
