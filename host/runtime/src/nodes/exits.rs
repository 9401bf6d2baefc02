//! Where the rows of a plugin's node go, by what the plugin said of them.
//!
//! Rows that go one way go together, in the order in which they left. A row that others were made of is one row, with one
//! token, until it leaves: only then each of them gets its share.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use loom_delivery::{Accounts, Token};
use loom_types::{Batch, BytesColumn, Ending, ErrorKind};

use super::plugins::{Made, Said};
use super::{Flow, NodeId, Op, Target};
use crate::late::Leaving;
use crate::rows::{Row, RowSet, ending};

/// The ways out of a node.
#[derive(Debug)]
pub(crate) enum Exits {
    /// Every row goes on.
    Next(Target),
    /// As the predicate says.
    Either { yes: Target, no: Target },
    /// By the label that a selector answers.
    Labels { branches: HashMap<String, Target>, default: Target },
    /// By the types that a typed expander gives its rows.
    Routes {
        /// By the type's number; none where no route takes it.
        of: Vec<Option<Target>>,
        /// For the other types.
        default: Option<Target>,
    },
}

impl Exits {
    /// Routes by the numbers of their types. What a route takes that the plugin has no type for comes never.
    pub(super) fn by_type(
        types: &[Arc<str>],
        routes: &HashMap<&str, Target>,
        default: Option<Target>,
    ) -> Exits {
        Exits::Routes { of: types.iter().map(|name| routes.get(&**name).copied()).collect(), default }
    }

    /// Where a row goes that a predicate said this of; of another plugin, a row that got through.
    fn said(&self, yes: bool) -> Target {
        match self {
            Exits::Next(next) => *next,
            Exits::Either { yes: to, .. } if yes => *to,
            Exits::Either { no, .. } => *no,
            Exits::Labels { default, .. } => *default,
            Exits::Routes { default, .. } => default.unwrap_or(Target::NoRoute),
        }
    }

    /// Where a row goes that a selector answered this for; none is a label that no branch has.
    pub(super) fn chosen(&self, label: Option<&[u8]>) -> Target {
        let label = label.and_then(|label| std::str::from_utf8(label).ok());
        match (self, label) {
            (Exits::Labels { branches, default }, Some(label)) => *branches.get(label).unwrap_or(default),
            _ => self.said(true),
        }
    }

    /// Where a row goes that was made at the node, and whether its type has no route of its own.
    fn made(&self, batch: &Batch, row: u32) -> (Target, bool) {
        let Exits::Routes { of, default } = self else { return (self.said(true), false) };
        let route = batch.type_number(row).and_then(|number| of.get(number as usize).copied().flatten());
        match (route, default) {
            (Some(route), _) => (route, false),
            (None, Some(default)) => (*default, true),
            (None, None) => (Target::NoRoute, false),
        }
    }
}

/// What becomes of the rows of a call that have no failure.
pub(super) enum Outcome {
    /// They go on: as the rows of this batch, by their positions, or unchanged.
    Changed(Option<Arc<Batch>>),
    /// They go the way that was said, by position.
    Is(Vec<bool>),
    /// They go the way of the label that was answered, by position.
    Chose(BytesColumn),
    /// Others were made of them.
    Made(Made),
}

impl Outcome {
    /// Of a call with these rows.
    pub(super) fn of(said: Said, batch: &Batch, ids: &[u32]) -> Outcome {
        match said {
            Said::Changed(changes) if changes.is_empty() => Outcome::Changed(None),
            Said::Changed(changes) => Outcome::Changed(Some(Arc::new(batch.select(ids).with(changes)))),
            Said::Is(yes) => Outcome::Is(yes),
            Said::Chose(labels) => Outcome::Chose(labels),
            Said::Keyed(keys) => Outcome::Changed(keys.map(|keys| Arc::new(batch.select(ids).rekeyed(keys)))),
            Said::Made(made) => Outcome::Made(made),
        }
    }

    /// What becomes of the row at a position.
    pub(super) fn of_row(&self, position: usize, row: Row, exits: &Exits) -> Leaving {
        match self {
            Outcome::Changed(None) => Leaving::Passed { row, to: exits.said(true) },
            Outcome::Changed(Some(batch)) => changed(row, batch.clone(), position as u32, exits),
            Outcome::Is(yes) => is(row, yes[position], exits),
            Outcome::Chose(labels) => Leaving::Passed { row, to: exits.chosen(labels.get(position)) },
            Outcome::Made(made) => {
                Leaving::Became { row, batch: made.batch.clone(), rows: made.of(position) }
            }
        }
    }
}

