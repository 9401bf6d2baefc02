//! The raw form of an envelope: the record's own payload, with all facts in headers.
//!
//! It is made from the envelope itself, where a topic turns out to have no room for it.

use std::borrow::Cow;

use loom_types::{Batch, BytesBuilder, Changes, HeaderBuilder};

use super::json::Envelope;
use super::{ATTEMPT, HEADER_REASON_BYTES, KIND, REASON, TIMESTAMP, bounded, keep_headers};

/// The row as a batch of its own in raw form; none if its payload is no envelope (any more).
pub(crate) fn raw_form(batch: &Batch, id: u32) -> Option<Batch> {
    let envelope = Envelope::read(batch.payload(id)?)?;
    let Envelope { kind, reason, flow, node, name, plugin, attempt, failed_at_ms, record, .. } = envelope;
    let mut headers = HeaderBuilder::new();
    keep_headers(batch, id, &mut headers);
    let mut set = |name: &str, value: &str| headers.push(name.as_bytes(), Some(value.as_bytes()));
    set(KIND, &kind);
    set(REASON, bounded(&reason, HEADER_REASON_BYTES));
    set(ATTEMPT, &attempt.to_string());
    set(TIMESTAMP, &failed_at_ms.to_string());
    set("loom-error-flow", &flow);
    set("loom-error-node", &node);
    if let Some(name) = name {
        set("loom-error-node-name", &name);
    }
    if let Some(plugin) = plugin {
        set("loom-error-plugin", &plugin.name);
        set("loom-error-plugin-digest", &plugin.digest);
    }
    set("loom-error-topic", &record.topic);
    set("loom-error-partition", &record.partition.to_string());
    set("loom-error-offset", &record.offset.to_string());
    if !record.row.is_empty() {
        set("loom-error-row", &record.row);
    }
    if let Some(time) = record.timestamp_ms {
        set("loom-error-record-timestamp", &time.to_string());
    }
    // The message mostly has the record's key; a route may have given it another.
    if record.key.0.as_deref() != batch.key(id) {
        headers.push(b"loom-error-key", record.key.0.as_deref());
    }
    headers.end_row();
    let mut payload = BytesBuilder::new();
    payload.push(record.payload.0.as_ref().map(Cow::as_ref));
    let changes = Changes { payload: Some(payload.finish()), key: None, headers: Some(headers.finish()) };
    Some(batch.select(&[id]).with(changes))
}
