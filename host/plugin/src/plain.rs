//! Records on their way into a guest in the plain form.

use std::borrow::Cow;

use loom_types::Batch;

use crate::bindings::loom::plugin::types::{HeaderParam, Message};

/// The header names of some rows as text. Kafka's are UTF-8 by its protocol; what is not is shown as well as it can be,
/// and stays as it was where the plugin does not set headers.
pub(crate) fn names<'a>(batch: &'a Batch, rows: &[u32]) -> Vec<Cow<'a, str>> {
    if batch.header_column().is_none() {
        return Vec::new();
    }
    rows.iter().flat_map(|row| batch.headers(*row)).map(|(name, _)| String::from_utf8_lossy(name)).collect()
}

/// The headers of some rows, end to end, with the names that [`names`] gave for them.
pub(crate) fn headers<'a>(batch: &'a Batch, rows: &[u32], names: &'a [Cow<'a, str>]) -> Vec<HeaderParam<'a>> {
    let values = rows.iter().flat_map(|row| batch.headers(*row)).map(|(_, value)| value);
    names.iter().zip(values).map(|(name, value)| HeaderParam { name, value }).collect()
}

/// A row, with its headers.
pub(crate) fn message<'a>(batch: &'a Batch, row: u32, headers: &'a [HeaderParam<'a>]) -> Message<'a> {
    let source = batch.source(row);
    Message {
        payload: batch.payload(row),
        key: batch.key(row),
        headers,
        topic: source.topic,
        // Kafka's partitions and offsets are never negative.
        partition: source.partition as u32,
        offset: source.offset.0 as u64,
        timestamp_ms: source.timestamp_ms,
        row: source.row,
    }
}

/// Some rows, with the headers that [`headers`] gave for them.
pub(crate) fn messages<'a>(
    batch: &'a Batch,
    rows: &[u32],
    headers: &'a [HeaderParam<'a>],
) -> impl Iterator<Item = Message<'a>> {
    let mut rest = headers;
    rows.iter().map(move |row| {
        let (own, others) = rest.split_at(batch.headers(*row).len());
        rest = others;
        message(batch, *row, own)
    })
}

/// Calls with a row.
pub(crate) fn with_message<T>(batch: &Batch, row: u32, call: impl FnOnce(Message<'_>) -> T) -> T {
    let names = names(batch, &[row]);
    let headers = headers(batch, &[row], &names);
    call(message(batch, row, &headers))
}

/// Calls with some rows.
pub(crate) fn with_messages<T>(batch: &Batch, rows: &[u32], call: impl FnOnce(&[Message<'_>]) -> T) -> T {
    let names = names(batch, rows);
    let headers = headers(batch, rows, &names);
    call(&messages(batch, rows, &headers).collect::<Vec<_>>())
}
