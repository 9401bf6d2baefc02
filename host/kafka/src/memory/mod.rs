//! An exact broker in memory: for `dev`, for tests, and as the ground of a simulation.
//!
//! It keeps what Kafka keeps: topics with partitions, offsets with gaps and control records, retention, groups with
//! committed offsets and metadata. It has no thread and no clock of its own: time is given from outside, choices are
//! seeded, and every call does its work at once, so one order of calls has one outcome. Faults are scripted through
//! [`Faults`], and what happened is read through [`View`].
//!
//! Where a client of Kafka's would differ from a simple queue, this one does too: wake-ups are edge-triggered, the end
//! of a partition comes in the queue's order, acknowledgements come later than the write, and a position says nothing
//! of control records behind the last record. With a [`Network`] rows travel in batches, which are refused whole, land
//! late, and land also when their producer is gone.

mod changes;
mod client;
mod clock;
mod faults;
mod group;
mod late;
mod log;
mod network;
mod offsets;
mod partitioner;
mod reader;
mod record;
mod rights;
mod script;
mod sink;
mod source;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod timers;
mod topics;
mod view;

use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use loom_types::{CommitOffset, Moment, TopicPartition};

pub use client::MemoryClient;
pub use clock::{Clock, ManualClock, system_clock};
pub use faults::{Call, CommitFault, RowFault, When};
pub use group::{CommitRecord, CommitRecordEntry};
pub use network::Network;
pub use partitioner::partition_of_key;
pub use record::{Record, Stored};
pub use rights::Right;
pub use script::Faults;
pub use state::{Observer, TopicConfig};
pub use stream::{Pulled, READ_AHEAD_BYTES, READ_AHEAD_ROWS, RecordStream};
pub use view::View;

use crate::contract::Waker;
use crate::facts::{Committed, GroupEntry, Member};
use crate::settings::ConsumerSettings;
use state::{Keep, Shared, wake_streams};
use stream::{Feed, FeedState};

/// The broker: a cheap handle, cloned freely.
///
/// Methods that name a topic panic when it is not there, or, where they make it, when it is: a mistake of the caller's,
/// not of an input.
#[derive(Clone)]
pub struct MemoryBroker {
    shared: Arc<Shared>,
}

/// A transaction on one partition that was begun; see [`MemoryBroker::begin`].
#[derive(Debug)]
pub struct Transaction {
    place: TopicPartition,
    id: u64,
}

impl fmt::Debug for MemoryBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBroker")
            .field("topics", &self.shared.lock().names.keys())
            .finish_non_exhaustive()
    }
}

impl MemoryBroker {
    /// An empty broker that reads this clock.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        MemoryBroker { shared: Arc::new(Shared::new(clock)) }
    }

    /// Sets the wall clock at `Moment::START`, in milliseconds since 1970-01-01 UTC (0): for [`crate::Stamp::Now`].
    pub fn started_at_ms(&self, started_ms: i64) {
        self.shared.lock().started_ms = started_ms;
    }

    /// Seeds the choice of partitions for rows without key (0).
    pub fn seed(&self, seed: u64) {
        self.shared.lock().seed = seed;
    }

    /// Whether [`View::commits`] remembers requests (yes); a long run does without.
    pub fn keep_commits(&self, keep: bool) {
        self.shared.lock().keep_history = keep;
    }

    /// A consumer's view of it.
    #[must_use]
    pub fn as_broker(&self, consumer: ConsumerSettings) -> MemoryClient {
        MemoryClient { shared: self.shared.clone(), consumer }
    }

    /// The script of its faults.
    #[must_use]
    pub fn faults(&self) -> Faults {
        Faults { shared: self.shared.clone() }
    }

    /// Makes topics that are fed by a stream while they are read. Their records are forgotten once they were given out,
    /// and an end of partition is said only when the stream has ended: it is final.
    pub fn stream_topics(&self, topics: &[(&str, i32)], mut stream: Box<dyn RecordStream>) {
        let wakers = self.shared.stream_wakers.clone();
        let waker: Waker = Arc::new(move || wake_streams(&wakers));
        stream.bind(waker);
        let mut state = self.shared.lock();
        let feed = state.feeds.len();
        let mut slots = Vec::with_capacity(topics.len());
        for (name, partitions) in topics {
            let slot = state.add_topic(name, *partitions, Keep::UntilRead);
            state.topics[slot].feed = Some(feed);
            slots.push(slot);
        }
        state.feeds.push(Feed {
            stream,
            topics: slots,
            rows: 0,
            bytes: 0,
            state: FeedState::Open,
            blocked: false,
        });
    }

    /// Shows each record written to a topic to an observer. A topic that is not there yet is made, with that many
    /// partitions, and keeps nothing.
    pub fn observe_topic(&self, name: &str, partitions: i32, observer: Observer) {
        let mut state = self.shared.lock();
        let slot = match state.slot(name) {
            Ok(slot) => slot,
            Err(_) => state.add_topic(name, partitions, Keep::Nothing),
        };
        state.topics[slot].observer = Some(observer);
    }

    /// Whether every stream has ended and all its records were given out.
    #[must_use]
    pub fn streams_ended(&self) -> bool {
        self.shared.lock().feeds.iter().all(|feed| feed.state == FeedState::Ended && feed.rows == 0)
    }

    /// Sets a group's offset from outside.
    pub fn set_committed(
        &self,
        group: &str,
        partition: &TopicPartition,
        offset: CommitOffset,
        metadata: &str,
    ) {
        let mut state = self.shared.lock();
        state.groups.entry(group.to_owned()).or_default().set(&GroupEntry {
            partition: partition.clone(),
            offset,
            metadata: metadata.to_owned(),
            leader_epoch: None,
        });
    }

    /// A member joins a group, which then takes no offsets from others.
    pub fn join_group(&self, group: &str, member: Member) {
        self.shared.lock().groups.entry(group.to_owned()).or_default().members.push(member);
    }

    /// All members of a group leave it.
    pub fn leave_group(&self, group: &str) {
        self.shared.lock().groups.entry(group.to_owned()).or_default().members.clear();
    }

    /// When something is due by the clock that nobody has to ask for: rows and commits that arrive, their answers, the
    /// clients' own commits. None while nothing is.
    #[must_use]
    pub fn next_event(&self) -> Option<Moment> {
        self.shared.lock().next_event()
    }

    /// Runs what is due by the clock; see [`MemoryBroker::next_event`]. Who moves the clock calls it; clients also run what
    /// concerns them when they are called.
    pub fn tick(&self) {
        self.shared.lock().tick();
        self.shared.changed.notify_all();
    }

    /// Looks at the broker.
    pub fn view<T>(&self, look: impl FnOnce(&View<'_>) -> T) -> T {
        look(&View { state: &self.shared.lock() })
    }

    /// Waits, by the system's clock, until the view shows something; false when it does not within `timeout`.
    pub fn wait_until(&self, timeout: Duration, mut look: impl FnMut(&View<'_>) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.lock();
        loop {
            if look(&View { state: &state }) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The records that a topic keeps; see [`View::records`].
    #[must_use]
    pub fn records(&self, topic: &str) -> Vec<Stored> {
        self.view(|view| view.records(topic))
    }

    /// The committed offset of a group.
    #[must_use]
    pub fn committed(&self, group: &str, partition: &TopicPartition) -> Option<Committed> {
        self.view(|view| view.committed(group, partition))
    }

    /// All commit requests of a group; see [`View::commits`].
    #[must_use]
    pub fn commits(&self, group: &str) -> Vec<CommitRecord> {
        self.view(|view| view.commits(group))
    }
}
