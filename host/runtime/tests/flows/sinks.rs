//! Sink components in a flow: when they are flushed, and what their failures cost.

use std::path::Path;
use std::time::{Duration, Instant};

use loom_kafka::memory::Record;
use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{
    broker, committed, endings, envelopes, flow, payloads, place, produce, start, wide_broker,
};

/// A flow into the probe sink, which keeps what it wrote in a folder. `config` and `options` are added to the sink's and
/// the node's.
fn into_sink(folder: &Path, config: &str, options: &str, rest: &str) -> String {
    format!(
        "plugins:
  k:
    component: '{{guests}}/probe-sink.wasm'
    config: {{ folder: /out{config} }}
    allow: {{ dirs: [ {{ host: '{}', guest: /out, mode: rw }} ] }}
process: [ {{ into_sink: k{options} }} ]
{rest}",
        folder.display()
    )
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// The payloads that the sink wrote, in order.
fn written(folder: &TempDir) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path().join("0.jsonl")).unwrap_or_default();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["payload"].as_str().unwrap().to_owned()).collect()
}

const SOON: &str = ", flush: { interval: 20ms }";

#[test]
fn a_write_or_flush_that_fails_once_loses_no_row_and_writes_none_twice() {
    for call in ["fail_writes", "fail_flushes"] {
        for with in ["fail", "reject", "retry", "trap"] {
            let (broker, folder) = (broker(&[]), folder());
            produce(&broker, &["a", "b", "c"]);
            let config = format!(", {call}: 1, fail_with: {with}");
            let running = start(&flow("", &into_sink(folder.path(), &config, SOON, "")), &broker);
            running.until_committed(3);
            produce(&broker, &["d"]);
            running.until_committed(4);
            let outcome = running.stop();
            assert_eq!(outcome.failures, [], "{call} {with}");
            assert_eq!(written(&folder), ["a", "b", "c", "d"], "{call} {with}");
            assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("sink", 4)]);
            assert_eq!(outcome.summary.counters.violations, 0);
        }
    }
}

