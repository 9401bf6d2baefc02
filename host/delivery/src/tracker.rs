//! The tracker of one partition: which records are unresolved, and so which offset may be committed.
//!
//! Invariants:
//! - the watermark is the lowest unresolved record's offset, or the position when all are resolved; it never falls, unless
//!   the log itself was cut;
//! - offsets that were never registered (compaction, control records, skipped tombstones) are never waited on;
//! - nothing below the floor is ever a commit offset;
//! - what was made of a record counts until the record is resolved.
//!
//! Records have dense sequence numbers in registration order; their entries live in a ring, so that registering and
//! redeeming take constant time and allocate nothing in steady state.

use std::collections::VecDeque;
use std::time::Duration;

use loom_types::{CommitOffset, Moment, RecordOffset};

use crate::ledger::Ledger;
use crate::mutations::{Mutation, mutated};
use crate::token::FULL_WEIGHT;

#[derive(Debug)]
struct Entry {
    offset: RecordOffset,
    redeemed: u64,
    bytes: u32,
    /// When it was registered, in [`TICK`]s.
    since: u32,
    /// What nodes made of it; see [`Made`].
    made_rows: u32,
    made_bytes: u32,
}

/// What the age of a record is counted in; four bytes of it last for more than a year.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// A moment in [`TICK`]s.
pub(crate) fn ticks(moment: Moment) -> u32 {
    u32::try_from(moment.0.as_millis() / TICK.as_millis()).unwrap_or(u32::MAX)
}

/// What a partition holds against its bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outstanding {
    /// Records from the oldest unresolved one on: resolved ones behind it count, since their entries are held too.
    pub records: usize,
    /// Bytes of the unresolved records.
    pub bytes: u64,
}

/// What nodes made of records that are not resolved, beyond the records themselves. It counts until the whole record is
/// resolved, so it is no less than what is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// Rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What may be committed for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// The offset: the watermark, never below the floor.
    pub offset: CommitOffset,
    /// The watermark, while a replay has it below the floor.
    pub replay: Option<CommitOffset>,
}

/// The records of one partition. See the module's description.
#[derive(Debug)]
pub struct Tracker {
    ring: VecDeque<Entry>,
    /// The sequence number of the ring's first entry.
    first: u64,
    position: CommitOffset,
    floor: Option<CommitOffset>,
    bytes: u64,
    made: Made,
    /// The moment that records are registered at, in [`TICK`]s.
    now: u32,
    pub(crate) ledger: Ledger,
}

impl Tracker {
    pub(crate) fn new(start: CommitOffset, floor: Option<CommitOffset>) -> Self {
        Tracker {
            ring: VecDeque::new(),
            first: 0,
            position: start,
            floor,
            bytes: 0,
            made: Made::default(),
            now: 0,
            ledger: Ledger::default(),
        }
    }

    pub(crate) fn register(&mut self, offset: RecordOffset, bytes: u32) -> u64 {
        debug_assert!(self.position <= CommitOffset::at(offset), "record {offset} was not admitted");
        let sequence = self.first + self.ring.len() as u64;
        let since = self.now;
        self.ring.push_back(Entry { offset, redeemed: 0, bytes, since, made_rows: 0, made_bytes: 0 });
        self.position = offset.next();
        self.bytes += u64::from(bytes);
        self.ledger.registered += 1;
        self.ledger.outstanding += 1;
        sequence
    }

    /// Adds weight to a record, and forgets records from the front on that are resolved. Of a record that is resolved with it,
    /// when it was registered.
    pub(crate) fn redeem(&mut self, sequence: u64, weight: u64) -> Option<u32> {
        let Some(entry) = sequence.checked_sub(self.first).and_then(|at| self.ring.get_mut(at as usize))
        else {
            debug_assert!(false, "weight redeemed for a record that is resolved");
            return None;
        };
        entry.redeemed += if mutated(Mutation::AnyShareResolves) { FULL_WEIGHT } else { weight };
        debug_assert!(entry.redeemed <= FULL_WEIGHT, "a record was redeemed twice");
        let since = (entry.redeemed == FULL_WEIGHT).then_some(entry.since);
        if since.is_some() {
            self.ledger.resolved += 1;
            self.ledger.outstanding -= 1;
            self.bytes -= u64::from(entry.bytes);
            self.made.rows -= u64::from(entry.made_rows);
            self.made.bytes -= u64::from(entry.made_bytes);
            while self.ring.front().is_some_and(|front| front.redeemed == FULL_WEIGHT) {
                self.ring.pop_front();
                self.first += 1;
            }
        }
        since
    }

    /// Counts what was made of a record, while it is not resolved.
    pub(crate) fn made_of(&mut self, sequence: u64, made: Made) {
        let Some(entry) = sequence.checked_sub(self.first).and_then(|at| self.ring.get_mut(at as usize))
        else {
            return;
        };
        // A record that reaches the end of these numbers is past every bound: what it has more need not be counted.
        let add = |counted: &mut u32, more: u64| {
            let more = u32::try_from(more).unwrap_or(u32::MAX).min(u32::MAX - *counted);
            *counted += more;
            u64::from(more)
        };
        self.made.rows += add(&mut entry.made_rows, made.rows);
        self.made.bytes += add(&mut entry.made_bytes, made.bytes);
    }

    /// Reading moved on without registering: what lies below `to` and was not registered is a gap.
    pub(crate) fn advance(&mut self, to: CommitOffset) {
        if !mutated(Mutation::GapsAreWaitedFor) {
            self.position = self.position.max(to);
        }
    }

