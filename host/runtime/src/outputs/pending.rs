//! Rows of one batch that wait to be sent to one output; they leave from the front.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use loom_delivery::{Accounts, Token};
use loom_kafka::{OutputIndex, Stamp, TopicSink};
use loom_types::{Batch, Moves, Source, compare_rows};

use super::codec::Codec;
use super::limits::{Limits, Objection};
use super::size;
use crate::holdings::Seen;

/// Invariant: `ids[sent..]` are the rows that wait, each with its token in `tokens`; of those before `clear` it is known
/// that the topic takes them.
pub(super) struct Pending {
    index: OutputIndex,
    batch: Arc<Batch>,
    ids: Vec<u32>,
    sent: usize,
    tokens: VecDeque<Token>,
    stamp: Stamp,
    clear: usize,
    /// What the topic has against the row at `clear`, where that was looked at.
    objection: Option<Objection>,
    /// The reading of the limits by which `clear` and `objection` hold.
    epoch: Option<u64>,
}

impl Pending {
    pub(super) fn new(
        index: OutputIndex,
        batch: Arc<Batch>,
        ids: Vec<u32>,
        tokens: VecDeque<Token>,
        stamp: Stamp,
    ) -> Self {
        debug_assert_eq!(ids.len(), tokens.len());
        Pending { index, batch, ids, sent: 0, tokens, stamp, clear: 0, objection: None, epoch: None }
    }

    pub(super) fn one(index: OutputIndex, batch: Arc<Batch>, row: u32, token: Token, stamp: Stamp) -> Self {
        Pending::new(index, batch, vec![row], VecDeque::from([token]), stamp)
    }

    /// Whether a row of this batch, to this output, may be put before the others.
    pub(super) fn takes(&self, index: OutputIndex, batch: &Arc<Batch>) -> bool {
        self.sent == 0 && self.index == index && Arc::ptr_eq(&self.batch, batch)
    }

    pub(super) fn prepend(&mut self, row: u32, token: Token) {
        self.ids.insert(0, row);
        self.tokens.push_front(token);
        (self.clear, self.objection, self.epoch) = (0, None, None);
    }

    /// Looks at the rows, as far as the topic takes them; what it has against the next one.
    pub(super) fn look(&mut self, epoch: u64, limits: &Limits, codec: Option<Codec>) -> Option<Objection> {
        if self.epoch != Some(epoch) {
            self.epoch = Some(epoch);
            self.objection = None;
            self.clear = if limits.take_all(&self.batch) { self.ids.len() } else { self.sent };
        }
        while self.objection.is_none() && self.clear < self.ids.len() {
            match limits.judge(&self.batch, self.ids[self.clear], codec) {
                Ok(()) => self.clear += 1,
                Err(objection) => self.objection = Some(objection),
            }
        }
        self.objection
    }

    /// The rows that carry a time before this one, in milliseconds since 1970.
    pub(super) fn older_than(&self, wall_ms: i64) -> impl Iterator<Item = Source<'_>> {
        let old = move |row: &u32| self.stamp.of(&self.batch, *row).is_some_and(|time| time < wall_ms);
        self.ids.iter().copied().filter(old).map(|row| self.batch.source(row))
    }

    /// The rows that may be sent now, as a part of `ids`; within this many bytes, where there is a bound, and at least
    /// one.
    pub(super) fn ready(&self, bytes: Option<usize>) -> Range<usize> {
        let Some(mut left) = bytes else { return self.sent..self.clear };
        let mut end = self.sent;
        while end < self.clear {
            let size = size::of_row(&self.batch, self.ids[end]);
            if size > left && end > self.sent {
                break;
            }
            left = left.saturating_sub(size);
            end += 1;
        }
        self.sent..end
    }

    /// Sends a part of `ids` that begins at the next row; how many rows of it were accepted.
    pub(super) fn send(&mut self, part: Range<usize>, writer: &mut dyn TopicSink) -> usize {
        let accepted = writer.send(self.index, &self.batch, &self.ids[part], self.stamp, &mut self.tokens);
        self.sent += accepted;
        accepted
    }

    /// Whether every row has left.
    pub(super) fn is_done(&self) -> bool {
        self.sent == self.ids.len()
    }

    /// Whether the next row is the one that the topic has something against.
    pub(super) fn is_at_objection(&self) -> bool {
        self.sent == self.clear
    }

    /// Takes the next row out. Panics where there is none.
    pub(super) fn take_out(&mut self) -> (OutputIndex, Arc<Batch>, u32, Token) {
        let token = self.tokens.pop_front().expect("a token for each row that waits");
        let row = self.ids[self.sent];
        self.sent += 1;
        self.clear = self.clear.max(self.sent);
        self.objection = None;
        (self.index, self.batch.clone(), row, token)
    }

    /// Shows every row that waits, to whoever counts what they keep.
    pub(super) fn show(&self, seen: &mut Seen) {
        for (row, token) in self.ids[self.sent..].iter().zip(&self.tokens) {
            seen.row(token.partition(), &self.batch, *row, false);
        }
    }

    /// Rows that were copied go on as their copies.
    pub(super) fn follow(&mut self, moves: &Moves) {
        moves.rows(&mut self.batch, &mut self.ids[self.sent..]);
    }

    pub(super) fn tokens(&self) -> impl Iterator<Item = &Token> {
        self.tokens.iter()
    }

    pub(super) fn give_up(self) {
        self.tokens.into_iter().for_each(Token::give_up);
    }

    /// Puts the last `fresh` entries of a queue, none of which was sent from, into the order of their source, partition
    /// by partition.
    pub(super) fn restore_order(queue: &mut VecDeque<Pending>, fresh: usize, accounts: &Accounts) {
        let entries = queue.split_off(queue.len().saturating_sub(fresh));
        let mut rows = Vec::new();
        for (entry, pending) in entries.into_iter().enumerate() {
            let Pending { index, batch, ids, tokens, stamp, .. } = pending;
            for (id, token) in ids.into_iter().zip(tokens) {
                let place = (token.partition(), accounts.offset(&token));
                rows.push((place, entry, index, batch.clone(), id, token, stamp));
            }
        }
        // Rows that were made of one record go in the order in which they were made. Stable: copies of one row stay as they
        // came.
        rows.sort_by(|one, other| {
            let names = || compare_rows(one.3.name(one.4), other.3.name(other.4));
            one.0.cmp(&other.0).then_with(names)
        });
        let mut last = None;
        for (_, entry, index, batch, id, token, stamp) in rows {
            match queue.back_mut() {
                Some(open) if last == Some(entry) => {
                    open.ids.push(id);
                    open.tokens.push_back(token);
                }
                _ => queue.push_back(Pending::one(index, batch, id, token, stamp)),
            }
            last = Some(entry);
        }
    }
}
