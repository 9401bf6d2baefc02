//! Routers: rows part over branches, and come together again in the order of their source.
//!
//! - A router is two nodes: its entry, and the join that its branches lead to. The nodes between lead nowhere else, so
//!   that who is still inside can be asked of them.
//! - No row of a partition leaves the join before one that came before it and is still inside, in whichever branch. What
//!   failed or was filtered out is not inside any more; what waits at a node that promises no order holds nobody back.
//! - While nothing is late the join holds nothing: what a walk brought is put back into order at its end.
//!
//! Rows that wait here have their tokens, so the bounds of what is outstanding count them.

mod merge;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use loom_delivery::{Mutation, mutated};
use loom_types::{Batch, Moment, Moves, PartitionId};

use super::{Flow, Node, NodeId, Op, Target};
use crate::holdings::Seen;
use crate::rows::{Row, RowSet, join};

pub(super) use merge::gather;

/// Where the branches of a router come together.
#[derive(Debug)]
pub(crate) struct JoinNode {
    /// The nodes of its branches and conditions.
    inside: Range<usize>,
    next: Target,
    /// What came since rows were let out.
    came: Vec<RowSet>,
    /// Rows that wait for one before them, each with since when; by partition, in the order of their source.
    held: BTreeMap<PartitionId, VecDeque<(Row, Moment)>>,
}

/// A row for each partition, each the first of some.
type Firsts = BTreeMap<PartitionId, (Arc<Batch>, u32)>;

impl JoinNode {
    pub(crate) fn new(next: Target) -> Self {
        JoinNode { inside: 0..0, next, came: Vec::new(), held: BTreeMap::new() }
    }

    /// The nodes that lead here are these.
    pub(crate) fn surround(&mut self, inside: Range<usize>) {
        self.inside = inside;
    }

    /// Whether no row is here.
    pub(crate) fn is_empty(&self) -> bool {
        self.came.is_empty() && self.held.is_empty()
    }

    /// Every row that waits here.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.held.values().flatten().map(|(row, _)| row)
    }

    /// Shows every row that waits here, to whoever counts what they keep.
    pub(crate) fn show(&self, seen: &mut Seen) {
        self.rows().for_each(|row| seen.waits(row, false));
    }

    /// Rows that were copied go on as their copies.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        self.held.values_mut().flatten().for_each(|(row, _)| row.follow(moves));
    }

    /// How many rows wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.held.values().map(VecDeque::len).sum()
    }

    /// What may leave of all that is here, while these rows are the first ones inside.
    fn let_out(&mut self, inside: &Firsts, now: Moment) -> Vec<RowSet> {
        let came = std::mem::take(&mut self.came);
        if inside.is_empty() && self.held.is_empty() {
            return came;
        }
        let mut out = Vec::new();
        for set in came {
            let is_behind = |partition| inside.contains_key(&partition) || self.held.contains_key(&partition);
            let (behind, free) = set.partition(|_, token| is_behind(token.partition()));
            behind.into_rows(0).for_each(|row| self.hold(row, now));
            if !free.is_empty() {
                out.push(free);
            }
        }
        let mut leaving = Vec::new();
        for (partition, held) in &mut self.held {
            let end = match inside.get(partition) {
                Some((batch, id)) => place_of(held, batch, *id),
                None => held.len(),
            };
            leaving.extend(held.drain(..end).map(|(row, _)| row));
        }
        self.held.retain(|_, held| !held.is_empty());
        join(leaving, |set| out.push(set));
        out
    }

    fn hold(&mut self, row: Row, now: Moment) {
        let held = self.held.entry(row.partition()).or_default();
        // Mostly the last one.
        let place = place_of(held, &row.batch, row.id);
        held.insert(place, (row, now));
    }

    /// Gives up the rows that wait behind these.
    fn give_up_behind(&mut self, lost: &Firsts) {
        for (partition, (batch, id)) in lost {
            let Some(held) = self.held.get_mut(partition) else { continue };
            let place = place_of(held, batch, *id);
            held.drain(place..).for_each(|(row, _)| row.token.give_up());
        }
        self.held.retain(|_, held| !held.is_empty());
    }
}

