//! Whether a flow does its work, and why not.

use super::document::{Reason, RunPhase, Status, label};

/// Commits that fail so long make a flow unready.
const COMMITS_FAIL_MS: u64 = 60_000;

/// A worker that has not answered for so long is in a call that does not end.
pub const WORKER_SILENT_MS: u64 = 10_000;

/// Why this flow is not ready; empty when it is.
#[must_use]
pub fn reasons(status: &Status) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let mut because = |kind: &str, text: String| reasons.push(Reason { kind: kind.to_owned(), text });
    if status.phase != RunPhase::Running {
        let doing = match status.phase {
            RunPhase::Starting => "the flow is starting: no record was taken yet",
            RunPhase::Stopping => "the flow is stopping",
            _ => "the flow has stopped",
        };
        because(&status.phase.to_string(), doing.to_owned());
        return reasons;
    }
    for worker in &status.workers {
        if !worker.ended && worker.age_ms >= WORKER_SILENT_MS {
            let (number, silent) = (worker.worker, long(worker.age_ms));
            because("worker", format!("worker {number} has not answered for {silent}: {}", worker.busy()));
        }
    }
    for topic in &status.missing_topics {
        because("topic", format!("input topic {topic} is not there any more"));
    }
    if !status.added_partitions.is_empty() {
        let added: Vec<String> = status.added_partitions.iter().map(ToString::to_string).collect();
        because("partitions", format!("added and not read until a restart: {}", added.join(", ")));
    }
    for partition in &status.partitions {
        if let Some(stalled) = &partition.stalled {
            let place = format!("{}/{}", partition.topic, partition.partition);
            let since = long(stalled.for_ms);
            because(
                "stalled",
                format!("{place} is stalled at offset {} for {since}: {}", stalled.offset, stalled.cause),
            );
        }
    }
    if let Some(ms) = status.commits.failing_ms.filter(|ms| *ms >= COMMITS_FAIL_MS) {
        let error = status.commits.last_error.as_deref().unwrap_or("no reason is known");
        because("commits", format!("commits have failed for {}: {error}", long(ms)));
    }
    for node in &status.nodes {
        if node.breaker.is_some_and(|breaker| breaker.open > 0) {
            let plugin = node.plugin.as_ref().map_or("?", |plugin| plugin.name.as_str());
            because(
                "breaker",
                format!(
                    "{}: plugin {plugin} traps on every row, its node is held",
                    label(&node.node, node.name.as_deref())
                ),
            );
        }
    }
    for output in &status.outputs {
        if let Some(ms) = output.waiting_ms {
            let rows = output.pending + output.in_flight;
            because(
                "output",
                format!("topic {} has acknowledged none of {rows} rows for {}", output.topic, long(ms)),
            );
        }
    }
    if let (true, Some(bound)) = (status.dropped.above, &status.dropped.bound) {
        let lately = status.dropped.lately.unwrap_or_default();
        because(
            "dropped",
            format!("{lately} rows were dropped of late; `errors.max_dropped` allows {bound}"),
        );
    }
    for error in &status.client_errors {
        if error.worker.is_none() {
            let text =
                format!("the input's brokers have not answered for {}: {}", long(error.age_ms), error.text);
            because("broker", text);
        }
    }
    reasons
}

