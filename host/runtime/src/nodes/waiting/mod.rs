//! Nodes of plugins that wait: their calls run beside the worker, several at a time, and answer later.
//!
//! Invariants:
//! - at most `concurrency` calls are under way at a node, one row each; partitions take turns;
//! - a row is in its partition's window from when it comes until it leaves, so that nothing is lost and where it is can
//!   be asked; what order rows leave in is the window's business;
//! - nothing here blocks: an answer rings the worker's bell, and the worker takes it in its next step.
//!
//! The time-out of a call that waited for the network counts as `retry`: a slow service discards nothing. Any other
//! time-out is the record's.

mod calls;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Accounts, Mutation, mutated};
use loom_plugin::{Breaker, Cause, Permit, RowFailure};
use loom_types::{Moment, Moves, PartitionId};

use super::call::{log_retry, record};
use super::exits::{self, Exits};
use super::growth::{self, Room};
use super::plugins::{Label, made_memory};
use super::{Flow, NodeId, Op, Shared};
use crate::holdings::Seen;
use crate::late::{Judged, Leaving, Stand, Window, judge};
use crate::rows::{Row, RowSet};

pub(crate) use calls::{Answered, Fault, RowAnswer, WaitingCalls};

/// What a waiting node is made of.
pub(crate) struct Waiting {
    pub plugin: Label,
    /// Names the node in log lines.
    pub span: tracing::Span,
    pub exits: Arc<Exits>,
    /// Whether rows are made of rows here, so that what is made is bounded.
    pub grows: bool,
    pub breaker: Breaker,
    pub calls: Box<dyn WaitingCalls>,
    /// Calls at a time, at least one.
    pub concurrency: usize,
    /// What a call may take.
    pub limit: Duration,
    /// Whether a partition's rows leave in their order.
    pub ordered: bool,
    /// Calls after the first that a row gets which is to be tried again; none = without limit.
    pub retries: Option<u32>,
    /// Whether the plugin may use the network, so that it may be slow through no fault of the record.
    pub network: bool,
}

/// See the module's description.
pub(crate) struct WaitingNode {
    parts: Waiting,
    windows: BTreeMap<PartitionId, Window>,
    /// The calls under way, with the partition and the number of their row.
    flights: BTreeMap<u64, (PartitionId, u64)>,
    /// The name of the next call.
    next: u64,
    /// The partition whose row was called last.
    last: PartitionId,
    /// Bytes that answers made since this was last asked.
    made_bytes: usize,
}

impl WaitingNode {
    pub(crate) fn new(parts: Waiting) -> Self {
        WaitingNode {
            parts,
            windows: BTreeMap::new(),
            flights: BTreeMap::new(),
            next: 0,
            last: PartitionId(0),
            made_bytes: 0,
        }
    }

    /// The plugin's name and digest.
    pub(crate) fn name(&self) -> (&str, &str) {
        (&self.parts.plugin.name, &self.parts.plugin.digest)
    }

    /// The ways out.
    pub(crate) fn exits(&self) -> &Arc<Exits> {
        &self.parts.exits
    }

    /// Whether rows are made of rows here.
    pub(crate) fn grows(&self) -> bool {
        self.parts.grows
    }

    /// Tells a bad plugin from bad records.
    pub(crate) fn breaker(&self) -> &Breaker {
        &self.parts.breaker
    }

    /// Rings this when an answer came.
    pub(crate) fn ring(&mut self, bell: loom_kafka::Waker) {
        self.parts.calls.ring(bell);
    }

    /// Whether no row is here.
    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// The partitions that nothing is to be read from: there is enough to call, or a row is tried again.
    pub(crate) fn holding(&self) -> impl Iterator<Item = PartitionId> {
        let open = self.parts.breaker.is_open();
        let full =
            move |window: &Window| open || window.is_retrying() || window.fresh() >= self.parts.concurrency;
        self.windows.iter().filter(move |(_, window)| full(window)).map(|(partition, _)| *partition)
    }

    /// How many rows are here.
    pub(crate) fn waiting(&self) -> usize {
        self.rows().count()
    }

