//! Groups: a row that stands for several records, or for a share too small to divide, gets a full weight of its own;
//! when that is redeemed, the parents' weights are.

use loom_types::PartitionId;

use crate::token::{FULL_WEIGHT, Scope};

/// A parent's share: partition, scope, sequence number, weight.
pub(crate) type Share = (PartitionId, Scope, u64, u64);

#[derive(Debug)]
struct Group {
    redeemed: u64,
    parents: Vec<Share>,
}

/// The groups of one worker.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    slots: Vec<Option<Group>>,
    free: Vec<usize>,
}

impl Groups {
    /// A new group over these shares; its sequence number.
    pub(crate) fn open(&mut self, parents: Vec<Share>) -> u64 {
        let group = Some(Group { redeemed: 0, parents });
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = group;
                slot as u64
            }
            None => {
                self.slots.push(group);
                (self.slots.len() - 1) as u64
            }
        }
    }

    /// Adds weight to a group; its parents' shares when that completes it.
    pub(crate) fn redeem(&mut self, sequence: u64, weight: u64) -> Option<Vec<Share>> {
        let slot = sequence as usize;
        let group = self.slots.get_mut(slot).and_then(Option::as_mut)?;
        group.redeemed += weight;
        debug_assert!(group.redeemed <= FULL_WEIGHT, "a group was redeemed twice");
        if group.redeemed < FULL_WEIGHT {
            return None;
        }
        self.free.push(slot);
        self.slots[slot].take().map(|group| group.parents)
    }

    /// A group's first parent.
    pub(crate) fn first_parent(&self, sequence: u64) -> Option<Share> {
        self.parents(sequence).first().copied()
    }

    /// A group's parent, where it has but one.
    pub(crate) fn only_parent(&self, sequence: u64) -> Option<Share> {
        match self.parents(sequence) {
            [parent] => Some(*parent),
            _ => None,
        }
    }

    /// A group's parents; none where there is no such group.
    pub(crate) fn parents(&self, sequence: u64) -> &[Share] {
        let group = self.slots.get(sequence as usize).and_then(Option::as_ref);
        group.map_or(&[], |group| &group.parents)
    }
}

#[cfg(test)]
mod tests {
    use loom_types::PartitionId;

    use super::Groups;
    use crate::token::{FULL_WEIGHT, Scope};

    #[test]
    fn the_slot_of_a_group_that_is_resolved_is_used_again() {
        let mut groups = Groups::default();
        let parent = |sequence| vec![(PartitionId(0), Scope::Record, sequence, FULL_WEIGHT)];
        let held = groups.open(parent(0));
        for sequence in 1..1000 {
            let group = groups.open(parent(sequence));
            assert_ne!(group, held, "one that is open keeps its own");
            assert_eq!(groups.redeem(group, FULL_WEIGHT / 2), None);
            assert_eq!(groups.redeem(group, FULL_WEIGHT / 2), Some(parent(sequence)));
            assert_eq!(groups.parents(group), []);
        }
        assert_eq!((groups.slots.len(), groups.free.len()), (2, 1), "two were open at a time");
        assert_eq!(groups.parents(held), parent(0));
    }
}
