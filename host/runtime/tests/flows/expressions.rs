//! Expressions on records that they have no answer for, or no simple one.

use std::time::{Duration, Instant};

use loom_kafka::memory::Record;

use crate::harness::{broker, envelopes, flow, payloads, place, produce, start, wide_broker};

const ROUTE: &str = "errors: { default: [ { into_topic: failed } ] }\n";

/// Each expression with the records that it fails on.
const FAILING: [(&str, &[i64]); 5] = [
    ("payload.a / payload.b > 0", &[0, 2]),
    ("payload.a % payload.b == 0", &[0, 2]),
    ("payload.a + payload.b > 0", &[1, 2]),
    ("-payload.a < 0", &[2]),
    ("timestamp(payload.t) + duration(payload.d) > timestamp(payload.t)", &[0, 1, 2]),
];

#[test]
fn what_has_no_result_is_an_error_of_its_record_before_and_after_a_restart() {
    let records = [
        r#"{"a":1,"b":0,"t":"2026-01-01T00:00:00Z","d":"2562047000h"}"#,
        r#"{"a":9223372036854775807,"b":1,"t":"9999-12-31T23:00:00Z","d":"2h"}"#,
        r#"{"a":-9223372036854775808,"b":-1,"t":"x","d":"1h"}"#,
        r#"{"a":4,"b":2,"t":"2026-01-01T00:00:00Z","d":"1h"}"#,
    ];
    for (expression, failing) in FAILING {
        let yaml =
            flow("", &format!("process: [ {{ filter: \"{expression}\" }}, {{ into_topic: out }} ]\n{ROUTE}"));
        let broker = broker(&["out", "failed"]);
        for round in 1..=2 {
            produce(&broker, &records);
            let running = start(&yaml, &broker);
            running.until_committed(4 * round);
            assert_eq!(running.stop().failures, []);
        }
        let failed = envelopes(&broker, "failed");
        let offsets: Vec<i64> =
            failed.iter().map(|envelope| envelope["record"]["offset"].as_i64().unwrap()).collect();
        let expected: Vec<i64> =
            failing.iter().copied().chain(failing.iter().map(|offset| offset + 4)).collect();
        assert_eq!(offsets, expected, "{expression}");
        for envelope in &failed {
            assert_eq!(envelope["kind"], "task");
            // The reason has the beginning of a long one.
            let shown: String = expression.chars().take(50).collect();
            assert!(envelope["reason"].as_str().unwrap().contains(&shown), "{envelope}");
        }
        let good = payloads(&broker, "out").iter().filter(|payload| *payload == records[3]).count();
        assert_eq!(good, 2, "{expression}");
    }
}

#[test]
fn numbers_keep_every_digit() {
    let record =
        r#"{"long":228930314431312345,"x":1.0,"big":12345678901234567890123,"e":1e400,"z":-0.0,"d":1,"d":2}"#;
    let broker = broker(&["out"]);
    produce(&broker, &[record]);
    let rest = "process:
  - map: \"{'id': payload.long, 'all': payload}\"
  - into_topic: out
    key: string(payload.all.long)
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(1);
    running.stop();
    let written = broker.records("out");
    assert_eq!(written[0].record.key.as_deref(), Some(&b"228930314431312345"[..]));
    assert_eq!(payloads(&broker, "out"), [format!("{{\"id\":228930314431312345,\"all\":{record}}}")]);
}

#[test]
fn an_expression_that_would_run_for_hours_is_given_up_and_other_partitions_do_not_wait_for_it() {
    let broker = wide_broker(2, &["out", "failed"]);
    let long: Vec<String> = (0..3000).map(|n| n.to_string()).collect();
    broker.produce("in", 0, Record::value(format!("{{\"a\":[{}]}}", long.join(","))));
    for n in 0..20 {
        broker.produce("in", 1, Record::value(format!("{{\"a\":[{n}]}}")));
    }
    let nested = "payload.a.all(x, payload.a.all(y, payload.a.all(z, x + y + z >= 0)))";
    let rest = format!("process: [ {{ filter: \"{nested}\" }}, {{ into_topic: out }} ]\n{ROUTE}");
    let running = start(&flow("", &rest), &broker);
    running.until_committed_at(&place("in", 1), 20);
    running.until_committed_at(&place("in", 0), 1);
    let begun = Instant::now();
    assert_eq!(running.stop().failures, []);
    assert!(begun.elapsed() < Duration::from_secs(25), "a stop within `shutdown_timeout`");
    let failed = envelopes(&broker, "failed");
    assert_eq!(
        (failed.len(), failed[0]["kind"].as_str(), payloads(&broker, "out").len()),
        (1, Some("task"), 20)
    );
}

#[test]
fn a_label_is_its_text_and_a_selector_gives_text() {
    let broker = broker(&["no", "bond", "t", "other"]);
    produce(&broker, &[r#"{"c":"NO"}"#, r#"{"c":"007"}"#, r#"{"c":7}"#, r#"{"c":1}"#, r#"{"c":true}"#]);
    let branches = "NO: [ { into_topic: no } ], on: [ drain ], 007: [ { into_topic: bond } ], 1.0: [ drain ], \
                    2026-01-01: [ drain ], true: [ { into_topic: t } ], ~: [ drain ]";
    let rest = format!(
        "process: [ {{ fork: {{ by: payload.c, branches: {{ {branches} }}, default: [ {{ into_topic: other }} ] }} }} ]\n"
    );
    let running = start(&flow("", &rest), &broker);
    running.until_committed(5);
    running.stop();
    let written = ["no", "bond", "t", "other"].map(|topic| payloads(&broker, topic));
    assert_eq!(written[0], [r#"{"c":"NO"}"#]);
    assert_eq!(written[1], [r#"{"c":"007"}"#]);
    assert_eq!(written[2], [r#"{"c":true}"#]);
    assert_eq!(written[3], [r#"{"c":7}"#, r#"{"c":1}"#]);
}
