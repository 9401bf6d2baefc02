//! The rows of one source partition at a node, from the first one whose verdict is late.
//!
//! Invariants:
//! - rows are called in the order in which they came; a row that is to be tried again goes before those behind it;
//! - where order is kept, rows leave in that order, failed ones too, whatever the order of their answers; and nothing
//!   behind a row that is tried again is called before that row is through;
//! - where it is not, a row leaves with its answer, and one that is tried again holds back nothing but, when there are
//!   too many of them, rows that were not called yet;
//! - every row that was pushed is handed out exactly once.
//!
//! A row has a number, dense and rising, by which its call is known; entries lie in a ring, so that all of it takes
//! constant time a row. The ring is no longer than the partition's bound: it begins with an unresolved record.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use loom_delivery::{Mutation, mutated};
use loom_types::{Batch, Moment, Moves};

use crate::holdings::Seen;
use crate::nodes::Target;
use crate::rows::{FailedRow, Row};

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Window {
    ordered: bool,
    /// The number of the ring's first entry.
    first: u64,
    ring: VecDeque<Entry>,
    /// The number of the first row that was never called.
    fresh: u64,
    /// Rows that are to be tried again, with when.
    again: BTreeMap<u64, Moment>,
    /// The row that is being tried again, where order is kept.
    trying: Option<u64>,
    /// Rows that left out of order.
    left: VecDeque<Leaving>,
}

#[derive(Debug)]
struct Entry {
    since: Moment,
    state: State,
}

#[derive(Debug)]
enum State {
    /// To be called.
    Waits(Row),
    /// Its call is under way, until this moment at the latest.
    Called(Row, Moment),
    /// It has its verdict, and leaves when those before it did.
    Done(Leaving),
    /// It left.
    Gone,
}

/// A row with its verdict.
#[derive(Debug)]
pub(crate) enum Leaving {
    /// It goes on.
    Passed { row: Row, to: Target },
    /// These rows of a batch were made of it, and go on.
    Became { row: Row, batch: Arc<Batch>, rows: Range<u32> },
    /// It could not get through.
    Failed(FailedRow),
}

impl Leaving {
    fn row(&self) -> &Row {
        match self {
            Leaving::Passed { row, .. }
            | Leaving::Became { row, .. }
            | Leaving::Failed(FailedRow { row, .. }) => row,
        }
    }

    fn row_mut(&mut self) -> &mut Row {
        match self {
            Leaving::Passed { row, .. }
            | Leaving::Became { row, .. }
            | Leaving::Failed(FailedRow { row, .. }) => row,
        }
    }

    /// How many rows were made of it.
    pub(crate) fn made(&self) -> u64 {
        match self {
            Leaving::Became { rows, .. } => rows.len() as u64,
            Leaving::Passed { .. } | Leaving::Failed(_) => 0,
        }
    }

    /// The row as it came, with its token.
    pub(crate) fn into_row(self) -> Row {
        match self {
            Leaving::Passed { row, .. }
            | Leaving::Became { row, .. }
            | Leaving::Failed(FailedRow { row, .. }) => row,
        }
    }
}

/// Where a row is, for whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// It was never called, and no row of its partition has to be through first: it waits for a free call.
    Fresh,
    /// It waits for its call behind a row of its partition that is tried again; for another one not before `due`, where it
    /// was called already.
    Waits { due: Option<Moment> },
    /// It is being called, until this moment at the latest.
    Called { until: Moment },
    /// It was answered, and waits for rows before it.
    Answered,
}

impl Window {
    pub(crate) fn new(ordered: bool) -> Self {
        Window {
            ordered,
            first: 0,
            ring: VecDeque::new(),
            fresh: 0,
            again: BTreeMap::new(),
            trying: None,
            left: VecDeque::new(),
        }
    }

    /// A row comes.
    pub(crate) fn push(&mut self, row: Row, now: Moment) {
        self.ring.push_back(Entry { since: now, state: State::Waits(row) });
    }

