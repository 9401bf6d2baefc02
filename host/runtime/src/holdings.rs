//! What rows that wait keep in memory.
//!
//! A batch stays while one of its rows waits somewhere: at a node, in a queue of an output, with a client. What that comes to is
//! not what the rows have, so it is counted by looking: every row that waits is asked for its batch, and every column that some
//! batch has is counted once. A look costs what there are rows, so it is taken when so much was read and made since the last one
//! that the bound could be passed; the sum of both is never less than what is kept.
//!
//! Where most of a batch is needed no more, the rows that wait are copied and it is let go: so a record that waits for long keeps
//! its own bytes, and not those of its neighbours. Rows whose call is under way are left where they are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use loom_types::{Batch, Moment, Moves, PartitionId};

use crate::rows::Row;

/// What a row takes beside its batch: its token, and its place where it waits.
const ROW_BYTES: usize = 128;

/// What a batch takes beside its columns' bytes.
const BATCH_BYTES: usize = 512;

/// Bytes of copies that one look makes, at most.
const COPIED_BYTES: usize = 32 << 20;

/// A batch that keeps no more than this in vain stays.
const LITTLE: usize = 4096;

/// A worker may keep no less than this.
const LEAST: u64 = 4 << 20;

/// After a look that left the bound passed, the next one comes no sooner: rows that wait for the world outside are counted in
/// vain.
const AGAIN: Duration = Duration::from_millis(20);

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Holdings {
    /// Bytes that may be kept.
    limit: u64,
    /// What was kept at the last look.
    seen: u64,
    /// What was read and made since.
    added: u64,
    /// The partitions whose rows have more than their share.
    over: Vec<bool>,
    /// The last look had copies made.
    copied: bool,
    next: Moment,
}

impl Holdings {
    /// `bytes`: what rows of all these partitions may keep.
    pub(crate) fn new(bytes: u64, partitions: usize) -> Self {
        Holdings {
            limit: bytes.max(LEAST),
            seen: 0,
            added: 0,
            over: vec![false; partitions],
            copied: false,
            next: Moment::START,
        }
    }

    /// So many bytes were read, or made of rows.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.added = self.added.saturating_add(bytes as u64);
    }

    /// Whether nothing more may be read of a partition.
    pub(crate) fn stop(&self, partition: PartitionId) -> bool {
        self.is_full() || self.over[partition.index()]
    }

    /// Whether nothing more may be read at all.
    fn is_full(&self) -> bool {
        self.seen + self.added >= self.limit
    }

    /// Whether it is time to look.
    pub(crate) fn wants_look(&self, now: Moment) -> bool {
        let stale = self.is_full() || self.added >= self.limit / 4 || self.over.contains(&true);
        stale && now >= self.next
    }

    /// Takes what was seen. The copies that are to be made, where batches are to be let go; another look is due then.
    pub(crate) fn saw(&mut self, seen: &Seen, now: Moment) -> Moves {
        let total = seen.bytes();
        // Copies that made no room are not made again at once.
        let in_vain = self.copied && total + self.limit / 64 > self.seen + self.added;
        (self.seen, self.added) = (total, 0);
        // Above its share, so that what counts against the partition's own bound does not come here.
        let share = self.limit / self.over.len().max(1) as u64 / 2 * 3;
        self.over.iter_mut().zip(&seen.of).for_each(|(over, bytes)| *over = *bytes >= share);
        let wanted = total >= self.limit / 4 * 3 && !in_vain;
        let moves = if wanted { seen.copies() } else { Moves::new() };
        self.copied = !moves.is_empty();
        let waits = !self.copied && (in_vain || self.is_full() || self.over.contains(&true));
        // The more there is to look at, the more seldom.
        self.next = if waits { now + AGAIN + Duration::from_micros(seen.rows) } else { now };
        moves
    }
}