/// A length of time for people.
#[must_use]
pub fn long(ms: u64) -> String {
    match ms / 1000 {
        s @ 0..100 => format!("{s}.{} s", ms % 1000 / 100),
        s @ 100..6000 => format!("{} min", s / 60),
        s => format!("{} h {:02} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::{
        AddedPartition, BreakerStatus, Call, ClientError, CommitStatus, DroppedStatus, NodeStatus,
        OutputStatus, PartitionStatus, PluginRef, RunPhase, Stalled, Status, WorkerInfo,
    };
    use super::{long, reasons};

    fn running() -> Status {
        let worker = WorkerInfo { worker: 0, age_ms: 3, ended: false, call: None };
        Status { phase: RunPhase::Running, workers: vec![worker], ..Status::default() }
    }

    fn kinds(status: &Status) -> Vec<String> {
        reasons(status).into_iter().map(|reason| reason.kind).collect()
    }

    #[test]
    fn a_flow_that_runs_is_ready_and_one_that_starts_or_stops_is_not() {
        assert_eq!(reasons(&running()), []);
        for phase in [RunPhase::Starting, RunPhase::Stopping, RunPhase::Stopped] {
            assert_eq!(kinds(&Status { phase, ..running() }), [phase.to_string()]);
        }
    }

    #[test]
    fn a_stalled_partition_is_named_with_offset_and_cause() {
        let stalled = Stalled { offset: 7, for_ms: 12_300, cause: "bad batch".to_owned() };
        let mut status = running();
        status.partitions.push(PartitionStatus {
            topic: "in".to_owned(),
            partition: 3,
            stalled: Some(stalled),
            ..partition()
        });
        status.partitions.push(partition());
        let found = reasons(&status);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].text, "in/3 is stalled at offset 7 for 12.3 s: bad batch");
    }

    #[test]
    fn an_input_topic_that_is_gone_is_named() {
        let found = reasons(&Status { missing_topics: vec!["orders".to_owned()], ..running() });
        assert_eq!(found[0].kind, "topic");
        assert_eq!(found[0].text, "input topic orders is not there any more");
    }

    #[test]
    fn partitions_that_were_added_are_named() {
        let added = [2, 3].map(|partition| AddedPartition { topic: "in".to_owned(), partition });
        let found = reasons(&Status { added_partitions: added.to_vec(), ..running() });
        assert_eq!(found[0].kind, "partitions");
        assert_eq!(found[0].text, "added and not read until a restart: in/2, in/3");
    }

    #[test]
    fn commits_count_from_a_minute_on() {
        let failing = |ms| CommitStatus { failing_ms: Some(ms), ..CommitStatus::default() };
        assert_eq!(kinds(&Status { commits: failing(59_999), ..running() }), [""; 0]);
        assert_eq!(kinds(&Status { commits: failing(60_000), ..running() }), ["commits"]);
    }

    #[test]
    fn breaker_outputs_brokers_and_silent_workers_count() {
        let mut status = running();
        status.nodes.push(NodeStatus {
            breaker: Some(BreakerStatus { open: 1, probe_in_ms: None }),
            ..NodeStatus::default()
        });
        status.nodes.push(NodeStatus { breaker: Some(BreakerStatus::default()), ..NodeStatus::default() });
        status.outputs.push(OutputStatus { waiting_ms: Some(10_000), ..OutputStatus::default() });
        status.client_errors.push(ClientError { worker: None, age_ms: 1, text: String::new() });
        status.client_errors.push(ClientError { worker: Some(0), age_ms: 1, text: String::new() });
        status.workers[0].age_ms = 10_000;
        assert_eq!(kinds(&status), ["worker", "breaker", "output", "broker"]);
        assert_eq!(
            reasons(&status)[0].text,
            "worker 0 has not answered for 10.0 s: a step of it takes that long"
        );
        let plugin = Some(PluginRef { name: "s".to_owned(), digest: String::new() });
        status.workers[0].call =
            Some(Call { node: "process[0]".to_owned(), name: None, plugin, for_ms: 9_900 });
        assert!(
            reasons(&status)[0].text.ends_with("it has been in a call of process[0] (plugin s) for 9.9 s")
        );
        status.workers[0].ended = true;
        assert_eq!(kinds(&status).len(), 3);
    }

    #[test]
    fn drops_above_the_bound_count() {
        let dropped =
            |above| DroppedStatus { rows: 9, bound: Some("5/min".to_owned()), lately: Some(6), above };
        assert_eq!(kinds(&Status { dropped: dropped(false), ..running() }), [""; 0]);
        let found = reasons(&Status { dropped: dropped(true), ..running() });
        assert_eq!(found[0].kind, "dropped");
        assert_eq!(found[0].text, "6 rows were dropped of late; `errors.max_dropped` allows 5/min");
    }

    #[test]
    fn lengths_are_read_at_a_glance() {
        assert_eq!([0, 12_340, 119_000, 7_260_000].map(long), ["0.0 s", "12.3 s", "1 min", "2 h 01 min"]);
    }

    fn partition() -> PartitionStatus {
        PartitionStatus {
            topic: "in".to_owned(),
            partition: 0,
            worker: 0,
            position: 0,
            committed: None,
            floor: None,
            end: None,
            lag: None,
            intake: Default::default(),
            outstanding_records: 0,
            outstanding_bytes: 0,
            oldest: None,
            stalled: None,
            ledger: Default::default(),
        }
    }
}
