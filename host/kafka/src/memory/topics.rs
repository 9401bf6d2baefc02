//! What happens to topics from outside: retention, elections, transactions, deletion.

use loom_types::{CommitOffset, RecordOffset, TopicId, TopicPartition};

use super::log::{Body, Log};
use super::record::Record;
use super::state::{Keep, TopicConfig, wake};
use super::{MemoryBroker, Transaction};

impl MemoryBroker {
    /// Makes a topic that keeps its records.
    pub fn create_topic(&self, name: &str, partitions: i32) {
        let mut state = self.shared.lock();
        state.add_topic(name, partitions, Keep::All);
        state.wake_all();
    }

    /// Sets what a topic's configuration says.
    pub fn configure_topic(&self, name: &str, config: TopicConfig) {
        let mut state = self.shared.lock();
        let slot = state.slot(name).expect("a topic that exists is configured");
        state.topics[slot].config = config;
    }

    /// Deletes a topic with its records; another of its name may be made, which has another id. Groups keep their offsets
    /// of it.
    pub fn delete_topic(&self, name: &str) {
        let mut state = self.shared.lock();
        assert!(state.names.remove(name).is_some(), "topic `{name}` does not exist");
        state.wake_all();
    }

    /// A topic's id.
    #[must_use]
    pub fn topic_id(&self, name: &str) -> Option<TopicId> {
        let state = self.shared.lock();
        state.slot(name).ok().map(|slot| state.topics[slot].id)
    }

    /// Another leader of a partition is elected, which has the records below `keep`: with all of them the leader's epoch
    /// rises, and that is all; else the log is cut there, as an unclean election cuts it.
    pub fn elect_leader(&self, topic: &str, partition: i32, keep: CommitOffset) {
        self.with_log(topic, partition, |log| log.elect(keep.0));
    }

    /// Appends a record to a partition, as another producer does.
    pub fn produce(&self, topic: &str, partition: i32, record: Record) -> RecordOffset {
        self.append(topic, partition, Body::Record(record))
    }

    /// Appends a transaction's marker: it has an offset and is never given out.
    pub fn produce_control(&self, topic: &str, partition: i32) -> RecordOffset {
        self.append(topic, partition, Body::Control)
    }

    fn append(&self, topic: &str, partition: i32, body: Body) -> RecordOffset {
        let mut state = self.shared.lock();
        let place = TopicPartition::new(topic, partition);
        assert!(state.log(&place).is_some(), "partition {place} does not exist");
        let slot = state.slot(topic).expect("its partition exists");
        let offset = state.append(slot, partition, body, None);
        self.shared.changed.notify_all();
        offset
    }

    /// Begins a transaction on a partition. Until it ends nothing from its first record on is given out, of others
    /// neither: the last stable offset lies there.
    #[must_use]
    pub fn begin(&self, topic: &str, partition: i32) -> Transaction {
        let mut state = self.shared.lock();
        state.transactions += 1;
        Transaction { place: TopicPartition::new(topic, partition), id: state.transactions }
    }

    /// Appends a record of a transaction.
    pub fn produce_in(&self, transaction: &Transaction, record: Record) -> RecordOffset {
        let (topic, partition) = (&transaction.place.topic, transaction.place.partition);
        self.with_log(topic, partition, |log| log.append_in(transaction.id, record))
    }

    /// Ends a transaction; its marker takes an offset. Records of one that is aborted are never given out.
    pub fn end(&self, transaction: &Transaction, commit: bool) {
        let (topic, partition) = (&transaction.place.topic, transaction.place.partition);
        self.with_log(topic, partition, |log| log.end(transaction.id, commit));
        self.shared.changed.notify_all();
    }

    /// Leaves offsets out before the next record, as compaction leaves them.
    pub fn leave_gap(&self, topic: &str, partition: i32, offsets: i64) {
        self.with_log(topic, partition, |log| log.gap(offsets));
    }

    /// Removes one record, as compaction does; false when there is none.
    pub fn compact(&self, topic: &str, partition: i32, offset: RecordOffset) -> bool {
        self.with_log(topic, partition, |log| log.compact(offset.0))
    }

    /// Removes all below an offset, as retention does.
    pub fn delete_before(&self, topic: &str, partition: i32, low: CommitOffset) {
        self.with_log(topic, partition, |log| {
            log.trim(low.0);
        });
    }

    /// Changes a log, and wakes who waits there: there may be something else to say now.
    fn with_log<T>(&self, topic: &str, partition: i32, act: impl FnOnce(&mut Log) -> T) -> T {
        let mut state = self.shared.lock();
        let place = TopicPartition::new(topic, partition);
        let log = state.log_mut(&place).unwrap_or_else(|| panic!("partition {place} does not exist"));
        let outcome = act(log);
        wake(log);
        outcome
    }
}