/// What a look has seen so far.
pub(crate) struct Seen {
    batches: Vec<Kept>,
    /// Places in `batches`, by address.
    place: HashMap<usize, usize>,
    last: usize,
    /// Every piece of memory: its bytes, and how many of the batches keep it.
    pieces: HashMap<usize, (usize, usize)>,
    /// What is kept beside batches.
    beside: u64,
    rows: u64,
    /// What the rows of each partition have.
    of: Vec<u64>,
}

/// A batch that rows keep.
struct Kept {
    batch: Arc<Batch>,
    /// Its rows that wait; one that waits in several places several times.
    rows: Vec<u32>,
    /// One of them cannot be moved.
    fixed: bool,
}

impl Seen {
    pub(crate) fn new(partitions: usize) -> Self {
        Seen {
            batches: Vec::new(),
            place: HashMap::new(),
            last: 0,
            pieces: HashMap::new(),
            beside: 0,
            rows: 0,
            of: vec![0; partitions],
        }
    }

    /// A row waits. `fixed`: it stays where it is.
    pub(crate) fn row(&mut self, partition: PartitionId, batch: &Arc<Batch>, row: u32, fixed: bool) {
        // Neighbours mostly are of one batch.
        if self.batches.get(self.last).is_none_or(|last| !Arc::ptr_eq(&last.batch, batch)) {
            let address = Arc::as_ptr(batch).addr();
            let place = *self.place.entry(address).or_insert(self.batches.len());
            if place == self.batches.len() {
                self.batches.push(Kept { batch: batch.clone(), rows: Vec::new(), fixed: false });
                self.batch(batch);
            }
            self.last = place;
        }
        let kept = &mut self.batches[self.last];
        kept.rows.push(row);
        kept.fixed |= fixed;
        self.rows += 1;
        if let Some(of) = self.of.get_mut(partition.index()) {
            *of += (batch.row_memory(row) + ROW_BYTES) as u64;
        }
    }

    /// A row waits by itself.
    pub(crate) fn waits(&mut self, row: &Row, fixed: bool) {
        self.row(row.partition(), &row.batch, row.id, fixed);
    }

    /// A batch is kept, whatever its rows.
    pub(crate) fn batch(&mut self, batch: &Batch) {
        let pieces = &mut self.pieces;
        batch.each_memory(|at, bytes| pieces.entry(at).or_insert((bytes, 0)).1 += 1);
    }

    /// So many bytes are kept beside batches.
    pub(crate) fn beside(&mut self, bytes: usize) {
        self.beside += bytes as u64;
    }

    /// All that is kept.
    fn bytes(&self) -> u64 {
        let pieces: usize = self.pieces.values().map(|(bytes, _)| bytes).sum();
        let each = self.rows * ROW_BYTES as u64 + (self.batches.len() * BATCH_BYTES) as u64;
        pieces as u64 + self.beside + each
    }

