//! What a sink holds: its plugin sees numbers, the host keeps what they stand for.
//!
//! A number is an index with a generation, so that one that is foreign, unknown or spent is told from one that is open:
//! each can be taken out once.

use std::collections::VecDeque;

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_MASK: u32 = (1 << (32 - INDEX_BITS)) - 1;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

/// Open values by number.
#[derive(Debug)]
pub struct TokenTable<T> {
    slots: Vec<Slot<T>>,
    /// Reused in turn, so that a spent number comes back as late as possible.
    free: VecDeque<u32>,
    open: usize,
}

impl<T> Default for TokenTable<T> {
    fn default() -> Self {
        TokenTable { slots: Vec::new(), free: VecDeque::new(), open: 0 }
    }
}

impl<T> TokenTable<T> {
    /// How many values a table holds at most.
    pub const CAPACITY: usize = 1 << INDEX_BITS;

    /// Puts a value in; its number, or the value again when the table is full.
    pub fn insert(&mut self, value: T) -> Result<u32, T> {
        if self.open == Self::CAPACITY {
            return Err(value);
        }
        // Fresh slots come first up to a small number, so that a handful of open rows does not cycle one number.
        let index = if self.slots.len() < 1024 || self.free.is_empty() {
            self.slots.push(Slot { generation: 0, value: None });
            (self.slots.len() - 1) as u32
        } else {
            self.free.pop_front().expect("a free slot")
        };
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1) & GENERATION_MASK;
        slot.value = Some(value);
        self.open += 1;
        Ok((slot.generation << INDEX_BITS) | index)
    }

    /// Takes a value out; none for a number that is foreign, unknown or spent.
    pub fn take(&mut self, number: u32) -> Option<T> {
        let index = number & INDEX_MASK;
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != number >> INDEX_BITS {
            return None;
        }
        let value = slot.value.take()?;
        self.free.push_back(index);
        self.open -= 1;
        Some(value)
    }

    /// Takes all values out, in no particular order.
    pub fn drain(&mut self) -> impl Iterator<Item = T> {
        self.open = 0;
        let free = &mut self.free;
        self.slots.iter_mut().enumerate().filter_map(move |(index, slot)| {
            let value = slot.value.take()?;
            free.push_back(index as u32);
            Some(value)
        })
    }

    /// Every open value, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|slot| slot.value.as_ref())
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.value.as_mut())
    }

    /// How many values are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open
    }

    /// Whether no value is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::TokenTable;

    #[test]
    fn a_number_is_taken_once_and_never_stands_for_its_successor() {
        let mut table = TokenTable::default();
        let mut spent = Vec::new();
        for round in 0..3000 {
            let number = table.insert(round).unwrap();
            assert_eq!(table.take(number), Some(round));
            spent.push(number);
        }
        let open = table.insert(-1).unwrap();
        for number in spent {
            assert_eq!(table.take(number), None, "{number:#x}");
        }
        assert_eq!(table.take(u32::MAX), None);
        assert_eq!(table.take(open), Some(-1));
        assert_eq!(table.take(open), None);
    }

    #[test]
    fn a_full_table_gives_the_value_back() {
        let mut table = TokenTable::default();
        for value in 0..TokenTable::<usize>::CAPACITY {
            table.insert(value).unwrap();
        }
        assert_eq!(table.insert(7), Err(7));
        assert_eq!(table.drain().count(), TokenTable::<usize>::CAPACITY);
        assert!(table.is_empty());
        assert!(table.insert(7).is_ok());
    }
}
