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

use loom_delivery::{Mutation, mutated};
use loom_plugin::{Breaker, Cause, Permit, RowFailure};
use loom_types::{Moment, PartitionId};

use super::call::{log_retry, record};
use super::plugins::Label;
use super::{Flow, NodeId, Op, Target};
use crate::late::{Judged, Leaving, Stand, Window, judge};
use crate::rows::{FailedRow, Row, RowSet};

pub(crate) use calls::{Answered, Fault, RowAnswer, WaitingCalls};

/// What a waiting node is made of.
pub(crate) struct Waiting {
    pub plugin: Label,
    /// Names the node in log lines.
    pub span: tracing::Span,
    /// Where rows go that got through, or that the predicate says yes to.
    pub yes: Target,
    /// Where rows go that the predicate says no to.
    pub no: Target,
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
}

impl WaitingNode {
    pub(crate) fn new(parts: Waiting) -> Self {
        WaitingNode {
            parts,
            windows: BTreeMap::new(),
            flights: BTreeMap::new(),
            next: 0,
            last: PartitionId(0),
        }
    }

    /// The plugin's name and digest.
    pub(crate) fn name(&self) -> (&str, &str) {
        (&self.parts.plugin.name, &self.parts.plugin.digest)
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
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let probing = self.parts.breaker.is_open() && !self.flights.is_empty();
        if probing || self.is_full() {
            return None;
        }
        let most = self.parts.concurrency;
        let due =
            self.windows.values().filter_map(|window| window.next_call(most)).map(|(_, due)| due).min()?;
        match self.parts.breaker.permit(due) {
            Permit::Wait { until } => Some(until),
            Permit::Probe | Permit::Rows { .. } => Some(due),
        }
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
    fn start_calls(&mut self, now: Moment) {
        while !self.is_full() {
            match self.parts.breaker.permit(now) {
                Permit::Wait { .. } => return,
                // A probe is alone, so that it is known which row closed the breaker.
                Permit::Probe if !self.flights.is_empty() => return,
                Permit::Probe | Permit::Rows { .. } => {}
            }
            let Some((partition, number)) = self.pick(now) else { return };
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
    fn pick(&self, now: Moment) -> Option<(PartitionId, u64)> {
        let most = self.parts.concurrency;
        let after = (std::ops::Bound::Excluded(self.last), std::ops::Bound::Unbounded);
        let turn = self.windows.range(after).chain(self.windows.range(..=self.last));
        turn.filter_map(|(partition, window)| {
            let next = || window.next_call(most).filter(|(_, due)| *due <= now).map(|(number, _)| number);
            Some((*partition, window.due_again(now).or_else(next)?))
        })
        .next()
    }

    /// Takes an answer: where its row goes, or when it is tried again.
    fn settle(&mut self, answer: Answered, now: Moment, random: f64) -> Settled {
        let Some((partition, number)) = self.flights.remove(&answer.call) else { return Settled::Nothing };
        let Some(window) = self.windows.get_mut(&partition) else { return Settled::Nothing };
        let Some(row) = window.answered(number) else { return Settled::Nothing };
        let parts = &mut self.parts;
        let (leaving, counted) = match answer.verdict {
            Ok(RowAnswer::Is(yes)) => {
                let to = if yes { parts.yes } else { parts.no };
                (Leaving::Passed { row, to }, None)
            }
            Ok(RowAnswer::Changed(changes)) if changes.is_empty() => {
                (Leaving::Passed { row, to: parts.yes }, None)
            }
            Ok(RowAnswer::Changed(changes)) => {
                let batch = Arc::new(row.batch.select(&[row.id]).with(*changes));
                (Leaving::Passed { row: Row { batch, id: 0, ..row }, to: parts.yes }, None)
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

    /// Takes the answers that came, and makes the calls that are due, where more may be made. The rows that leave, and
    /// how many are to be tried again.
    fn progress(&mut self, now: Moment, random: f64, more: bool) -> (Vec<Leaving>, u64) {
        let mut answers = Vec::new();
        self.parts.calls.answers(&mut answers);
        let mut retried = 0;
        for answer in answers {
            retried += u64::from(self.settle(answer, now, random) == Settled::Retried);
        }
        let leaving = self.leave();
        if more {
            self.start_calls(now);
        }
        (leaving, retried)
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
    fn waiting_node(&mut self, id: NodeId) -> &mut WaitingNode {
        match &mut self.nodes[id.0].op {
            Op::Waiting(node) => node,
            _ => unreachable!("only waiting nodes are asked"),
        }
    }

    /// Rows come to a waiting node.
    pub(super) fn waiting_arrive(&mut self, id: NodeId, rows: RowSet) {
        let now = self.shared.now;
        let node = self.waiting_node(id);
        node.arrive(rows, now);
        let span = node.parts.span.clone();
        span.in_scope(|| node.start_calls(now));
    }

    /// Takes the answers that came to a waiting node, sends rows on, and makes the calls that are due.
    pub(crate) fn progress_waiting(&mut self, id: NodeId) {
        let (now, random) = (self.shared.now, self.shared.random);
        let interrupted = self.shared.interrupt.is_set();
        let node = self.waiting_node(id);
        let in_node = node.parts.span.clone().entered();
        let (leaving, retried) = node.progress(now, random, !interrupted);
        drop(in_node);
        self.count_retries(id, retried);
        self.send_on(id, leaving);
    }

    /// Rows leave: neighbours that go the same way go together.
    pub(super) fn send_on(&mut self, id: NodeId, leaving: Vec<Leaving>) {
        let (mut failed, mut passed): (Vec<FailedRow>, Vec<(Row, Target)>) = (Vec::new(), Vec::new());
        for leaving in leaving {
            match leaving {
                Leaving::Failed(row) => failed.push(row),
                Leaving::Passed { row, to } => passed.push((row, to)),
            }
        }
        self.failed(id, failed);
        let mut passed = passed.into_iter().peekable();
        while let Some((row, to)) = passed.next() {
            let mut same = vec![row];
            same.extend(std::iter::from_fn(|| passed.next_if(|(_, other)| *other == to)).map(|(row, _)| row));
            self.run_rows(to, id, same);
        }
    }
}
