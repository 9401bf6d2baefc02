//! Which batches wait for others at their node, and which the bound of what is made holds.
//!
//! Batches by a key are of several partitions, so one may wait behind another for one partition's sake while all of a second
//! partition waits for it. Invariant: no batch that may hold the oldest record of a partition is held by the bound, and neither
//! is any that it waits behind.

use std::collections::{BTreeMap, BTreeSet};

use loom_delivery::{Mutation, mutated};
use loom_types::PartitionId;

use super::held::Held;
use crate::nodes::Room;

/// The partitions that batches wait for, while batches are looked through in their order.
pub(super) struct Ahead {
    ordered: bool,
    partitions: BTreeSet<PartitionId>,
}

impl Ahead {
    pub(super) fn new(ordered: bool) -> Ahead {
        Ahead { ordered: keeps_order(ordered), partitions: BTreeSet::new() }
    }

    /// Whether this batch waits for one before it.
    pub(super) fn blocks(&self, held: &Held) -> bool {
        held.partitions().iter().any(|partition| self.partitions.contains(partition))
    }

    /// The next batch: `holds` where those behind it wait for it. What waits holds back what is behind it in turn.
    pub(super) fn passes(&mut self, held: &Held, holds: bool) {
        if self.ordered && (holds || self.blocks(held)) {
            self.partitions.extend(held.partitions());
        }
    }
}

/// Which batches the bound of what is made lets be called, whatever else they wait for.
pub(super) enum Lets {
    All,
    /// By number.
    These(BTreeSet<u64>),
}

impl Lets {
    pub(super) fn new(held: &BTreeMap<u64, Held>, ordered: bool, room: Room<'_>) -> Lets {
        let fits = |held: &Held| held.partitions().iter().all(|partition| room.is_there(*partition));
        if held.values().all(fits) {
            return Lets::All;
        }
        let ordered = keeps_order(ordered);
        let mut these = BTreeSet::new();
        // Partitions of batches further behind that hold the oldest record of one.
        let mut pressing: BTreeSet<PartitionId> = BTreeSet::new();
        for (number, held) in held.iter().rev() {
            let presses = held.partitions().iter().any(|partition| pressing.contains(partition))
                || held.may_hold_oldest(room.accounts);
            if presses && ordered {
                pressing.extend(held.partitions());
            }
            if presses || fits(held) {
                these.insert(*number);
            }
        }
        Lets::These(these)
    }

    pub(super) fn call(&self, number: u64) -> bool {
        match self {
            Lets::All => true,
            Lets::These(these) => these.contains(&number),
        }
    }
}

fn keeps_order(ordered: bool) -> bool {
    ordered && !mutated(Mutation::WaitingIsOvertaken)
}
