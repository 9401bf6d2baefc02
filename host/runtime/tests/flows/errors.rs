//! What becomes of records that fail: their route, with everything known of them, or a loud end.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_kafka::memory::Record;
use serde_json::{Value, json};

use crate::harness::{broker, committed, endings, envelopes, flow, payloads, produce, start};
use crate::logs;
use crate::status::{until, watched};

const STEP: &str = "plugins: { s: { component: '{guests}/probe-step.wasm' } }\n";

#[test]
fn each_kind_takes_its_own_route_and_the_envelope_names_it() {
    let broker = broker(&["out", "t", "b"]);
    produce(&broker, &["reject:bad", "fail:broken", "good"]);
    let rest = format!(
        "{STEP}process: [ {{ step: s }}, {{ into_topic: out }} ]
errors: {{ task: [ {{ into_topic: t }} ], business: [ {{ into_topic: b }} ] }}
"
    );
    let running = start(&flow("", &rest), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(payloads(&broker, "out"), ["good"]);
    for (topic, kind, offset, reason) in [("b", "business", 0, "bad"), ("t", "task", 1, "broken")] {
        let all = envelopes(&broker, topic);
        assert_eq!(all.len(), 1, "{topic}");
        let envelope = &all[0];
        assert_eq!(envelope["loom_error"], 1);
        assert_eq!((&envelope["kind"], &envelope["reason"]), (&json!(kind), &json!(reason)));
        assert_eq!((&envelope["flow"], &envelope["node"]), (&json!("test"), &json!("process[0]")));
        assert_eq!(envelope["plugin"]["name"], "s");
        assert_eq!(envelope["attempt"], 1);
        let record = &envelope["record"];
        assert_eq!(
            (&record["topic"], &record["partition"], &record["offset"]),
            (&json!("in"), &json!(0), &json!(offset))
        );
        let headers = &broker.records(topic)[0].record.headers;
        let header = |name: &str| {
            let (_, value) = headers.iter().find(|(other, _)| other == name.as_bytes()).unwrap();
            String::from_utf8(value.clone().unwrap()).unwrap()
        };
        assert_eq!(
            (header("loom-error-kind"), header("loom-error-reason")),
            (kind.to_owned(), reason.to_owned())
        );
        assert_eq!(
            (header("loom-error-attempt"), header("loom-error-timestamp")),
            ("1".to_owned(), envelope["failed_at_ms"].to_string())
        );
    }
    let ends = [("error_route(business)", 1), ("error_route(task)", 1), ("topic", 1)];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
}

#[test]
fn a_payload_that_cannot_be_read_takes_the_wire_route_with_its_headers_untouched() {
    let broker = broker(&["out", "w"]);
    produce(&broker, &["{\"a\":1}"]);
    let bytes: &[u8] = b"\xff\xfe00-trace";
    broker.produce("in", 0, Record::value("no json").header("traceparent", Some(bytes)).header("none", None));
    produce(&broker, &["{\"a\":1}"]);
    let rest = "process: [ { filter: payload.a == 1 }, { into_topic: out } ]\nerrors: { wire: [ { into_topic: w } ] }\n";
    let running = start(&flow("", rest), &broker);
    running.until_committed(3);
    running.stop();
    assert_eq!(payloads(&broker, "out").len(), 2);
    let failed = &broker.records("w")[0].record;
    assert_eq!(failed.headers[0], (b"traceparent".to_vec(), Some(bytes.to_vec())));
    assert_eq!(failed.headers[1], (b"none".to_vec(), None));
    let envelope = &envelopes(&broker, "w")[0];
    assert_eq!((&envelope["kind"], &envelope["record"]["payload"]), (&json!("wire"), &json!("no json")));
    assert_eq!(envelope["plugin"], Value::Null);
}

#[test]
fn an_envelope_gives_every_byte_of_the_record_back() {
    let broker = broker(&["t"]);
    let (payload, key, value) = (b"\x00\xff\x01".to_vec(), b"\xfe".to_vec(), b"\x80\x81".to_vec());
    let record = Record::value(payload.clone())
        .keyed(key.clone())
        .at(1234)
        .header("h", Some(&value))
        .header("h", None);
    broker.produce("in", 0, record);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm', config: { command: 'fail:no' } } }
process: [ { step: s }, drain ]
errors: { task: [ { into_topic: t } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(1);
    running.stop();
    let envelope = &envelopes(&broker, "t")[0]["record"];
    let bytes = |value: &Value| STANDARD.decode(value["base64"].as_str().unwrap()).unwrap();
    assert_eq!((bytes(&envelope["payload"]), bytes(&envelope["key"])), (payload, key.clone()));
    assert_eq!(bytes(&envelope["headers"][0][1]), value);
    assert_eq!(envelope["headers"][1], json!(["h", null]));
    assert_eq!(envelope["timestamp_ms"], 1234);
    let sent = &broker.records("t")[0].record;
    assert_eq!(sent.key, Some(key), "the key stays on the message");
    assert!(sent.timestamp_ms != Some(1234), "an error row carries the time of its failure");
}

#[test]
fn what_fails_inside_a_route_is_not_routed_again() {
    logs::keep();
    let route = |unrouted: &str, name: &str| {
        flow(
            "",
            &format!(
                "plugins:
  first: {{ component: '{{guests}}/probe-step.wasm', config: {{ command: 'fail:first' }} }}
  second: {{ component: '{{guests}}/probe-step.wasm', config: {{ command: 'reject:second' }} }}
process: [ {{ step: first }}, drain ]
errors:
  task: [ {{ step: second }}, {{ into_topic: t }} ]
  business: [ {{ into_topic: t }} ]
  unrouted: {unrouted}
"
            ),
        )
        .replace("name: test", &format!("name: {name}"))
    };
    let kept = broker(&["t"]);
    produce(&kept, &["r0"]);
    let running = start(&route("drop", "route-fails"), &kept);
    running.until_committed(1);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(
        endings(&outcome).into_iter().collect::<Vec<_>>(),
        [("dropped(task)", 1)],
        "under its first kind"
    );
    assert_eq!(payloads(&kept, "t"), [""; 0]);
    let told = logs::of_flow("route-fails");
    let told: Vec<_> = told.iter().filter(|line| line["offset"] == 0 && line["level"] != "DEBUG").collect();
    assert_eq!(told.len(), 1, "{told:?}");

    let stopped = broker(&["t"]);
    produce(&stopped, &["r0"]);
    let outcome = start(&route("stop", "route-stops"), &stopped).ended();
    assert_eq!(outcome.status(), 4);
    assert_eq!(committed(&stopped), Some(0));
    assert!(outcome.failures[0].message.contains("in/0 offset 0"), "{:?}", outcome.failures);
}

#[test]
fn without_a_route_a_failure_is_logged_with_its_place_and_dropped() {
    logs::keep();
    let broker = broker(&["out"]);
    produce(&broker, &["ok", "fail:broken", "reject:unwanted"]);
    let rest =
        format!("{STEP}process: [ {{ step: s }}, {{ into_topic: out }} ]\nerrors: {{ unrouted: drop }}\n");
    let yaml = flow("", &rest).replace("name: test", "name: drops-loudly");
    let running = start(&yaml, &broker);
    running.until_committed(3);
    let outcome = running.stop();
    let ends = [("dropped(business)", 1), ("dropped(task)", 1), ("topic", 1)];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
    let lines = logs::of_flow("drops-loudly");
    for (offset, kind, level, reason) in [(1, "task", "ERROR", "broken"), (2, "business", "WARN", "unwanted")]
    {
        let line = lines.iter().find(|line| line["offset"] == offset).unwrap();
        assert_eq!(
            (&line["kind"], &line["level"], &line["reason"]),
            (&json!(kind), &json!(level), &json!(reason))
        );
        assert_eq!((&line["node"], &line["plugin"]), (&json!("process[0]"), &json!("s")));
        assert_eq!((&line["topic"], &line["partition"]), (&json!("in"), &json!(0)));
    }
    let errors: Vec<_> = outcome
        .summary
        .counters
        .errors
        .iter()
        .map(|((node, kind), rows)| (&**node, kind.name(), *rows))
        .collect();
    assert_eq!(errors, [("process[0]", "task", 1), ("process[0]", "business", 1)]);
}

#[test]
fn unrouted_stop_stops_before_the_record_and_names_the_first() {
    let broker = broker(&["out"]);
    produce(&broker, &["ok", "fail:first", "fail:second", "later"]);
    let rest =
        format!("{STEP}process: [ {{ step: s }}, {{ into_topic: out }} ]\nerrors: {{ unrouted: stop }}\n");
    let outcome = start(&flow("", &rest), &broker).ended();
    assert_eq!(outcome.status(), 4);
    assert_eq!(outcome.failures.len(), 1, "{:?}", outcome.failures);
    let message = &outcome.failures[0].message;
    assert!(
        message.contains("in/0 offset 1") && message.contains("process[0]") && message.contains("first"),
        "{message}"
    );
    assert_eq!(committed(&broker), Some(1));
}

#[test]
fn under_at_least_once_a_forgotten_route_loses_nothing_and_the_stop_says_what_would_route_it() {
    for errors in ["", "errors: {}\n", "errors: { business: [ { into_topic: b } ] }\n"] {
        let broker = broker(&["out", "b"]);
        produce(&broker, &["{\"total\":1}", "{\"totl\":2}", "{\"totl\":3}"]);
        let rest = format!("process: [ {{ filter: payload.total > 0 }}, {{ into_topic: out }} ]\n{errors}");
        let outcome = start(&flow("", &rest), &broker).ended();
        assert_eq!((outcome.status(), committed(&broker)), (4, Some(1)), "{errors:?}");
        assert_eq!(outcome.summary.counters.dropped, 0);
        let message = &outcome.failures[0].message;
        for part in [
            "in/0 offset 1: task error at process[0]: ",
            "`errors.unrouted: stop` stops the flow (the default under `at_least_once`)",
            "under `errors:` at the top of the flow the line `task: [ { into_topic: in.failed } ]` would route it",
        ] {
            assert!(message.contains(part), "{part:?} is not in {message}");
        }
    }
}

#[test]
fn under_at_most_once_a_forgotten_route_drops_as_it_did() {
    let broker = broker(&["out"]);
    produce(&broker, &["{\"totl\":2}", "{\"total\":1}"]);
    let rest = "process: [ { filter: payload.total > 0 }, { into_topic: out } ]\n";
    let running = start(&flow("delivery: at_most_once", rest), &broker);
    running.until_count("out", 1);
    let outcome = running.stop();
    assert_eq!((outcome.failures, outcome.summary.counters.dropped), (Vec::new(), 1));
}

#[test]
fn lines_of_one_cause_are_few_and_the_others_are_counted() {
    logs::keep();
    let broker = broker(&["out"]);
    let payloads: Vec<String> = (0..1000).map(|number| format!("fail:{number}")).collect();
    produce(&broker, &payloads.iter().map(String::as_str).collect::<Vec<_>>());
    produce(&broker, &["reject:another cause"]);
    let rest =
        format!("{STEP}process: [ {{ step: s }}, {{ into_topic: out }} ]\nerrors: {{ unrouted: drop }}\n");
    let yaml = flow("", &rest).replace("name: test", "name: drops-many");
    let running = start(&yaml, &broker);
    running.until_committed(1001);
    let outcome = running.stop();
    assert_eq!(outcome.summary.counters.dropped, 1001);
    let lines = logs::of_flow("drops-many");
    let told =
        |kind: &str| lines.iter().filter(|line| line["kind"] == kind && line["offset"].is_u64()).count();
    let left_out =
        lines.iter().filter(|line| line["kind"] == "task").filter_map(|line| line["left_out"].as_u64());
    let left_out: u64 = left_out.sum();
    assert_eq!(told("task") as u64 + left_out, 1000, "each is in a line or in a count");
    // A loaded machine may take several seconds, each of which has a few lines.
    assert!((1..500).contains(&told("task")), "{} lines", told("task"));
    assert_eq!(told("business"), 1);
    let stopped = lines.iter().find(|line| line["message"] == "stopped");
    assert!(stopped.is_none(), "the command tells the end, not the run");
    outcome.summary.log();
    let stopped = logs::lines(|line| line["flow"] == "drops-many" && line["message"] == "stopped");
    assert_eq!(stopped[0]["dropped"], 1001);
    let fields: Vec<&String> = stopped[0].as_object().expect("an object").keys().collect();
    assert!(fields.contains(&&"dropped".to_owned()));
}

#[test]
fn dropping_more_than_the_bound_makes_a_flow_unready_and_stops_nothing() {
    let broker = broker(&["out"]);
    produce(&broker, &["fail:1", "ok"]);
    let rest = format!(
        "{STEP}process: [ {{ step: s }}, {{ into_topic: out }} ]\nerrors: {{ unrouted: drop, max_dropped: 1/h }}\n"
    );
    let (running, board) = watched(&flow("", &rest), &broker);
    running.until_committed(2);
    let status = until(&board, "one drop", |status| status.dropped.rows == 1);
    assert!(status.ready && !status.dropped.above, "{:?}", status.reasons);
    assert_eq!((status.dropped.bound.as_deref(), status.dropped.lately), (Some("1/h"), Some(1)));
    produce(&broker, &["fail:2", "ok"]);
    running.until_committed(4);
    let status = until(&board, "two drops", |status| status.dropped.rows == 2);
    assert!(!status.ready && status.dropped.above);
    assert_eq!(status.reasons[0].kind, "dropped");
    assert!(status.reasons[0].text.contains("`errors.max_dropped` allows 1/h"), "{:?}", status.reasons);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_nodes_own_route_comes_before_the_flows_and_default_takes_the_rest() {
    let broker = broker(&["mine", "rest", "wire"]);
    produce(&broker, &["{\"do\":\"fail:1\"}", "{\"do\":\"reject:2\"}", "no json"]);
    let rest = format!(
        "{STEP}process:
  - step: s
    errors: {{ business: [ {{ into_topic: mine }} ] }}
  - map: payload.missing
  - drain
errors: {{ wire: [ {{ into_topic: wire }} ], default: [ {{ into_topic: rest }} ] }}
"
    );
    let running = start(&flow("", &rest), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(envelopes(&broker, "mine")[0]["record"]["offset"], 1);
    assert_eq!(envelopes(&broker, "rest")[0]["record"]["offset"], 0);
    assert_eq!(envelopes(&broker, "wire")[0]["record"]["offset"], 2);
    let ends = [("error_route(business)", 1), ("error_route(task)", 1), ("error_route(wire)", 1)];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
}

#[test]
fn the_offset_waits_for_the_routes_acknowledgement() {
    let broker = broker(&["t"]);
    produce(&broker, &["ok", "fail:x", "ok"]);
    broker.faults().hold_acks("t");
    let rest =
        format!("{STEP}process: [ {{ step: s }}, drain ]\nerrors: {{ task: [ {{ into_topic: t }} ] }}\n");
    let running = start(&flow("", &rest), &broker);
    running.until_count("t", 1);
    running.until_committed(1);
    broker.faults().release_all_acks("t");
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
}
