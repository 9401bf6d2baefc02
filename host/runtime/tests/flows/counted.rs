//! Counted retries: a record that used them up is a delivery error, and the others go on.

use loom_kafka::memory::Record;
use serde_json::json;

use crate::harness::{broker, committed, endings, envelopes, flow, payloads, produce, start};

const ROUTED: &str = "errors: { delivery: [ { into_topic: dead } ] }\n";

fn step(retries: &str, guest: &str, rest: &str) -> String {
    format!(
        "plugins: {{ s: {{ component: '{{guests}}/{guest}.wasm' }} }}
process: [ {{ step: s, retries: {retries} }}, {{ into_topic: out }} ]
{rest}"
    )
}

#[test]
fn a_step_is_called_so_often_and_not_more() {
    for guest in ["probe-step", "probe-column-step"] {
        let broker = broker(&["out", "dead"]);
        produce(&broker, &["a", "retry:away", "retry-n:2", "b"]);
        let running = start(&flow("", &step("2", guest, ROUTED)), &broker);
        running.until_committed(4);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(payloads(&broker, "out"), ["a", "retry-n:2", "b"], "{guest}");
        let all = envelopes(&broker, "dead");
        assert_eq!((all.len(), &all[0]["kind"], &all[0]["attempt"]), (1, &json!("delivery"), &json!(3)));
        let reason = all[0]["reason"].as_str().unwrap();
        assert!(reason.contains("away") && reason.contains("`retries`"), "{reason}");
        assert_eq!(all[0]["plugin"]["name"], "s");
        let ends = [("error_route(delivery)", 1), ("topic", 3)];
        assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
    }
}

#[test]
fn without_a_route_it_stops_the_flow_and_zero_means_one_call() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "retry:away"]);
    let outcome = start(&flow("", &step("0", "probe-step", "")), &broker).ended();
    assert_eq!(outcome.status(), 4);
    let message = &outcome.failures[0].message;
    for part in ["in/0 offset 1", "process[0]", "away", "attempt 1"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!((committed(&broker), outcome.summary.counters.retries), (Some(1), 0));
}

#[test]
fn attempts_survive_waiting_behind_others_of_the_partition() {
    let broker = broker(&["out", "dead"]);
    // Each waits in the lane of the one before it.
    for n in 0..5 {
        broker.produce("in", 0, Record::value(format!("retry:{n}")));
    }
    let running = start(&flow("", &step("1", "probe-step", ROUTED)), &broker);
    running.until_committed(5);
    let outcome = running.stop();
    let attempts: Vec<_> = envelopes(&broker, "dead").iter().map(|one| one["attempt"].clone()).collect();
    assert_eq!(attempts, [json!(2), json!(2), json!(2), json!(2), json!(2)]);
    assert_eq!(outcome.summary.counters.retries, 5);
}

#[test]
fn a_sinks_writes_and_flushes_are_counted_too() {
    let sink = |config: &str| {
        format!(
            "plugins: {{ k: {{ component: '{{guests}}/probe-sink.wasm', config: {{ {config} }} }} }}
process: [ {{ into_sink: k, retries: 1, flush: {{ interval: 20ms }} }} ]
{ROUTED}"
        )
    };
    let one = broker(&["dead"]);
    produce(&one, &["a", "retry:away", "b"]);
    let running = start(&flow("", &sink("")), &one);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    let all = envelopes(&one, "dead");
    assert_eq!((all.len(), &all[0]["record"]["offset"], &all[0]["kind"]), (1, &json!(1), &json!("delivery")));
    let ends = [("error_route(delivery)", 1), ("sink", 2)];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);

    let other = broker(&["dead"]);
    produce(&other, &["a", "b"]);
    let running = start(&flow("", &sink("fail_flushes: 1000, fail_with: retry")), &other);
    running.until_committed(2);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("error_route(delivery)", 2)]);
}
