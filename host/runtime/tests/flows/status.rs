//! What a running flow says of itself: where the record is that holds a watermark, and what would release it; how every
//! record ended; whether the flow is ready.

use std::time::{Duration, Instant};

use loom_kafka::Kind;
use loom_kafka::memory::{CommitFault, MemoryBroker, Record, RowFault, When};
use loom_runtime::status::{Intake, Oldest, PartitionStatus, Release, RunPhase};
use loom_runtime::{Board, FlowStatus, Options};
use loom_types::CommitOffset;

use crate::harness::{
    PATIENCE, Running, broker, envelopes, flow, in0, kafka_error, payloads, place, produce, set_committed,
    start_with, wide_broker,
};

/// Starts a flow that can be asked.
pub fn watched(yaml: &str, broker: &MemoryBroker) -> (Running, Board) {
    let board = Board::new();
    let running = start_with(yaml, broker, Options { board: Some(board.clone()), ..Options::default() });
    (running, board)
}

/// Asks until the status looks so. What is asked for here announces itself to nobody, so there is a pause between two
/// questions.
pub fn until(board: &Board, what: &str, mut look: impl FnMut(&FlowStatus) -> bool) -> FlowStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = board.read(PATIENCE);
        if look(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "it did not come to: {what}\n{status:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn oldest(partition: &PartitionStatus) -> &Oldest {
    partition.oldest.as_ref().expect("a record is unresolved")
}

fn releases(status: &FlowStatus) -> Vec<&Release> {
    let oldest = status.partitions[0].oldest.as_ref();
    oldest.into_iter().flat_map(|oldest| &oldest.places).map(|place| &place.release).collect()
}

#[test]
fn a_row_that_is_tried_again_is_found_at_its_node_with_attempt_and_digest() {
    let broker = wide_broker(2, &["out"]);
    for payload in ["a", "retry:the service is away", "b"] {
        broker.produce("in", 0, Record::value(payload));
    }
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\n";
    let (running, board) = watched(&flow("", rest), &broker);
    let status = until(&board, "two attempts", |status| {
        status.partitions.first().and_then(|partition| partition.oldest.as_ref()).is_some_and(|oldest| {
            oldest.places.iter().any(|place| place.attempt >= 2 && place.node == "process[0]")
        }) && status.partitions[0].committed == Some(1)
    });
    let partition = &status.partitions[0];
    assert_eq!((partition.topic.as_str(), partition.partition), ("in", 0));
    assert_eq!((partition.position, partition.intake), (3, Intake::Held));
    assert_eq!(partition.outstanding_records, 2);
    let held = oldest(partition);
    assert_eq!((held.offset, held.places.len()), (1, 1), "{held:?}");
    let place = &held.places[0];
    assert!(matches!(place.release, Release::Retry { .. }), "{place:?}");
    assert!(
        place.answer.as_deref().is_some_and(|answer| answer.contains("the service is away")),
        "{place:?}"
    );
    let plugin = place.plugin.as_ref().expect("a plugin's node");
    assert_eq!((plugin.name.as_str(), plugin.digest.len()), ("s", 64), "{plugin:?}");
    assert_eq!(status.plugins[0].digest, plugin.digest);
    let node = status.nodes.iter().find(|node| node.node == "process[0]").expect("the node");
    assert_eq!((node.rows, node.waiting), (3, 2));
    assert!(node.retries >= 2);
    assert_eq!(status.partitions[1].intake, Intake::AtEnd);
    assert_eq!((status.partitions[1].oldest.as_ref(), status.partitions[1].lag), (None, Some(0)));
    assert!(status.ready, "a row that is tried again is no outage of the host: {:?}", status.reasons);
    assert_eq!(running.stop().failures, []);
    assert_eq!(board.document().phase, RunPhase::Stopped);
    assert!(!board.document().ready);
}