    /// Every row that is here, with since when, and how it stands.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Row, Moment, Stand)> {
        self.windows.values().flat_map(Window::rows)
    }

    /// Shows every row that is here, to whoever counts what they keep.
    pub(crate) fn show(&self, seen: &mut Seen) {
        self.windows.values().for_each(|window| window.show(seen));
    }

    /// Rows that were copied go on as their copies.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        self.windows.values_mut().for_each(|window| window.follow(moves));
    }

    /// Of each partition the first row that is here; none where order is not kept.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = &Row> {
        self.windows.values().filter(|_| self.parts.ordered).filter_map(Window::first)
    }

    /// Of each partition the first row that [`WaitingNode::give_up_retries`] gives up; none where order is not kept.
    pub(crate) fn retried(&self) -> impl Iterator<Item = &Row> {
        let all = self.parts.breaker.is_open();
        let windows = self.windows.values().filter(|_| self.parts.ordered);
        windows.filter_map(move |window| if all { window.first() } else { window.retried() })
    }

    /// Whether there is no call for one more row.
    pub(crate) fn is_full(&self) -> bool {
        self.flights.len() >= self.parts.concurrency
    }

    /// Calls under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// When there is something to call that there is a call for; what waits for an answer is rung for.
    pub(crate) fn next_due(&self, room: Room<'_>) -> Option<Moment> {
        let probing = self.parts.breaker.is_open() && !self.flights.is_empty();
        if probing || self.is_full() {
            return None;
        }
        let most = self.parts.concurrency;
        let open = self.windows.iter().filter(|(partition, window)| self.lets(**partition, window, room));
        let due = open.filter_map(|(_, window)| window.next_call(most)).map(|(_, due)| due).min()?;
        match self.parts.breaker.permit(due) {
            Permit::Wait { until } => Some(until),
            Permit::Probe | Permit::Rows { .. } => Some(due),
        }
    }

    /// Whether the bound of what is made does not hold a window's rows.
    fn lets(&self, partition: PartitionId, window: &Window, room: Room<'_>) -> bool {
        !self.parts.grows || room.lets(partition, window)
    }

    /// At a stop: gives up what is tried again, and what waits behind it to keep its order. The rest goes on.
    pub(crate) fn give_up_retries(&mut self) {
        for (partition, window) in &mut self.windows {
            let (rows, called) = window.cut();
            rows.into_iter().for_each(|row| row.token.give_up());
            for number in called {
                let call = self.flights.iter().find(|(_, flight)| **flight == (*partition, number));
                if let Some(call) = call.map(|(call, _)| *call) {
                    self.flights.remove(&call);
                    self.parts.calls.abandon(call);
                }
            }
        }
        if self.parts.breaker.is_open() {
            self.abandon();
        }
        self.windows.retain(|_, window| !window.is_empty());
    }

    /// At a stop: gives up every row and ends every call that is under way. How many calls that were.
    pub(crate) fn abandon(&mut self) -> usize {
        let calls = self.flights.len();
        for call in std::mem::take(&mut self.flights).into_keys() {
            self.parts.calls.abandon(call);
        }
        for (_, mut window) in std::mem::take(&mut self.windows) {
            window.drain().into_iter().for_each(|row| row.token.give_up());
        }
        calls
    }

    /// Rows come.
    fn arrive(&mut self, rows: RowSet, now: Moment) {
        let ordered = self.parts.ordered && !mutated(Mutation::WaitingIsOvertaken);
        for row in rows.into_rows(0) {
            self.windows.entry(row.partition()).or_insert_with(|| Window::new(ordered)).push(row, now);
        }
    }

    /// Starts as many calls as there may be now.
    fn start_calls(&mut self, now: Moment, room: Room<'_>) {
        while !self.is_full() {
            match self.parts.breaker.permit(now) {
                Permit::Wait { .. } => return,
                // A probe is alone, so that it is known which row closed the breaker.
                Permit::Probe if !self.flights.is_empty() => return,
                Permit::Probe | Permit::Rows { .. } => {}
            }
            let Some((partition, number)) = self.pick(now, room) else { return };
            let Some(window) = self.windows.get_mut(&partition) else { return };
            let call = self.next;
            self.next += 1;
            self.last = partition;
            self.flights.insert(call, (partition, number));
            let row = window.call(number, now + self.parts.limit);
            self.parts.calls.start(call, &row.batch, row.id);
        }
    }

    /// The row that is to be called next: the partitions take turns.
    fn pick(&self, now: Moment, room: Room<'_>) -> Option<(PartitionId, u64)> {
        let most = self.parts.concurrency;
        let after = (std::ops::Bound::Excluded(self.last), std::ops::Bound::Unbounded);
        let turn = self.windows.range(after).chain(self.windows.range(..=self.last));
        turn.filter_map(|(partition, window)| {
            let next = || window.next_call(most).filter(|(_, due)| *due <= now).map(|(number, _)| number);
            let number = window.due_again(now).or_else(next)?;
            self.lets(*partition, window, room).then_some((*partition, number))
        })
        .next()
    }

    /// Takes an answer: where its row goes, or when it is tried again.
    fn settle(&mut self, answer: Answered, now: Moment, random: f64, accounts: &mut Accounts) -> Settled {
        let Some((partition, number)) = self.flights.remove(&answer.call) else { return Settled::Nothing };
        let Some(window) = self.windows.get_mut(&partition) else { return Settled::Nothing };
        let Some(row) = window.answered(number) else { return Settled::Nothing };
        let parts = &mut self.parts;
        self.made_bytes += match &answer.verdict {
            Ok(RowAnswer::Changed(changes)) => changes.memory(),
            Ok(RowAnswer::Keyed(Some(key))) => key.memory(),
            Ok(RowAnswer::Made(rows)) => made_memory(rows),
            Ok(RowAnswer::Is(_) | RowAnswer::Chose(_) | RowAnswer::Keyed(None)) | Err(_) => 0,
        };
        let (leaving, counted) = match answer.verdict {
            Ok(RowAnswer::Is(yes)) => (exits::is(row, yes, &parts.exits), None),
            Ok(RowAnswer::Changed(changes)) if changes.is_empty() => {
                (exits::is(row, true, &parts.exits), None)
            }
            Ok(RowAnswer::Changed(changes)) => {
                let batch = Arc::new(row.batch.select(&[row.id]).with(*changes));
                (exits::changed(row, batch, 0, &parts.exits), None)
            }
            Ok(RowAnswer::Chose(label)) => {
                let to = parts.exits.chosen(label.get(0));
                (Leaving::Passed { row, to }, None)
            }
            Ok(RowAnswer::Keyed(None)) => (exits::is(row, true, &parts.exits), None),
            Ok(RowAnswer::Keyed(Some(key))) => {
                let batch = Arc::new(row.batch.select(&[row.id]).rekeyed(key));
                (exits::changed(row, batch, 0, &parts.exits), None)
            }
            Ok(RowAnswer::Made(batch)) => {
                let rows = 0..batch.len() as u32;
                growth::count_row(accounts, &row.token, row.bytes(), &batch, rows.clone());
                (Leaving::Became { row, batch, rows }, None)
            }
            Err(Fault { cause, reason, waited }) => {
                let late = cause == Cause::Timeout && waited && parts.network;
                let again = cause == Cause::Retry || late;
                let counted = if again { Cause::Retry } else { cause };
                match judge(row, cause, reason, again, parts.retries, random) {
                    Judged::Again(row, wait) => {
                        if window.is_first_again(number) {
                            log_retry(&row, wait);
                        }
                        window.retry(number, row, now + wait);
                        record_one(parts, Some(counted), now);
                        return Settled::Retried;
                    }
                    Judged::Leaves(row) => (Leaving::Failed(row), Some(counted)),
                }
            }
        };
        record_one(parts, counted, now);
        window.settle(number, leaving);
        Settled::Leaves
    }

    /// Takes the answers that came. The rows that leave, and how many are to be tried again.
    fn take_answers(&mut self, now: Moment, random: f64, accounts: &mut Accounts) -> (Vec<Leaving>, u64) {
        let mut answers = Vec::new();
        self.parts.calls.answers(&mut answers);
        let mut retried = 0;
        for answer in answers {
            retried += u64::from(self.settle(answer, now, random, accounts) == Settled::Retried);
        }
        (self.leave(), retried)
    }

    /// Takes out the rows that leave now.
    fn leave(&mut self) -> Vec<Leaving> {
        let mut leaving = Vec::new();
        for window in self.windows.values_mut() {
            leaving.extend(std::iter::from_fn(|| window.leave()));
        }
        self.windows.retain(|_, window| !window.is_empty());
        leaving
    }
}

