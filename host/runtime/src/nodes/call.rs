//! Nodes of plugins that are called for rows: calls, late verdicts, and the breaker.
//!
//! Three things can hold rows here: a row of their partition that is to be tried again, the breaker, while the plugin
//! traps on every row, and, where rows are made of rows, the bound of what is made. Each holds them in their partition's
//! window, in order; what is held is in flight, its partition is not polled. A partition without anything late has no
//! window, and its rows go through in whole batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Mutation, Token, mutated};
use loom_plugin::{Breaker, Cause, Permit, RowFailure};
use loom_types::{Batch, Moment, Moves, PartitionId};

use super::exits::{Exits, Outcome};
use super::growth::{self, Pace, Room};
use super::plugins::{Label, RowAnswers, RowCalls};
use super::{Flow, NodeId, Op};
use crate::holdings::Seen;
use crate::late::{Judged, Leaving, Stand, Window, judge};
use crate::rows::{Row, RowSet};

/// A plugin at a node.
pub(crate) struct PluginNode {
    pub plugin: Label,
    pub calls: Box<dyn RowCalls>,
    /// Names the node in log lines.
    pub span: tracing::Span,
    pub exits: Arc<Exits>,
    /// Where rows are made of rows: how many are called with at a time.
    pub pace: Option<Pace>,
    /// Of the partitions that have something late.
    pub windows: BTreeMap<PartitionId, Window>,
    pub breaker: Breaker,
    /// Calls after the first that a row answered `retry` gets; none = without limit.
    pub retries: Option<u32>,
}

impl PluginNode {
    /// The plugin's name and digest.
    pub(crate) fn name(&self) -> (&str, &str) {
        (&self.plugin.name, &self.plugin.digest)
    }

    /// The partitions that have rows here.
    pub(crate) fn holding(&self) -> impl Iterator<Item = PartitionId> {
        self.windows.keys().copied()
    }

    /// How many rows wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.rows().count()
    }

    /// Every row that is here, with since when, and how it stands.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Row, Moment, Stand)> {
        self.windows.values().flat_map(Window::rows)
    }

    /// The first row that is here of each partition.
    pub(crate) fn firsts(&self) -> impl Iterator<Item = &Row> {
        self.windows.values().filter_map(Window::first)
    }

    /// Shows every row that is here, to whoever counts what they keep.
    pub(crate) fn show(&self, seen: &mut Seen) {
        self.windows.values().for_each(|window| window.show(seen));
    }

    /// Rows that were copied go on as their copies.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        self.windows.values_mut().for_each(|window| window.follow(moves));
    }

    /// Gives every row up that waits here, at a stop.
    pub(crate) fn abandon(&mut self) {
        for (_, mut window) in std::mem::take(&mut self.windows) {
            window.drain().into_iter().for_each(|row| row.token.give_up());
        }
    }

    /// When something is to be called here.
    pub(crate) fn next_due(&self, room: Room<'_>) -> Option<Moment> {
        let due = self.open_windows(room).filter_map(|(_, window)| window.next_call(usize::MAX));
        let due = due.map(|(_, due)| due).min()?;
        match self.breaker.permit(due) {
            Permit::Wait { until } => Some(until),
            Permit::Probe | Permit::Rows { .. } => Some(due),
        }
    }

    /// The windows whose rows the bound of what is made does not hold.
    fn open_windows<'n>(&'n self, room: Room<'n>) -> impl Iterator<Item = (PartitionId, &'n Window)> {
        let windows = self.windows.iter().map(|(partition, window)| (*partition, window));
        windows.filter(move |(partition, window)| self.pace.is_none() || room.lets(*partition, window))
    }

    /// The partition's window, new where nothing of it was late.
    fn window(&mut self, partition: PartitionId) -> &mut Window {
        self.windows.entry(partition).or_insert_with(|| Window::new(true))
    }

    /// The first partition that has something to be called, and how many rows at most.
    fn due(&self, now: Moment, room: Room<'_>) -> Option<(PartitionId, usize)> {
        let is_due = |window: &Window| window.next_call(usize::MAX).is_some_and(|(_, due)| due <= now);
        let (partition, _) = self.open_windows(room).find(|(_, window)| is_due(window))?;
        Some((partition, self.pace.as_ref().map_or(usize::MAX, |pace| pace.rows(room.left(partition)))))
    }

    /// How many of these rows to call with at once, from the first on.
    fn at_once(&self, rows: &RowSet, room: Room<'_>) -> usize {
        let Some(pace) = &self.pace else { return rows.len() };
        let each = rows.tokens.iter().map(|token| pace.rows(room.left(token.partition())));
        each.min().unwrap_or_default()
    }

    fn call(&mut self, batch: &Arc<Batch>, ids: &[u32], now: Moment) -> RowAnswers {
        let allowance = match self.breaker.permit(now) {
            Permit::Rows { allowance } => allowance,
            Permit::Probe | Permit::Wait { .. } => u32::MAX,
        };
        let answers = self.calls.call(batch, ids, allowance);
        record(&mut self.breaker, &self.plugin, answers.answered as u32, &answers.failures, now);
        answers
    }
}

