//! What becomes of rows that a node could not get through: an error route, or the end.
//!
//! A route is a process of its own; what fails inside one is not routed again, but ends under its first kind.

use std::sync::Arc;

use loom_delivery::{Mutation, Token, mutated};
use loom_flow::plan::Unrouted;
use loom_types::{Batch, Ending, ErrorKind, WorkerIndex};

use super::plugins::made_memory;
use super::{Flow, Node, NodeId, Op};
use crate::envelope::{PluginName, Site, dead_letter as dead_letter_of, envelopes, reason_of};
use crate::outputs::Refused;
use crate::rows::{FailedRow, Row, RowSet, ending};

/// How people are told of rows that failed and that no route takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    /// One by one.
    Each,
    /// They were, together.
    Together,
}

impl Flow {
    /// Routes or ends failed rows of a node.
    pub(super) fn failed(&mut self, node: NodeId, failed: Vec<FailedRow>) {
        self.failed_told(node, failed, Told::Each);
    }

    fn failed_told(&mut self, node: NodeId, mut failed: Vec<FailedRow>, told: Told) {
        for FailedRow { row, reason, .. } in &mut failed {
            if let Some(both) = after_the_first(row.route, &row.batch, row.id, reason) {
                *reason = both;
            }
        }
        while !failed.is_empty() {
            // A route takes rows of one kind and one source batch; neighbours mostly share both.
            let (kind, batch) = (failed[0].kind, failed[0].row.batch.clone());
            let same = failed
                .iter()
                .take_while(|row| row.kind == kind && std::sync::Arc::ptr_eq(&row.row.batch, &batch))
                .count();
            let rest = failed.split_off(same);
            self.failed_alike(node, kind, failed, told);
            failed = rest;
        }
    }

    fn failed_alike(&mut self, id: NodeId, kind: ErrorKind, mut failed: Vec<FailedRow>, told: Told) {
        // An error row carries the key that the node was given.
        if failed[0].row.batch.is_rekeyed() {
            let batch = Arc::new(Batch::clone(&failed[0].row.batch).with_former_keys());
            failed.iter_mut().for_each(|failed| failed.row.batch = batch.clone());
        }
        self.shared.counters.failed(&self.nodes[id.0].path, kind, failed.len() as u64);
        self.route(id, kind, failed, told);
    }

    /// Routes or ends failed rows of one batch at its node. Those that failed for one reason, as all do whose call failed, are
    /// told in one line with their number.
    pub(super) fn failed_in_batch(&mut self, id: NodeId, mut failed: Vec<FailedRow>) {
        while !failed.is_empty() {
            let first = &failed[0];
            let alike = |row: &&FailedRow| row.kind == first.kind && row.reason == first.reason;
            let rest = failed.split_off(failed.iter().take_while(alike).count());
            let told = if failed.len() > 1 {
                let (node, rows) = (&self.nodes[id.0], failed.len() as u64);
                if self.shared.drops.may_tell(&node.path, failed[0].kind, rows, self.shared.now) {
                    log_alike(&self.shared.plan.name, node, self.shared.worker, &failed);
                }
                Told::Together
            } else {
                Told::Each
            };
            self.failed_told(id, failed, told);
            failed = rest;
        }
    }

