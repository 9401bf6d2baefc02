//! Nodes of step and predicate components: calls, late verdicts, and the breaker.
//!
//! Two things can hold rows here: a row of their partition that is to be tried again, and the breaker, while the plugin
//! traps on every row. Both hold them in their partition's window, in order; what is held is in flight, its partition is not
//! polled. A partition without anything late has no window, and its rows go through in whole batches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Mutation, mutated};
use loom_plugin::{Breaker, Cause, Permit, RowFailure};
use loom_types::{Batch, Moment, PartitionId};

use super::plugins::{Label, RowAnswers, RowCalls};
use super::{Flow, NodeId, Op, Target};
use crate::late::{Judged, Leaving, Stand, Window, judge};
use crate::rows::{Row, RowSet};

/// A step or predicate component at a node.
pub(crate) struct PluginNode {
    pub plugin: Label,
    pub calls: Box<dyn RowCalls>,
    /// Names the node in log lines.
    pub span: tracing::Span,
    /// Where rows go that got through, or that the predicate says yes to.
    pub yes: Target,
    /// Where rows go that the predicate says no to.
    pub no: Target,
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

    /// Gives every row up that waits here, at a stop.
    pub(crate) fn abandon(&mut self) {
        for (_, mut window) in std::mem::take(&mut self.windows) {
            window.drain().into_iter().for_each(|row| row.token.give_up());
        }
    }

