//! Rows of batches that were refused, until it is known whose fault it was.
//!
//! Brokers refuse batches, and a batch may be refused for one record's sake. Its rows are sent again in halves, each with
//! nothing else of its queue under way. A half that is written is innocent; one that is refused is halved again; a row
//! that is refused alone is the culprit. So one culprit among `n` rows costs about `2 log2(n)` acknowledgements, and not
//! `n`; where every row is one it costs `2 n`.
//!
//! Order across a refused batch is not promised; what waits here goes in its order as far as that can be.

use std::collections::VecDeque;
use std::sync::Arc;

use loom_delivery::Token;
use loom_kafka::OutputIndex;
use loom_types::Batch;

/// A row that came back.
#[derive(Debug)]
pub(super) struct Back {
    pub index: OutputIndex,
    pub batch: Arc<Batch>,
    pub row: u32,
    pub token: Token,
    /// How often it was sent alone.
    pub sends: u32,
}

/// What is under way, with nothing beside it.
#[derive(Clone, Copy, Debug)]
struct Trial {
    rows: usize,
    /// How often its row was sent alone before, where it is one.
    sends: u32,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Trials {
    /// Each is sent by itself.
    groups: VecDeque<VecDeque<Back>>,
    under_way: Option<Trial>,
    /// Rows of what is under way that were refused in company.
    blamed: VecDeque<Back>,
}

impl Trials {
    /// Whether nothing waits for a verdict here.
    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_none() && self.has_no_rows()
    }

    /// Whether no row waits to be sent again.
    pub(super) fn has_no_rows(&self) -> bool {
        self.groups.is_empty() && self.blamed.is_empty()
    }

    /// A row was refused beside others, of which any may be the culprit.
    pub(super) fn blame(&mut self, back: Back) {
        self.blamed.push_back(back);
    }

    /// A row is to be sent alone, before all others.
    pub(super) fn again(&mut self, back: Back) {
        self.groups.push_front(VecDeque::from([back]));
    }

    /// The rows that are to be sent next; nothing may be under way.
    pub(super) fn next(&mut self) -> Option<VecDeque<Back>> {
        debug_assert!(self.under_way.is_none(), "a trial is alone");
        let mut first = std::mem::take(&mut self.blamed);
        let second = first.split_off(first.len().div_ceil(2));
        self.put_back(second);
        self.put_back(first);
        self.groups.pop_front()
    }

    /// Rows that could not be sent yet: they are next.
    pub(super) fn put_back(&mut self, group: VecDeque<Back>) {
        if !group.is_empty() {
            self.groups.push_front(group);
        }
    }

    /// So many rows are under way. `sends`: how often the last of them was sent alone before.
    pub(super) fn begin(&mut self, rows: usize, sends: u32) {
        self.under_way = Some(Trial { rows, sends });
    }

    /// Where one row is under way alone: how often it was before.
    pub(super) fn alone(&self) -> Option<u32> {
        self.under_way.filter(|trial| trial.rows == 1).map(|trial| trial.sends)
    }

    /// Everything that was under way is answered.
    pub(super) fn end(&mut self) {
        self.under_way = None;
    }

    /// Every row that waits, in no particular order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Back> {
        self.groups.iter().flatten().chain(&self.blamed)
    }

    /// The same, to be changed.
    pub(super) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Back> {
        self.groups.iter_mut().flatten().chain(&mut self.blamed)
    }

    /// Takes every row out that waits.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Back> {
        let groups = std::mem::take(&mut self.groups);
        groups.into_iter().flatten().chain(std::mem::take(&mut self.blamed))
    }
}
