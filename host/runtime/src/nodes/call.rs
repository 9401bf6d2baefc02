//! Nodes of step and predicate components: calls, late verdicts, and the breaker.
//!
//! Two things can hold rows here: a row of their partition that is to be tried again, and the breaker, while the plugin
//! traps on every row. Both hold them in lanes, in order; what is held is in flight, its partition is not polled.

use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Backoff, Mutation, mutated};
use loom_plugin::{Breaker, Cause, Permit, RowFailure};
use loom_types::{ErrorKind, Moment, PartitionId};

use super::plugins::{Label, RowAnswers, RowCalls};
use super::{Flow, NodeId, Op, Target};
use crate::late::{Lane, Lanes, Late, retry_backoff};
use crate::rows::{FailedRow, Row, RowSet};

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
    pub lanes: Lanes,
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
        self.lanes.partitions()
    }

    /// How many rows wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.lanes.rows().count()
    }

    /// Gives every row up that waits here, at a stop.
    pub(crate) fn abandon(&mut self) {
        self.lanes.drain().for_each(|row| row.token.give_up());
    }

    /// When something is to be tried again here.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        let due = self.lanes.next_due()?;
        match self.breaker.permit(due) {
            Permit::Wait { until } => Some(until),
            Permit::Probe | Permit::Rows { .. } => Some(due),
        }
    }

    fn call(&mut self, rows: &RowSet, now: Moment) -> RowAnswers {
        let allowance = match self.breaker.permit(now) {
            Permit::Rows { allowance } => allowance,
            Permit::Probe | Permit::Wait { .. } => u32::MAX,
        };
        let answers = self.calls.call(&rows.batch, &rows.ids, allowance);
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
pub(super) fn log_retry(row: &Row, wait: Duration, reason: &str) {
    let source = row.batch.source(row.id);
    tracing::warn!(
        topic = &**source.topic,
        partition = source.partition,
        offset = source.offset.0,
        attempt = row.attempts,
        wait_ms = wait.as_millis() as u64,
        reason,
        "record is to be tried again, its partition waits"
    );
}

/// What a failure of a call is to the record.
pub(crate) fn kind(cause: Cause) -> ErrorKind {
    match cause {
        Cause::Reject => ErrorKind::Business,
        Cause::Retry | Cause::Fail | Cause::Trap | Cause::Timeout | Cause::Protocol => ErrorKind::Task,
    }
}

/// A row whose node has tried it as often as the flow says.
pub(crate) fn retries_used_up(row: Row, reason: &str) -> FailedRow {
    let reason = format!("{reason} (attempt {}, and `retries` are used up)", row.attempts);
    FailedRow { row, kind: ErrorKind::Delivery, reason }
}

impl Flow {
    fn plugin_node(&mut self, id: NodeId) -> &mut PluginNode {
        match &mut self.nodes[id.0].op {
            Op::Plugin(node) => node,
            _ => unreachable!("only plugin nodes are called"),
        }
    }

    /// Rows come to a plugin node.
    pub(super) fn arrive(&mut self, id: NodeId, mut rows: RowSet) {
        let now = self.shared.now;
        let node = self.plugin_node(id);
        let is_open = node.breaker.is_open();
        if (is_open || !node.lanes.is_empty()) && !mutated(Mutation::WaitingIsOvertaken) {
            let (waiting, free) = rows.partition(|_, token| is_open || node.lanes.holds(token.partition()));
            for row in waiting.into_rows(0) {
                node.lanes.open(row.partition(), now, retry_backoff()).rows.push_back(Late::Again(row));
            }
            rows = free;
        }
        if !rows.is_empty() {
            self.call(id, rows, 1, retry_backoff());
        }
    }

    /// Calls the plugin for rows, for the `attempt`th time, and sends each where its verdict says. A partition whose row
    /// is to be tried again gets a lane with this backoff.
    fn call(&mut self, id: NodeId, rows: RowSet, attempt: u32, backoff: Backoff) {
        let (now, random) = (self.shared.now, self.shared.random);
        self.shared.calling.begins(id.0);
        let node = self.plugin_node(id);
        let in_node = node.span.clone().entered();
        let answers = node.call(&rows, now);
        let (yes, no, retries) = (node.yes, node.no, node.retries);
        self.shared.calling.ends();
        let used_up = retries.is_some_and(|retries| attempt > retries);

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
            let row = Row::new(batch.clone(), row, token, route, attempt);
            let lanes = &mut node_of(&mut self.nodes[id.0].op).lanes;
            if position >= answers.answered {
                // The breaker opened before its turn, or a stop would not wait for it.
                let row = Row { attempts: attempt - 1, ..row };
                lanes.open(partition, now, retry_backoff()).rows.push_back(Late::Again(row));
                continue;
            }
            let failure = failures.next_if(|failure| failure.position as usize == position);
            match failure {
                Some(failure) if failure.cause == Cause::Retry && !used_up => {
                    let mut due = now;
                    let mut backoff = backoff.clone();
                    if !lanes.holds(partition) {
                        let wait = backoff.failed(random);
                        due = now + wait;
                        log_retry(&row, wait, &failure.reason);
                    }
                    retried += 1;
                    lanes
                        .open(partition, due, backoff)
                        .rows
                        .push_back(Late::Again(row.after(&failure.reason)));
                }
                Some(failure) if failure.cause == Cause::Retry => {
                    failed.push(retries_used_up(row, &failure.reason));
                }
                Some(failure) => {
                    failed.push(FailedRow { row, kind: kind(failure.cause), reason: failure.reason });
                }
                None => {
                    let (to, set) = match &answers.yes {
                        Some(verdicts) if !verdicts[position] => (no, &mut refused),
                        _ => (yes, &mut passed),
                    };
                    let place = if changed.is_some() { position as u32 } else { row.id };
                    if lanes.holds(partition) && !mutated(Mutation::AnsweredOvertake) {
                        let row = Row { batch: after.clone(), id: place, ..row };
                        lanes.open(partition, now, retry_backoff()).rows.push_back(Late::Done { row, to });
                    } else {
                        set.push(place, row.token);
                    }
                }
            }
        }
        drop(in_node);
        self.shared.counters.retries += retried;
        self.nodes[id.0].retries += retried;
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
            let probe = match node.breaker.permit(now) {
                Permit::Wait { .. } => return,
                Permit::Probe => true,
                Permit::Rows { .. } => false,
            };
            if self.shared.interrupt.is_set() {
                return;
            }
            let node = self.plugin_node(id);
            let Some((partition, lane)) = node.lanes.take_due(now) else { return };
            self.try_lane(id, partition, lane, probe);
        }
    }

    /// Takes a lane's rows on, in order, as far as they go; what is left of them waits again.
    fn try_lane(&mut self, id: NodeId, partition: PartitionId, lane: Lane, mut probe: bool) {
        let Lane { mut rows, backoff, .. } = lane;
        let mut backoff = Some(backoff);
        while let Some(first) = rows.pop_front() {
            match first {
                Late::Done { row, to } => {
                    let mut done = vec![row];
                    while let Some(Late::Done { row, .. }) =
                        rows.pop_front_if(|late| matches!(late, Late::Done { to: other, .. } if *other == to))
                    {
                        done.push(row);
                    }
                    self.run_rows(to, id, done);
                }
                Late::Again(row) => {
                    if !probe && self.plugin_node(id).breaker.is_open() {
                        rows.push_front(Late::Again(row));
                        break;
                    }
                    // A probe is tried alone, and the row that the lane waited for; rows that were never called go
                    // together.
                    let attempts = row.attempts;
                    let mut again = RowSet::one(row);
                    if !probe && attempts == 0 {
                        while let Some(Late::Again(row)) = rows.pop_front_if(
                            |late| matches!(late, Late::Again(row) if row.attempts == 0 && again.fits(row)),
                        ) {
                            again.push(row.id, row.token);
                        }
                    }
                    probe = false;
                    self.call(id, again, attempts + 1, backoff.take().unwrap_or_else(retry_backoff));
                    if self.plugin_node(id).lanes.holds(partition) {
                        break;
                    }
                }
            }
        }
        if !rows.is_empty() {
            if mutated(Mutation::LaneIsTurned) {
                rows.make_contiguous().reverse();
            }
            let now = self.shared.now;
            self.plugin_node(id).lanes.open(partition, now, retry_backoff()).rows.extend(rows);
        }
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
