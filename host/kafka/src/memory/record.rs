//! A record as the memory broker keeps it: owned bytes, nothing shared, nothing decoded.

use loom_types::{Batch, RecordOffset};

use crate::contract::Stamp;

/// One record: what a producer sends and a consumer gets. Header order, duplicates and nulls are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The key, if any.
    pub key: Option<Vec<u8>>,
    /// The payload; none is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Names and values, in order.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Milliseconds since 1970-01-01 UTC; none, or below 0, where the record carries no time.
    pub timestamp_ms: Option<i64>,
}

impl Record {
    /// A record with a payload and nothing else.
    pub fn value(payload: impl Into<Vec<u8>>) -> Self {
        Record { payload: Some(payload.into()), ..Record::default() }
    }

    /// A record without payload.
    #[must_use]
    pub fn tombstone() -> Self {
        Record::default()
    }

    /// The same with a key.
    #[must_use]
    pub fn keyed(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// The same with one more header.
    #[must_use]
    pub fn header(mut self, name: impl Into<Vec<u8>>, value: Option<&[u8]>) -> Self {
        self.headers.push((name.into(), value.map(<[u8]>::to_vec)));
        self
    }

    /// The same with a time, in milliseconds since 1970-01-01 UTC.
    #[must_use]
    pub fn at(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = Some(timestamp_ms);
        self
    }

    /// The bytes of payload and key.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.payload.as_ref().map_or(0, Vec::len) + self.key.as_ref().map_or(0, Vec::len)
    }

    /// The time that it carries.
    pub(super) fn time(&self) -> Option<i64> {
        self.timestamp_ms.filter(|time| *time >= 0)
    }

    /// A row of a batch as its producer writes it; `now_ms` is the producer's clock.
    pub(super) fn of_row(batch: &Batch, row: u32, stamp: Stamp, now_ms: i64) -> Self {
        Record {
            key: batch.key(row).map(<[u8]>::to_vec),
            payload: batch.payload(row).map(<[u8]>::to_vec),
            headers: batch
                .headers(row)
                .map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec)))
                .collect(),
            timestamp_ms: Some(stamp.of(batch, row).unwrap_or(now_ms)),
        }
    }
}

/// A record with its place in a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The partition.
    pub partition: i32,
    /// The offset within it.
    pub offset: RecordOffset,
    /// The record itself.
    pub record: Record,
}