/// How many of these rows come before that one, or are it.
fn place_of(held: &VecDeque<(Row, Moment)>, batch: &Batch, id: u32) -> usize {
    held.partition_point(|(row, _)| merge::compare((&row.batch, row.id), (batch, id)).is_le())
}

/// Of each partition the first row that these nodes have, of those that are the first of their windows.
fn firsts<'r>(rows: impl Iterator<Item = &'r Row>) -> Firsts {
    let mut firsts = Firsts::new();
    for row in rows {
        let is_first = firsts
            .get(&row.partition())
            .is_none_or(|(batch, id)| merge::compare((&row.batch, row.id), (batch, *id)).is_lt());
        if is_first {
            firsts.insert(row.partition(), (row.batch.clone(), row.id));
        }
    }
    firsts
}

/// The first row of each window of nodes that keep order.
fn inside(nodes: &[Node]) -> Firsts {
    let mut all: Vec<&Row> = Vec::new();
    for node in nodes {
        match &node.op {
            Op::Plugin(node) => all.extend(node.firsts()),
            Op::Waiting(node) => all.extend(node.firsts()),
            _ => {}
        }
    }
    firsts(all.into_iter())
}

/// The first row of each window that is given up at a stop; of those whose calls are under way only where `all` are.
fn lost(nodes: &[Node], all: bool) -> Firsts {
    let mut lost: Vec<&Row> = Vec::new();
    for node in nodes {
        match &node.op {
            Op::Plugin(node) => lost.extend(node.firsts()),
            Op::Waiting(node) if all => lost.extend(node.firsts()),
            Op::Waiting(node) => lost.extend(node.retried()),
            _ => {}
        }
    }
    firsts(lost.into_iter())
}

impl Flow {
    /// Rows come to a router.
    pub(super) fn enter(&mut self, id: NodeId, rows: RowSet) {
        let Op::Router { entry, join } = self.nodes[id.0].op else { return };
        self.run(entry, id, rows);
        self.let_out(join);
    }

    /// Rows come out of a router's branches. What is behind the router gets them when all that goes on now inside is over.
    pub(super) fn joins(&mut self, id: NodeId, rows: RowSet) {
        join_of(&mut self.nodes[id.0].op).came.push(rows);
    }

    /// Lets the rows out of a router that nothing inside comes before.
    pub(crate) fn let_out(&mut self, id: NodeId) {
        let node = join_of(&mut self.nodes[id.0].op);
        if node.is_empty() {
            return;
        }
        let (range, next, now) = (node.inside.clone(), node.next, self.shared.now);
        let late = if mutated(Mutation::BranchIsOvertaken) { 0..0 } else { range };
        let inside = inside(&self.nodes[late]);
        let sets = join_of(&mut self.nodes[id.0].op).let_out(&inside, now);
        for set in merge::merge(sets) {
            self.run(next, id, set);
        }
    }

    /// At a stop, before nodes give rows up: gives up what waits at a router behind them. `all`: calls that are under way
    /// are given up too.
    pub(crate) fn give_up_behind(&mut self, id: NodeId, all: bool) {
        let range = join_of(&mut self.nodes[id.0].op).inside.clone();
        let lost = lost(&self.nodes[range], all);
        join_of(&mut self.nodes[id.0].op).give_up_behind(&lost);
    }

    /// When something is called that rows wait for at a router, whatever they wait for there.
    pub(crate) fn due_inside(&self, join: &JoinNode) -> Option<Moment> {
        join.inside.clone().filter_map(|id| self.next_due(NodeId(id))).min()
    }
}

fn join_of(op: &mut Op) -> &mut JoinNode {
    match op {
        Op::Join(node) => node,
        _ => unreachable!("only joins are asked"),
    }
}
