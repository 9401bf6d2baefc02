//! What leaves a flow for a record that failed: all that is known of the failure, and every byte of the record.
//!
//! - An *envelope* goes through an error route: its payload is one JSON object, described by
//!   `docs/envelope.schema.json`.
//! - The *raw form* of an envelope is what is sent where the topic has no room for it, and what goes through the route where
//!   the envelope would be larger than 1 GiB: the record's own payload, with all facts in headers.
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

use loom_types::{Batch, BytesBuilder, Changes, ColumnFull, ErrorKind, HeaderBuilder};

use crate::rows::{FailedRow, MADE_BYTES};
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

/// Bytes of error rows that are one batch, at most; a single row may have more.
const BATCH_BYTES: usize = 16 << 20;

/// Where and when records failed.
pub(crate) struct Site<'a> {
    pub flow: &'a str,
    /// The node's path.
    pub node: &'a str,
    /// What the flow calls the node.
    pub name: Option<&'a str>,
    pub plugin: Option<PluginName<'a>>,
    pub failed_at_ms: i64,
}

/// The batch of error rows for the first of these failures of one node and one source batch, in their order: for all of
/// them, or for as many as are not too much for one batch.
pub(crate) fn envelopes(site: &Site<'_>, failed: &[FailedRow]) -> Batch {
    envelopes_within(site, failed, BATCH_BYTES, MADE_BYTES)
}

/// `batch_bytes`: of one batch; `most`: of one envelope.
fn envelopes_within(site: &Site<'_>, failed: &[FailedRow], batch_bytes: usize, most: usize) -> Batch {
    let batch = &failed[0].row.batch;
    let mut ids = Vec::with_capacity(failed.len());
    let mut payload = BytesBuilder::new();
    let mut headers = HeaderBuilder::new();
    let mut json = Vec::new();
    let time = site.failed_at_ms.to_string();
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
            flow: Cow::Borrowed(site.flow),
            node: Cow::Borrowed(site.node),
            name: site.name.map(Cow::Borrowed),
            plugin: site.plugin.clone(),
            attempt,
            failed_at_ms: site.failed_at_ms,
            record,
        };
        json.clear();
        let written = envelope.write(&mut json, most);
        let value = if written { Some(&json[..]) } else { envelope.record.payload.0.as_deref() };
        let facts = if written {
            facts(failure.kind, &failure.reason, attempt, Some(&time))
        } else {
            raw::facts(&envelope, batch.key(id))
        };
        let size = value.map_or(0, <[u8]>::len) + batch.header_bytes(id);
        if !ids.is_empty() && payload.bytes() + headers.bytes() + size > batch_bytes {
            break;
        }
        ids.push(id);
        // One row has room: what it has is no larger than what it came with.
        let pushed = payload.push_or_null(value).and(set(&mut headers, batch, id, &facts));
        debug_assert!(pushed.is_ok(), "an error row is no larger than a column");
    }
    let changes = Changes { payload: Some(payload.finish()), key: None, headers: Some(headers.finish()) };
    batch.select(&ids).with(changes)
}

/// The dead letter of one row that its output refused.
pub(crate) fn dead_letter(batch: &Batch, id: u32, reason: &str, attempts: u32) -> Batch {
    let time = batch.source(id).timestamp_ms.map(|time| time.to_string());
    let attempt = attempts_before(batch, id).saturating_add(attempts);
    let mut headers = HeaderBuilder::new();
    let facts = facts(ErrorKind::Delivery, reason, attempt, time.as_deref());
    let pushed = set(&mut headers, batch, id, &facts);
    debug_assert!(pushed.is_ok(), "a row has room for its own headers");
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

/// A header that tells of a failure.
type Fact = (&'static str, Option<Vec<u8>>);

/// The four headers that every failed record carries, in this order; a record without time has no time to carry.
fn facts(kind: ErrorKind, reason: &str, attempt: u32, time: Option<&str>) -> Vec<Fact> {
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let mut facts = vec![
        (KIND, text(kind.name())),
        (REASON, text(bounded(reason, HEADER_REASON_BYTES))),
        (ATTEMPT, text(&attempt.to_string())),
    ];
    facts.extend(time.map(|time| (TIMESTAMP, text(time))));
    facts
}

/// Appends the headers of a row: its own, and these. Where its own have no room beside them, these alone.
fn set(headers: &mut HeaderBuilder, batch: &Batch, id: u32, facts: &[Fact]) -> Result<(), ColumnFull> {
    let set = || facts.iter().map(|(name, value)| (name.as_bytes(), value.as_deref()));
    let size = |(name, value): (&[u8], Option<&[u8]>)| name.len() + value.map_or(0, <[u8]>::len) + 16;
    let room = batch.header_bytes(id) + set().map(size).sum::<usize>();
    if headers.has_room(room).is_ok() {
        return headers.push_row(own_headers(batch, id).chain(set()));
    }
    headers.push_row(set())
}

/// The longest beginning of a text that is no longer than `limit` bytes.
fn bounded(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
