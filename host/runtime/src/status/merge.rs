//! From the workers' parts to one document.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::board::{Board, Counted, Detail, Findings, Part, State};
use super::document::{
    ClientError, DroppedStatus, LedgerStatus, NodeStatus, OutputStatus, PartitionStatus, RateStatus, Stalled,
    Status, VERSION, WorkerInfo,
};
use super::ready;

/// Rates are those of a time that is no shorter.
const SHORTEST_RATE: Duration = Duration::from_secs(1);

impl Board {
    /// Asks the workers, waits for their answers at most so long, and puts them together. What a worker did not answer
    /// in time is as old as `workers` says.
    #[must_use]
    pub fn read(&self, within: Duration) -> Status {
        self.ask(Detail::Places, within);
        self.document()
    }

    /// What the workers answered last.
    #[must_use]
    pub fn document(&self) -> Status {
        let now = Instant::now();
        let state = self.lock();
        let mut status = put_together(&state, now);
        drop(state);
        status.uptime_ms = millis(now.saturating_duration_since(self.begun()));
        status.reasons = ready::reasons(&status);
        status.ready = status.reasons.is_empty();
        status
    }
}

pub(super) fn put_together(state: &State, now: Instant) -> Status {
    let mut status = Status {
        version: VERSION,
        flow: state.flow.clone(),
        group: state.group.clone(),
        phase: state.phase,
        plugins: state.plugins.clone(),
        notes: state.notes.clone(),
        restarts: state.restarts,
        missing_topics: state.missing_topics.clone(),
        added_partitions: state.added_partitions.clone(),
        ..Status::default()
    };
    let earlier = &state.earlier;
    let (mut nodes, mut outputs) = (earlier.nodes.clone(), earlier.outputs.clone());
    status.cycles = earlier.cycles;
    status.resolution = earlier.resolution.clone();
    (status.commits.requests, status.commits.failures) = (earlier.commits, earlier.commit_failures);
    for (index, slot) in state.slots.iter().enumerate() {
        let worker = u32::try_from(index).unwrap_or(u32::MAX);
        let part = &slot.part;
        let age_ms = millis(now.saturating_duration_since(part.at));
        status.workers.push(WorkerInfo { worker, age_ms, ended: slot.ended, call: slot.call(now) });
        for partition in &part.partitions {
            let mut partition = known(partition, &state.findings, now);
            earlier.add_to(&mut partition);
            status.partitions.push(partition);
        }
        add_nodes(&mut nodes, part);
        for output in &part.outputs {
            add_output(&mut outputs, output);
        }
        status.commits.requests += part.commits.requests;
        status.commits.failures += part.commits.failures;
        status.commits.set_from_outside += part.commits.set_from_outside;
        status.commits.failing_ms = status.commits.failing_ms.max(part.commits.failing_ms);
        if status.commits.last_error.is_none() {
            status.commits.last_error.clone_from(&part.commits.last_error);
        }
        status.client_errors.extend(part.client_error.clone());
        status.cycles += part.cycles;
        status.resolution.add(&part.resolution);
    }
    if let Some((since, text)) = &state.findings.unreachable {
        let age_ms = millis(now.saturating_duration_since(*since));
        status.client_errors.push(ClientError { worker: None, age_ms, text: text.clone() });
    }
    status.client_errors.sort_by_key(|error| error.age_ms);
    status.partitions.sort_by(|one, two| (&one.topic, one.partition).cmp(&(&two.topic, two.partition)));
    let mut ledger = LedgerStatus::default();
    status.partitions.iter().for_each(|partition| ledger.add(&partition.ledger));
    let lately: u64 = state.slots.iter().map(|slot| slot.part.dropped_lately).sum();
    status.dropped = DroppedStatus {
        rows: ledger.dropped(),
        bound: state.max_dropped.map(|bound| bound.to_string()),
        lately: state.max_dropped.map(|_| lately),
        above: state.max_dropped.is_some_and(|bound| lately > bound.most),
    };
    status.rates = state.looks.front().and_then(|look| rates(look, &ledger, now));
    status.ledger = ledger;
    status.nodes = nodes;
    for (topic, since) in &state.findings.waiting {
        if let Some(output) = outputs.get_mut(topic) {
            output.waiting_ms = Some(millis(now.saturating_duration_since(*since)));
        }
    }
    status.outputs = outputs.into_values().collect();
    status
}

/// How fast records were read and resolved since a look. Too short a time says nothing.
fn rates(look: &Counted, ledger: &LedgerStatus, now: Instant) -> Option<RateStatus> {
    let over = now.saturating_duration_since(look.at);
    let per_second = |count: u64, before: u64| count.saturating_sub(before) as f64 / over.as_secs_f64();
    (over >= SHORTEST_RATE).then(|| RateStatus {
        over_ms: millis(over),
        read: per_second(ledger.read(), look.read),
        resolved: per_second(ledger.resolved, look.resolved),
    })
}

/// A partition with what was found out beside its worker.
fn known(partition: &PartitionStatus, findings: &Findings, now: Instant) -> PartitionStatus {
    let mut partition = partition.clone();
    let name = (partition.topic.clone(), partition.partition);
    let asked = findings.ends.get(&name).map(|(end, _)| *end);
    // What was asked may be older than what was read since.
    partition.end = match (partition.end, asked) {
        (Some(queue), Some(asked)) => Some(queue.max(asked)),
        (end, asked) => end.or(asked.map(|asked| asked.max(partition.position))),
    };
    let from = partition.committed.unwrap_or(partition.position);
    partition.lag = partition.end.map(|end| (end - from).max(0));
    partition.stalled = findings.stalled.get(&name).map(|(since, offset, cause)| Stalled {
        offset: *offset,
        for_ms: millis(now.saturating_duration_since(*since)),
        cause: cause.clone(),
    });
    partition
}

fn add_nodes(total: &mut Vec<NodeStatus>, part: &Part) {
    for node in &part.nodes {
        let Some(sum) = total.iter_mut().find(|sum| sum.node == node.node) else {
            total.push(node.clone());
            continue;
        };
        sum.rows += node.rows;
        sum.retries += node.retries;
        sum.waiting += node.waiting;
        for (kind, rows) in &node.errors {
            *sum.errors.entry(kind.clone()).or_default() += rows;
        }
        if let (Some(sum), Some(one)) = (&mut sum.breaker, &node.breaker) {
            sum.open += one.open;
            sum.probe_in_ms = [sum.probe_in_ms, one.probe_in_ms].into_iter().flatten().min();
        }
        if let (Some(sum), Some(one)) = (&mut sum.sink, &node.sink) {
            sum.open += one.open;
            sum.flushes += one.flushes;
            sum.violations += one.violations;
            sum.wait_in_ms = [sum.wait_in_ms, one.wait_in_ms].into_iter().flatten().min();
        }
        if let (Some(sum), Some(one)) = (&mut sum.calls, &node.calls) {
            sum.add(one);
        }
        if let (Some(sum), Some(one)) = (&mut sum.expander, &node.expander) {
            sum.made += one.made;
            sum.defaulted += one.defaulted;
        }
    }
}

fn add_output(total: &mut BTreeMap<String, OutputStatus>, output: &OutputStatus) {
    let sum = total
        .entry(output.topic.clone())
        .or_insert_with(|| OutputStatus { topic: output.topic.clone(), ..OutputStatus::default() });
    sum.pending += output.pending;
    sum.in_flight += output.in_flight;
    sum.acknowledged += output.acknowledged;
    sum.refused += output.refused;
    sum.resent += output.resent;
    sum.past_retention += output.past_retention;
}

pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
