//! How much nodes may make of records.
//!
//! What was made of a partition's unresolved records is bounded as the records themselves are. How many rows a plugin makes
//! of one is known only afterwards, so a row is handed to it while there is room, and the bound is passed by what one call
//! makes. Rows that find no room wait in their partition's window at the node.
//!
//! Invariant: the oldest record of a partition is never held here, whatever was made of it, and whichever of the records it is
//! that a row stands for. All else waits for its end, so that nothing can wait for ever, wherever rows are made of rows.

use std::ops::Range;

use loom_delivery::{Accounts, Made, Token};
use loom_types::{Batch, PartitionId};

use super::plugins::Made as MadeRows;
use crate::late::{Stand, Window};
use crate::worker::Bounds;

/// What the partitions have left of their bounds.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    pub accounts: &'a Accounts,
    /// Of each partition.
    pub bounds: Bounds,
}

impl Room<'_> {
    /// What may be made of a partition's rows now.
    pub(super) fn left(&self, partition: PartitionId) -> Made {
        let made = self.accounts.tracker(partition).made();
        Made {
            rows: (self.bounds.records as u64).saturating_sub(made.rows),
            bytes: self.bounds.bytes.saturating_sub(made.bytes),
        }
    }

    /// Whether more may be made of a partition's rows.
    pub(crate) fn is_there(&self, partition: PartitionId) -> bool {
        let left = self.left(partition);
        left.rows > 0 && left.bytes > 0
    }

    /// Whether a row that waits in a partition's window may be called. Rows need not be in the order of their records, behind
    /// a node without order and where one stands for several: so what waits before the oldest record may be called, too.
    pub(super) fn lets(&self, partition: PartitionId, window: &Window) -> bool {
        if self.is_there(partition) {
            return true;
        }
        // One that was answered waits for those before it; one that is being called needs nothing.
        let waits = |stand| !matches!(stand, Stand::Called { .. });
        window.rows().any(|(row, _, stand)| waits(stand) && self.accounts.holds_oldest(&row.token))
    }
}

/// How many rows an expander is called with at a time: by what it made of a row lately, at most, they fit into what is left.
#[derive(Debug)]
pub(crate) struct Pace {
    most: Made,
    /// Nothing is known before the first calls.
    calls: usize,
}

impl Pace {
    pub(super) fn new() -> Self {
        Pace { most: Made::default(), calls: 1 }
    }

    /// How many rows to call with, at least one, where so much is left.
    pub(super) fn rows(&self, left: Made) -> usize {
        let by_rows = left.rows / self.most.rows.max(1);
        let by_bytes = left.bytes / self.most.bytes.max(1);
        usize::try_from(by_rows.min(by_bytes)).unwrap_or(usize::MAX).clamp(1, self.calls)
    }

    fn saw(&mut self, made: Made) {
        let lately = |most: u64, now: u64| now.max(most - most / 16);
        self.most =
            Made { rows: lately(self.most.rows, made.rows), bytes: lately(self.most.bytes, made.bytes) };
    }

    fn called(&mut self) {
        self.calls = self.calls.saturating_mul(2);
    }
}

/// Counts what a call made of rows of a batch: each with its token.
pub(super) fn count<'r>(
    accounts: &mut Accounts,
    pace: &mut Pace,
    made: &MadeRows,
    batch: &Batch,
    rows: impl Iterator<Item = (u32, &'r Token)>,
) {
    for (position, (id, token)) in rows.enumerate() {
        pace.saw(count_row(accounts, token, batch.row_bytes(id) as u64, &made.batch, made.of(position)));
    }
    pace.called();
}

