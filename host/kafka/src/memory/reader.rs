//! What the broker knows of a client that reads, shared by its two halves: positions and answers.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};

use loom_types::TopicPartition;

use super::faults::unknown_partition;
use super::log::Entry;
use super::state::{Shared, State};
use crate::contract::{CommitAnswer, Waker};
use crate::error::KafkaError;
use crate::facts::Assigned;
use crate::settings::ConsumerSettings;

pub(super) struct ReaderState {
    pub waker: Waker,
    pub group: String,
    pub partitions: Vec<ReaderPartition>,
    pub answers: Vec<CommitAnswer>,
    pub errors: Vec<KafkaError>,
    /// Commit requests so far.
    pub requests: u64,
    pub forward_tombstones: bool,
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
}

impl ReaderState {
    pub fn new(
        state: &State,
        settings: &ConsumerSettings,
        assigned: Vec<Assigned>,
        waker: Waker,
    ) -> Result<Self, KafkaError> {
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
        })
    }
}

/// A client that reads; it is closed when both of its halves are gone.
pub(super) struct ReaderHandle {
    pub shared: Arc<Shared>,
    pub id: usize,
}

impl Drop for ReaderHandle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
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
}