#[test]
fn without_further_records_the_host_flushes_by_itself() {
    let (broker, folder) = (broker(&[]), folder());
    produce(&broker, &["a", "b", "c"]);
    let running = start(&flow("", &into_sink(folder.path(), "", SOON, "")), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(outcome.summary.counters.flushes, 1);
}

#[test]
fn a_flush_comes_by_the_age_of_the_oldest_row_however_many_follow() {
    let (broker, folder) = (broker(&[]), folder());
    let options = ", flush: { records: 1000000, interval: 400ms }";
    let running = start(&flow("poll_backoff_ms: 5", &into_sink(folder.path(), "", options, "")), &broker);
    running.until_committed(0);
    // A record for every poll, far more often than the bound: were the time counted from the last one, no flush came.
    let started = Instant::now();
    let mut produced = 0;
    while committed(&broker) == Some(0) {
        produce(&broker, &["x"]);
        produced += 1;
        let taken = broker.view(|view| view.calls(loom_kafka::memory::Call::Take));
        running.until("the next poll", |view| view.calls(loom_kafka::memory::Call::Take) > taken);
        assert!(started.elapsed() < Duration::from_secs(30), "never flushed while {produced} records came");
    }
    assert!(started.elapsed() >= Duration::from_millis(400), "not before its age");
    running.until_committed(produced);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn the_bounds_of_records_and_bytes_flush_before_the_age_does() {
    for bound in ["records: 10", "bytes: 20"] {
        let (broker, folder) = (broker(&[]), folder());
        for _ in 0..100 {
            produce(&broker, &["xx"]);
        }
        let options = format!(", flush: {{ {bound}, interval: 1h }}");
        let running = start(&flow("", &into_sink(folder.path(), "", &options, "")), &broker);
        running.until_committed(100);
        let outcome = running.stop();
        assert!(
            outcome.summary.counters.flushes >= if bound.starts_with("records") { 10 } else { 1 },
            "{bound}"
        );
    }
}

#[test]
fn a_row_that_fails_alone_takes_the_delivery_route_and_the_flow_goes_on() {
    let (broker, folder) = (broker(&["d", "b"]), folder());
    produce(&broker, &["a", "fail:no room", "b", "reject:bad", "c", "trap", "d"]);
    let rest = "errors: { delivery: [ { into_topic: d } ], business: [ { into_topic: b } ] }\n";
    let running = start(&flow("", &into_sink(folder.path(), "", SOON, rest)), &broker);
    running.until_committed(7);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(written(&folder), ["a", "b", "c", "d"]);
    let offsets = |topic: &str| -> Vec<i64> {
        envelopes(&broker, topic)
            .iter()
            .map(|envelope| envelope["record"]["offset"].as_i64().unwrap())
            .collect()
    };
    assert_eq!((offsets("d"), offsets("b")), (vec![1, 5], vec![3]));
    assert_eq!(envelopes(&broker, "d")[0]["plugin"]["name"], "k");
    let ends = [("error_route(business)", 1), ("error_route(delivery)", 2), ("sink", 4)];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
}

#[test]
fn without_a_route_a_row_that_the_sink_cannot_take_stops_the_flow_before_it() {
    let (broker, folder) = (broker(&[]), folder());
    produce(&broker, &["a", "fail:no room", "b"]);
    let outcome = start(&flow("", &into_sink(folder.path(), "", SOON, "")), &broker).ended();
    assert_eq!(outcome.status(), 4);
    let message = &outcome.failures[0].message;
    assert!(message.contains("in/0 offset 1") && message.contains("no room"), "{message}");
    assert_eq!(committed(&broker), Some(1));
    assert_eq!(written(&folder), ["a", "b"]);
}

#[test]
fn a_delivery_error_inside_a_route_stops_the_flow() {
    let (broker, folder) = (broker(&[]), folder());
    produce(&broker, &["a"]);
    let rest = format!(
        "plugins:
  s: {{ component: '{{guests}}/probe-step.wasm', config: {{ command: 'fail:x' }} }}
  k:
    component: '{{guests}}/probe-sink.wasm'
    config: {{ folder: /out, fail_writes: 1000000 }}
    allow: {{ dirs: [ {{ host: '{}', guest: /out, mode: rw }} ] }}
process: [ {{ step: s }}, drain ]
errors: {{ task: [ {{ into_sink: k, flush: {{ interval: 10ms }} }} ], delivery: [ drain ] }}
",
        folder.path().display()
    );
    let outcome = start(&flow("", &rest), &broker).ended();
    assert_eq!(outcome.status(), 4);
    assert!(outcome.failures[0].message.contains("in/0 offset 0"), "{:?}", outcome.failures);
    assert_eq!(committed(&broker), Some(0));
}

#[test]
fn tokens_that_a_sink_never_completes_end_as_delivery_errors() {
    let (broker, folder) = (broker(&["d"]), folder());
    produce(&broker, &["a", "b"]);
    let rest = "errors: { delivery: [ { into_topic: d } ] }\n";
    let running = start(&flow("", &into_sink(folder.path(), ", complete: never", SOON, rest)), &broker);
    running.until_committed(2);
    let outcome = running.stop();
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("error_route(delivery)", 2)]);
    assert!(envelopes(&broker, "d")[0]["reason"].as_str().unwrap().contains("without completing"));
}

#[test]
fn tokens_completed_twice_or_foreign_change_nothing_and_are_counted() {
    for how in ["twice", "foreign"] {
        let (broker, folder) = (broker(&[]), folder());
        produce(&broker, &["a", "b"]);
        let running =
            start(&flow("", &into_sink(folder.path(), &format!(", complete: {how}"), SOON, "")), &broker);
        running.until_committed(2);
        let outcome = running.stop();
        assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("sink", 2)]);
        // Twice: in `write` all are done, so nothing is left to flush before the stop.
        let expected = if how == "twice" { 0 } else { 1 };
        assert_eq!(outcome.summary.counters.violations, expected, "{how}");
    }
}