/// Tells a node's breaker how calls for `answered` rows ended, and people when it opens or closes.
pub(super) fn record(
    breaker: &mut Breaker,
    plugin: &Label,
    answered: u32,
    failures: &[RowFailure],
    now: Moment,
) {
    let was_open = breaker.is_open();
    let is_open = breaker.record(answered, failures, now);
    if is_open && !was_open {
        tracing::error!(
            plugin = &*plugin.name,
            digest = &*plugin.digest,
            "the plugin traps on every row: its node holds them, and probes with one at a time"
        );
    } else if was_open && !is_open {
        tracing::info!(plugin = &*plugin.name, "the plugin works again, its node goes on");
    }
}

/// Says that a row waits for its next attempt, and its partition with it.
pub(super) fn log_retry(row: &Row, wait: Duration) {
    let source = row.batch.source(row.id);
    tracing::warn!(
        topic = &**source.topic,
        partition = source.partition,
        offset = source.offset.0,
        attempt = row.attempts,
        wait_ms = wait.as_millis() as u64,
        reason = row.answer.as_deref(),
        "record is to be tried again, its partition waits"
    );
}

impl Flow {
    /// Rows come to a plugin node.
    pub(super) fn arrive(&mut self, id: NodeId, mut rows: RowSet) {
        while !rows.is_empty() {
            rows = self.hold(id, rows);
            let node = node_of(&mut self.nodes[id.0].op);
            let rest = rows.split_off(node.at_once(&rows, self.shared.room()));
            if !rows.is_empty() {
                self.call_first(id, rows);
            }
            rows = rest;
        }
    }

    /// Puts rows that may not be called now into their windows; the others are left.
    fn hold(&mut self, id: NodeId, rows: RowSet) -> RowSet {
        let now = self.shared.now;
        let (node, room) = (node_of(&mut self.nodes[id.0].op), self.shared.room());
        let grows = node.pace.is_some();
        // Rows that are called with in several turns must not each have one more when a stop will not wait.
        let all = node.breaker.is_open() || grows && self.shared.interrupt.is_set();
        if !all && !grows && node.windows.is_empty() || mutated(Mutation::WaitingIsOvertaken) {
            return rows;
        }
        let (waiting, free) = rows.partition(|_, token| {
            let partition = token.partition();
            all || node.windows.contains_key(&partition) || grows && !room.is_there(partition)
        });
        for row in waiting.into_rows(0) {
            node.window(row.partition()).push(row, now);
        }
        free
    }

    /// Calls the plugin for rows whose partitions have nothing late, for the first time, and sends each where its verdict
    /// says. From the first one that is late on, a partition's rows go into its window.
    fn call_first(&mut self, id: NodeId, rows: RowSet) {
        let (now, random) = (self.shared.now, self.shared.random);
        self.shared.calling.begins(id.0);
        let node = node_of(&mut self.nodes[id.0].op);
        let (in_node, exits) = (node.span.clone().entered(), node.exits.clone());
        let RowAnswers { answered, said, failures } = node.call(&rows.batch, &rows.ids, now);
        self.shared.calling.ends();
        self.shared.holdings.add(said.memory());
        let outcome = Outcome::of(said, &rows.batch, &rows.ids);
        let given = rows.ids.iter().copied().zip(&rows.tokens);
        self.count_made(id, &outcome, &rows.batch, given);
        if failures.is_empty() && answered == rows.len() {
            drop(in_node);
            return self.pass(id, &exits, rows, outcome);
        }

        let node = node_of(&mut self.nodes[id.0].op);
        let mut leaving = Vec::with_capacity(answered);
        let mut failures = failures.into_iter().peekable();
        let mut retried = 0;
        for (position, row) in rows.into_rows(1).enumerate() {
            let partition = row.partition();
            if position >= answered {
                // The breaker opened before its turn, or a stop would not wait for it.
                node.window(partition).push(Row { attempts: 0, ..row }, now);
                continue;
            }
            let late = node.windows.contains_key(&partition) && !mutated(Mutation::AnsweredOvertake);
            let failure = failures.next_if(|failure| failure.position as usize == position);
            let leaves = match failure {
                None => outcome.of_row(position, row, &exits),
                Some(RowFailure { cause, reason, .. }) => {
                    match judge(row, cause, reason, cause == Cause::Retry, node.retries, random) {
                        Judged::Again(row, wait) => {
                            if !late {
                                log_retry(&row, wait);
                            }
                            retried += 1;
                            node.window(partition).push_again(row, now + wait, now);
                            continue;
                        }
                        Judged::Leaves(row) => Leaving::Failed(row),
                    }
                }
            };
            if late {
                node.window(partition).push_done(leaves, now);
            } else {
                leaving.push(leaves);
            }
        }
        drop(in_node);
        self.count_retries(id, retried);
        self.send_on(id, leaving);
    }

