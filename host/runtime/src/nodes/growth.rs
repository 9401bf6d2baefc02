//! How much nodes may make of records.
//!
//! What was made of a partition's unresolved records is bounded as the records themselves are. How many rows a plugin makes
//! of one is known only afterwards, so a row is handed to it while there is room, and the bound is passed by what one call
//! makes. Rows that find no room wait in their partition's window at the node.
//!
//! Invariant: the oldest record of a partition is never held here, whatever was made of it. All else waits for its end,
//! so that nothing can wait for ever, wherever rows are made of rows.

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

    /// Whether a row that waits in a partition's window may be called.
    pub(super) fn lets(&self, partition: PartitionId, window: &Window) -> bool {
        if self.is_there(partition) {
            return true;
        }
        let oldest = self.accounts.tracker(partition).oldest();
        let waits = |stand| matches!(stand, Stand::Fresh | Stand::Waits { .. });
        window.rows().any(|(row, _, stand)| waits(stand) && self.accounts.offset(&row.token) == oldest)
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
