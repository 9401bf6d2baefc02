//! Rows that were copied out of batches of which most is needed no more.
//!
//! A batch stays in memory while one of its rows is referred to. Whoever refers to rows of a batch that is here takes their
//! copies in its place; rows of one batch go to one batch, in their order.

use std::collections::HashMap;
use std::sync::Arc;

use super::Batch;
use crate::column::ColumnFull;

/// See the module's description.
#[derive(Debug, Default)]
pub struct Moves {
    /// By the address of the batch, which is kept: so no other batch has it.
    of: HashMap<usize, (Arc<Batch>, Move)>,
}

/// Where rows of one batch went.
#[derive(Debug)]
pub struct Move {
    to: Arc<Batch>,
    /// The rows that were copied, ascending.
    rows: Vec<u32>,
}

impl Moves {
    /// Nothing was copied.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether nothing was copied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Copies these rows of a batch, each once, in whatever order they come. An error is a column that would be too large.
    pub fn add(&mut self, batch: &Arc<Batch>, mut rows: Vec<u32>) -> Result<(), ColumnFull> {
        rows.sort_unstable();
        rows.dedup();
        let to = Arc::new(batch.copied(&rows)?);
        self.of.insert(Arc::as_ptr(batch).addr(), (batch.clone(), Move { to, rows }));
        Ok(())
    }

    /// Where the rows of a batch went; none where it stays.
    #[must_use]
    pub fn of(&self, batch: &Arc<Batch>) -> Option<&Move> {
        self.of.get(&Arc::as_ptr(batch).addr()).map(|(_, moved)| moved)
    }

    /// Has a reference to a row refer to its copy, where there is one.
    pub fn row(&self, batch: &mut Arc<Batch>, row: &mut u32) {
        if let Some(moved) = self.of(batch)
            && let Some(copy) = moved.row(*row)
        {
            (*batch, *row) = (moved.to.clone(), copy);
        }
    }

    /// Has references to rows of one batch refer to their copies, where there are copies of all.
    pub fn rows(&self, batch: &mut Arc<Batch>, rows: &mut [u32]) {
        let Some(moved) = self.of(batch) else { return };
        if rows.iter().all(|row| moved.row(*row).is_some()) {
            rows.iter_mut().for_each(|row| *row = moved.row(*row).unwrap_or(*row));
            *batch = moved.to.clone();
        }
    }
}

impl Move {
    /// The batch of the copies.
    #[must_use]
    pub fn batch(&self) -> &Arc<Batch> {
        &self.to
    }

    /// The copy of a row.
    #[must_use]
    pub fn row(&self, row: u32) -> Option<u32> {
        self.rows.binary_search(&row).ok().map(|place| place as u32)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Moves;
    use crate::batch::{Batch, BatchBuilder, RecordRef};
    use crate::ids::RecordOffset;

    fn letters(text: &str) -> Arc<Batch> {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("in")]));
        for (offset, letter) in text.bytes().enumerate() {
            let (offset, payload) = (RecordOffset(offset as i64), Some(&[letter][..]));
            let record =
                RecordRef { topic: 0, partition: 0, offset, timestamp_ms: None, key: None, payload, row: "" };
            builder.push(record).unwrap();
        }
        Arc::new(builder.finish())
    }

    #[test]
    fn references_follow_the_rows_that_were_copied_and_no_others() {
        let (batch, other) = (letters("abcdef"), letters("x"));
        let mut moves = Moves::new();
        moves.add(&batch, vec![4, 1, 4, 2]).unwrap();
        let follow = |batch: &Arc<Batch>, row: u32| {
            let (mut batch, mut row) = (batch.clone(), row);
            moves.row(&mut batch, &mut row);
            (batch.len(), batch.payload(row).unwrap()[0])
        };
        assert_eq!(follow(&batch, 1), (3, b'b'));
        assert_eq!(follow(&batch, 4), (3, b'e'));
        assert_eq!(follow(&batch, 5), (6, b'f'), "it was not copied");
        assert_eq!(follow(&other, 0), (1, b'x'));
        for (mut rows, moved) in [(vec![4, 2], true), (vec![4, 5], false)] {
            let (mut of, before) = (batch.clone(), rows.clone());
            moves.rows(&mut of, &mut rows);
            assert_eq!(!Arc::ptr_eq(&of, &batch), moved, "all or none");
            let texts = |batch: &Batch, rows: &[u32]| -> Vec<u8> {
                rows.iter().map(|row| batch.payload(*row).unwrap()[0]).collect()
            };
            assert_eq!(texts(&of, &rows), texts(&batch, &before));
        }
    }
}
