//! A consumer group as an offset store: committed offsets with metadata, and the history of requests.

use std::collections::BTreeMap;

use loom_types::{CommitOffset, Moment, TopicPartition};

use crate::contract::Committed;
use crate::error::KafkaError;

/// One commit request as the broker saw it.
#[derive(Clone, Debug)]
pub struct CommitRecord {
    /// When it came.
    pub at: Moment,
    /// Whether the client's own timer sent it (at most once).
    pub automatic: bool,
    /// What it asked for, in its order.
    pub entries: Vec<CommitRecordEntry>,
}

/// One partition of a commit request.
#[derive(Clone, Debug)]
pub struct CommitRecordEntry {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset asked for.
    pub offset: CommitOffset,
    /// The metadata asked for.
    pub metadata: String,
    /// Whether the group's offset was set.
    pub applied: bool,
    /// What was answered; none when nothing was.
    pub answer: Option<Result<(), KafkaError>>,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub committed: BTreeMap<TopicPartition, Committed>,
    pub history: Vec<CommitRecord>,
}

impl Group {
    pub fn set(&mut self, partition: &TopicPartition, offset: CommitOffset, metadata: &str) {
        self.committed.insert(partition.clone(), Committed { offset, metadata: metadata.to_owned() });
    }
}
