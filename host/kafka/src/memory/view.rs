//! What a test sees of the broker: records of topics, committed offsets, requests, counted calls.

use loom_types::{CommitOffset, RecordOffset, TopicPartition};

use super::faults::Call;
use super::group::CommitRecord;
use super::log::Body;
use super::record::Stored;
use super::state::State;
use crate::facts::Committed;

/// The broker at one moment.
pub struct View<'a> {
    pub(super) state: &'a State,
}

impl View<'_> {
    /// The records that a topic keeps, by partition and offset; none when the topic is not there.
    #[must_use]
    pub fn records(&self, topic: &str) -> Vec<Stored> {
        let Some(slot) = self.state.names.get(topic) else { return Vec::new() };
        let mut all = Vec::new();
        for (partition, log) in self.state.topics[*slot].logs.iter().enumerate() {
            for entry in log.entries() {
                if let Body::Record(record) = &entry.body {
                    let offset = RecordOffset(entry.offset);
                    all.push(Stored { partition: partition as i32, offset, record: record.clone() });
                }
            }
        }
        all
    }

    /// How many records a topic keeps.
    #[must_use]
    pub fn count(&self, topic: &str) -> usize {
        let Some(slot) = self.state.names.get(topic) else { return 0 };
        let logs = self.state.topics[*slot].logs.iter();
        logs.map(|log| log.entries().filter(|entry| matches!(entry.body, Body::Record(_))).count()).sum()
    }

    /// The payloads that a topic keeps, as text, by partition and offset; a tombstone is none.
    #[must_use]
    pub fn payloads(&self, topic: &str) -> Vec<Option<String>> {
        let text = |payload: Vec<u8>| String::from_utf8_lossy(&payload).into_owned();
        self.records(topic).into_iter().map(|stored| stored.record.payload.map(text)).collect()
    }

    /// The offset after a partition's last; none when it is not there.
    #[must_use]
    pub fn end(&self, partition: &TopicPartition) -> Option<CommitOffset> {
        self.state.log(partition).map(|log| CommitOffset(log.high()))
    }

    /// Where a partition's log was cut below an offset that was committed with this leader's epoch; none where it was not.
    #[must_use]
    pub fn cut_since(
        &self,
        partition: &TopicPartition,
        epoch: i32,
        offset: CommitOffset,
    ) -> Option<CommitOffset> {
        self.state.log(partition)?.cut_since(epoch, offset.0).map(CommitOffset)
    }

    /// Whether a commit of a group is on its way, and may arrive at any time.
    #[must_use]
    pub fn has_late_commits(&self, group: &str) -> bool {
        self.state.late_commits.iter().any(|late| late.group == group && late.arrives.is_some())
    }

    /// The committed offset of a group.
    #[must_use]
    pub fn committed(&self, group: &str, partition: &TopicPartition) -> Option<Committed> {
        self.state.groups.get(group)?.committed.get(partition).cloned()
    }

    /// All commit requests of a group, in order.
    #[must_use]
    pub fn commits(&self, group: &str) -> Vec<CommitRecord> {
        self.state.groups.get(group).map_or_else(Vec::new, |group| group.history.clone())
    }

    /// How often a call was made.
    #[must_use]
    pub fn calls(&self, call: Call) -> u64 {
        self.state.calls.get(&call).copied().unwrap_or_default()
    }

    /// How many readers are open.
    #[must_use]
    pub fn readers(&self) -> usize {
        self.state.readers.iter().flatten().count()
    }

    /// How many writers are open.
    #[must_use]
    pub fn writers(&self) -> usize {
        self.state.writers.iter().flatten().count()
    }
}
