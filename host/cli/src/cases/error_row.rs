//! What an error row says of its failure: the node, the kind, the record. It stands in an envelope, or in headers where the
//! topic had no room for one.

use std::fmt;

use loom_flow::expr::ExactJson;

use super::records::{Actual, cut};

/// The failure that a row tells of.
pub struct ErrorRow {
    pub node: String,
    pub kind: String,
    pub offset: String,
    /// Whether the payload is the envelope; else it is the record's own.
    pub in_envelope: bool,
    /// Topic and partition.
    partition: (String, String),
    reason: String,
}

impl ErrorRow {
    /// None for a record that no error route made.
    pub fn of(made: &Actual<'_>) -> Option<ErrorRow> {
        Self::of_envelope(made).or_else(|| Self::of_headers(made))
    }

    fn of_envelope(made: &Actual<'_>) -> Option<ErrorRow> {
        let Some(Ok(ExactJson::Object(fields))) = made.json() else { return None };
        fields.get("loom_error")?;
        let ExactJson::Object(record) = fields.get("record")? else { return None };
        let text = |value: &ExactJson| match value {
            ExactJson::Text(text) => text.clone(),
            other => other.to_string(),
        };
        let get = |name: &str| fields.get(name).map(text);
        let of_record = |name: &str| record.get(name).map(text).unwrap_or_default();
        Some(ErrorRow {
            node: get("node")?,
            kind: get("kind")?,
            offset: of_record("offset"),
            in_envelope: true,
            partition: (of_record("topic"), of_record("partition")),
            reason: get("reason").unwrap_or_default(),
        })
    }

    fn of_headers(made: &Actual<'_>) -> Option<ErrorRow> {
        let get = |name: &str| {
            let (_, value) = made.record.headers.iter().rev().find(|(known, _)| known == name.as_bytes())?;
            value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned())
        };
        let or_none = |name: &str| get(name).unwrap_or_default();
        Some(ErrorRow {
            node: get("loom-error-node")?,
            kind: get("loom-error-kind")?,
            offset: or_none("loom-error-offset"),
            in_envelope: false,
            partition: (or_none("loom-error-topic"), or_none("loom-error-partition")),
            reason: or_none("loom-error-reason"),
        })
    }
}

impl fmt::Display for ErrorRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ErrorRow { node, kind, offset, in_envelope: _, partition: (topic, partition), reason } = self;
        write!(f, "{node} {kind}: {topic}/{partition} at {offset}: {}", cut(reason))
    }
}
