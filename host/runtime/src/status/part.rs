//! A worker's own half: what it answers when it is asked. It only looks, at the end of a step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loom_delivery::Ledger;
use loom_plugin::Breaker;
use loom_types::{CommitOffset, Moment, PartitionId, TopicPartition, WorkerIndex};

use super::board::{Berth, Detail, Part, Site};
use super::document::{
    BreakerStatus, ClientError, CommitStatus, ExpanderStatus, HistogramStatus, Intake, NodeStatus,
    OutputStatus, PartitionStatus, PluginRef, SinkStatus,
};
use super::merge::millis;
use super::places::{Places, until_probe};
use crate::nodes::{Flow, Node, Op};
use crate::stop::Bell;
use crate::worker::{Outside, Phase, Worker};

/// What a client says of a partition counts as repeated when it came within this time.
const FRESH: Duration = Duration::from_secs(5);

impl Worker {
    /// What this worker knows.
    pub(crate) fn part(&self, detail: Detail, now: Moment) -> Part {
        let client_error = self.last_client_error.as_ref().map(|(text, at)| ClientError {
            worker: Some(self.flow.shared.worker.0),
            age_ms: millis(now.since(*at)),
            text: text.clone(),
        });
        Part {
            at: Instant::now(),
            detail,
            draining: self.phase != Phase::Running,
            partitions: self.partition_parts(detail, now),
            troubles: self.partitions.iter().map(|partition| partition.trouble(now)).collect(),
            nodes: nodes(&self.flow, now),
            outputs: outputs(&self.flow),
            commits: CommitStatus {
                requests: self.flow.shared.counters.commits,
                failures: self.flow.shared.counters.commit_failures,
                set_from_outside: self.moved_by_others(),
                failing_ms: self.commits.failing_since().map(|since| millis(now.since(since))),
                last_error: self.commits.failing_since().and(self.commit_error.clone()),
            },
            client_error,
            cycles: self.flow.shared.counters.cycles,
            dropped_lately: self.flow.shared.drops.lately(now).unwrap_or_default(),
            resolution: self.flow.shared.accounts.resolution().into(),
        }
    }

    fn partition_parts(&self, detail: Detail, now: Moment) -> Vec<PartitionStatus> {
        let held = self.held();
        let accounts = &self.flow.shared.accounts;
        let mut places = match detail {
            Detail::Places => Places::of(&self.flow, now),
            Detail::Numbers => Places::default(),
        };
        let each = accounts.partitions().map(|(id, tracker)| {
            let partition = &self.partitions[id.index()];
            let outstanding = tracker.outstanding();
            let intake = match () {
                () if self.phase != Phase::Running => Intake::Closed,
                () if partition.commit_first && self.commits.acknowledged(id).is_none() => Intake::Starting,
                () if self.leaves_reading_to_the_owner() => Intake::Starting,
                () if held[id.index()] => Intake::Held,
                () if self.is_at_bound(id) => Intake::Bounded,
                () if partition.at_end => Intake::AtEnd,
                () => Intake::Open,
            };
            PartitionStatus {
                topic: partition.name.topic.to_string(),
                partition: partition.name.partition,
                worker: self.flow.shared.worker.0,
                position: tracker.position().0,
                committed: self.commits.acknowledged(id).map(|offset| offset.0),
                floor: tracker.floor().map(|offset| offset.0),
                end: partition.at_end.then_some(tracker.position().0),
                lag: None,
                intake,
                outstanding_records: tracker.ledger().outstanding,
                outstanding_bytes: outstanding.bytes,
                oldest: places.oldest(id, tracker, now),
                stalled: None,
                ledger: tracker.ledger().into(),
            }
        });
        each.collect()
    }

    /// Whether so much of the partition is unresolved, or kept, that no more is taken.
    fn is_at_bound(&self, id: PartitionId) -> bool {
        let outstanding = self.flow.shared.accounts.tracker(id).outstanding();
        let bounds = self.flow.shared.bounds;
        outstanding.records >= bounds.records
            || outstanding.bytes >= bounds.bytes
            || !self.flow.shared.room().is_there(id)
            || self.flow.shared.holdings.stop(id)
    }
}

impl crate::worker::Partition {
    /// What its client keeps saying instead of giving records.
    fn trouble(&self, now: Moment) -> Option<String> {
        let trouble = self.trouble.as_ref()?;
        let lasts = self.outside != Outside::No || now.since(trouble.last) < FRESH;
        lasts.then(|| trouble.text.clone())
    }
}

/// The plugin at a node.
pub(super) fn plugin(op: &Op) -> Option<PluginRef> {
    let (name, digest) = op.plugin()?;
    Some(PluginRef { name: name.to_owned(), digest: digest.to_owned() })
}

/// A partition where its worker begins.
pub(crate) struct Start {
    pub name: TopicPartition,
    pub position: CommitOffset,
    pub committed: Option<CommitOffset>,
    pub floor: Option<CommitOffset>,
}