    /// The log was cut: reading goes on at its new end, and a floor above that is lowered to it. Only while nothing is
    /// outstanding: a record of the old log would otherwise hold, or release, offsets of the new one.
    pub(crate) fn cut(&mut self, end: CommitOffset) {
        debug_assert!(self.ring.is_empty(), "a log is cut under records that are not resolved");
        self.position = end;
        if !mutated(Mutation::CutKeepsFloor) {
            self.floor = self.floor.map(|floor| floor.min(end));
        }
    }

    /// The partition ends at `end`, as far as it can be read, and its log at `log_end`, where that is known. A floor above
    /// the log's end is of a log that was cut while a replay was below it; an open transaction only hides what is there.
    /// The floor that fell.
    pub(crate) fn ended(&mut self, end: CommitOffset, log_end: Option<CommitOffset>) -> Option<CommitOffset> {
        self.advance(end);
        let cut = self.floor.zip(log_end).is_some_and(|(floor, log_end)| floor > log_end);
        if cut { self.lose_floor() } else { None }
    }

    /// The floor is of a log that was cut below it while a replay was below both: what was written there since was never
    /// read, so the floor falls to the watermark, and commits with it. The floor that fell.
    pub(crate) fn lose_floor(&mut self) -> Option<CommitOffset> {
        let watermark = self.watermark();
        let fallen = self.floor.filter(|floor| *floor > watermark && !mutated(Mutation::CutKeepsFloor))?;
        self.floor = Some(watermark);
        Some(fallen)
    }

    /// A record's offset, while its entry is held.
    pub(crate) fn offset(&self, sequence: u64) -> Option<RecordOffset> {
        sequence.checked_sub(self.first).and_then(|at| self.ring.get(at as usize)).map(|entry| entry.offset)
    }

    /// The lowest unresolved record's offset, or the position when all are resolved.
    #[must_use]
    pub fn watermark(&self) -> CommitOffset {
        let oldest = self.ring.get(usize::from(mutated(Mutation::OldestIsPassed)));
        oldest.map_or(self.position, |oldest| CommitOffset::at(oldest.offset))
    }

    /// The offset that may be committed; none while the watermark is below the floor.
    #[must_use]
    pub fn commit_offset(&self) -> Option<CommitOffset> {
        let watermark = self.watermark();
        self.floor.is_none_or(|floor| watermark >= floor).then_some(watermark)
    }

    /// What may be committed: the watermark, or, while a replay has it below the floor, the floor again, with how far the
    /// replay has come.
    #[must_use]
    pub fn stand(&self) -> Stand {
        let watermark = self.watermark();
        match self.floor {
            Some(floor) if watermark < floor && !mutated(Mutation::FloorIsIgnored) => {
                Stand { offset: floor, replay: Some(watermark) }
            }
            _ => Stand { offset: watermark, replay: None },
        }
    }

    /// The next offset to read.
    #[must_use]
    pub fn position(&self) -> CommitOffset {
        self.position
    }

    /// The committed offset seen at start.
    #[must_use]
    pub fn floor(&self) -> Option<CommitOffset> {
        self.floor
    }

    /// The oldest unresolved record.
    #[must_use]
    pub fn oldest(&self) -> Option<RecordOffset> {
        self.ring.front().map(|front| front.offset)
    }

    /// When the oldest unresolved record was registered, to a hundredth of a second.
    #[must_use]
    pub fn oldest_since(&self) -> Option<Moment> {
        self.ring.front().map(|front| Moment(TICK * front.since))
    }

    /// Records that follow are registered at this moment.
    pub(crate) fn set_now(&mut self, now: Moment) {
        self.now = ticks(now);
    }

    /// What it holds against its bounds.
    #[must_use]
    pub fn outstanding(&self) -> Outstanding {
        Outstanding { records: self.ring.len(), bytes: self.bytes }
    }

    /// What nodes made of its records that are not resolved.
    #[must_use]
    pub fn made(&self) -> Made {
        self.made
    }

    /// Its counts.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }
}

#[cfg(test)]
mod tests {
    use loom_types::{CommitOffset, RecordOffset};

    use super::{Stand, Tracker};
    use crate::token::FULL_WEIGHT;

    #[test]
    fn a_partition_that_ends_below_the_floor_takes_it_down_to_what_is_done() {
        let mut tracker = Tracker::new(CommitOffset(0), Some(CommitOffset(10)));
        let sequences = [0, 1].map(|offset| tracker.register(RecordOffset(offset), 1));
        tracker.redeem(sequences[0], FULL_WEIGHT);
        let ended = |tracker: &mut Tracker, end, log_end: Option<i64>| {
            tracker.ended(CommitOffset(end), log_end.map(CommitOffset))
        };
        assert_eq!(ended(&mut tracker, 5, Some(10)), None, "a transaction is open behind what can be read");
        assert_eq!(ended(&mut tracker, 5, None), None, "where the log ends is not known");
        assert_eq!(tracker.stand().replay, Some(CommitOffset(1)));
        assert_eq!(ended(&mut tracker, 6, Some(6)), Some(CommitOffset(10)));
        assert_eq!(tracker.stand(), Stand { offset: CommitOffset(1), replay: None });
        assert_eq!(ended(&mut tracker, 6, Some(6)), None, "it fell once");
    }
}
