//! One batch that is being gathered: its rows, copied, and their tokens.

use loom_delivery::{Accounts, Token};
use loom_types::{Batch, BatchBuilder, ErrorKind, Moment, PartitionId, RecordOffset};

use crate::rows::RowSet;

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Window {
    /// When its first row came.
    pub since: Moment,
    pub route: Option<ErrorKind>,
    builder: BatchBuilder,
    tokens: Vec<Token>,
    /// The lowest record of each partition that is here; a handful of partitions.
    lowest: Vec<(PartitionId, RecordOffset)>,
    /// A row stands for several records: which those are is not kept.
    grouped: bool,
}

impl Window {
    /// An empty one, for rows like those of this batch.
    pub(super) fn new(batch: &Batch, route: Option<ErrorKind>, now: Moment) -> Window {
        Window {
            since: now,
            route,
            builder: BatchBuilder::new(batch.source_column().data().topics().clone()),
            tokens: Vec::new(),
            lowest: Vec::new(),
            grouped: false,
        }
    }

    /// Appends a row; where it has no room its token comes back.
    pub(super) fn push(
        &mut self,
        batch: &Batch,
        id: u32,
        token: Token,
        accounts: &Accounts,
    ) -> Result<(), Token> {
        if self.builder.push_row(batch, id).is_err() {
            return Err(token);
        }
        if accounts.stands_for_several(&token) {
            self.grouped = true;
        } else if let Some(offset) = accounts.offset(&token) {
            let partition = token.partition();
            match self.lowest.iter_mut().rev().find(|(other, _)| *other == partition) {
                Some((_, lowest)) => *lowest = offset.min(*lowest),
                None => self.lowest.push((partition, offset)),
            }
        }
        self.tokens.push(token);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// What it takes in memory.
    pub(super) fn memory(&self) -> usize {
        self.builder.capacity() + self.tokens.capacity() * size_of::<Token>()
    }

    /// Payloads, keys and headers.
    pub(super) fn bytes(&self) -> u64 {
        self.builder.bytes() as u64
    }

    /// Whether a partition may wait for what is here: its oldest record is, or rows whose records are not known one by one.
    pub(super) fn may_hold(&self, partition: PartitionId, oldest: RecordOffset) -> bool {
        self.grouped || self.lowest.contains(&(partition, oldest))
    }

    /// The tokens of the rows that are here.
    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// The batch.
    pub(super) fn into_rows(mut self) -> RowSet {
        RowSet::all(self.builder.finish(), self.tokens, self.route)
    }

    pub(super) fn give_up(self) {
        self.tokens.into_iter().for_each(Token::give_up);
    }
}
