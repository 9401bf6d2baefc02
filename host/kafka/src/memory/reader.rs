//! What the broker knows of a client that reads, shared by its two halves: positions, answers, and the client's own
//! commits where the flow runs at most once.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use loom_types::{CommitOffset, Moment, TopicPartition};

use super::faults::unknown_partition;
use super::group::{CommitRecord, CommitRecordEntry};
use super::log::Entry;
use super::state::{Shared, State};
use crate::contract::{CommitAnswer, Waker};
use crate::error::KafkaError;
use crate::facts::{Assigned, GroupEntry};
use crate::settings::ConsumerSettings;

/// librdkafka's default of `auto.commit.interval.ms`.
const AUTO_COMMIT_INTERVAL: Duration = Duration::from_secs(5);

pub(super) struct ReaderState {
    pub waker: Waker,
    pub group: String,
    pub partitions: Vec<ReaderPartition>,
    pub answers: Vec<CommitAnswer>,
    pub errors: Vec<KafkaError>,
    /// Commit requests so far.
    pub requests: u64,
    pub forward_tombstones: bool,
    pub auto: Option<AutoCommit>,
}

pub(super) struct ReaderPartition {
    pub name: TopicPartition,
    pub slot: usize,
    /// Index of the topic in the batches that are built.
    pub topic: u16,
    pub next: i64,
    /// The leader's epoch of the last record, or the one that was committed with the start.
    pub epoch: Option<i32>,
    /// The offset of the last end that was told.
    pub end_told: Option<i64>,
    /// Out of range: nothing is read before a seek.
    pub waits_for_seek: bool,
    /// It was said that the partition is not there.
    pub missing: bool,
    /// What the client has fetched and not given out.
    pub ahead: VecDeque<Entry>,
    /// The next offset to fetch, where the client fetches ahead.
    pub fetched: i64,
    /// What the client commits by itself at its next turn.
    pub to_commit: Option<CommitOffset>,
}

pub(super) struct AutoCommit {
    pub interval: Duration,
    pub last: Moment,
}

impl ReaderState {
    pub fn new(
        state: &State,
        settings: &ConsumerSettings,
        assigned: Vec<Assigned>,
        waker: Waker,
    ) -> Result<Self, KafkaError> {
        let interval = settings
            .extra
            .get("auto.commit.interval.ms")
            .and_then(|text| text.0.parse().ok())
            .map_or(AUTO_COMMIT_INTERVAL, Duration::from_millis);
        let mut partitions = Vec::with_capacity(assigned.len());
        for (index, assigned) in assigned.into_iter().enumerate() {
            assert_eq!(assigned.id.index(), index, "partitions are numbered densely from 0");
            if state.log(&assigned.partition).is_none() {
                return Err(unknown_partition(&assigned.partition));
            }
            partitions.push(ReaderPartition {
                slot: state.slot(&assigned.partition.topic)?,
                name: assigned.partition,
                topic: assigned.topic,
                next: assigned.start.0,
                epoch: assigned.leader_epoch,
                end_told: None,
                waits_for_seek: false,
                missing: false,
                ahead: VecDeque::new(),
                fetched: assigned.start.0,
                to_commit: None,
            });
        }
        Ok(ReaderState {
            waker,
            group: settings.group_id.clone(),
            partitions,
            answers: Vec::new(),
            errors: Vec::new(),
            requests: 0,
            forward_tombstones: settings.forward_tombstones,
            auto: settings.auto_commit.then(|| AutoCommit { interval, last: state.now() }),
        })
    }
}

/// A client that reads; it is closed when both of its halves are gone.
pub(super) struct ReaderHandle {
    pub shared: Arc<Shared>,
    pub id: usize,
}

impl Drop for ReaderHandle {
    /// As a consumer's close does: what was stored is committed.
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.auto_commit(self.id);
        state.readers[self.id] = None;
        for topic in &mut state.topics {
            for log in &mut topic.logs {
                log.waiting.retain(|(other, _)| *other != self.id);
            }
        }
        let mut wakers = self.shared.stream_wakers.lock().unwrap_or_else(PoisonError::into_inner);
        wakers.retain(|(other, _)| *other != self.id);
        self.shared.changed.notify_all();
    }
}

impl State {
    pub fn reader(&mut self, id: usize) -> &mut ReaderState {
        self.readers[id].as_mut().expect("a reader lives as long as its halves")
    }

    pub fn auto_commit_if_due(&mut self, id: usize) {
        let now = self.now();
        let due = self.readers[id]
            .as_ref()
            .and_then(|reader| reader.auto.as_ref())
            .is_some_and(|auto| now.since(auto.last) >= auto.interval);
        if due {
            self.auto_commit(id);
        }
    }

    /// Commits what a client at most once has given out since its last turn.
    fn auto_commit(&mut self, id: usize) {
        let now = self.now();
        let group = self.readers[id].as_ref().map(|reader| reader.group.clone()).unwrap_or_default();
        if self.down || self.may_commit(&group).is_err() {
            return;
        }
        let Some(reader) = self.readers[id].as_mut() else { return };
        let Some(auto) = reader.auto.as_mut() else { return };
        auto.last = now;
        let mut entries = Vec::new();
        for place in &mut reader.partitions {
            if let Some(offset) = place.to_commit.take() {
                entries.push(CommitRecordEntry {
                    partition: place.name.clone(),
                    offset,
                    metadata: String::new(),
                    leader_epoch: None,
                    applied: true,
                    answer: Some(Ok(())),
                });
            }
        }
        if entries.is_empty() {
            return;
        }
        let group = self.groups.entry(reader.group.clone()).or_default();
        for entry in &entries {
            group.set(&GroupEntry {
                partition: entry.partition.clone(),
                offset: entry.offset,
                metadata: String::new(),
                leader_epoch: None,
            });
        }
        if self.keep_history {
            group.history.push(CommitRecord { at: now, automatic: true, entries });
        }
    }
}