#[test]
fn a_verdict_on_one_row_is_that_rows_alone() {
    let (broker, folder) = (broker(&["b"]), folder());
    produce(&broker, &["a", "verdict:unwanted", "c"]);
    let rest = "errors: { business: [ { into_topic: b } ] }\n";
    let running = start(&flow("", &into_sink(folder.path(), "", SOON, rest)), &broker);
    running.until_committed(3);
    running.stop();
    assert_eq!(written(&folder), ["a", "c"]);
    assert_eq!(envelopes(&broker, "b")[0]["reason"], "unwanted");
}

#[test]
fn a_row_that_is_to_be_tried_again_holds_its_partition_and_no_other() {
    let (broker, folder) = (wide_broker(2, &[]), folder());
    for payload in ["a0", "retry:not yet", "b0"] {
        broker.produce("in", 0, Record::value(payload));
    }
    for n in 0..50 {
        broker.produce("in", 1, Record::value(format!("p1 {n}")));
    }
    let running = start(&flow("", &into_sink(folder.path(), "", SOON, "")), &broker);
    running.until_committed_at(&place("in", 1), 50);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    let seen = written(&folder);
    assert_eq!(seen.iter().filter(|text| text.starts_with("p1")).count(), 50);
    assert!(!seen.contains(&"b0".to_owned()), "what comes behind the row waits: {seen:?}");
}

#[test]
fn a_sink_that_fails_to_close_is_reported_and_everything_else_is_committed() {
    let (broker, folder) = (broker(&["out"]), folder());
    produce(&broker, &["a"]);
    let yaml = flow("", &into_sink(folder.path(), ", close_error: it hangs", SOON, ""));
    let running = start(&yaml, &broker);
    running.until_committed(1);
    let outcome = running.stop();
    assert_eq!(outcome.status(), 4);
    let message = &outcome.failures[0].message;
    assert!(message.contains("process[0]") && message.contains("it hangs"), "{message}");
    assert_eq!(committed(&broker), Some(1));
    assert_eq!(broker.view(|view| (view.readers(), view.writers())), (0, 0));
}

#[test]
fn a_stop_flushes_what_a_sink_holds() {
    let (broker, folder) = (broker(&[]), folder());
    produce(&broker, &["a", "b"]);
    let running = start(&flow("", &into_sink(folder.path(), "", ", flush: { interval: 1h }", "")), &broker);
    running.until("all rows are taken", |view| view.calls(loom_kafka::memory::Call::Take) >= 2);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(committed(&broker), Some(2));
    assert_eq!(written(&folder), ["a", "b"]);
}

#[test]
fn a_sink_that_still_asks_for_time_at_a_stop_leaves_its_rows_uncommitted() {
    let (broker, folder) = (broker(&[]), folder());
    produce(&broker, &["a", "b"]);
    let config = ", fail_flushes: 1000000, fail_with: retry";
    let running = start(&flow("", &into_sink(folder.path(), config, SOON, "")), &broker);
    running.until("polls", |view| view.calls(loom_kafka::memory::Call::Take) >= 4);
    let outcome = running.stop();
    assert_eq!(outcome.status(), 0, "{:?}", outcome.failures);
    assert_eq!(committed(&broker), Some(0));
    assert_eq!(outcome.summary.ledger.outstanding, 2);
    std::fs::remove_file(folder.path().join("failed-flush-0")).unwrap();
    let again = start(&flow("", &into_sink(folder.path(), "", SOON, "")), &broker);
    again.until_committed(2);
    again.stop();
}

#[test]
fn a_sink_under_at_most_once_is_flushed_and_closed_like_any_other() {
    let (broker, folder) = (broker(&["out"]), folder());
    produce(&broker, &["a", "fail:x", "b"]);
    let running = start(&flow("delivery: at_most_once", &into_sink(folder.path(), "", SOON, "")), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(outcome.failures, [], "a delivery error is dropped loudly under at most once");
    assert_eq!(written(&folder), ["a", "b"]);
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("dropped(delivery)", 1), ("sink", 2)]);
    assert_eq!(payloads(&broker, "out"), [""; 0]);
}
