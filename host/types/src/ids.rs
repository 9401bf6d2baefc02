//! One newtype a noun. What is read and what is committed are different types, so that "commit the offset that was
//! read" (one too low) does not compile.

use std::fmt;
use std::sync::Arc;

/// The offset of one record in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordOffset(pub i64);

impl RecordOffset {
    /// The offset to commit once this record and all before it are done.
    #[must_use]
    pub fn next(self) -> CommitOffset {
        CommitOffset(self.0 + 1)
    }
}

impl fmt::Display for RecordOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The next offset to read: a position, a committed offset, a floor or a partition's end. Everything below it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitOffset(pub i64);

impl CommitOffset {
    /// Committing so that exactly this record is read next.
    #[must_use]
    pub fn at(record: RecordOffset) -> Self {
        CommitOffset(record.0)
    }
}

impl fmt::Display for CommitOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A source partition's dense number within one worker: an index into its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

impl PartitionId {
    /// As an index into a table with one entry for each partition.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A worker's number within the cluster, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerIndex(pub u32);

impl fmt::Display for WorkerIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A cut of the whole flow that a recovery can resume, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// A partition as Kafka names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number within the topic, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Of a topic's name and a partition's number.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}