    /// Copies of the rows of batches of which more than half is needed no more, as far as one look makes them.
    fn copies(&self) -> Moves {
        let mut moves = Moves::new();
        let mut copied = 0;
        for kept in self.batches.iter().filter(|kept| !kept.fixed) {
            let mut rows = kept.rows.clone();
            rows.sort_unstable();
            rows.dedup();
            let needed: usize = rows.iter().map(|row| kept.batch.row_memory(*row)).sum();
            let mut own = 0;
            // Of what several batches keep, each has its part.
            kept.batch.each_memory(|at, _| {
                own += self.pieces.get(&at).map_or(0, |(bytes, users)| bytes / users.max(&1));
            });
            if 2 * needed + LITTLE >= own {
                continue;
            }
            // What has no room as a copy stays.
            if moves.add(&kept.batch, rows).is_ok() {
                copied += needed;
            }
            if copied >= COPIED_BYTES {
                break;
            }
        }
        moves
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use loom_types::{Batch, BatchBuilder, Moment, PartitionId, RecordOffset, RecordRef};

    use super::{Holdings, LEAST, Seen};

    const ROW: usize = 10_000;

    /// A hundred rows of ten kilobytes.
    fn batch() -> Arc<Batch> {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for offset in 0..100 {
            let (offset, payload) = (RecordOffset(offset), vec![7; ROW]);
            let (key, payload) = (None, Some(&payload[..]));
            let record =
                RecordRef { topic: 0, partition: 0, offset, timestamp_ms: None, key, payload, row: "" };
            builder.push(record).unwrap();
        }
        Arc::new(builder.finish())
    }

    fn look(holdings: &mut Holdings, now: Moment, waiting: &mut [(Arc<Batch>, u32, bool)]) -> bool {
        let mut seen = Seen::new(2);
        waiting.iter().for_each(|(batch, row, fixed)| seen.row(PartitionId(0), batch, *row, *fixed));
        let moves = holdings.saw(&seen, now);
        drop(seen);
        waiting.iter_mut().filter(|(.., fixed)| !fixed).for_each(|(batch, row, _)| moves.row(batch, row));
        !moves.is_empty()
    }

    #[test]
    fn what_neighbours_of_a_waiting_row_keep_is_counted_and_let_go() {
        let mut holdings = Holdings::new(16 << 20, 2);
        let mut now = Moment::START;
        let mut waiting: Vec<_> = (0..20).map(|place| (batch(), place, false)).collect();
        for (batch, ..) in &waiting {
            holdings.add(batch.memory());
        }
        assert!(holdings.is_full() && holdings.wants_look(now));
        assert!(look(&mut holdings, now, &mut waiting), "there is something to let go of");
        assert!(holdings.wants_look(now), "the next look is due at once");
        assert!(!look(&mut holdings, now, &mut waiting));
        assert!(!holdings.stop(PartitionId(0)));
        for (place, (batch, row, _)) in waiting.iter().enumerate() {
            assert_eq!((batch.len(), batch.source(*row).offset.0), (1, place as i64));
        }
        now = now + Duration::from_secs(1);
        assert!(!holdings.wants_look(now), "nothing was added");
    }

    #[test]
    fn rows_that_are_needed_and_those_that_cannot_be_moved_stay() {
        let mut holdings = Holdings::new(LEAST, 2);
        let (dense, fixed) = (batch(), batch());
        let mut waiting: Vec<_> = (0..80).map(|row| (dense.clone(), row, false)).collect();
        waiting.extend((0..4).map(|_| (batch(), 1, true)));
        waiting.push((fixed.clone(), 3, false));
        waiting.push((fixed, 4, true));
        let now = Moment::START;
        assert!(!look(&mut holdings, now, &mut waiting));
        assert!(holdings.is_full(), "six batches are there");
        assert!(!holdings.wants_look(now), "a look in vain is not repeated at once");
        let later = now + Duration::from_secs(1);
        assert!(holdings.wants_look(later));
        waiting.truncate(1);
        assert!(!look(&mut holdings, later, &mut waiting));
        assert!(!holdings.is_full());
    }

    /// Many small rows, each the only one of its batch that waits: their copies are no smaller than they are.
    #[test]
    fn copies_are_not_copied_again() {
        let mut holdings = Holdings::new(LEAST, 1);
        let small = |_| {
            let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
            let (key, payload, offset) = (None, Some(&b"x"[..]), RecordOffset(0));
            let record =
                RecordRef { topic: 0, partition: 0, offset, timestamp_ms: None, key, payload, row: "" };
            builder.push(record).unwrap();
            (Arc::new(builder.finish()), 0, false)
        };
        let mut waiting: Vec<_> = (0..20_000).map(small).collect();
        assert!(!look(&mut holdings, Moment::START, &mut waiting));
        assert!(holdings.is_full() && !holdings.wants_look(Moment::START));
    }

    #[test]
    fn a_partition_is_held_above_its_share() {
        let mut holdings = Holdings::new(LEAST, 4);
        let mut waiting = Vec::new();
        for batch in [batch(), batch()] {
            waiting.extend((0..100).map(|row| (batch.clone(), row, false)));
        }
        look(&mut holdings, Moment::START, &mut waiting);
        assert!(holdings.stop(PartitionId(0)) && !holdings.stop(PartitionId(1)) && !holdings.is_full());
    }
}