/// Counts what was made of one row, which counts already itself.
pub(super) fn count_row(
    accounts: &mut Accounts,
    token: &Token,
    itself: u64,
    batch: &Batch,
    rows: Range<u32>,
) -> Made {
    let made = Made { rows: rows.len() as u64, bytes: rows.map(|id| batch.row_bytes(id) as u64).sum() };
    let more = Made { rows: made.rows.saturating_sub(1), bytes: made.bytes.saturating_sub(itself) };
    if more != Made::default() {
        accounts.count_made(token, more);
    }
    made
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_delivery::{Accounts, Made, Token};
    use loom_types::{BatchBuilder, CommitOffset, Ending, Moment, PartitionId, RecordOffset, RecordRef};

    use super::Room;
    use crate::late::{Leaving, Window};
    use crate::nodes::Target;
    use crate::rows::{Row, RowSet};
    use crate::worker::Bounds;

    fn rows(tokens: Vec<Token>) -> Vec<Row> {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for _ in &tokens {
            let record = RecordRef {
                topic: 0,
                partition: 0,
                offset: RecordOffset(0),
                timestamp_ms: None,
                key: None,
                payload: None,
                row: "",
            };
            builder.push(record).unwrap();
        }
        RowSet::all(builder.finish(), tokens, None).into_rows(0).collect()
    }

    /// A world of two partitions with three records each, where as much was made of both as may be.
    fn full() -> (Accounts, [PartitionId; 2], Vec<Option<Token>>) {
        let mut accounts = Accounts::tracked();
        let partitions = [0, 1].map(|_| accounts.add_partition(CommitOffset(0), None));
        let mut tokens = Vec::new();
        for partition in partitions {
            for offset in 0..3 {
                let token = accounts.register(partition, RecordOffset(offset), 1);
                accounts.count_made(&token, Made { rows: 10, bytes: 0 });
                tokens.push(Some(token));
            }
        }
        (accounts, partitions, tokens)
    }

    const NARROW: Bounds = Bounds { records: 10, bytes: u64::MAX };

    #[test]
    fn a_row_of_several_records_is_let_through_for_any_of_them_in_any_partition() {
        let (mut accounts, partitions, mut tokens) = full();
        let mut token = |place: usize| tokens[place].take().unwrap();
        // The oldest record of the second partition, behind one of the first; and one that holds no oldest.
        let group = accounts.group(vec![token(1), token(3)]).unwrap();
        let other = accounts.group(vec![token(2), token(4)]).unwrap();
        for (group, lets) in [(other, false), (group, true)] {
            let mut window = Window::new(true);
            rows(vec![group]).into_iter().for_each(|row| window.push(row, Moment::START));
            let room = Room { accounts: &accounts, bounds: NARROW };
            assert!(!room.is_there(partitions[0]));
            assert_eq!(room.lets(partitions[0], &window), lets);
            window.drain().into_iter().for_each(|row| accounts.redeem(row.token, Ending::Drained));
        }
        tokens.into_iter().flatten().for_each(|token| accounts.redeem(token, Ending::Drained));
    }

    #[test]
    fn a_row_that_the_oldest_one_waits_behind_with_its_answer_is_let_through() {
        let (mut accounts, partitions, mut tokens) = full();
        // Behind a node without order: the second record comes first.
        let mut window = Window::new(true);
        let order = [1, 0].map(|place| tokens[place].take().unwrap());
        rows(order.into()).into_iter().for_each(|row| window.push(row, Moment::START));
        let lets = |window: &Window, accounts: &Accounts| {
            Room { accounts, bounds: NARROW }.lets(partitions[0], window)
        };
        assert!(lets(&window, &accounts));
        window.call(0, Moment::START);
        window.call(1, Moment::START);
        assert!(!lets(&window, &accounts), "the oldest one is being called");
        let answered = window.answered(1).unwrap();
        window.settle(1, Leaving::Passed { row: answered, to: Target::End(Ending::Drained) });
        let again = window.answered(0).unwrap();
        window.retry(0, again, Moment::START);
        assert!(lets(&window, &accounts), "it waits for the one before it");
        let left = window.drain().into_iter().map(|row| row.token).chain(tokens.into_iter().flatten());
        left.for_each(|token| accounts.redeem(token, Ending::Drained));
    }
}