    /// When something is to be tried again here.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let due = self.windows.values().filter_map(|window| window.next_call(usize::MAX));
        let due = due.map(|(_, due)| due).min()?;
        match self.breaker.permit(due) {
            Permit::Wait { until } => Some(until),
            Permit::Probe | Permit::Rows { .. } => Some(due),
        }
    }

    /// The partition's window, new where nothing of it was late.
    fn window(&mut self, partition: PartitionId) -> &mut Window {
        self.windows.entry(partition).or_insert_with(|| Window::new(true))
    }

    /// The first partition that has something to be called.
    fn due(&self, now: Moment) -> Option<PartitionId> {
        let is_due = |window: &Window| window.next_call(usize::MAX).is_some_and(|(_, due)| due <= now);
        self.windows.iter().find(|(_, window)| is_due(window)).map(|(partition, _)| *partition)
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
    fn plugin_node(&mut self, id: NodeId) -> &mut PluginNode {
        node_of(&mut self.nodes[id.0].op)
    }

    /// Rows come to a plugin node.
    pub(super) fn arrive(&mut self, id: NodeId, mut rows: RowSet) {
        let now = self.shared.now;
        let node = self.plugin_node(id);
        let is_open = node.breaker.is_open();
        if (is_open || !node.windows.is_empty()) && !mutated(Mutation::WaitingIsOvertaken) {
            let (waiting, free) =
                rows.partition(|_, token| is_open || node.windows.contains_key(&token.partition()));
            for row in waiting.into_rows(0) {
                node.window(row.partition()).push(row, now);
            }
            rows = free;
        }
        if !rows.is_empty() {
            self.call_first(id, rows);
        }
    }

    /// Calls the plugin for rows whose partitions have nothing late, for the first time, and sends each where its verdict
    /// says. From the first one that is late on, a partition's rows go into its window.
    fn call_first(&mut self, id: NodeId, rows: RowSet) {
        let (now, random) = (self.shared.now, self.shared.random);
        self.shared.calling.begins(id.0);
        let node = self.plugin_node(id);
        let in_node = node.span.clone().entered();
        let answers = node.call(&rows.batch, &rows.ids, now);
        let (yes, no, retries) = (node.yes, node.no, node.retries);
        self.shared.calling.ends();

        // The changed batch has a row for each row of the call, at its position.
        let changed = (!answers.changes.is_empty())
            .then(|| Arc::new(rows.batch.select(&rows.ids).with(answers.changes)));
        if answers.failures.is_empty() && answers.answered == rows.len() {
            drop(in_node);
            match answers.yes {
                None => self.run(yes, id, advanced(rows, changed)),
                Some(verdicts) => {
                    let (left, right) = rows.partition(|position, _| verdicts[position]);
                    self.run(yes, id, left);
                    self.run(no, id, right);
                }
            }
            return;
        }

        let RowSet { batch, ids, tokens, route } = rows;
        let after = changed.as_ref().unwrap_or(&batch).clone();
        let (mut passed, mut refused) = (
            RowSet { batch: after.clone(), ids: Vec::new(), tokens: Vec::new(), route },
            RowSet { batch: after.clone(), ids: Vec::new(), tokens: Vec::new(), route },
        );
        let mut failed = Vec::new();
        let mut failures = answers.failures.into_iter().peekable();
        let mut retried = 0;
        for (position, (row, token)) in ids.into_iter().zip(tokens).enumerate() {
            let partition = token.partition();
            let row = Row::new(batch.clone(), row, token, route, 1);
            let node = node_of(&mut self.nodes[id.0].op);
            if position >= answers.answered {
                // The breaker opened before its turn, or a stop would not wait for it.
                node.window(partition).push(Row { attempts: 0, ..row }, now);
                continue;
            }
            let late = node.windows.contains_key(&partition) && !mutated(Mutation::AnsweredOvertake);
            let failure = failures.next_if(|failure| failure.position as usize == position);
            let Some(RowFailure { cause, reason, .. }) = failure else {
                let (to, set) = match &answers.yes {
                    Some(verdicts) if !verdicts[position] => (no, &mut refused),
                    _ => (yes, &mut passed),
                };
                let place = if changed.is_some() { position as u32 } else { row.id };
                if late {
                    let row = Row { batch: after.clone(), id: place, ..row };
                    node.window(partition).push_done(Leaving::Passed { row, to }, now);
                } else {
                    set.push(place, row.token);
                }
                continue;
            };
            match judge(row, cause, reason, cause == Cause::Retry, retries, random) {
                Judged::Again(row, wait) => {
                    if !late {
                        log_retry(&row, wait);
                    }
                    retried += 1;
                    node.window(partition).push_again(row, now + wait, now);
                }
                Judged::Leaves(row) if late => node.window(partition).push_done(Leaving::Failed(row), now),
                Judged::Leaves(row) => failed.push(row),
            }
        }
        drop(in_node);
        self.count_retries(id, retried);
        self.failed(id, failed);
        self.run(yes, id, passed);
        self.run(no, id, refused);
    }

    /// Tries again what is due at a plugin node. While the breaker is open one row probes, each time the next one; when it
    /// has closed, the others follow.
    pub(crate) fn progress_plugin(&mut self, id: NodeId) {
        let now = self.shared.now;
        loop {
            let node = self.plugin_node(id);
            let most = match node.breaker.permit(now) {
                Permit::Wait { .. } => return,
                Permit::Probe => 1,
                Permit::Rows { .. } => usize::MAX,
            };
            let Some(partition) = node.due(now) else { return };
            if self.shared.interrupt.is_set() {
                return;
            }
            self.call_late(id, partition, most);
        }
    }

    /// Calls the rows that are next in a partition's window, at most so many, and sends on what may leave then.
    fn call_late(&mut self, id: NodeId, partition: PartitionId, most: usize) {
        let (now, random) = (self.shared.now, self.shared.random);
        let calling = &self.shared.calling;
        let node = node_of(&mut self.nodes[id.0].op);
        let Some(mut window) = node.windows.remove(&partition) else { return };
        let numbers = window.call_together(most, now);
        let rows: Vec<&Row> = numbers.iter().filter_map(|number| window.unsettled(*number)).collect();
        let ids: Vec<u32> = rows.iter().map(|row| row.id).collect();
        let Some(batch) = rows.first().map(|row| row.batch.clone()) else {
            node.windows.insert(partition, window);
            return;
        };
        let in_node = node.span.clone().entered();
        calling.begins(id.0);
        let answers = node.call(&batch, &ids, now);
        calling.ends();
        let changed =
            (!answers.changes.is_empty()).then(|| Arc::new(batch.select(&ids).with(answers.changes)));
        let mut failures = answers.failures.into_iter().peekable();
        let mut retried = 0;
        for (position, number) in numbers.into_iter().enumerate() {
            if position >= answers.answered {
                window.put_back(number, now);
                continue;
            }
            let Some(row) = window.answered(number) else { continue };
            let failure = failures.next_if(|failure| failure.position as usize == position);
            let Some(RowFailure { cause, reason, .. }) = failure else {
                let to = match &answers.yes {
                    Some(verdicts) if !verdicts[position] => node.no,
                    _ => node.yes,
                };
                let row = match &changed {
                    Some(changed) => Row { batch: changed.clone(), id: position as u32, ..row },
                    None => row,
                };
                window.settle(number, Leaving::Passed { row, to });
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

/// The rows in the changed batch, whose rows are at their positions; without one, as they were.
fn advanced(rows: RowSet, changed: Option<Arc<loom_types::Batch>>) -> RowSet {
    match changed {
        Some(batch) => RowSet { batch, ids: (0..rows.tokens.len() as u32).collect(), ..rows },
        None => rows,
    }
}
