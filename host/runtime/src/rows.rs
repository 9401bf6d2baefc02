//! Rows on their way through the flow.
//!
//! Invariant: `ids` and `tokens` have the same length, and a token never leaves its row: it is redeemed, split, grouped,
//! given up, or moves on with the row.

use std::sync::Arc;

use loom_delivery::Token;
use loom_types::{Batch, ColumnFull, Ending, ErrorKind, Moves, PartitionId, Place};

/// Rows of one batch that move together.
#[derive(Debug)]
pub(crate) struct RowSet {
    pub batch: Arc<Batch>,
    pub ids: Vec<u32>,
    pub tokens: Vec<Token>,
    /// The kind under which the rows entered an error route; none in the main process.
    pub route: Option<ErrorKind>,
}

/// One row that waits by itself.
#[derive(Debug)]
pub(crate) struct Row {
    pub batch: Arc<Batch>,
    pub id: u32,
    pub token: Token,
    pub route: Option<ErrorKind>,
    /// Calls that were made for it at the node where it waits.
    pub attempts: u32,
    /// Why it is to be tried again: what the last call was answered, for people.
    pub answer: Option<Arc<str>>,
    /// Its sink got it a second time, after a flush that left it open.
    pub resent: bool,
}

/// A row that its node could not get through.
#[derive(Debug)]
pub(crate) struct FailedRow {
    pub row: Row,
    pub kind: ErrorKind,
    pub reason: String,
}

/// How a row of this route ends at a terminal that would end it so in the main process.
pub(crate) fn ending(route: Option<ErrorKind>, natural: Ending) -> Ending {
    route.map_or(natural, Ending::ErrorRoute)
}

impl RowSet {
    /// Every row of a batch.
    pub(crate) fn all(batch: Batch, tokens: Vec<Token>, route: Option<ErrorKind>) -> Self {
        debug_assert_eq!(batch.len(), tokens.len());
        let ids = (0..tokens.len() as u32).collect();
        RowSet { batch: Arc::new(batch), ids, tokens, route }
    }

    /// One row.
    pub(crate) fn one(row: Row) -> Self {
        let Row { batch, id, token, route, .. } = row;
        RowSet { batch, ids: vec![id], tokens: vec![token], route }
    }

    /// Whether a row may be pushed here: one of the same batch and route.
    pub(crate) fn fits(&self, row: &Row) -> bool {
        Arc::ptr_eq(&self.batch, &row.batch) && self.route == row.route
    }

    /// No row yet, of the same batch and route.
    pub(crate) fn empty_like(&self) -> Self {
        RowSet { batch: self.batch.clone(), ids: Vec::new(), tokens: Vec::new(), route: self.route }
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn push(&mut self, id: u32, token: Token) {
        self.ids.push(id);
        self.tokens.push(token);
    }

    /// The rows one by one, in order.
    pub(crate) fn into_rows(self, attempts: u32) -> impl Iterator<Item = Row> {
        let RowSet { batch, ids, tokens, route } = self;
        ids.into_iter().zip(tokens).map(move |(id, token)| Row {
            batch: batch.clone(),
            id,
            token,
            route,
            attempts,
            answer: None,
            resent: false,
        })
    }

    /// Keeps the first rows, so many, and gives the others.
    pub(crate) fn split_off(&mut self, keep: usize) -> RowSet {
        if keep >= self.len() {
            return self.empty_like();
        }
        let (ids, tokens) = (self.ids.split_off(keep), self.tokens.split_off(keep));
        RowSet { batch: self.batch.clone(), ids, tokens, route: self.route }
    }

    /// Divides the rows in two, each part in order: those that `pick` takes, by position, and the others.
    pub(crate) fn partition(self, mut pick: impl FnMut(usize, &Token) -> bool) -> (RowSet, RowSet) {
        let (mut yes, mut no) = (self.empty_like(), self.empty_like());
        for (position, (id, token)) in self.ids.into_iter().zip(self.tokens).enumerate() {
            if pick(position, &token) { yes.push(id, token) } else { no.push(id, token) }
        }
        (yes, no)
    }
}

impl Row {
    pub(crate) fn new(
        batch: Arc<Batch>,
        id: u32,
        token: Token,
        route: Option<ErrorKind>,
        attempts: u32,
    ) -> Self {
        Row { batch, id, token, route, attempts, answer: None, resent: false }
    }

    /// The same, to be tried again because of this answer. Rows that have one answer share it.
    pub(crate) fn after(self, answer: impl Into<Arc<str>>) -> Self {
        Row { answer: Some(answer.into()), ..self }
    }

    pub(crate) fn partition(&self) -> PartitionId {
        self.token.partition()
    }

    /// Goes on as its copy, where there is one.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        moves.row(&mut self.batch, &mut self.id);
    }

    /// What it counts towards bounds of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.batch.row_bytes(self.id) as u64
    }
}

/// What the host makes of the rows that come to a node together, in bytes: as much as plugins may make of them. What passes
/// it is its row's error.
pub(crate) const MADE_BYTES: usize = 1 << 30;

/// Why a row fails whose values have no room beside those of the rows that it came with.
pub(crate) fn no_room(full: ColumnFull) -> String {
    format!("the value has no room beside those of the records that it came with: {full}")
}

/// The batches that rows of several are gathered from, each once.
#[derive(Default)]
pub(crate) struct Parts(Vec<Arc<Batch>>);

impl Parts {
    /// The number by which a [`Place`] names a batch; a new one where it was not asked for before.
    pub(crate) fn number(&mut self, batch: &Arc<Batch>) -> u32 {
        // Neighbours mostly come from one batch.
        let known = self.0.iter().rposition(|part| Arc::ptr_eq(part, batch));
        let number = known.unwrap_or_else(|| {
            self.0.push(batch.clone());
            self.0.len() - 1
        });
        number as u32
    }

    /// The batch that all rows are of, where they are of one.
    pub(crate) fn only(&self) -> Option<&Arc<Batch>> {
        match &self.0[..] {
            [batch] => Some(batch),
            _ => None,
        }
    }

    /// What a row takes as a copy.
    pub(crate) fn row_memory(&self, (part, row): Place) -> usize {
        self.0[part as usize].row_memory(row)
    }

    /// A row as a batch that shares what it has.
    pub(crate) fn one(&self, (part, row): Place) -> Batch {
        self.0[part as usize].select(&[row])
    }

    /// One batch of the rows at these places; an error is a column that would be too large.
    pub(crate) fn gather(&self, places: &[Place]) -> Result<Batch, ColumnFull> {
        let parts: Vec<&Batch> = self.0.iter().map(|part| &**part).collect();
        Batch::gather(&parts, places)
    }
}

/// Joins single rows to sets: neighbours of one batch and one route go together, order is kept.
pub(crate) fn join(rows: impl IntoIterator<Item = Row>, mut each: impl FnMut(RowSet)) {
    let mut open: Option<RowSet> = None;
    for row in rows {
        match &mut open {
            Some(set) if set.fits(&row) => set.push(row.id, row.token),
            _ => {
                if let Some(set) = open.replace(RowSet::one(row)) {
                    each(set);
                }
            }
        }
    }
    if let Some(set) = open {
        each(set);
    }
}
