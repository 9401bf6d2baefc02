//! One partition's log: records and control records with rising offsets, gaps where compaction removed some, a low end
//! that retention moves.
//!
//! Invariants: offsets of the entries rise, and so do their epochs; all lie in `low..high`; `high` falls only where an
//! election cuts the log.

use std::collections::{BTreeMap, VecDeque};

use loom_types::RecordOffset;

use super::record::Record;
use crate::contract::{Notice, Waker};

/// What stands at an offset.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Record(Record),
    /// A transaction's marker: it has an offset and is never given out.
    Control,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub offset: i64,
    pub body: Body,
    /// The epoch of the leader that wrote it.
    pub epoch: i32,
    /// The transaction that it belongs to, while that is open.
    pub transaction: Option<u64>,
}

#[derive(Default)]
pub(super) struct Log {
    entries: VecDeque<Entry>,
    low: i64,
    high: i64,
    /// The leader's epoch now.
    epoch: i32,
    /// The first offsets of transactions that are open.
    open: BTreeMap<u64, i64>,
    /// Wake-ups of waiting readers that are to be lost.
    pub lost_wakes: u64,
    /// Readers whose last take said that nothing more is there; the next append wakes them.
    pub waiting: Vec<(usize, Waker)>,
    /// What a script put into the queue's order, before the entry at its offset.
    notices: Vec<(i64, Notice)>,
    /// Nothing is given out, and nothing is said of it.
    pub silent: bool,
    /// Batches that are damaged: their first and last offsets.
    pub broken: Vec<(i64, i64)>,
}

impl Log {
    pub fn low(&self) -> i64 {
        self.low
    }

    pub fn high(&self) -> i64 {
        self.high
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    pub fn append(&mut self, body: Body) -> RecordOffset {
        let offset = self.high;
        self.entries.push_back(Entry { offset, body, epoch: self.epoch, transaction: None });
        self.high += 1;
        RecordOffset(offset)
    }

    /// Appends a record of a transaction.
    pub fn append_in(&mut self, transaction: u64, record: Record) -> RecordOffset {
        let offset = self.append(Body::Record(record));
        self.open.entry(transaction).or_insert(offset.0);
        if let Some(entry) = self.entries.back_mut() {
            entry.transaction = Some(transaction);
        }
        offset
    }

    /// Ends a transaction: its marker is written, and its records are gone if it is aborted.
    pub fn end(&mut self, transaction: u64, commit: bool) {
        for entry in &mut self.entries {
            if entry.transaction == Some(transaction) {
                entry.transaction = None;
                if !commit {
                    entry.body = Body::Control;
                }
            }
        }
        self.open.remove(&transaction);
        self.append(Body::Control);
    }

    /// The last stable offset: what lies below it may be given out.
    pub fn stable(&self) -> i64 {
        self.open.values().min().copied().unwrap_or(self.high)
    }

    /// Gives out an offset without keeping anything: the record is gone at once.
    pub fn pass(&mut self) -> RecordOffset {
        debug_assert!(self.entries.is_empty());
        let offset = self.high;
        self.high += 1;
        self.low = self.high;
        RecordOffset(offset)
    }

    /// Offsets that compaction has removed already: the next record comes that much later.
    pub fn gap(&mut self, offsets: i64) {
        self.high += offsets;
    }

    /// Removes one record, as compaction does.
    pub fn compact(&mut self, offset: i64) -> bool {
        match self.entries.binary_search_by_key(&offset, |entry| entry.offset) {
            Ok(at) => self.entries.remove(at).is_some(),
            Err(_) => false,
        }
    }

    /// Removes what lies below `low`, as retention does.
    pub fn trim(&mut self, low: i64) -> (usize, usize) {
        let (mut rows, mut bytes) = (0, 0);
        while self.entries.front().is_some_and(|entry| entry.offset < low) {
            if let Some(Entry { body: Body::Record(record), .. }) = self.entries.pop_front() {
                rows += 1;
                bytes += record.bytes();
            }
        }
        self.low = self.low.max(low.min(self.high));
        (rows, bytes)
    }

    /// Another leader is elected; it has what lies below `keep`. The rest is lost.
    pub fn elect(&mut self, keep: i64) {
        self.epoch += 1;
        while self.entries.back().is_some_and(|entry| entry.offset >= keep) {
            self.entries.pop_back();
        }
        self.high = self.high.min(keep.max(self.low));
    }

    /// Where the log of an epoch ends: what was read in it lies below, unless it was cut.
    pub fn end_of_epoch(&self, epoch: i32) -> i64 {
        self.entries.iter().find(|entry| entry.epoch > epoch).map_or(self.high, |entry| entry.offset)
    }

    /// Where the log was cut below an offset, by an election that lost records, since the record before that was read in
    /// this epoch.
    pub fn cut_since(&self, epoch: i32, offset: i64) -> Option<i64> {
        (epoch < self.epoch()).then(|| self.end_of_epoch(epoch)).filter(|end| offset > *end)
    }

    /// The first record that carries this time or a later one.
    pub fn first_at(&self, timestamp_ms: i64) -> Option<i64> {
        let carries = |entry: &&Entry| match &entry.body {
            Body::Record(record) => record.time().is_some_and(|time| time >= timestamp_ms),
            Body::Control => false,
        };
        self.entries.iter().find(carries).map(|entry| entry.offset)
    }

    /// The first offset of the damaged batch that an offset lies in.
    pub fn broken_at(&self, offset: i64) -> Option<i64> {
        self.broken.iter().find(|(first, last)| (*first..=*last).contains(&offset)).map(|(first, _)| *first)
    }

    /// The entries from an offset on that may be given out.
    pub fn from(&self, offset: i64) -> impl Iterator<Item = &Entry> {
        let at = self.entries.partition_point(|entry| entry.offset < offset);
        let stable = self.stable();
        self.entries.range(at..).take_while(move |entry| entry.offset < stable)
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub fn add_notice(&mut self, at: i64, notice: Notice) {
        let place = self.notices.partition_point(|(other, _)| *other <= at);
        self.notices.insert(place, (at, notice));
    }

    /// The offset before which the next notice stands.
    pub fn notice_at(&self) -> Option<i64> {
        self.notices.first().map(|(at, _)| *at)
    }

    pub fn take_notice(&mut self) -> Option<Notice> {
        (!self.notices.is_empty()).then(|| self.notices.remove(0).1)
    }
}