/// A row that goes on as a row of another batch.
pub(super) fn changed(row: Row, batch: Arc<Batch>, id: u32, exits: &Exits) -> Leaving {
    Leaving::Passed { row: Row { batch, id, ..row }, to: exits.said(true) }
}

/// A row that a predicate answered for.
pub(super) fn is(row: Row, yes: bool, exits: &Exits) -> Leaving {
    Leaving::Passed { row, to: exits.said(yes) }
}

/// Rows by where they go.
#[derive(Default)]
struct Parts {
    parts: Vec<(Target, RowSet)>,
    /// The one that the last row went to.
    last: usize,
}

impl Parts {
    fn push(&mut self, to: Target, batch: &Arc<Batch>, route: Option<ErrorKind>, id: u32, token: Token) {
        if self.parts.get(self.last).is_none_or(|(last, _)| *last != to) {
            let same = self.parts.iter().rposition(|(other, _)| *other == to);
            self.last = same.unwrap_or(self.parts.len());
        }
        match self.parts.get_mut(self.last) {
            Some((_, set)) if Arc::ptr_eq(&set.batch, batch) && set.route == route => set.push(id, token),
            _ => {
                let set = RowSet { batch: batch.clone(), ids: vec![id], tokens: vec![token], route };
                self.last = self.parts.len();
                self.parts.push((to, set));
            }
        }
    }

    /// Divides a row among those that were made of it. How many of them have no route of their own.
    fn divide(
        &mut self,
        accounts: &mut Accounts,
        exits: &Exits,
        (token, route): (Token, Option<ErrorKind>),
        batch: &Arc<Batch>,
        rows: Range<u32>,
    ) -> u64 {
        if rows.is_empty() {
            accounts.redeem(token, ending(route, Ending::NoOutput));
            return 0;
        }
        let mut defaulted = 0;
        accounts.split(token, rows.len(), |place, share| {
            let id = rows.start + place as u32;
            let (to, is_default) = exits.made(batch, id);
            defaulted += u64::from(is_default);
            self.push(to, batch, route, id, share);
        });
        defaulted
    }
}

impl Flow {
    /// All rows of a call leave a node at once.
    pub(super) fn pass(&mut self, id: NodeId, exits: &Exits, rows: RowSet, outcome: Outcome) {
        match outcome {
            Outcome::Changed(None) => self.run(exits.said(true), id, rows),
            Outcome::Changed(Some(batch)) => {
                let ids = (0..rows.tokens.len() as u32).collect();
                self.run(exits.said(true), id, RowSet { batch, ids, ..rows });
            }
            Outcome::Is(yes) => {
                let (left, right) = rows.partition(|position, _| yes[position]);
                self.run(exits.said(true), id, left);
                self.run(exits.said(false), id, right);
            }
            Outcome::Chose(labels) => {
                let mut parts = Parts::default();
                for (position, (row, token)) in rows.ids.into_iter().zip(rows.tokens).enumerate() {
                    parts.push(exits.chosen(labels.get(position)), &rows.batch, rows.route, row, token);
                }
                self.leave(id, 0, parts);
            }
            Outcome::Made(made) => {
                let mut parts = Parts::default();
                let accounts = &mut self.shared.accounts;
                let mut defaulted = 0;
                for (position, token) in rows.tokens.into_iter().enumerate() {
                    let of = made.of(position);
                    defaulted += parts.divide(accounts, exits, (token, rows.route), &made.batch, of);
                }
                self.leave(id, defaulted, parts);
            }
        }
    }

    /// Rows leave a node, failed ones first.
    pub(super) fn send_on(&mut self, id: NodeId, leaving: Vec<Leaving>) {
        if leaving.is_empty() {
            return;
        }
        let exits = match &self.nodes[id.0].op {
            Op::Plugin(node) => node.exits.clone(),
            Op::Waiting(node) => node.exits().clone(),
            _ => unreachable!("only plugins have rows that leave one by one"),
        };
        let mut failed = Vec::new();
        let mut parts = Parts::default();
        let mut defaulted = 0;
        for leaving in leaving {
            match leaving {
                Leaving::Failed(row) => failed.push(row),
                Leaving::Passed { row, to } => parts.push(to, &row.batch, row.route, row.id, row.token),
                Leaving::Became { row, batch, rows } => {
                    let accounts = &mut self.shared.accounts;
                    defaulted += parts.divide(accounts, &exits, (row.token, row.route), &batch, rows);
                }
            }
        }
        self.failed(id, failed);
        self.leave(id, defaulted, parts);
    }

    fn leave(&mut self, id: NodeId, defaulted: u64, parts: Parts) {
        self.nodes[id.0].defaulted += defaulted;
        for (to, rows) in parts.parts {
            self.run(to, id, rows);
        }
    }
}