    /// Rows that an output refused for good. Each goes to the output's `dlq`; one that has none, or that it refused too,
    /// is a delivery error.
    pub(crate) fn refused(&mut self, rows: Vec<Refused>) {
        for refused in rows {
            let Refused { node: id, dead_letter, route, batch, row, token, attempts, reason } = refused;
            let Op::Topic { dlq, .. } = &self.nodes[id.0].op else {
                unreachable!("only outputs refuse rows")
            };
            // The letter's headers tell of the first refusal, and count it; what they tell of in a route is in it already.
            let reason = if dead_letter {
                let first = reason_of(&batch, row).unwrap_or_default();
                format!("{first}; and its `dlq` likewise: {reason}")
            } else {
                after_the_first(route, &batch, row, &reason).unwrap_or(reason)
            };
            // Also its dead letter and its error row carry the key that the node was given.
            let batch = Arc::new(Batch::clone(&batch).with_former_keys());
            if dead_letter {
                let row = Row::new(batch, row, token, route, 0);
                self.route(
                    id,
                    ErrorKind::Delivery,
                    vec![FailedRow { row, kind: ErrorKind::Delivery, reason }],
                    Told::Each,
                );
                continue;
            }
            let Some(dlq) = *dlq else {
                let row = Row::new(batch, row, token, route, attempts);
                let failed = FailedRow { row, kind: ErrorKind::Delivery, reason };
                self.failed_alike(id, ErrorKind::Delivery, vec![failed], Told::Each);
                continue;
            };
            self.shared.counters.failed(&self.nodes[id.0].path, ErrorKind::Delivery, 1);
            let letter = dead_letter_of(&batch, row, &reason, attempts);
            let failed = [FailedRow {
                row: Row::new(batch, row, token, route, attempts),
                kind: ErrorKind::Delivery,
                reason,
            }];
            log_batch(&self.shared.plan.name, &self.nodes[id.0].path, None, &failed, "sent to the dlq");
            let tokens = failed.into_iter().map(|failed| failed.row.token).collect();
            let ending = ending(route, Ending::DeadLetter);
            self.outputs.push_dead_letters(dlq, id, ending, RowSet::all(letter, tokens, route));
        }
    }

    fn route(&mut self, id: NodeId, kind: ErrorKind, mut failed: Vec<FailedRow>, told: Told) {
        let route = self.nodes[id.0].errors[kind.index()];
        match route {
            Some(route) if failed[0].row.route.is_none() && !mutated(Mutation::RouteIsForgotten) => {
                let node = &self.nodes[id.0];
                let plugin = node.op.plugin();
                let plugin = plugin.map(|(name, digest)| (name.to_owned().into(), digest.to_owned().into()));
                let plugin = plugin.map(|(name, digest)| PluginName { name, digest });
                log_batch(&self.shared.plan.name, &node.path, plugin.as_ref(), &failed, "routed");
                let (flow, path, name) =
                    (self.shared.plan.name.clone(), node.path.clone(), node.name.clone());
                let failed_at_ms = self.shared.wall_ms;
                let site = Site { flow: &flow, node: &path, name: name.as_deref(), plugin, failed_at_ms };
                while !failed.is_empty() {
                    let batch = envelopes(&site, &failed);
                    self.shared.holdings.add(made_memory(&batch));
                    let rest = failed.split_off(batch.len());
                    let tokens = failed.into_iter().map(|failed| failed.row.token).collect();
                    let rows = RowSet::all(batch, tokens, Some(kind));
                    self.run(self.routes[route.0], id, rows);
                    failed = rest;
                }
            }
            _ => {
                for failure in failed {
                    self.unrouted(id, failure, told);
                }
            }
        }
    }

