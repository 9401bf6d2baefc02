//! What others change on a broker while flows run: topics that grow, offsets that expire.

use loom_types::TopicPartition;

use super::MemoryBroker;
use super::log::Log;

impl MemoryBroker {
    /// Gives a topic more partitions, so many in all. Who reads it is not told.
    pub fn add_partitions(&self, name: &str, total: i32) {
        let mut state = self.shared.lock();
        let slot = state.slot(name).expect("a topic that exists grows");
        let logs = &mut state.topics[slot].logs;
        assert!(total as usize > logs.len(), "topic `{name}` has {} partitions", logs.len());
        logs.resize_with(total as usize, Log::default);
        self.shared.changed.notify_all();
    }

    /// Removes a group's offset for a partition, as a tool does, or the broker when it was not committed for long.
    pub fn forget_committed(&self, group: &str, partition: &TopicPartition) {
        let mut state = self.shared.lock();
        if let Some(group) = state.groups.get_mut(group) {
            group.committed.remove(partition);
        }
        self.shared.changed.notify_all();
    }

    /// Removes all offsets of a group, as their retention does.
    pub fn expire_group(&self, group: &str) {
        let mut state = self.shared.lock();
        if let Some(group) = state.groups.get_mut(group) {
            group.committed.clear();
        }
        self.shared.changed.notify_all();
    }
}