/// What an answer came to.
#[derive(PartialEq, Eq)]
enum Settled {
    /// Its row was given up before.
    Nothing,
    Retried,
    Leaves,
}

/// Tells the breaker how one call ended.
fn record_one(parts: &mut Waiting, cause: Option<Cause>, now: Moment) {
    let failure = cause.map(|cause| RowFailure { position: 0, cause, reason: String::new() });
    record(&mut parts.breaker, &parts.plugin, 1, failure.as_slice(), now);
}

impl Flow {
    /// Rows come to a waiting node.
    pub(super) fn waiting_arrive(&mut self, id: NodeId, rows: RowSet) {
        let now = self.shared.now;
        let node = node_of(&mut self.nodes[id.0].op);
        node.arrive(rows, now);
        let span = node.parts.span.clone();
        span.in_scope(|| node.start_calls(now, self.shared.room()));
    }

    /// Takes the answers that came to a waiting node, makes the calls that are due, and sends rows on.
    pub(crate) fn progress_waiting(&mut self, id: NodeId) {
        let Shared { now, random, .. } = self.shared;
        let interrupted = self.shared.interrupt.is_set();
        let node = node_of(&mut self.nodes[id.0].op);
        let in_node = node.parts.span.clone().entered();
        let (leaving, retried) = node.take_answers(now, random, &mut self.shared.accounts);
        self.shared.holdings.add(std::mem::take(&mut node.made_bytes));
        if !interrupted {
            node.start_calls(now, self.shared.room());
        }
        drop(in_node);
        self.count_retries(id, retried);
        self.nodes[id.0].made += leaving.iter().map(Leaving::made).sum::<u64>();
        self.send_on(id, leaving);
    }
}

fn node_of(op: &mut Op) -> &mut WaitingNode {
    match op {
        Op::Waiting(node) => node,
        _ => unreachable!("only waiting nodes are asked"),
    }
}