    /// A row comes whose call was answered at once: it is to be tried again, not before `due`. No row that was not called
    /// is here.
    pub(crate) fn push_again(&mut self, row: Row, due: Moment, now: Moment) {
        let number = self.push_called(State::Waits(row), now);
        self.again.insert(number, due);
    }

    /// A row comes that has its verdict, and may not pass those before it. No row that was not called is here.
    pub(crate) fn push_done(&mut self, leaving: Leaving, now: Moment) {
        self.push_called(State::Done(leaving), now);
    }

    fn push_called(&mut self, state: State, now: Moment) -> u64 {
        debug_assert_eq!(self.fresh, self.end(), "rows are called in order");
        let number = self.end();
        self.ring.push_back(Entry { since: now, state });
        self.fresh = number + 1;
        number
    }

    /// Whether no row is here.
    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.left.is_empty()
    }

    /// Rows that were never called.
    pub(crate) fn fresh(&self) -> usize {
        (self.end() - self.fresh) as usize
    }

    /// Whether a row is here that is tried again.
    pub(crate) fn is_retrying(&self) -> bool {
        self.trying.is_some() || !self.again.is_empty()
    }

    /// Whether a row that is to be tried again is the one that the others wait for; it speaks for them in the log.
    pub(crate) fn is_first_again(&self, number: u64) -> bool {
        self.trying.map_or(self.again.is_empty(), |trying| trying == number)
    }

    fn end(&self) -> u64 {
        self.first + self.ring.len() as u64
    }

    /// The next row to be called, with the moment from which on it may be. `most`: rows that wait for another try,
    /// above which no new one is called.
    pub(crate) fn next_call(&self, most: usize) -> Option<(u64, Moment)> {
        if self.trying.is_some() {
            return None;
        }
        let retried = if self.ordered {
            self.again.first_key_value()
        } else {
            self.again.iter().min_by_key(|(number, due)| (**due, **number))
        };
        let retried = retried.map(|(number, due)| (*number, *due));
        let fresh = (self.fresh < self.end()).then_some((self.fresh, Moment::START));
        match (retried, fresh) {
            (Some(retried), None) => Some(retried),
            (Some(retried), Some(_)) if self.ordered || self.again.len() >= most => Some(retried),
            (_, fresh) => fresh,
        }
    }

    /// The unordered window's row whose next try is due.
    pub(crate) fn due_again(&self, now: Moment) -> Option<u64> {
        if self.ordered {
            return None;
        }
        self.again.iter().find(|(_, due)| **due <= now).map(|(number, _)| *number)
    }

    /// Calls a row: one that [`Window::next_call`] or [`Window::due_again`] named. Its attempts are counted; the call
    /// ends at `until` at the latest.
    pub(crate) fn call(&mut self, number: u64, until: Moment) -> &Row {
        if self.again.remove(&number).is_some() {
            if self.ordered {
                self.trying = Some(number);
            }
        } else {
            debug_assert_eq!(number, self.fresh, "rows are called in order");
            self.fresh = number + 1;
        }
        let entry = &mut self.ring[(number - self.first) as usize];
        let State::Waits(mut row) = std::mem::replace(&mut entry.state, State::Gone) else {
            unreachable!("only rows that wait are called")
        };
        row.attempts += 1;
        entry.state = State::Called(row, until);
        match &entry.state {
            State::Called(row, _) => row,
            State::Waits(_) | State::Done(_) | State::Gone => {
                unreachable!("it was just made one that is called")
            }
        }
    }

    /// Calls what is to be called next, for a node whose calls are made at once: a row that is tried again goes alone, rows
    /// that were never called together where they are of one batch, at most so many. None where nothing is due.
    pub(crate) fn call_together(&mut self, most: usize, now: Moment) -> Vec<u64> {
        let Some((first, _)) = self.next_call(usize::MAX).filter(|(_, due)| *due <= now) else {
            return Vec::new();
        };
        let is_new = first == self.fresh;
        self.call(first, now);
        let mut numbers = vec![first];
        while is_new && numbers.len() < most && self.fresh < self.end() && self.is_alike(first, self.fresh) {
            numbers.push(self.fresh);
            self.call(self.fresh, now);
        }
        numbers
    }

    fn is_alike(&self, one: u64, other: u64) -> bool {
        let (one, other) = (self.unsettled(one), self.unsettled(other));
        one.zip(other)
            .is_some_and(|(one, other)| Arc::ptr_eq(&one.batch, &other.batch) && one.route == other.route)
    }

    /// A row that is here and has no verdict.
    pub(crate) fn unsettled(&self, number: u64) -> Option<&Row> {
        match &self.ring.get(number.checked_sub(self.first)? as usize)?.state {
            State::Waits(row) | State::Called(row, _) => Some(row),
            State::Done(_) | State::Gone => None,
        }
    }

    /// The called row was not tried after all: it waits as before.
    pub(crate) fn put_back(&mut self, number: u64, now: Moment) {
        let Some(row) = self.answered(number) else { return };
        let row = Row { attempts: row.attempts - 1, ..row };
        if row.attempts > 0 {
            return self.retry(number, row, now);
        }
        self.ring[(number - self.first) as usize].state = State::Waits(row);
        self.fresh = self.fresh.min(number);
    }

    /// A call came back: its row, which [`Window::settle`] or [`Window::retry`] puts back.
    pub(crate) fn answered(&mut self, number: u64) -> Option<Row> {
        let entry = number.checked_sub(self.first).and_then(|at| self.ring.get_mut(at as usize))?;
        if !matches!(entry.state, State::Called(..)) {
            return None;
        }
        match std::mem::replace(&mut entry.state, State::Gone) {
            State::Called(row, _) => Some(row),
            State::Waits(_) | State::Done(_) | State::Gone => None,
        }
    }

    /// The answered row has its verdict.
    pub(crate) fn settle(&mut self, number: u64, leaving: Leaving) {
        if self.trying == Some(number) {
            self.trying = None;
        }
        if self.ordered {
            self.ring[(number - self.first) as usize].state = State::Done(leaving);
        } else {
            self.left.push_back(leaving);
            self.trim();
        }
    }

    /// The answered row is to be tried again, not before `due`.
    pub(crate) fn retry(&mut self, number: u64, row: Row, due: Moment) {
        if self.trying == Some(number) {
            self.trying = None;
        }
        self.ring[(number - self.first) as usize].state = State::Waits(row);
        self.again.insert(number, due);
        if mutated(Mutation::LaneIsTurned) {
            let behind = &mut self.ring.make_contiguous()[(number - self.first) as usize + 1..];
            let answered = behind.iter().take_while(|entry| matches!(entry.state, State::Done(_))).count();
            behind[..answered].reverse();
        }
    }

    /// The next row that leaves.
    pub(crate) fn leave(&mut self) -> Option<Leaving> {
        if let Some(left) = self.left.pop_front() {
            return Some(left);
        }
        if !matches!(self.ring.front()?.state, State::Done(_)) {
            return None;
        }
        let entry = self.ring.pop_front()?;
        self.first += 1;
        match entry.state {
            State::Done(leaving) => Some(leaving),
            State::Waits(_) | State::Called(..) | State::Gone => None,
        }
    }

    fn trim(&mut self) {
        while self.ring.front().is_some_and(|entry| matches!(entry.state, State::Gone)) {
            self.ring.pop_front();
            self.first += 1;
        }
    }

    /// Every row that is here, with since when, and how it stands.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Row, Moment, Stand)> {
        let held_back = self.ordered && self.is_retrying();
        let ring = self.ring.iter().enumerate().filter_map(move |(at, entry)| {
            let (row, stand) = match &entry.state {
                State::Waits(row) => {
                    let number = self.first + at as u64;
                    let is_fresh = number >= self.fresh && !held_back;
                    let due = self.again.get(&number).copied();
                    (row, if is_fresh { Stand::Fresh } else { Stand::Waits { due } })
                }
                State::Called(row, until) => (row, Stand::Called { until: *until }),
                State::Done(leaving) => (leaving.row(), Stand::Answered),
                State::Gone => return None,
            };
            Some((row, entry.since, stand))
        });
        ring.chain(self.left.iter().map(|leaving| (leaving.row(), Moment::START, Stand::Answered)))
    }

    /// Shows every row that is here, to whoever counts what they keep.
    pub(crate) fn show(&self, seen: &mut Seen) {
        let ring = self.ring.iter().filter_map(|entry| match &entry.state {
            State::Waits(row) => Some((row, false, None)),
            State::Called(row, _) => Some((row, true, None)),
            State::Done(leaving) => Some((leaving.row(), false, Some(leaving))),
            State::Gone => None,
        });
        let left = self.left.iter().map(|leaving| (leaving.row(), false, Some(leaving)));
        for (row, fixed, leaving) in ring.chain(left) {
            seen.waits(row, fixed);
            if let Some(Leaving::Became { batch, rows, .. }) = leaving {
                rows.clone().for_each(|made| seen.row(row.partition(), batch, made, true));
            }
        }
    }

    /// Rows that were copied go on as their copies; those whose call is under way stay.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        for entry in &mut self.ring {
            match &mut entry.state {
                State::Waits(row) => row.follow(moves),
                State::Done(leaving) => leaving.row_mut().follow(moves),
                State::Called(..) | State::Gone => {}
            }
        }
        self.left.iter_mut().for_each(|leaving| leaving.row_mut().follow(moves));
    }

    /// The first row that is here.
    pub(crate) fn first(&self) -> Option<&Row> {
        self.rows().next().map(|(row, ..)| row)
    }

    /// The first row that is tried again.
    pub(crate) fn retried(&self) -> Option<&Row> {
        let number = self.again.keys().copied().chain(self.trying).min()?;
        self.unsettled(number)
    }

    /// At a stop: takes out the rows that are to be tried again, with the numbers of those among them that are being
    /// called. Where order is kept, with them goes all that is behind.
    pub(crate) fn cut(&mut self) -> (Vec<Row>, Vec<u64>) {
        let from = self.again.keys().copied().chain(self.trying).min();
        let Some(from) = from else { return (Vec::new(), Vec::new()) };
        if self.ordered {
            let cut = self.ring.split_off((from - self.first) as usize);
            self.fresh = self.fresh.min(self.end());
            self.again.clear();
            self.trying = None;
            return taken(cut, from);
        }
        let mut rows = Vec::new();
        for number in std::mem::take(&mut self.again).into_keys() {
            let entry = &mut self.ring[(number - self.first) as usize];
            if let State::Waits(row) = std::mem::replace(&mut entry.state, State::Gone) {
                rows.push(row);
            }
        }
        self.trim();
        (rows, Vec::new())
    }

    /// Takes every row out.
    pub(crate) fn drain(&mut self) -> Vec<Row> {
        let (mut rows, _) = taken(std::mem::take(&mut self.ring), self.first);
        rows.extend(self.left.drain(..).map(Leaving::into_row));
        *self = Window::new(self.ordered);
        rows
    }
}

/// The rows of these entries, and the numbers of those that are being called.
fn taken(entries: VecDeque<Entry>, first: u64) -> (Vec<Row>, Vec<u64>) {
    let (mut rows, mut called) = (Vec::new(), Vec::new());
    for (number, entry) in (first..).zip(entries) {
        match entry.state {
            State::Waits(row) => rows.push(row),
            State::Called(row, _) => {
                rows.push(row);
                called.push(number);
            }
            State::Done(leaving) => rows.push(leaving.into_row()),
            State::Gone => {}
        }
    }
    (rows, called)
}

#[cfg(test)]
mod tests;
