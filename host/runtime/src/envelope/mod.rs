//! What leaves a flow for a record that failed: all that is known of the failure, and every byte of the record.
//!
//! - An *envelope* goes through an error route: its payload is one JSON object, described by
//!   `docs/envelope.schema.json`.
//! - The *raw form* of an envelope is what is sent where the topic has no room for it: the record's own payload, with all
//!   facts in headers.
//! - A *dead letter* is the record itself, sent to an output's `dlq`.
//!
//! In all of them the record's key and headers stay on the message, and headers that begin with `loom-error-` are *set*:
//! those of an earlier failure are replaced. A record that is an envelope already is not wrapped again: the record inside
//! stays the record, and attempts are counted on. So a record may go round for ever and does not grow.

mod json;
mod raw;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use loom_types::{Batch, BytesBuilder, Changes, ErrorKind, HeaderBuilder};

use crate::rows::FailedRow;
use json::{Envelope, Record};

pub(crate) use json::PluginName;
pub(crate) use raw::raw_form;

/// The longest reason in a header; the envelope has all of it.
const HEADER_REASON_BYTES: usize = 1024;

/// How headers begin that tell of a failure.
const PREFIX: &[u8] = b"loom-error-";

const KIND: &str = "loom-error-kind";
const REASON: &str = "loom-error-reason";
const ATTEMPT: &str = "loom-error-attempt";
const TIMESTAMP: &str = "loom-error-timestamp";

/// The node that rows failed at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    /// Its path.
    pub path: &'a str,
    /// What the flow calls it.
    pub name: Option<&'a str>,
}

/// The batch of error rows for these failures of one node and one source batch, in their order.
pub(crate) fn envelopes(
    flow: &str,
    node: Site<'_>,
    plugin: Option<PluginName<'_>>,
    failed_at_ms: i64,
    failed: &[FailedRow],
) -> Batch {
    let batch = &failed[0].row.batch;
    let ids: Vec<u32> = failed.iter().map(|failed| failed.row.id).collect();
    let mut payload = BytesBuilder::new();
    let mut headers = HeaderBuilder::new();
    let mut json = Vec::new();
    let time = failed_at_ms.to_string();
    for failure in failed {
        let id = failure.row.id;
        let inner = batch.payload(id).and_then(Envelope::read);
        let (record, before) = match inner {
            Some(inner) => (inner.record, inner.attempt),
            None => (Record::of(batch, id), attempts_before(batch, id)),
        };
        let attempt = before.saturating_add(failure.row.attempts);
        let envelope = Envelope {
            loom_error: 1,
            kind: Cow::Borrowed(failure.kind.name()),
            reason: Cow::Borrowed(&failure.reason),
            flow: Cow::Borrowed(flow),
            node: Cow::Borrowed(node.path),
            name: node.name.map(Cow::Borrowed),
            plugin: plugin.clone(),
            attempt,
            failed_at_ms,
            record,
        };
        json.clear();
        envelope.write(&mut json);
        payload.push(Some(&json));
        keep_headers(batch, id, &mut headers);
        set(&mut headers, failure.kind, &failure.reason, attempt, Some(&time));
        headers.end_row();
    }
    let changes = Changes { payload: Some(payload.finish()), key: None, headers: Some(headers.finish()) };
    batch.select(&ids).with(changes)
}

/// The dead letter of one row that its output refused.
pub(crate) fn dead_letter(batch: &Batch, id: u32, reason: &str, attempts: u32) -> Batch {
    let time = batch.source(id).timestamp_ms.map(|time| time.to_string());
    let attempt = attempts_before(batch, id).saturating_add(attempts);
    let mut headers = HeaderBuilder::new();
    keep_headers(batch, id, &mut headers);
    set(&mut headers, ErrorKind::Delivery, reason, attempt, time.as_deref());
    headers.end_row();
    batch.select(&[id]).with(Changes { headers: Some(headers.finish()), ..Changes::default() })
}

/// The reason that a row's headers give for its last failure.
pub(crate) fn reason_of(batch: &Batch, id: u32) -> Option<Cow<'_, str>> {
    header(batch, id, REASON).map(String::from_utf8_lossy)
}

/// Attempts that were made on the record before it came here, by its headers.
fn attempts_before(batch: &Batch, id: u32) -> u32 {
    let text = header(batch, id, ATTEMPT).and_then(|value| std::str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The last value of a header.
fn header<'b>(batch: &'b Batch, id: u32, name: &str) -> Option<&'b [u8]> {
    batch.headers(id).filter(|(other, _)| *other == name.as_bytes()).last()?.1
}

/// The record's own headers, in order.
fn own_headers(batch: &Batch, id: u32) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
    batch.headers(id).filter(|(name, _)| !name.starts_with(PREFIX))
}

fn keep_headers(batch: &Batch, id: u32, headers: &mut HeaderBuilder) {
    own_headers(batch, id).for_each(|(name, value)| headers.push(name, value));
}

/// The four headers that every failed record carries, in this order; a record without time has no time to carry.
fn set(headers: &mut HeaderBuilder, kind: ErrorKind, reason: &str, attempt: u32, time: Option<&str>) {
    let attempt = attempt.to_string();
    let reason = bounded(reason, HEADER_REASON_BYTES);
    for (name, value) in [(KIND, kind.name()), (REASON, reason), (ATTEMPT, &attempt)] {
        headers.push(name.as_bytes(), Some(value.as_bytes()));
    }
    if let Some(time) = time {
        headers.push(TIMESTAMP.as_bytes(), Some(time.as_bytes()));
    }
}

/// The longest beginning of a text that is no longer than `limit` bytes.
fn bounded(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