    fn unrouted(&mut self, id: NodeId, failed: FailedRow, told: Told) {
        let FailedRow { row, kind, reason } = failed;
        let node = &self.nodes[id.0];
        let plugin = node.op.plugin().map(|(name, _)| name);
        // Inside a route the record ends under the kind that brought it there.
        let first = row.route.unwrap_or(kind);
        let source = row.batch.source(row.id);
        let place = format!("{}/{} offset {}", source.topic, source.partition, source.offset);
        let tracked = self.shared.accounts.is_tracked();
        let refused = kind == ErrorKind::Delivery && tracked;
        let stop = refused || self.shared.plan.unrouted == Unrouted::Stop;
        if let Some(probe) = &self.shared.probe {
            probe.unrouted(&crate::probe::Unrouted {
                node: &node.path,
                kind,
                source,
                reason: &reason,
                stops: stop,
            });
        }
        // A macro, since tracing fixes the level of an event at compile time.
        macro_rules! told {
            ($level:expr, $message:literal) => {
                tracing::event!(
                    $level,
                    flow = &*self.shared.plan.name,
                    worker = self.shared.worker.0,
                    node = &*node.path,
                    name = node.name.as_deref(),
                    plugin,
                    topic = &**source.topic,
                    partition = source.partition,
                    offset = source.offset.0,
                    row = source.row,
                    kind = kind.name(),
                    reason = &*reason,
                    $message
                )
            };
        }
        let tells = stop
            || told == Told::Together
            || self.shared.drops.may_tell(&node.path, kind, 1, self.shared.now);
        match (stop, kind) {
            _ if !tells => {}
            // One record is enough to say: those behind it mostly fail for the same reason.
            (true, _) if self.shared.named => told!(tracing::Level::DEBUG, "record refused too"),
            (true, _) => told!(tracing::Level::ERROR, "record refused, the flow stops"),
            (false, _) if told == Told::Together => {
                told!(tracing::Level::DEBUG, "record failed with its batch, dropped")
            }
            (false, ErrorKind::Business) => told!(tracing::Level::WARN, "record rejected, dropped"),
            (false, _) => told!(tracing::Level::ERROR, "record failed, dropped"),
        }
        if stop {
            let path = node.label();
            let why = match () {
                () if refused && row.route.is_some() => {
                    "an error route whose output refuses a record stops the flow"
                }
                () if refused => "a delivery error without a route stops the flow",
                () if tracked => "`errors.unrouted: stop` stops the flow (the default under `at_least_once`)",
                () => "`errors.unrouted: stop` stops the flow",
            };
            let hint = match row.route {
                None => would_route(kind, source.topic),
                Some(_) => "what fails inside an error route is not routed again: mend the route".to_owned(),
            };
            self.shared.refuse(|| {
                format!(
                    "{place}: {kind} error at {path}: {reason}; {why}, and the record is not committed; {hint}"
                )
            });
            Token::give_up(row.token);
        } else {
            self.shared.drop_row(row.token, first);
        }
    }
}

/// The line of YAML that would route errors of a kind. Nobody knows which topic is meant; this one has a name that is right.
fn would_route(kind: ErrorKind, topic: &str) -> String {
    format!(
        "under `errors:` at the top of the flow the line `{kind}: [ {{ into_topic: {topic}.failed }} ]` would route it"
    )
}

/// What is said of a row that fails in an error route: why it came there, and why it could not stay. None where it is in
/// no route, or a node of it took the reason off the row.
fn after_the_first(route: Option<ErrorKind>, batch: &Batch, row: u32, reason: &str) -> Option<String> {
    route?;
    let first = reason_of(batch, row)?;
    Some(format!("{first}; and in its error route: {reason}"))
}

/// One line for rows of a batch that failed for one reason, whatever becomes of them.
fn log_alike(flow: &str, node: &Node, worker: WorkerIndex, failed: &[FailedRow]) {
    let first = &failed[0];
    let source = first.row.batch.source(first.row.id);
    macro_rules! tell {
        ($level:expr, $message:literal) => {
            tracing::event!(
                $level,
                flow,
                worker = worker.0,
                node = &*node.path,
                plugin = node.op.plugin().map(|(name, _)| name),
                topic = &**source.topic,
                partition = source.partition,
                offset = source.offset.0,
                row = source.row,
                rows = failed.len(),
                kind = first.kind.name(),
                reason = &*first.reason,
                $message
            )
        };
    }
    match first.kind {
        ErrorKind::Business => tell!(tracing::Level::WARN, "records of a batch rejected together"),
        _ => tell!(tracing::Level::ERROR, "records of a batch failed together"),
    }
}

/// One line for rows that take a route together.
fn log_batch(flow: &str, node: &str, plugin: Option<&PluginName<'_>>, failed: &[FailedRow], outcome: &str) {
    let first = &failed[0];
    let source = first.row.batch.source(first.row.id);
    tracing::debug!(
        flow,
        node,
        plugin = plugin.map(|plugin| &*plugin.name),
        topic = &**source.topic,
        partition = source.partition,
        offset = source.offset.0,
        rows = failed.len(),
        kind = first.kind.name(),
        reason = &*first.reason,
        "records {outcome}"
    );
}
