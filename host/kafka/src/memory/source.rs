//! The reading half of a client: partition queues with end-of-partition in their order, and edge-triggered wake-ups.
//!
//! The end of a partition is said once at each offset, by the take that reaches it. A tail of control records moves no
//! position, only the end, as librdkafka's queue has it.

use std::sync::Arc;

use loom_types::{BatchBuilder, CommitOffset, PartitionId, RecordOffset, RecordRef};

use super::faults::{Call, brokers_down};
use super::log::Body;
use super::reader::{ReaderHandle, ReaderPartition};
use super::record::Record;
use super::rights::Right;
use super::state::{Keep, State};
use super::stream::FeedState;
use crate::contract::{Budget, Notice, PartitionSource, Taken};
use crate::error::KafkaError;

pub(super) struct MemorySource {
    pub reader: Arc<ReaderHandle>,
}

impl PartitionSource for MemorySource {
    fn take(&mut self, partition: PartitionId, budget: Budget, out: &mut BatchBuilder) -> Taken {
        let mut state = self.reader.shared.lock();
        if let Err(error) = state.enter(Call::Take) {
            return Taken { notice: Some(Notice::Failed(error)), more: true, ..Taken::default() };
        }
        let taken = state.take(self.reader.id, partition, budget, out);
        state.auto_commit_if_due(self.reader.id);
        self.reader.shared.changed.notify_all();
        taken
    }

    fn seek(&mut self, partition: PartitionId, to: CommitOffset) -> Result<(), KafkaError> {
        let mut state = self.reader.shared.lock();
        state.enter(Call::Seek)?;
        let reader = state.reader(self.reader.id);
        let place = &mut reader.partitions[partition.index()];
        place.next = to.0;
        place.end_told = None;
        place.waits_for_seek = false;
        place.started_in = None;
        place.to_commit = None;
        // The queue has something to say again: at least an end.
        (reader.waker)();
        Ok(())
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        let mut state = self.reader.shared.lock();
        let reader = state.reader(self.reader.id);
        out.append(&mut reader.errors);
    }
}

impl State {
    fn take(&mut self, id: usize, partition: PartitionId, budget: Budget, out: &mut BatchBuilder) -> Taken {
        let mut reader = self.readers[id].take().expect("a reader lives as long as its halves");
        let mut taken = if self.down {
            Taken::default()
        } else {
            let place = &mut reader.partitions[partition.index()];
            self.pull_for(place, budget.rows);
            self.read(place, reader.forward_tombstones, budget, out)
        };
        if self.silent {
            taken.leader_epoch = None;
        }
        let place = &mut reader.partitions[partition.index()];
        if let (Some(position), true) = (taken.position, reader.auto.is_some()) {
            place.to_commit = Some(position);
        }
        if !taken.more {
            let waiting = &mut self.topics[place.slot].logs[place.name.partition as usize].waiting;
            if !waiting.iter().any(|(other, _)| *other == id) {
                waiting.push((id, reader.waker.clone()));
            }
        }
        let (slot, partition, next) = (place.slot, place.name.partition, place.next);
        self.readers[id] = Some(reader);
        self.forget_read(slot, partition, next);
        taken
    }

    fn pull_for(&mut self, place: &ReaderPartition, rows: usize) {
        if let Some(feed) = self.topics[place.slot].feed {
            // One more than asked for, so that `more` is known.
            self.pull(feed, place.slot, place.name.partition, place.next, rows.saturating_add(1));
        }
    }

    fn read(
        &mut self,
        place: &mut ReaderPartition,
        forward_tombstones: bool,
        budget: Budget,
        out: &mut BatchBuilder,
    ) -> Taken {
        if let Err(error) = self.demand(&Right::Read(place.name.topic.clone())) {
            // As the client has it: said at each fetch, until the right is there again.
            return Taken { notice: Some(Notice::Failed(error)), ..Taken::default() };
        }
        if let Some(error) = self.faults.place(Call::Take, &place.name.topic, Some(place.name.partition)) {
            return Taken { notice: Some(Notice::Failed(error)), ..Taken::default() };
        }
        let topic = &mut self.topics[place.slot];
        let final_end = topic.feed.is_none_or(|feed| self.feeds[feed].state == FeedState::Ended);
        let log = &mut topic.logs[place.name.partition as usize];
        let mut taken = Taken::default();
        if place.waits_for_seek || log.silent {
            return taken;
        }
        let cut = place.started_in.take().is_some_and(|epoch| place.next > log.end_of_epoch(epoch));
        if cut || place.next < log.low() || place.next > log.high() {
            place.waits_for_seek = true;
            taken.notice = Some(Notice::OutOfRange);
            return taken;
        }
        let (mut bytes, mut scanned, mut notice) = (0, 0, false);
        for entry in log.from(place.next) {
            if log.notice_at().is_some_and(|at| at <= entry.offset) {
                notice = true;
                break;
            }
            if let Body::Record(record) = &entry.body {
                if scanned >= budget.rows {
                    taken.more = true;
                    break;
                }
                if record.payload.is_none() && !forward_tombstones {
                    taken.skipped += 1;
                } else {
                    if taken.rows > 0 && bytes + record.bytes() > budget.bytes {
                        taken.more = true;
                        break;
                    }
                    bytes += record.bytes();
                    push(out, place, entry.offset, record);
                    taken.rows += 1;
                }
                scanned += 1;
                taken.position = Some(CommitOffset(entry.offset + 1));
                taken.leader_epoch = Some(entry.epoch);
            }
            place.next = entry.offset + 1;
        }
        if !taken.more && (notice || log.notice_at().is_some_and(|at| at <= log.high())) {
            taken.notice = log.take_notice();
            taken.more = true;
        }
        if !taken.more {
            place.next = log.high();
            if final_end && place.end_told != Some(log.high()) {
                place.end_told = Some(log.high());
                taken.end = Some(CommitOffset(log.high()));
            }
        }
        taken
    }

    /// What a fed topic gave out is gone; who waits for room in the read-ahead is woken.
    fn forget_read(&mut self, slot: usize, partition: i32, next: i64) {
        let topic = &mut self.topics[slot];
        if topic.keep != Keep::UntilRead {
            return;
        }
        let (rows, bytes) = topic.logs[partition as usize].trim(next);
        if let Some(feed) = topic.feed {
            self.feeds[feed].release(rows, bytes);
            if self.feeds[feed].blocked && !self.feeds[feed].is_full() {
                self.feeds[feed].blocked = false;
                self.wake_feed(feed);
            }
        }
    }

    /// Runs the timers of all clients.
    pub(super) fn tick(&mut self) {
        for id in 0..self.readers.len() {
            self.auto_commit_if_due(id);
        }
        self.wake_due_writers();
    }

    /// Says to every client that no broker can be reached.
    pub(super) fn report_down(&mut self) {
        for reader in self.readers.iter_mut().flatten() {
            reader.errors.push(brokers_down());
        }
        for writer in self.writers.iter_mut().flatten() {
            writer.errors.push(brokers_down());
        }
        self.wake_all();
    }
}

fn push(out: &mut BatchBuilder, place: &ReaderPartition, offset: i64, record: &Record) {
    for (name, value) in &record.headers {
        out.header(name, value.as_deref());
    }
    out.push(RecordRef {
        topic: place.topic,
        partition: place.name.partition,
        offset: RecordOffset(offset),
        timestamp_ms: record.timestamp_ms,
        key: record.key.as_deref(),
        payload: record.payload.as_deref(),
        row: "",
    });
}
