//! What calls answer: by position in the rows that were given, failures sparse.

use std::ops::Range;

use loom_types::{Batch, BytesColumn, Changes};

use crate::bindings::loom::plugin::types::Failure;
use crate::log::cut;

/// The longest reason that is kept of a plugin's own words.
const REASON_BYTES: usize = 16 << 10;

/// Why a row has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The plugin rejected the record.
    Reject,
    /// The plugin asks to be called again later.
    Retry,
    /// The plugin said that it could not.
    Fail,
    /// The plugin trapped.
    Trap,
    /// The plugin ran, or waited, longer than it may.
    Timeout,
    /// The plugin's answer breaks the contract: a wrong number of rows, invalid columns.
    Protocol,
    /// The host stops, and ended the call: nothing is said of the rows.
    Stopped,
}

impl Cause {
    /// Whether the call ended with the plugin's instance thrown away: what the breaker counts.
    #[must_use]
    pub fn is_trap(self) -> bool {
        matches!(self, Cause::Trap | Cause::Timeout)
    }
}

/// One row without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFailure {
    /// The row's place in the rows that were given.
    pub position: u32,
    /// Why.
    pub cause: Cause,
    /// In the plugin's words, or in the host's where it trapped.
    pub reason: String,
}

/// What a step or batch step answered.
#[derive(Debug)]
pub struct StepAnswers {
    /// How many of the rows have an answer; fewer than were given only where the call was told to stop early.
    pub answered: u32,
    /// New columns with one row for each row that was given, in its order. Values at failed positions, and from
    /// `answered` on, mean nothing.
    pub changes: Changes,
    /// Ascending by position.
    pub failures: Vec<RowFailure>,
}

/// What a predicate answered.
#[derive(Debug)]
pub struct PredicateAnswers {
    /// How many of the rows have an answer; fewer than were given only where the call was told to stop early.
    pub answered: u32,
    /// By position. Values at failed positions, and from `answered` on, are false and mean nothing.
    pub yes: Vec<bool>,
    /// Ascending by position.
    pub failures: Vec<RowFailure>,
}

/// What an expander made.
///
/// The new rows are a batch, ready to go on: each has its record's topic, partition, offset and time, and a name of its own
/// ([`loom_types::Source::row`]), such as `2` for the third row of a record and `2.0` for the first row of that one. Rows
/// of one input lie together, inputs in the order in which they were given.
#[derive(Debug)]
pub struct ExpandAnswers {
    /// How many of the rows have an answer; fewer than were given only where the call was told to stop early.
    pub answered: u32,
    /// Every row that was made.
    pub rows: Batch,
    /// n + 1 for the n rows that were given: see [`ExpandAnswers::made_from`].
    pub(crate) offsets: Vec<u32>,
    /// Ascending by position. Nothing was made from rows at failed positions.
    pub failures: Vec<RowFailure>,
}

impl ExpandAnswers {
    /// Which of the new rows were made from the row at this position of those that were given. It may be none: below
    /// `answered`, and where there is no failure, the record then ended there. Panics when there is no such position.
    #[must_use]
    pub fn made_from(&self, position: u32) -> Range<u32> {
        self.offsets[position as usize]..self.offsets[position as usize + 1]
    }
}

/// What a typed expander made.
#[derive(Debug)]
pub struct TypedExpandAnswers {
    /// The rows. Those of one input are in the order of the plugin's types, those of one type in the plugin's.
    pub made: ExpandAnswers,
    /// A type for each row of `made.rows`: an index into [`TypedExpandNode::types`](crate::TypedExpandNode::types).
    pub types: Vec<u32>,
}

/// What a batch expander made.
#[derive(Debug)]
pub struct BatchExpandAnswers {
    /// How many of the rows have an answer; fewer than were given only where the call was told to stop early.
    pub answered: u32,
    /// Every row that was made, in the plugin's order. Each has topic, partition, offset and time of the first record that
    /// it names (of the first of its batch, where it names none), and a name among the rows that do.
    pub rows: Batch,
    /// Which inputs each of them stands for. An input below `answered` that is in none of them, and has no failure, made
    /// nothing: it ended there.
    pub origins: Origins,
    /// Ascending by position.
    pub failures: Vec<RowFailure>,
}

/// Which inputs each row of a batch expander stands for, as sets of positions that rows can share. A row that names none
/// stands for its whole batch, and all of those share one set: so what is kept grows with inputs and rows, not with their
/// product.
#[derive(Debug, Default)]
pub struct Origins {
    /// The sets, end to end.
    positions: Vec<u32>,
    /// Where each set ends.
    ends: Vec<usize>,
    /// Each row's set.
    set_of: Vec<u32>,
}

impl Origins {
    /// No set, and no row.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a set; positions ascend, and there is one at least. Gives its number.
    pub fn add_set(&mut self, positions: impl IntoIterator<Item = u32>) -> u32 {
        self.positions.extend(positions);
        self.ends.push(self.positions.len());
        self.ends.len() as u32 - 1
    }

    /// The next row stands for this set.
    pub fn add_row(&mut self, set: u32) {
        self.set_of.push(set);
    }

    /// How many sets there are. Each has a row at least; two may be equal.
    #[must_use]
    pub fn sets(&self) -> usize {
        self.ends.len()
    }

    /// A set: positions of the rows that were given, ascending, each once, at least one. Panics when there is no such set.
    #[must_use]
    pub fn set(&self, set: usize) -> &[u32] {
        let start = if set == 0 { 0 } else { self.ends[set - 1] };
        &self.positions[start..self.ends[set]]
    }

    /// A row's set. Panics when there is no such row.
    #[must_use]
    pub fn set_of(&self, row: u32) -> usize {
        self.set_of[row as usize] as usize
    }

    /// The inputs that a row stands for. Panics when there is no such row.
    #[must_use]
    pub fn of(&self, row: u32) -> &[u32] {
        self.set(self.set_of(row))
    }
}

/// What a selector or partitioner answered.
#[derive(Debug)]
pub struct ChoiceAnswers {
    /// How many of the rows have an answer; fewer than were given only where the call was told to stop early.
    pub answered: u32,
    /// By position: a selector's label, which is UTF-8, or a partitioner's key. Null = none. Values at failed positions, and
    /// from `answered` on, are null and mean nothing.
    pub chosen: BytesColumn,
    /// Ascending by position.
    pub failures: Vec<RowFailure>,
}

impl ChoiceAnswers {
    /// A selector's label for the row at this position. Panics when there is no such position.
    #[must_use]
    pub fn label(&self, position: u32) -> Option<&str> {
        self.chosen.get(position as usize).and_then(|label| std::str::from_utf8(label).ok())
    }
}

/// Why a call on a sink failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct CallFailure {
    /// What kind of failure.
    pub cause: Cause,
    /// In the plugin's words, or in the host's where it trapped.
    pub reason: String,
}

/// A guest's failure in our words.
pub(crate) fn told(failure: Failure) -> (Cause, String) {
    let (cause, mut reason) = match failure {
        Failure::Reject(reason) => (Cause::Reject, reason),
        Failure::Retry(reason) => (Cause::Retry, reason),
        Failure::Fail(reason) => (Cause::Fail, reason),
    };
    let kept = cut(&reason, REASON_BYTES).len();
    if kept < reason.len() {
        reason.truncate(kept);
        reason.push('…');
        reason.shrink_to_fit();
    }
    (cause, reason)
}
