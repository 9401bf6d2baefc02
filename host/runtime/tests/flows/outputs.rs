//! What an output that refuses, or that gives no verdict, does to the flow.

use loom_kafka::Kind;
use loom_kafka::memory::{Call, RowFault};

use crate::harness::{broker, committed, flow, kafka_error, payloads, produce, start};

#[test]
fn a_refusal_for_good_stops_the_flow_before_the_record_and_names_it() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "bad", "b", "bad", "c"]);
    broker.faults().rows_where("out", |record| {
        (record.payload.as_deref() == Some(b"bad"))
            .then(|| RowFault::Refused(kafka_error(Kind::Refused, "MSG_SIZE_TOO_LARGE")))
    });
    let outcome = start(&flow("", "process: [ { into_topic: out } ]\n"), &broker).ended();
    assert_eq!(outcome.status(), 4);
    assert_eq!(outcome.failures.len(), 1, "one record is enough to say: {:?}", outcome.failures);
    let message = &outcome.failures[0].message;
    for part in ["in/0 offset 1", "topic out", "MSG_SIZE_TOO_LARGE"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(committed(&broker), Some(1));
    assert_eq!(payloads(&broker, "out"), ["a", "b", "c"], "neighbours are written, in order");
}

#[test]
fn brokers_that_go_away_for_a_while_are_waited_for() {
    let broker = broker(&["out"]);
    let running = start(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    produce(&broker, &["a"]);
    running.until_committed(1);
    broker.faults().go_down();
    produce(&broker, &["b"]);
    let polls = broker.view(|view| view.calls(Call::Take));
    running.until("polls in vain", |view| view.calls(Call::Take) > polls + 2);
    broker.faults().come_up();
    produce(&broker, &["c"]);
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "b", "c"]);
}

#[test]
fn a_partition_that_becomes_ready_is_read_while_another_is_busy() {
    // The busy one keeps the worker from ever sleeping a whole poll back-off.
    let broker = crate::harness::wide_broker(2, &["out"]);
    let yaml = flow("poll_backoff_ms: 10000", "process: [ { into_topic: out } ]\n");
    let running = start(&yaml, &broker);
    let (busy, other) = (crate::harness::place("in", 0), crate::harness::place("in", 1));
    for round in 1..=20 {
        broker.produce("in", 0, loom_kafka::memory::Record::value("busy"));
        running.until_committed_at(&busy, round);
    }
    broker.produce("in", 1, loom_kafka::memory::Record::value("other"));
    let started = std::time::Instant::now();
    running.until_committed_at(&other, 1);
    assert!(started.elapsed() < std::time::Duration::from_secs(9), "it was the wake-up, not the back-off");
    assert_eq!(running.stop().failures, []);
}