#[test]
fn a_worker_in_its_first_call_is_known_with_its_partitions_its_age_and_the_call() {
    let broker = wide_broker(2, &["out"]);
    for partition in [0, 1] {
        broker.set_committed("g", &place("in", partition), CommitOffset(0), "");
    }
    produce(&broker, &["sleep:2000"]);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm', limits: { timeout: 10s } } }\nprocess: [ { step: s }, { into_topic: out } ]\n";
    let (running, board) = watched(&flow("", rest), &broker);
    let deadline = Instant::now() + PATIENCE;
    // The worker is not waited for: it is in the call.
    let status = loop {
        let status = board.read(Duration::from_millis(10));
        let call = status.workers.first().and_then(|worker| worker.call.as_ref());
        if call.is_some_and(|call| call.for_ms >= 500) {
            break status;
        }
        assert!(Instant::now() < deadline, "no call of a second was seen: {status:#?}");
    };
    let worker = &status.workers[0];
    let call = worker.call.as_ref().expect("it was just seen");
    assert_eq!(
        (call.node.as_str(), call.plugin.as_ref().map(|plugin| plugin.name.as_str())),
        ("process[0]", Some("s"))
    );
    assert!(worker.age_ms + 5 >= call.for_ms, "its age counts from its start: {worker:?}");
    let names: Vec<_> = status.partitions.iter().map(|one| (one.topic.as_str(), one.partition)).collect();
    assert_eq!(names, [("in", 0), ("in", 1)]);
    assert_eq!((status.partitions[0].position, status.partitions[0].committed), (0, Some(0)));
    running.until_committed(1);
    let status = until(&board, "an answer", |status| status.ledger.resolved == 1);
    assert!(status.workers[0].call.is_none() && status.workers[0].age_ms < 2_000, "{:?}", status.workers);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_row_that_was_sent_waits_for_its_topic_and_one_behind_a_full_queue_for_room() {
    let broker = broker(&["out", "other"]);
    broker.faults().hold_acks("out");
    produce(&broker, &["a", "b", "c"]);
    let yaml =
        flow("", "process: [ { broadcast: [ [ { into_topic: out } ], [ { into_topic: other } ] ] } ]\n");
    let (running, board) = watched(&yaml, &broker);
    running.until_count("other", 3);
    let status = until(&board, "three rows in flight", |status| {
        status.outputs.iter().any(|output| output.topic == "out" && output.in_flight == 3)
            && status.outputs.iter().any(|output| output.topic == "other" && output.acknowledged == 3)
    });
    let place = &oldest(&status.partitions[0]).places;
    assert_eq!(place.len(), 1, "the branch that was acknowledged is done: {place:?}");
    assert_eq!((place[0].node.as_str(), &place[0].release), ("out", &Release::Acknowledgement));
    broker.faults().release_all_acks("out");
    running.until_committed(3);
    let status = until(&board, "nothing outstanding", |status| status.ledger.outstanding == 0);
    assert_eq!(status.outputs.iter().map(|output| output.acknowledged).sum::<u64>(), 6);
    running.stop();

    let broker = crate::harness::broker(&["out"]);
    broker.faults().hold_acks("out");
    produce(&broker, &["a", "b", "c"]);
    let yaml = flow("", "process: [ { into_topic: out } ]\n").replace(
        "producer: { brokers: [memory] }",
        "producer: { brokers: [memory], extra: { queue.buffering.max.messages: 1 } }",
    );
    let (running, board) = watched(&yaml, &broker);
    let status = until(&board, "rows that wait for room", |status| {
        status.outputs.iter().any(|output| (output.in_flight, output.pending) == (1, 2))
    });
    assert_eq!(releases(&status), [&Release::Acknowledgement]);
    assert_eq!(status.partitions[0].intake, Intake::Held);
    broker.faults().release_acks("out", 1);
    let status = until(&board, "the second at the front", |status| {
        status.partitions[0].oldest.as_ref().is_some_and(|oldest| oldest.offset == 1)
    });
    assert_eq!(releases(&status), [&Release::Acknowledgement]);
    broker.faults().release_all_acks("out");
    running.until_committed(3);
    assert_eq!(payloads(&broker, "out"), ["a", "b", "c"]);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_row_that_a_sink_holds_waits_for_its_flush() {
    let broker = broker(&[]);
    produce(&broker, &["a", "b"]);
    let rest = "plugins: { s: { component: '{guests}/probe-sink.wasm' } }\nprocess: [ { into_sink: s, flush: { records: 1000, interval: 1h } } ]\n";
    let (running, board) = watched(&flow("", rest), &broker);
    let status = until(&board, "the sink has both", |status| {
        status.nodes.iter().any(|node| node.sink.is_some_and(|sink| sink.open == 2))
    });
    let held = oldest(&status.partitions[0]);
    assert_eq!((held.offset, held.places.len()), (0, 1));
    let Release::Completion { flush_in_ms: Some(in_ms) } = held.places[0].release else {
        panic!("{held:?}");
    };
    assert!((3_500_000..=3_600_000).contains(&in_ms), "{in_ms}");
    assert_eq!(held.places[0].plugin.as_ref().map(|plugin| plugin.name.as_str()), Some("s"));
    assert_eq!(status.partitions[0].intake, Intake::AtEnd, "what a sink holds keeps nothing from being read");
    running.stop();
}

#[test]
fn an_open_breaker_is_what_a_row_waits_for_and_makes_the_flow_unready() {
    let broker = broker(&["out"]);
    (0..150).for_each(|_| produce(&broker, &["trap:broken"]));
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\nerrors: { unrouted: drop }\n";
    let (running, board) = watched(&flow("", rest), &broker);
    let status = until(&board, "an open breaker", |status| {
        status.nodes.iter().any(|node| node.breaker.is_some_and(|breaker| breaker.open == 1))
            && matches!(releases(status)[..], [Release::Probe { .. }, ..])
    });
    assert!(!status.ready);
    assert_eq!(status.reasons[0].kind, "breaker");
    assert!(status.reasons[0].text.contains("process[0]: plugin s traps"), "{:?}", status.reasons);
    let node = status.nodes.iter().find(|node| node.node == "process[0]").expect("the node");
    assert!(node.errors["task"] >= 100, "{node:?}");
    assert_eq!(running.stop().failures, []);
}

#[test]
fn commits_that_fail_are_seen_with_their_reason_until_one_succeeds() {
    let broker = broker(&["out"]);
    let error = kafka_error(Kind::Coordinator, "NOT_COORDINATOR");
    broker.faults().commit(When::always(), CommitFault::Refused(error));
    produce(&broker, &["a"]);
    let (running, board) = watched(&flow("auto_offset_reset: earliest", "process: [ drain ]\n"), &broker);
    let status = until(&board, "a commit that failed", |status| status.commits.failing_ms.is_some());
    assert!(status.commits.failures >= 1);
    let text = status.commits.last_error.as_deref().unwrap_or_default();
    assert!(text.contains("NOT_COORDINATOR"), "{text}");
    assert_eq!(status.partitions[0].intake, Intake::Starting, "its first offset is not committed");
    broker.faults().clear();
    running.until_committed(1);
    let status = until(&board, "commits that succeed", |status| status.commits.failing_ms.is_none());
    assert_eq!(status.commits.last_error, None);
    running.stop();
}

#[test]
fn the_end_of_a_partition_that_is_held_is_asked_for_beside_its_worker() {
    let broker = broker(&["out"]);
    produce(&broker, &["retry:away"]);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\n";
    let (running, board) = watched(&flow("", rest), &broker);
    until(&board, "a held partition", |status| {
        status.partitions.first().is_some_and(|partition| partition.intake == Intake::Held)
    });
    (0..10).for_each(|_| produce(&broker, &["more"]));
    let status = until(&board, "its end", |status| status.partitions[0].end == Some(11));
    assert_eq!(status.partitions[0].lag, Some(11));
    assert_eq!(status.partitions[0].stalled, None, "it is held, not stalled");
    assert_eq!(running.stop().failures, []);
}

#[test]
fn every_death_of_a_record_is_visible_and_different() {
    let broker = wide_broker(1, &["out", "t"]);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' }, sink: { component: '{guests}/probe-sink.wasm', config: { complete: write } } }
process:
  - filter: payload.to != 'filtered'
    errors: { task: [ { into_topic: t } ] }
  - fork:
      when:
        - { if: payload.to == 'topic', process: [ { into_topic: out } ] }
        - { if: payload.to == 'sink', process: [ { into_sink: sink } ] }
        - { if: payload.to == 'fail', process: [ { step: s }, { into_topic: out } ] }
      default: [ drain ]
errors: { unrouted: drop }
";
    for payload in [
        r#"{"to":"topic"}"#,
        r#"{"to":"sink"}"#,
        r#"{"to":"drain"}"#,
        r#"{"to":"filtered"}"#,
        r#"{"other":1}"#,
        r#"{"to":"fail","do":"reject:no"}"#,
        r#"{"to":"fail","do":"fail:no"}"#,
        "not json",
    ] {
        produce(&broker, &[payload]);
    }
    broker.produce("in", 0, Record { payload: None, ..Record::value("") });
    let (running, board) = watched(&flow("", rest), &broker);
    running.until_committed(9);
    let status = until(&board, "all resolved", |status| status.ledger.resolved == 8);
    let ended: Vec<(&str, u64)> = (status.ledger.ended.iter())
        .filter(|(_, rows)| **rows > 0)
        .map(|(ending, rows)| (ending.as_str(), *rows))
        .collect();
    assert_eq!(
        ended,
        [
            ("drained", 1),
            ("dropped(business)", 1),
            ("dropped(task)", 1),
            ("dropped(wire)", 1),
            ("error_route(task)", 1),
            ("filtered", 1),
            ("sink", 1),
            ("topic", 1),
        ]
    );
    assert_eq!(status.ledger.ended.len(), 16, "the closed list is there as a whole");
    assert_eq!((status.ledger.registered, status.ledger.skipped), (8, 1));
    let errors: Vec<(&str, u64)> = (status.nodes.iter())
        .flat_map(|node| &node.errors)
        .map(|(kind, rows)| (kind.as_str(), *rows))
        .collect();
    assert_eq!(errors.iter().map(|(_, rows)| rows).sum::<u64>(), 4, "{errors:?}");
    running.stop();
}

#[test]
fn what_clients_say_of_a_broken_partition_is_a_stall_of_that_partition_only() {
    let broker = wide_broker(2, &["out"]);
    let bad = kafka_error(Kind::Other, "_BAD_MSG");
    broker.faults().fail_partition(loom_kafka::memory::Call::Take, in0(), When::always(), bad);
    for n in 0..20 {
        broker.produce("in", 0, Record::value("x"));
        broker.produce("in", 1, Record::value(n.to_string()));
    }
    let (running, board) = watched(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    running.until_committed_at(&place("in", 1), 20);
    let status = until(&board, "a stalled partition", |status| {
        status.partitions.first().is_some_and(|partition| partition.stalled.is_some())
    });
    let partition = &status.partitions[0];
    let stalled = partition.stalled.as_ref().expect("it was just seen");
    assert_eq!((stalled.offset, partition.position, partition.end), (0, 0, Some(20)));
    assert!(stalled.cause.contains("_BAD_MSG"), "{stalled:?}");
    // How soon it is told is the watch's own test: here a busy machine would be measured.
    assert!(stalled.for_ms >= 5_000, "not at once: {stalled:?}");
    assert_eq!(status.reasons.len(), 1);
    assert!(status.reasons[0].text.starts_with("in/0 is stalled at offset 0"), "{:?}", status.reasons);
    assert_eq!(status.partitions[1].stalled, None);
    broker.faults().clear();
    running.until_committed_at(&in0(), 20);
    until(&board, "it goes on", |status| status.ready);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out").len(), 40, "nothing was taken for a gap");
}

#[test]
fn a_client_that_gives_nothing_is_a_stall_though_it_says_nothing() {
    let broker = broker(&["out"]);
    produce(&broker, &["a"]);
    let (running, board) = watched(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    running.until_committed(1);
    broker.faults().silence(&in0(), true);
    produce(&broker, &["b"]);
    let status = until(&board, "a stalled partition", |status| status.partitions[0].stalled.is_some());
    let stalled = status.partitions[0].stalled.as_ref().expect("it was just seen");
    assert_eq!(stalled.offset, 1);
    assert!(stalled.cause.contains("reach to offset 2"), "{stalled:?}");
    broker.faults().silence(&in0(), false);
    running.until_committed(2);
    until(&board, "it goes on", |status| status.ready);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_topic_that_is_gone_while_its_flow_runs_is_told() {
    let broker = wide_broker(2, &["out"]);
    produce(&broker, &["a"]);
    let (running, board) = watched(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    running.until_committed(1);
    let gone = kafka_error(Kind::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION");
    broker.faults().fail_topic(loom_kafka::memory::Call::Bounds, "in", When::always(), gone);
    let status = until(&board, "both partitions stalled", |status| {
        status.partitions.iter().all(|partition| partition.stalled.is_some())
    });
    let stalled = status.partitions[0].stalled.as_ref().expect("it was just seen");
    assert_eq!(stalled.offset, 1);
    assert!(stalled.cause.contains("UNKNOWN_TOPIC"), "{stalled:?}");
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_row_that_is_sent_again_says_what_its_broker_answered() {
    let broker = broker(&["out"]);
    produce(&broker, &["a"]);
    let unknown = kafka_error(Kind::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION");
    broker.faults().rows("out", When::always(), RowFault::Refused(unknown));
    let (running, board) = watched(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    let status = until(&board, "a row that waits", |status| {
        status.partitions.first().and_then(|partition| partition.oldest.as_ref()).is_some_and(|oldest| {
            oldest.places.first().is_some_and(|place| matches!(place.release, Release::Output { .. }))
        })
    });
    let place = &oldest(&status.partitions[0]).places[0];
    assert_eq!(place.node, "out");
    assert!(place.answer.as_deref().is_some_and(|answer| answer.contains("UNKNOWN_TOPIC")), "{place:?}");
    broker.faults().clear();
    running.until_committed(1);
    until(&board, "nothing holds the watermark", |status| status.partitions[0].oldest.is_none());
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_row_whose_sink_asks_for_time_says_why() {
    let broker = broker(&[]);
    produce(&broker, &["retry:the disk is full"]);
    let rest = "plugins: { s: { component: '{guests}/probe-sink.wasm' } }\nprocess: [ { into_sink: s } ]\n";
    let (running, board) = watched(&flow("", rest), &broker);
    let status = until(&board, "two attempts", |status| {
        status
            .partitions
            .first()
            .and_then(|partition| partition.oldest.as_ref())
            .is_some_and(|oldest| oldest.places.iter().any(|place| place.attempt >= 2))
    });
    let place = &oldest(&status.partitions[0]).places[0];
    assert!(matches!(place.release, Release::Retry { .. }), "{place:?}");
    assert!(place.answer.as_deref().is_some_and(|answer| answer.contains("the disk is full")), "{place:?}");
    assert_eq!(running.stop().status(), 0);
}

#[test]
fn what_is_committed_at_most_once_is_shown_as_in_the_other_mode() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b", "c"]);
    let (running, board) = watched(&flow("delivery: at_most_once", "process: [ drain ]\n"), &broker);
    let status = until(&board, "the commit", |status| {
        status
            .partitions
            .first()
            .is_some_and(|partition| partition.committed == Some(3) && partition.lag == Some(0))
    });
    assert_eq!(status.partitions[0].floor, None, "the group had nothing");
    assert_eq!(running.stop().failures, []);
    set_committed(&broker, 2);
    let (running, board) = watched(&flow("delivery: at_most_once", "process: [ drain ]\n"), &broker);
    let status = until(&board, "its next run", |status| {
        status.partitions.first().is_some_and(|partition| partition.committed == Some(3))
    });
    assert_eq!(status.partitions[0].floor, Some(2));
    running.stop();
}

#[test]
fn a_sink_that_asks_again_in_flush_is_shown_with_its_attempts() {
    let broker = broker(&[]);
    produce(&broker, &["a", "b"]);
    let rest = "plugins: { s: { component: '{guests}/probe-sink.wasm', config: { fail_flushes: 1000, fail_with: retry } } }
process: [ { into_sink: s, flush: { interval: 10ms } } ]
";
    let (running, board) = watched(&flow("", rest), &broker);
    let status = until(&board, "some attempts", |status| {
        let oldest = status.partitions.first().and_then(|partition| partition.oldest.as_ref());
        oldest.is_some_and(|oldest| oldest.places.iter().any(|place| place.attempt >= 3))
    });
    let node = status.nodes.iter().find(|node| node.node == "process[0]").expect("the node");
    assert!(node.retries >= 4, "two rows, each at least twice: {node:?}");
    let outcome = running.stop();
    assert!(outcome.summary.counters.retries >= 4, "{:?}", outcome.summary.counters);
}

#[test]
fn counters_go_on_where_they_were_when_the_flow_begins_anew() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b"]);
    broker.faults().hold_acks("out");
    let step = "plugins: { s: { component: '{guests}/probe-step.wasm' } }
process: [ { step: s }, { into_topic: out } ]
";
    let (running, board) = watched(&flow("", step), &broker);
    broker.faults().release_acks("out", 1);
    running.until_committed(1);
    let before = until(&board, "one record waits", |status| {
        status.ledger.resolved == 1 && status.ledger.outstanding == 1 && status.nodes[1].rows == 2
    });
    broker.faults().writer_error(kafka_error(Kind::Fatal, "_FATAL"));
    until(&board, "another round", |status| status.restarts == 1 && status.phase == RunPhase::Running);
    broker.faults().release_all_acks("out");
    running.until_committed(2);
    let after = until(&board, "the record is done", |status| {
        status.restarts == 1 && status.ledger.outstanding == 0 && status.ledger.resolved == 2
    });
    let ledger = &after.ledger;
    // The second record was read twice, and the first time given up.
    assert_eq!((ledger.registered, ledger.given_up), (3, 1), "{ledger:?}");
    let ended: u64 = ledger.ended.values().sum();
    assert_eq!(ledger.minted, ended + ledger.consumed + ledger.live + ledger.given_up_tokens, "{ledger:?}");
    assert_eq!((after.nodes[0].rows, after.nodes[1].rows), (3, 3));
    assert_eq!(after.nodes[0].breaker, before.nodes[0].breaker);
    assert_eq!(after.outputs[0].acknowledged, 2);
    assert!(after.cycles > before.cycles && after.commits.requests > before.commits.requests);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_name_stands_beside_the_path_and_calls_and_records_are_timed() {
    let broker = broker(&["out", "failed"]);
    produce(&broker, &["a", "b", "fail:no", "retry:later"]);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }
process: [ { step: s, name: score }, { into_topic: out, name: leave } ]
errors: { default: [ { into_topic: failed } ] }
";
    let (running, board) = watched(&flow("", rest), &broker);
    let status = until(&board, "a row that waits", |status| {
        status.resolution.count == 3
            && status.partitions[0].oldest.as_ref().is_some_and(|oldest| !oldest.places.is_empty())
    });
    let names: Vec<_> = status.nodes.iter().map(|node| (node.node.as_str(), node.name.as_deref())).collect();
    assert!(names.contains(&("process[0]", Some("score"))), "{names:?}");
    assert!(names.contains(&("process[1]", Some("leave"))), "{names:?}");
    assert!(names.contains(&("errors.default[0]", None)), "{names:?}");
    let place = &oldest(&status.partitions[0]).places[0];
    assert_eq!((place.node.as_str(), place.name.as_deref()), ("process[0]", Some("score")));
    let node = |path: &str| status.nodes.iter().find(|node| node.node == path).expect("the node");
    let calls = node("process[0]").calls.as_ref().expect("calls of a plugin");
    assert!(calls.count >= 1 && calls.buckets.last().expect("buckets").count <= calls.count, "{calls:?}");
    assert!(calls.sum_s > 0.0, "{calls:?}");
    assert_eq!(node("process[1]").calls, None);
    let envelope = &envelopes(&broker, "failed")[0];
    assert_eq!((&envelope["node"], &envelope["name"]), (&"process[0]".into(), &"score".into()));
    assert_eq!(running.stop().failures, []);
}

#[test]
fn calls_of_waiting_plugins_batches_and_sinks_are_timed_too() {
    for (node, role) in [
        ("{ step: s, concurrency: 2 }, drain", "step"),
        ("{ collect_batch: { max_records: 2 } }, { batch_step: s }, drain", "batch-step"),
        ("{ into_sink: s, flush: { records: 1 } }", "sink"),
    ] {
        let guest = if role == "batch-step" { "probe-roles".to_owned() } else { format!("probe-{role}") };
        let broker = broker(&[]);
        produce(&broker, &["a", "b"]);
        let rest = format!(
            "plugins: {{ s: {{ component: '{{guests}}/{guest}.wasm' }} }}\nprocess: [ {node} ]\nerrors: {{ default: [ drain ] }}\n"
        );
        let (running, board) = watched(&flow("", &rest), &broker);
        running.until_committed(2);
        let status = until(&board, "calls", |status| status.ledger.resolved == 2);
        let calls: u64 =
            status.nodes.iter().filter_map(|node| node.calls.as_ref()).map(|calls| calls.count).sum();
        assert!(calls >= 1, "{role}: {:#?}", status.nodes);
        assert_eq!(running.stop().failures, [], "{role}");
    }
}
