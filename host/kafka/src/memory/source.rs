//! The reading half of a client: partition queues with end-of-partition in their order, and edge-triggered wake-ups.
//!
//! The end of a partition is said once at each offset, by the take that reaches it. A tail of control records moves no
//! position, only the end, as librdkafka's queue has it.

use std::sync::Arc;

use loom_types::{
    BatchBuilder, ColumnFull, CommitOffset, PartitionId, RecordOffset, RecordRef, TopicPartition,
};

use super::faults::{Call, unknown_partition};
use super::log::{Body, Entry, Log};
use super::reader::{ReaderHandle, ReaderPartition};
use super::record::Record;
use super::rights::Right;
use super::state::{Keep, State};
use super::stream::FeedState;
use crate::contract::{Budget, Notice, PartitionSource, Taken};
use crate::error::{KafkaError, Kind};

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
        self.reader.shared.changed.notify_all();
        taken
    }

    fn seek(
        &mut self,
        partition: PartitionId,
        to: CommitOffset,
        leader_epoch: Option<i32>,
    ) -> Result<(), KafkaError> {
        let mut state = self.reader.shared.lock();
        state.enter(Call::Seek)?;
        let reader = state.reader(self.reader.id);
        let place = &mut reader.partitions[partition.index()];
        place.next = to.0;
        place.end_told = None;
        place.waits_for_seek = false;
        place.epoch = leader_epoch;
        place.missing = false;
        place.ahead.clear();
        place.fetched = to.0;
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

/// One take: what was given out, and what still fits.
struct Giving<'a> {
    taken: Taken,
    budget: Budget,
    forward_tombstones: bool,
    bytes: usize,
    handled: usize,
    out: &'a mut BatchBuilder,
}

impl<'a> Giving<'a> {
    fn new(budget: Budget, forward_tombstones: bool, out: &'a mut BatchBuilder) -> Self {
        Giving { taken: Taken::default(), budget, forward_tombstones, bytes: 0, handled: 0, out }
    }

    /// Takes an entry; false where it does not fit.
    fn entry(&mut self, topic: u16, partition: i32, entry: &Entry) -> bool {
        let Body::Record(record) = &entry.body else { return true };
        // A take is of one epoch.
        let other = self.taken.leader_epoch.is_some_and(|epoch| epoch != entry.epoch);
        if self.handled >= self.budget.rows || other {
            return false;
        }
        if record.payload.is_none() && !self.forward_tombstones {
            self.taken.skipped += 1;
        } else {
            for (name, value) in &record.headers {
                self.out.header(name, value.as_deref());
            }
            let bytes = record.bytes() + self.out.header_bytes();
            if self.taken.rows > 0 && self.bytes + bytes > self.budget.bytes {
                self.out.forget_headers();
                return false;
            }
            if let Err(full) = self.push(topic, partition, entry.offset, record) {
                if self.out.is_empty() {
                    let message =
                        format!("record {} of partition {partition} is too large: {full}", entry.offset);
                    let code = "RECORD_TOO_LARGE";
                    self.taken.notice =
                        Some(Notice::Failed(KafkaError { kind: Kind::Configuration, code, message }));
                }
                return false;
            }
            self.bytes += bytes;
            self.taken.rows += 1;
        }
        self.handled += 1;
        self.taken.position = Some(CommitOffset(entry.offset + 1));
        self.taken.leader_epoch = Some(entry.epoch);
        true
    }

    fn push(&mut self, topic: u16, partition: i32, offset: i64, record: &Record) -> Result<(), ColumnFull> {
        self.out.push(RecordRef {
            topic,
            partition,
            offset: RecordOffset(offset),
            timestamp_ms: record.time(),
            key: record.key.as_deref(),
            payload: record.payload.as_deref(),
            row: "",
        })
    }
}

/// What a client says of a batch whose checksum is not its own.
fn broken(name: &TopicPartition, first: i64) -> Notice {
    let message = format!("reading {name}: the batch at offset {first} failed its CRC32C check");
    Notice::Broken {
        first: CommitOffset(first),
        error: KafkaError { kind: Kind::Other, code: "_BAD_MSG", message },
    }
}

impl ReaderPartition {
    /// Where the log was cut below an offset since the record before it was read, by an election that lost records.
    fn cut(&self, log: &Log, offset: i64) -> Option<i64> {
        log.cut_since(self.epoch?, offset)
    }
}

