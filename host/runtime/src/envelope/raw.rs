//! The raw form of an envelope: the record's own payload, with all facts in headers.
//!
//! It is made from the envelope itself, where a topic turns out to have no room for it or there cannot be so large a one.

use std::borrow::Cow;

use loom_types::{Batch, BytesBuilder, Changes, HeaderBuilder};

use super::json::Envelope;
use super::{ATTEMPT, Fact, HEADER_REASON_BYTES, KIND, REASON, TIMESTAMP, bounded, set};

/// The row as a batch of its own in raw form; none if its payload is no envelope (any more).
pub(crate) fn raw_form(batch: &Batch, id: u32) -> Option<Batch> {
    let envelope = Envelope::read(batch.payload(id)?)?;
    let mut headers = HeaderBuilder::new();
    let mut payload = BytesBuilder::new();
    let pushed = set(&mut headers, batch, id, &facts(&envelope, batch.key(id)))
        .and(payload.push_or_null(envelope.record.payload.0.as_ref().map(Cow::as_ref)));
    debug_assert!(pushed.is_ok(), "the raw form is smaller than the envelope");
    let changes = Changes { payload: Some(payload.finish()), key: None, headers: Some(headers.finish()) };
    Some(batch.select(&[id]).with(changes))
}

/// What an envelope says, as headers of a message with this key.
pub(super) fn facts(envelope: &Envelope<'_>, key: Option<&[u8]>) -> Vec<Fact> {
    let Envelope { kind, reason, flow, node, name, plugin, attempt, failed_at_ms, record, .. } = envelope;
    let text = |text: &str| Some(text.as_bytes().to_vec());
    let mut facts = vec![
        (KIND, text(kind)),
        (REASON, text(bounded(reason, HEADER_REASON_BYTES))),
        (ATTEMPT, text(&attempt.to_string())),
        (TIMESTAMP, text(&failed_at_ms.to_string())),
        ("loom-error-flow", text(flow)),
        ("loom-error-node", text(node)),
    ];
    if let Some(name) = name {
        facts.push(("loom-error-node-name", text(name)));
    }
    if let Some(plugin) = plugin {
        facts.push(("loom-error-plugin", text(&plugin.name)));
        facts.push(("loom-error-plugin-digest", text(&plugin.digest)));
    }
    facts.push(("loom-error-topic", text(&record.topic)));
    facts.push(("loom-error-partition", text(&record.partition.to_string())));
    facts.push(("loom-error-offset", text(&record.offset.to_string())));
    if !record.row.is_empty() {
        facts.push(("loom-error-row", text(&record.row)));
    }
    if let Some(time) = record.timestamp_ms {
        facts.push(("loom-error-record-timestamp", text(&time.to_string())));
    }
    // The message mostly has the record's key; a route may have given it another.
    if record.key.0.as_deref() != key {
        facts.push(("loom-error-key", record.key.0.as_ref().map(|key| key.to_vec())));
    }
    facts
}
