//! A step that asks for another attempt: its partition waits, in order; nothing else does.

use loom_kafka::memory::Record;

use crate::harness::{broker, committed_at, flow, payloads, place, produce, start, wide_broker};

const STEP: &str = "plugins: { s: { component: '{guests}/probe-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\n";
const COLUMNS: &str = "plugins: { s: { component: '{guests}/probe-column-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\n";

#[test]
fn rows_behind_one_that_is_tried_again_keep_their_order_and_are_not_called_again() {
    for rest in [STEP, COLUMNS] {
        let broker = broker(&["out"]);
        produce(&broker, &["calls", "retry-n:2", "calls", "retry-n:1", "calls"]);
        let running = start(&flow("", rest), &broker);
        running.until_committed(5);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        // The third and fifth were answered in the first call, and wait with that answer.
        assert_eq!(payloads(&broker, "out"), ["1", "retry-n:2", "3", "retry-n:1", "5"]);
        assert_eq!(outcome.summary.counters.retries, 3);
    }
}

#[test]
fn a_partition_that_waits_is_not_read_and_the_others_go_on() {
    for rest in [STEP, COLUMNS] {
        let broker = wide_broker(2, &["out"]);
        broker.produce("in", 0, Record::value("retry:the service is away"));
        for n in 0..100 {
            broker.produce("in", 1, Record::value(n.to_string()));
        }
        let running = start(&flow("batch_size: 10", rest), &broker);
        running.until_committed_at(&place("in", 1), 100);
        for n in 100..200 {
            broker.produce("in", 0, Record::value("later"));
            broker.produce("in", 1, Record::value(n.to_string()));
        }
        running.until_committed_at(&place("in", 1), 200);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(payloads(&broker, "out"), (0..200).map(|n| n.to_string()).collect::<Vec<_>>());
        assert_eq!(committed_at(&broker, &place("in", 0)), Some(0));
        assert_eq!(
            outcome.summary.partitions[0].position.0, 1,
            "nothing was taken behind the row that waits"
        );
    }
}

#[test]
fn a_mixed_batch_keeps_each_partitions_order_through_retries() {
    let broker = wide_broker(3, &["out"]);
    for n in 0..60 {
        for partition in 0..3 {
            let command = if (n + partition) % 17 == 3 { "retry-n:1" } else { "nothing" };
            let payload = format!("{{\"do\":\"{command}\",\"n\":\"{partition} {n:02}\"}}");
            broker.produce("in", partition, Record::value(payload));
        }
    }
    let running = start(
        &flow("", &COLUMNS.replace("{ into_topic: out }", "{ map: payload.n }, { into_topic: out }")),
        &broker,
    );
    for partition in 0..3 {
        running.until_committed_at(&place("in", partition), 60);
    }
    assert_eq!(running.stop().failures, []);
    let seen = payloads(&broker, "out");
    for partition in 0..3 {
        let mine: Vec<&String> =
            seen.iter().filter(|text| text.starts_with(&format!("\"{partition} "))).collect();
        assert_eq!(
            mine,
            (0..60).map(|n| format!("\"{partition} {n:02}\"")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_predicate_may_ask_for_another_attempt_too() {
    let broker = broker(&["yes", "no"]);
    produce(&broker, &["a", r#"{"do":"retry-n:2"}"#, "yes", "b", "yes"]);
    let rest = "plugins: { p: { component: '{guests}/probe-predicate.wasm' } }
process: [ { fork: { when: [ { if: { plugin: p }, process: [ { into_topic: yes } ] } ], default: [ { into_topic: no } ] } } ]
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(5);
    let outcome = running.stop();
    assert_eq!(payloads(&broker, "yes"), ["yes", "yes"]);
    assert_eq!(payloads(&broker, "no"), ["a", r#"{"do":"retry-n:2"}"#, "b"]);
    assert_eq!(outcome.summary.counters.retries, 2);
}

#[test]
fn failures_and_retries_of_one_batch_each_go_their_way() {
    let broker = broker(&["out", "t"]);
    produce(&broker, &["retry-n:1", "fail:x", "a", "reject:y", "retry-n:1", "b"]);
    let rest = STEP.to_owned() + "errors: { default: [ { into_topic: t } ] }\n";
    let running = start(&flow("", &rest), &broker);
    running.until_committed(6);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["retry-n:1", "a", "retry-n:1", "b"]);
    assert_eq!(payloads(&broker, "t").len(), 2);
}