    /// Counts the rows that were made of those of a call, each with its token.
    fn count_made<'r>(
        &mut self,
        id: NodeId,
        outcome: &Outcome,
        batch: &Batch,
        rows: impl Iterator<Item = (u32, &'r Token)>,
    ) {
        let Outcome::Made(made) = outcome else { return };
        let node = &mut self.nodes[id.0];
        node.made += made.batch.len() as u64;
        if let Some(pace) = &mut node_of(&mut node.op).pace {
            growth::count(&mut self.shared.accounts, pace, made, batch, rows);
        }
    }

    /// Calls what is due at a plugin node. While the breaker is open one row probes, each time the next one; when it has
    /// closed, the others follow.
    pub(crate) fn progress_plugin(&mut self, id: NodeId) {
        let now = self.shared.now;
        loop {
            let node = node_of(&mut self.nodes[id.0].op);
            let most = match node.breaker.permit(now) {
                Permit::Wait { .. } => return,
                Permit::Probe => 1,
                Permit::Rows { .. } => usize::MAX,
            };
            let Some((partition, fit)) = node.due(now, self.shared.room()) else { return };
            if self.shared.interrupt.is_set() {
                return;
            }
            self.call_late(id, partition, most.min(fit));
        }
    }

    /// Calls the rows that are next in a partition's window, at most so many, and sends on what may leave then.
    fn call_late(&mut self, id: NodeId, partition: PartitionId, most: usize) {
        let (now, random) = (self.shared.now, self.shared.random);
        let node = node_of(&mut self.nodes[id.0].op);
        let Some(mut window) = node.windows.remove(&partition) else { return };
        let numbers = window.call_together(most, now);
        let rows: Vec<&Row> = numbers.iter().filter_map(|number| window.unsettled(*number)).collect();
        let ids: Vec<u32> = rows.iter().map(|row| row.id).collect();
        let Some(batch) = rows.first().map(|row| row.batch.clone()) else {
            node.windows.insert(partition, window);
            return;
        };
        let (in_node, exits) = (node.span.clone().entered(), node.exits.clone());
        self.shared.calling.begins(id.0);
        let RowAnswers { answered, said, failures } = node.call(&batch, &ids, now);
        self.shared.calling.ends();
        self.shared.holdings.add(said.memory());
        let outcome = Outcome::of(said, &batch, &ids);
        self.count_made(id, &outcome, &batch, rows.iter().map(|row| (row.id, &row.token)));

        let node = node_of(&mut self.nodes[id.0].op);
        let mut failures = failures.into_iter().peekable();
        let mut retried = 0;
        for (position, number) in numbers.into_iter().enumerate() {
            if position >= answered {
                window.put_back(number, now);
                continue;
            }
            let Some(row) = window.answered(number) else { continue };
            let failure = failures.next_if(|failure| failure.position as usize == position);
            let Some(RowFailure { cause, reason, .. }) = failure else {
                window.settle(number, outcome.of_row(position, row, &exits));
                continue;
            };
            match judge(row, cause, reason, cause == Cause::Retry, node.retries, random) {
                Judged::Again(row, wait) => {
                    if window.is_first_again(number) {
                        log_retry(&row, wait);
                    }
                    retried += 1;
                    window.retry(number, row, now + wait);
                }
                Judged::Leaves(row) => window.settle(number, Leaving::Failed(row)),
            }
        }
        drop(in_node);
        let leaving: Vec<Leaving> = std::iter::from_fn(|| window.leave()).collect();
        if !window.is_empty() {
            node.windows.insert(partition, window);
        }
        self.count_retries(id, retried);
        self.send_on(id, leaving);
    }

    /// Rows are to be tried again at a node.
    pub(super) fn count_retries(&mut self, id: NodeId, rows: u64) {
        self.shared.counters.retries += rows;
        self.nodes[id.0].retries += rows;
    }
}

fn node_of(op: &mut Op) -> &mut PluginNode {
    match op {
        Op::Plugin(node) => node,
        _ => unreachable!("only plugin nodes are called"),
    }
}