impl State {
    fn take(&mut self, id: usize, partition: PartitionId, budget: Budget, out: &mut BatchBuilder) -> Taken {
        self.land();
        let mut reader = self.readers[id].take().expect("a reader lives as long as its halves");
        let place = &mut reader.partitions[partition.index()];
        let mut giving = Giving::new(budget, reader.forward_tombstones, out);
        let silent = self.log(&place.name).is_some_and(|log| log.silent);
        if !silent && !place.waits_for_seek {
            self.give(place, &mut giving);
        }
        let mut taken = giving.taken;
        if matches!(&taken.notice, Some(Notice::Failed(error)) if error.kind == Kind::Configuration) {
            taken.more = false;
        }
        if self.silent {
            taken.leader_epoch = None;
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

    /// Gives out what the client has fetched, and then what the partition has.
    fn give(&mut self, place: &mut ReaderPartition, giving: &mut Giving<'_>) {
        let there = !self.down && self.locate(place, giving);
        if self.read_ahead > 0 || !place.ahead.is_empty() {
            if there && giving.taken.notice.is_none() {
                self.fetch(place);
            }
            while let Some(entry) = place.ahead.front() {
                if !giving.entry(place.topic, place.name.partition, entry) {
                    giving.taken.more = true;
                    return;
                }
                place.next = entry.offset + 1;
                place.epoch = Some(entry.epoch);
                place.ahead.pop_front();
            }
            place.next = place.next.max(place.fetched);
        }
        if there && giving.taken.notice.is_none() {
            self.read(place, giving);
            place.fetched = place.next;
        }
    }

    /// Whether the partition is there, and may be read. What is not is said once, or at each fetch.
    fn locate(&mut self, place: &mut ReaderPartition, giving: &mut Giving<'_>) -> bool {
        let exists = |slot: &usize| (place.name.partition as usize) < self.topics[*slot].logs.len();
        let Some(slot) = self.seen(&place.name.topic).filter(exists) else {
            if !std::mem::replace(&mut place.missing, true) && place.ahead.is_empty() {
                giving.taken.notice = Some(Notice::Failed(unknown_partition(&place.name)));
            }
            return false;
        };
        place.missing = false;
        if std::mem::replace(&mut place.slot, slot) != slot {
            // Made again under its name: the client goes on in it as if it were the same.
            place.end_told = None;
        }
        if let Err(error) = self.demand(&Right::Read(place.name.topic.clone())) {
            if place.ahead.is_empty() {
                giving.taken.notice = Some(Notice::Failed(error));
            }
            return false;
        }
        true
    }

    /// Fetches ahead, up to what a script put into the queue's order.
    fn fetch(&mut self, place: &mut ReaderPartition) {
        let log = &self.topics[place.slot].logs[place.name.partition as usize];
        let from = place.fetched.max(place.next);
        if from < log.low() || from > log.high() || place.cut(log, from).is_some() {
            // Found by `read`, behind what was fetched.
            return;
        }
        let notice = log.notice_at().unwrap_or(i64::MAX);
        let room = self.read_ahead.saturating_sub(place.ahead.len());
        let whole = |entry: &&Entry| entry.offset < notice && log.broken_at(entry.offset).is_none();
        for entry in log.from(from).take_while(whole).take(room) {
            place.fetched = entry.offset + 1;
            place.ahead.push_back(entry.clone());
        }
    }

    /// Gives out what the partition has.
    fn read(&mut self, place: &mut ReaderPartition, giving: &mut Giving<'_>) {
        if let Some(feed) = self.topics[place.slot].feed {
            // One more than asked for, so that `more` is known.
            let rows = giving.budget.rows.saturating_add(1);
            self.pull(feed, place.slot, place.name.partition, place.next, rows);
        }
        if let Some(error) = self.faults.place(Call::Take, &place.name.topic, Some(place.name.partition)) {
            giving.taken.notice = Some(Notice::Failed(error));
            return;
        }
        let topic = &mut self.topics[place.slot];
        let final_end = topic.feed.is_none_or(|feed| self.feeds[feed].state == FeedState::Ended);
        let log = &mut topic.logs[place.name.partition as usize];
        let cut = place.cut(log, place.next).map(|end| Notice::Cut { end: CommitOffset(end) });
        let outside = place.next < log.low() || place.next > log.high();
        if let Some(notice) = cut.or(outside.then_some(Notice::OutOfRange)) {
            place.waits_for_seek = true;
            giving.taken.notice = Some(notice);
            return;
        }
        let (notice_at, mut notice) = (log.notice_at(), false);
        for entry in log.from(place.next) {
            if let Some(first) = log.broken_at(entry.offset) {
                // Records before it are given out first.
                giving.taken.more = giving.taken.position.is_some();
                if !giving.taken.more {
                    place.waits_for_seek = true;
                    giving.taken.notice = Some(broken(&place.name, first));
                }
                return;
            }
            if notice_at.is_some_and(|at| at <= entry.offset) {
                notice = true;
                break;
            }
            if !giving.entry(place.topic, place.name.partition, entry) {
                giving.taken.more = true;
                return;
            }
            place.next = entry.offset + 1;
            place.epoch = Some(entry.epoch);
        }
        if notice || notice_at.is_some_and(|at| at <= log.stable()) {
            giving.taken.notice = log.take_notice();
            giving.taken.more = true;
            return;
        }
        let end = log.stable();
        if end > place.next {
            // What is no record, such as a transaction's end, is of the epoch that it lies in too.
            (place.next, place.epoch) = (end, Some(log.epoch()));
        }
        if final_end && place.end_told != Some(end) {
            place.end_told = Some(end);
            giving.taken.end = Some(CommitOffset(end));
            giving.taken.log_end = Some(CommitOffset(log.high()));
        }
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
}