/// A worker before it said anything, with these partitions and nodes.
pub(crate) fn berth(bell: Arc<Bell>, worker: WorkerIndex, starts: &[Start], graph: &[Node]) -> Berth {
    let partitions = starts.iter().map(|start| PartitionStatus {
        topic: start.name.topic.to_string(),
        partition: start.name.partition,
        worker: worker.0,
        position: start.position.0,
        committed: start.committed.map(|offset| offset.0),
        floor: start.floor.map(|offset| offset.0),
        end: None,
        lag: None,
        intake: Intake::Starting,
        outstanding_records: 0,
        outstanding_bytes: 0,
        oldest: None,
        stalled: None,
        ledger: (&Ledger::default()).into(),
    });
    let part = Part {
        at: Instant::now(),
        detail: Detail::Numbers,
        draining: false,
        partitions: partitions.collect(),
        troubles: vec![None; starts.len()],
        nodes: Vec::new(),
        outputs: Vec::new(),
        commits: CommitStatus::default(),
        client_error: None,
        cycles: 0,
        dropped_lately: 0,
        resolution: HistogramStatus::default(),
    };
    let sites = graph.iter().map(|node| Site {
        node: node.path.clone(),
        name: node.name.clone(),
        plugin: plugin(&node.op),
    });
    Berth { bell, part, sites: sites.collect() }
}

fn nodes(flow: &Flow, now: Moment) -> Vec<NodeStatus> {
    let mut nodes: BTreeMap<&str, NodeStatus> = BTreeMap::new();
    for node in &flow.nodes {
        let one = of_node(node, now);
        match nodes.get_mut(&*node.path) {
            Some(sum) => together(sum, one),
            None => {
                nodes.insert(&node.path, one);
            }
        }
    }
    for ((path, kind), rows) in &flow.shared.counters.errors {
        if let Some(node) = nodes.get_mut(&**path) {
            node.errors.insert(kind.name().to_owned(), *rows);
        }
    }
    nodes.into_values().collect()
}

/// Adds a part of a node that has several, such as the conditions of a `fork`: one of them sees every row.
fn together(sum: &mut NodeStatus, one: NodeStatus) {
    sum.rows = sum.rows.max(one.rows);
    sum.retries += one.retries;
    sum.waiting += one.waiting;
    sum.plugin = sum.plugin.take().or(one.plugin);
    // Parts of a node count the calls of all its plugins together.
    sum.calls = sum.calls.take().or(one.calls);
    sum.expander = sum.expander.or(one.expander);
    sum.breaker = match (sum.breaker, one.breaker) {
        (Some(sum), Some(one)) => Some(BreakerStatus {
            open: sum.open.max(one.open),
            probe_in_ms: [sum.probe_in_ms, one.probe_in_ms].into_iter().flatten().min(),
        }),
        (sum, one) => sum.or(one),
    };
}

fn of_node(node: &Node, now: Moment) -> NodeStatus {
    let mut status = NodeStatus {
        node: node.path.to_string(),
        name: node.name.as_deref().map(str::to_owned),
        kind: kind(&node.op).to_owned(),
        plugin: plugin(&node.op),
        rows: node.rows,
        retries: node.retries,
        calls: node.calls.as_ref().map(|calls| (&calls.read()).into()),
        ..NodeStatus::default()
    };
    let made = || ExpanderStatus { made: node.made, defaulted: node.defaulted };
    match &node.op {
        Op::Plugin(inner) => {
            status.waiting = inner.waiting() as u64;
            status.breaker = Some(breaker(&inner.breaker, now));
            status.expander = inner.pace.is_some().then(made);
        }
        Op::Waiting(inner) => {
            status.waiting = inner.waiting() as u64;
            status.breaker = Some(breaker(inner.breaker(), now));
            status.expander = inner.grows().then(made);
        }
        Op::Join(node) => status.waiting = node.waiting() as u64,
        Op::Batch(inner) => {
            status.waiting = inner.waiting() as u64;
            status.breaker = Some(breaker(inner.breaker(), now));
            status.expander = inner.grows().then(made);
        }
        Op::Collect(node) => status.waiting = node.waiting() as u64,
        Op::Sink(node) => {
            status.waiting = node.sink.waiting() as u64;
            status.sink = Some(SinkStatus {
                open: node.sink.open() as u64,
                flushes: node.sink.flushes,
                violations: node.sink.violations,
                wait_in_ms: node.sink.waits_until().map(|until| millis(until.since(now))),
            });
        }
        _ => {}
    }
    status
}

fn breaker(breaker: &Breaker, now: Moment) -> BreakerStatus {
    let open = breaker.is_open();
    BreakerStatus { open: u32::from(open), probe_in_ms: open.then(|| until_probe(breaker, now)) }
}

fn kind(op: &Op) -> &'static str {
    match op {
        Op::Plugin(_) => "plugin",
        Op::Waiting(_) => "waiting",
        Op::Map { .. } => "map",
        Op::Test { .. } => "condition",
        Op::Key { .. } => "key",
        Op::Select { .. } => "selector",
        Op::Router { .. } | Op::Join(_) => "router",
        Op::Collect(_) => "batches",
        Op::Batch(node) if node.is_direct() => "plugin",
        Op::Batch(_) => "waiting",
        Op::Broadcast(_) => "broadcast",
        Op::Topic { .. } => "topic",
        Op::Sink(_) => "sink",
    }
}

fn outputs(flow: &Flow) -> Vec<OutputStatus> {
    let counts = flow.outputs.counts();
    counts
        .map(|(output, counts)| OutputStatus {
            topic: flow.shared.plan.outputs[output.0].topic.to_string(),
            pending: counts.pending,
            in_flight: counts.in_flight,
            acknowledged: counts.acknowledged,
            refused: counts.refused,
            resent: counts.resent,
            past_retention: counts.past_retention,
            waiting_ms: None,
        })
        .collect()
}
