//! The token: one row's share of the obligation to complete a record.
//!
//! Only this crate mints tokens. A token is moved, never cloned, so each can be redeemed once. Weights are divided
//! exactly, so redemption commutes: whatever the order in which shares come back, the record is resolved when, and only
//! when, the redeemed weight equals the full weight.

use std::sync::atomic::{AtomicU64, Ordering};

use loom_types::PartitionId;

/// The weight of a whole record, or of a whole group.
pub const FULL_WEIGHT: u64 = 1 << 63;

/// Tokens dropped without a verdict since the process started.
static LOST: AtomicU64 = AtomicU64::new(0);

/// How many tokens were dropped without a verdict since the process started: each is a bug, and its record stays
/// unresolved.
pub fn lost_tokens() -> u64 {
    LOST.load(Ordering::Relaxed)
}

/// What a token's sequence number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Records of the partition, in registration order.
    Record,
    /// Groups of the worker.
    Group,
    /// Nothing: under at most once rows are counted and not tracked.
    Untracked,
}

/// One row's share of the obligation to complete a record. Must be redeemed, split, grouped or given up; dropping it is
/// a bug that trips a debug assertion and counts as a failure, never as success.
#[derive(Debug)]
#[must_use = "a token that is dropped leaves its record unresolved for ever"]
pub struct Token {
    partition: PartitionId,
    scope: Scope,
    sequence: u64,
    weight: u64,
}

impl Token {
    pub(crate) fn mint(partition: PartitionId, scope: Scope, sequence: u64, weight: u64) -> Self {
        debug_assert!(weight > 0 && weight <= FULL_WEIGHT);
        Token { partition, scope, sequence, weight }
    }

    /// The source partition whose order and bounds the row counts towards; of a group, its first parent's.
    #[must_use]
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Gives the token up at a stop: its record stays unresolved, is not committed and will be delivered again.
    pub fn give_up(self) {
        std::mem::forget(self);
    }

    pub(crate) fn scope(&self) -> Scope {
        self.scope
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Takes the token out of the world; the caller has booked it.
    pub(crate) fn spend(self) -> (PartitionId, Scope, u64, u64) {
        let parts = (self.partition, self.scope, self.sequence, self.weight);
        std::mem::forget(self);
        parts
    }
}

thread_local! {
    static KILLED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Drops what a killed process held: its tokens go with it, and are no bug. For simulations and tests of flows, where a
/// process dies and its thread does not.
pub fn killed<T>(process: T) {
    KILLED.set(true);
    drop(process);
    KILLED.set(false);
}

impl Drop for Token {
    fn drop(&mut self) {
        if KILLED.get() {
            return;
        }
        LOST.fetch_add(1, Ordering::Relaxed);
        debug_assert!(std::thread::panicking(), "a token of partition {} was dropped", self.partition.0);
    }
}
