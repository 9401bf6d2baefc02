//! Producers that cannot go on: the flow begins anew in place, from the committed offsets, and not for ever.

use loom_kafka::Kind;
use loom_kafka::memory::{Call, CommitFault, RowFault, When};
use loom_runtime::Options;
use loom_runtime::status::RunPhase;

use crate::harness::{broker, committed, flow, kafka_error, payloads, produce, start, start_with};
use crate::status::{until, watched};

const TO_OUT: &str = "process: [ { into_topic: out } ]\n";

#[test]
fn a_row_without_a_verdict_is_read_again_in_place() {
    for fault in [RowFault::AckLost, RowFault::Lost] {
        let broker = broker(&["out"]);
        produce(&broker, &["a", "b", "c"]);
        broker.faults().rows("out", When::nth(2), fault);
        let running = start(&flow("", TO_OUT), &broker);
        running.until_committed(3);
        produce(&broker, &["d"]);
        running.until_committed(4);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(outcome.summary.counters.restarts, 1);
        assert_eq!(broker.view(|view| view.calls(Call::Writer)), 2, "with a client of its own");
        let seen = payloads(&broker, "out");
        for payload in ["a", "b", "c", "d"] {
            assert!(seen.iter().any(|other| other == payload), "{seen:?}");
        }
    }
}

#[test]
fn a_producer_that_cannot_go_on_is_replaced_with_all_workers() {
    let broker = broker(&["out"]);
    let options = Options { workers: 2, ..Options::default() };
    let running = start_with(&flow("", TO_OUT), &broker, options);
    produce(&broker, &["a"]);
    running.until_committed(1);
    broker.faults().writer_error(kafka_error(Kind::Fatal, "_FATAL"));
    running.until("new writers", |view| view.calls(Call::Writer) == 4);
    produce(&broker, &["b"]);
    running.until_committed(2);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(outcome.summary.counters.restarts, 1);
    assert_eq!(payloads(&broker, "out"), ["a", "b"], "what was committed is not read again");
}

#[test]
fn the_third_time_stops_the_flow() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b"]);
    broker.faults().rows("out", When::always(), RowFault::Lost);
    let outcome = start(&flow("", TO_OUT), &broker).ended();
    assert_eq!(outcome.status(), 4);
    let message = &outcome.failures[0].message;
    assert!(message.contains("in/0 offset 0") && message.contains("3 times in ten minutes"), "{message}");
    assert_eq!(outcome.summary.counters.restarts, 2);
    assert_eq!(committed(&broker), Some(0));
}

#[test]
fn a_stop_during_a_new_beginning_is_a_clean_stop() {
    let broker = broker(&["out"]);
    let running = start(&flow("", TO_OUT), &broker);
    running.until("a writer", |view| view.writers() == 1);
    broker.faults().fail(Call::Topics, When::always(), kafka_error(Kind::Transient, "_TRANSPORT"));
    broker.faults().writer_error(kafka_error(Kind::Fatal, "_FATAL"));
    let asked = broker.view(|view| view.calls(Call::Topics));
    running.until("questions in vain", |view| view.calls(Call::Topics) > asked);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
}

#[test]
fn a_stop_while_a_round_ends_is_as_any_other_and_what_was_not_committed_comes_again() {
    let broker = broker(&["out"]);
    produce(&broker, &["a"]);
    let yaml = flow("", &format!("runtime: {{ shutdown_timeout: 20s }}\n{TO_OUT}"));
    let (running, board) = watched(&yaml, &broker);
    running.until_committed(1);
    broker.faults().commit(When::always(), CommitFault::Unanswered);
    let asked = broker.view(|view| view.calls(Call::Commit));
    produce(&broker, &["b"]);
    running.until("a commit under way", |view| view.calls(Call::Commit) > asked);
    broker.faults().writer_error(kafka_error(Kind::Fatal, "_FATAL"));
    until(&board, "the round ends", |status| status.phase == RunPhase::Stopping);
    let outcome = running.stop();
    // No round follows that could commit what this one could not.
    assert_eq!((outcome.status(), outcome.summary.counters.restarts), (4, 0));
    assert!(outcome.failures[0].message.contains("final commit"), "{:?}", outcome.failures);
    assert_eq!(committed(&broker), Some(1));

    broker.faults().clear();
    let again = start(&flow("", TO_OUT), &broker);
    again.until_committed(2);
    assert_eq!(again.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "b", "b"]);
}

#[test]
fn at_most_once_a_row_without_a_verdict_is_dropped_and_the_flow_goes_on() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b", "c"]);
    broker.faults().rows("out", When::nth(2), RowFault::Lost);
    let running = start(&flow("delivery: at_most_once", TO_OUT), &broker);
    running.until_count("out", 2);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(outcome.summary.counters.restarts, 0);
    assert_eq!(payloads(&broker, "out"), ["a", "c"]);
}
