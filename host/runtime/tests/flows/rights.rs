//! A right that is missing is named, though a broker tells nothing but that it refuses.

use loom_kafka::Kind;
use loom_kafka::memory::{Call, RowFault, When};

use crate::harness::{broker, envelopes, flow, in0, kafka_error, produce, refused, start};

const ROUTED: &str = "process: [ { into_topic: out } ]\nerrors: { delivery: [ { into_topic: dead } ] }\n";

#[test]
fn a_start_names_the_right_that_a_topic_is_refused_without() {
    let denied = || kafka_error(Kind::Authorization, "TOPIC_AUTHORIZATION_FAILED");
    for (call, topic, right) in
        [(Call::Topics, "in", "`Read` on `in`"), (Call::OutputTopics, "out", "`Write` on `out`")]
    {
        let broker = broker(&["out", "dead"]);
        broker.faults().fail_topic(call, topic, When::always(), denied());
        let errors = refused(&flow("", ROUTED), &broker);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].message.contains(right), "{}", errors[0].message);
        assert_eq!(errors[0].code, Some("NOT_AUTHORIZED"));
    }
    for (code, right) in [
        ("TOPIC_AUTHORIZATION_FAILED", "`Read` on `in`"),
        ("GROUP_AUTHORIZATION_FAILED", "`Read` on group `g`"),
    ] {
        let broker = broker(&["out", "dead"]);
        let denied = kafka_error(Kind::Authorization, code);
        broker.faults().fail_partition(Call::Committed, in0(), When::always(), denied);
        let errors = refused(&flow("", ROUTED), &broker);
        assert!(errors[0].message.contains(right), "{}", errors[0].message);
    }
}

#[test]
fn a_right_that_is_taken_away_while_the_flow_runs_is_named() {
    let denied = || kafka_error(Kind::Authorization, "TOPIC_AUTHORIZATION_FAILED");
    let broker = broker(&["out", "dead"]);
    produce(&broker, &["a"]);
    broker.faults().rows("out", When::next(1), RowFault::Refused(denied()));
    let running = start(&flow("", ROUTED), &broker);
    running.until_committed(1);
    let reason = envelopes(&broker, "dead")[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("`Write` on `out`"), "{reason}");
    broker.faults().fail_partition(Call::Take, in0(), When::always(), denied());
    produce(&broker, &["b"]);
    let outcome = running.ended();
    let message = &outcome.failures[0].message;
    assert!(message.contains("`Read` on `in`"), "{message}");
}

#[test]
fn a_topics_own_error_is_not_taken_for_a_missing_topic() {
    let broker = broker(&["out", "dead"]);
    let passing = || kafka_error(Kind::Transient, "LEADER_NOT_AVAILABLE");
    broker.faults().fail_topic(Call::Topics, "in", When::next(2), passing());
    broker.faults().fail_topic(Call::OutputTopics, "out", When::next(2), passing());
    broker.faults().fail_topic(Call::Configurations, "out", When::next(2), passing());
    produce(&broker, &["a"]);
    let running = start(&flow("", ROUTED), &broker);
    running.until_committed(1);
    assert_eq!(running.stop().failures, []);
}
