//! The envelope of a record that failed: all that is known of the failure, and every byte of the record.
//!
//! The record's key and headers stay on the message; four `loom-error-*` headers are set, replacing any of the same
//! name. The payload is one JSON object.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_flow::Plan;
use loom_types::{Batch, BytesBuilder, Changes, HeaderBuilder};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

use crate::rows::FailedRow;

/// The longest reason in a header; the envelope has all of it.
const HEADER_REASON_BYTES: usize = 1024;

/// Headers that an error row sets, in this order.
const SET: [&str; 4] = ["loom-error-kind", "loom-error-reason", "loom-error-attempt", "loom-error-timestamp"];

/// Bytes in JSON: null, a string where they are UTF-8, else `{"base64": …}`.
pub struct Bytes<'a>(pub Option<&'a [u8]>);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => serializer.serialize_none(),
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => serializer.serialize_str(text),
                Err(_) => {
                    let mut map = serializer.serialize_map(Some(1))?;
                    map.serialize_entry("base64", &STANDARD.encode(bytes))?;
                    map.end()
                }
            },
        }
    }
}

struct Headers<'a>(&'a Batch, u32);

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let headers = self.0.headers(self.1);
        let mut seq = serializer.serialize_seq(Some(headers.len()))?;
        for (name, value) in headers {
            seq.serialize_element(&(Bytes(Some(name)), Bytes(value)))?;
        }
        seq.end()
    }
}

#[derive(Serialize)]
struct Envelope<'a> {
    loom_error: u32,
    kind: &'a str,
    reason: &'a str,
    flow: &'a str,
    node: &'a str,
    plugin: Option<PluginName<'a>>,
    attempt: u32,
    failed_at_ms: i64,
    record: Record<'a>,
}

/// The plugin of a failing node.
#[derive(Clone, Copy, Serialize)]
pub(crate) struct PluginName<'a> {
    pub name: &'a str,
    pub digest: &'a str,
}

#[derive(Serialize)]
struct Record<'a> {
    topic: &'a str,
    partition: i32,
    offset: i64,
    row: &'a str,
    timestamp_ms: Option<i64>,
    key: Bytes<'a>,
    headers: Headers<'a>,
    payload: Bytes<'a>,
}

/// The batch of error rows for these failures of one node and one source batch, in their order.
pub(crate) fn envelopes(
    plan: &Plan,
    node: &str,
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
        let source = batch.source(id);
        let envelope = Envelope {
            loom_error: 1,
            kind: failure.kind.name(),
            reason: &failure.reason,
            flow: &plan.name,
            node,
            plugin,
            attempt: failure.row.attempts,
            failed_at_ms,
            record: Record {
                topic: source.topic,
                partition: source.partition,
                offset: source.offset.0,
                row: source.row,
                timestamp_ms: source.timestamp_ms,
                key: Bytes(batch.key(id)),
                headers: Headers(batch, id),
                payload: Bytes(batch.payload(id)),
            },
        };
        json.clear();
        serde_json::to_writer(&mut json, &envelope)
            .expect("an envelope is plain data, and memory takes every byte");
        payload.push(Some(&json));
        for (name, value) in
            batch.headers(id).filter(|(name, _)| !SET.iter().any(|set| set.as_bytes() == *name))
        {
            headers.push(name, value);
        }
        let attempt = failure.row.attempts.to_string();
        let reason = bounded(&failure.reason, HEADER_REASON_BYTES);
        for (name, value) in SET.iter().zip([failure.kind.name(), reason, &attempt, &time]) {
            headers.push(name.as_bytes(), Some(value.as_bytes()));
        }
        headers.end_row();
    }
    let changes = Changes { payload: Some(payload.finish()), key: None, headers: Some(headers.finish()) };
    batch.select(&ids).with(changes)
}

/// The longest beginning of a text that is no longer than `limit` bytes.
fn bounded(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}
