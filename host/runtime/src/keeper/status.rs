//! What people see of the keeper, while the flow runs.

use std::sync::{Arc, Mutex, PoisonError};

use loom_types::TopicPartition;

/// How the lease stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LeaseStatus {
    /// It is not kept: the right is missing, or the run ends with its input.
    #[default]
    Off,
    /// Another host's entry is watched, and no input offset is committed meanwhile.
    Watching {
        /// Who, as people read it.
        holder: String,
    },
    /// This host is the owner, as far as it knows.
    Owner,
    /// Another host is the owner, or the group's offsets were changed: this one stops.
    Lost,
}

/// See the module's description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeeperStatus {
    /// How the lease stands.
    pub lease: LeaseStatus,
    /// Beats so far.
    pub beats: u64,
    /// Beats in a row that could not be read or written.
    pub failed_beats: u64,
    /// Partitions of the inputs that were added since the start, and are read after a restart only.
    pub added: Vec<TopicPartition>,
    /// Partitions whose committed offset had vanished or fallen back and was committed again, each time.
    pub committed_again: u64,
}

/// The status, as it is shared.
#[derive(Clone, Debug, Default)]
pub struct KeeperBoard(Arc<Mutex<KeeperStatus>>);

impl KeeperBoard {
    /// As it stands now.
    #[must_use]
    pub fn read(&self) -> KeeperStatus {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn write(&self, change: impl FnOnce(&mut KeeperStatus)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
