//! Topics that are fed while they are read, so that an input of any size fits: records are pulled from a stream when a
//! reader asks, and forgotten once they were given out.
//!
//! One stream may feed several topics and partitions. What one partition does not take yet is held for it up to
//! [`READ_AHEAD_ROWS`] and [`READ_AHEAD_BYTES`] over all; at that bound nothing more is pulled until it takes.

use crate::contract::Waker;
use crate::error::KafkaError;

use super::record::Record;

/// Records that are held for partitions that did not take them yet, at most.
pub const READ_AHEAD_ROWS: usize = 16_384;
/// Bytes of payloads and keys held so, at most; one record may pass it.
pub const READ_AHEAD_BYTES: usize = 64 << 20;

/// What a stream has next.
#[derive(Debug)]
pub enum Pulled {
    /// A record for a partition of one of the stream's topics.
    Record {
        /// Index into the topics that the stream was given with.
        topic: usize,
        /// The partition.
        partition: i32,
        /// The record.
        record: Record,
    },
    /// Nothing yet; the waker is called when there is something.
    Pending,
    /// Nothing will come any more: the ends of the partitions are final.
    End,
    /// The input is broken here. All records before it are given out, then every partition of the stream says so.
    Failed(KafkaError),
}

/// A source of records, read as it is consumed.
pub trait RecordStream: Send {
    /// Called once, before the first `pull`.
    fn bind(&mut self, waker: Waker);

    /// The next record; never blocks. Called under the broker's lock, so it must not call the broker.
    fn pull(&mut self) -> Pulled;
}

/// A stream and what is held of it.
pub(super) struct Feed {
    pub stream: Box<dyn RecordStream>,
    /// Slots of its topics.
    pub topics: Vec<usize>,
    pub rows: usize,
    pub bytes: usize,
    pub state: FeedState,
    /// Pulling stopped at the read-ahead bound while a reader wanted more.
    pub blocked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FeedState {
    Open,
    Ended,
    Failed,
}

impl Feed {
    pub fn is_full(&self) -> bool {
        self.rows >= READ_AHEAD_ROWS || self.bytes >= READ_AHEAD_BYTES
    }

    /// Books what a reader took.
    pub fn release(&mut self, rows: usize, bytes: usize) {
        self.rows = self.rows.saturating_sub(rows);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}
