//! What an output refuses for good: dead letters, routes, the end of the flow, and who is blamed.

use loom_kafka::memory::{Call, MemoryBroker, Record, RowFault, TopicConfig, When};
use loom_kafka::{KafkaError, Kind};
use serde_json::{Value, json};

use crate::harness::{
    broker, committed, endings, envelopes, flow, header, kafka_error, payloads, produce, start,
};
use crate::logs;

const TO_A: &str = "process: [ { into_topic: a } ]\n";
const ROUTED: &str = "process: [ { into_topic: a } ]\nerrors: { delivery: [ { into_topic: dead } ] }\n";
const WITH_DLQ: &str = "process: [ { into_topic: a, dlq: d } ]\n";

fn invalid() -> KafkaError {
    kafka_error(Kind::Refused, "INVALID_RECORD")
}

/// The topic refuses every record with this payload.
fn refuse(broker: &MemoryBroker, topic: &str, payload: &'static str) {
    broker.faults().rows_where(topic, move |record| {
        (record.payload.as_deref() == Some(payload.as_bytes())).then(|| RowFault::Refused(invalid()))
    });
}

/// The topic refuses whatever comes with the bad record, and that one also alone: as a broker refuses batches. The first
/// `company` records are in its batch.
fn refuse_batch(broker: &MemoryBroker, topic: &str, company: usize, error: KafkaError) {
    let mut seen = 0;
    broker.faults().rows_where(topic, move |record| {
        seen += 1;
        let bad = record.payload.as_deref() == Some(b"bad");
        (bad || seen <= company).then(|| RowFault::Refused(error.clone()))
    });
}

#[test]
fn a_record_that_its_dlq_refuses_too_stops_the_flow_and_both_are_named() {
    let broker = broker(&["a", "d"]);
    produce(&broker, &["r0", "bad", "r2"]);
    refuse(&broker, "a", "bad");
    refuse(&broker, "d", "bad");
    let outcome = start(&flow("", WITH_DLQ), &broker).ended();
    assert_eq!(outcome.status(), 4);
    assert_eq!(outcome.failures.len(), 1, "{:?}", outcome.failures);
    let message = &outcome.failures[0].message;
    for part in ["in/0 offset 1", "process[0]", "topic a ", "topic d ", "INVALID_RECORD"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains(": writing to"), "{message}");
    assert_eq!(payloads(&broker, "a"), ["r0", "r2"]);
    assert_eq!(payloads(&broker, "d"), [""; 0]);
    assert_eq!(committed(&broker), Some(1));
}

#[test]
fn a_dead_letter_is_the_record_with_key_headers_and_time_and_the_reason_beside() {
    let broker = broker(&["a", "d"]);
    let record = Record::value("bad")
        .keyed("key")
        .at(1234)
        .header("h", Some(b"1"))
        .header("loom-error-reason", Some(b"of another time"))
        .header("loom-error-attempt", Some(b"4"));
    broker.produce("in", 0, record);
    refuse(&broker, "a", "bad");
    // Its new key is the node's own, and not the record's.
    let rest = "process: [ { into_topic: a, dlq: d, key: \"'other'\" } ]\n";
    let running = start(&flow("", rest), &broker);
    running.until_committed(1);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("dead_letter", 1)]);
    let letter = &broker.records("d")[0].record;
    assert_eq!((letter.payload.as_deref(), letter.key.as_deref()), (Some(&b"bad"[..]), Some(&b"key"[..])));
    assert_eq!(letter.headers[0], (b"h".to_vec(), Some(b"1".to_vec())));
    assert_eq!(header(letter, "loom-error-kind").as_deref(), Some("delivery"));
    assert_eq!(header(letter, "loom-error-attempt").as_deref(), Some("5"));
    assert_eq!(header(letter, "loom-error-timestamp").as_deref(), Some("1234"));
    let reason = header(letter, "loom-error-reason").unwrap();
    assert!(reason.contains("topic a ") && reason.contains("INVALID_RECORD"), "{reason}");
    assert!(letter.timestamp_ms != Some(1234), "its own time is now");
    let errors: Vec<_> = outcome.summary.counters.errors.values().copied().collect();
    assert_eq!(errors, [1]);
}

#[test]
fn a_refused_record_takes_the_delivery_route_as_the_node_received_it() {
    let broker = broker(&["a", "dead"]);
    broker.produce("in", 0, Record::value("r0").keyed("k0"));
    broker.produce("in", 0, Record::value("bad").keyed("k1").header("h", None));
    broker.produce("in", 0, Record::value("r2").keyed("k2"));
    refuse(&broker, "a", "bad");
    let rest =
        "process: [ { into_topic: a, key: \"'other'\" } ]\nerrors: { delivery: [ { into_topic: dead } ] }\n";
    let running = start(&flow("", rest), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "a"), ["r0", "r2"]);
    let envelope = &envelopes(&broker, "dead")[0];
    assert_eq!((&envelope["kind"], &envelope["node"]), (&json!("delivery"), &json!("process[0]")));
    assert_eq!(envelope["plugin"], Value::Null);
    let record = &envelope["record"];
    assert_eq!((&record["offset"], &record["key"]), (&json!(1), &json!("k1")));
    assert_eq!((&record["headers"], &record["payload"]), (&json!([["h", null]]), &json!("bad")));
    let ends = [("error_route(delivery)", 1), ("topic", 2)];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
}

#[test]
fn a_dlq_that_refuses_is_followed_by_the_route_with_the_record_and_both_reasons() {
    let broker = broker(&["a", "d", "dead"]);
    produce(&broker, &["bad"]);
    refuse(&broker, "a", "bad");
    refuse(&broker, "d", "bad");
    let rest = format!("{WITH_DLQ}errors: {{ default: [ {{ into_topic: dead }} ] }}\n");
    let running = start(&flow("", &rest), &broker);
    running.until_committed(1);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    let envelope = &envelopes(&broker, "dead")[0];
    assert_eq!((&envelope["attempt"], &envelope["record"]["payload"]), (&json!(1), &json!("bad")));
    assert_eq!(envelope["record"]["headers"], json!([]));
    let reason = envelope["reason"].as_str().unwrap();
    assert!(reason.contains("topic a ") && reason.contains("topic d "), "{reason}");
    assert_eq!(
        outcome.summary.counters.errors.values().copied().collect::<Vec<_>>(),
        [1],
        "one record failed"
    );
}

#[test]
fn an_output_of_a_route_that_refuses_stops_the_flow() {
    let broker = broker(&["a", "dead"]);
    produce(&broker, &["r0", "bad"]);
    refuse(&broker, "a", "bad");
    broker.faults().rows_where("dead", |_| Some(RowFault::Refused(invalid())));
    let outcome = start(&flow("", ROUTED), &broker).ended();
    assert_eq!(outcome.status(), 4);
    let message = &outcome.failures[0].message;
    // Why it came to the route, and why it could not stay.
    for part in ["in/0 offset 1", "topic a ", "topic dead ", "an error route whose output refuses"] {
        assert_eq!(message.matches(part).count(), 1, "{part}: {message}");
    }
    assert_eq!(committed(&broker), Some(1));
}

#[test]
fn the_last_word_on_a_record_tells_of_each_output_that_refused_it_once() {
    let broker = broker(&["a", "d", "dead", "last"]);
    produce(&broker, &["bad"]);
    for topic in ["a", "d", "dead", "last"] {
        broker.faults().rows_where(topic, |_| Some(RowFault::Refused(invalid())));
    }
    let rest = format!("{WITH_DLQ}errors: {{ delivery: [ {{ into_topic: dead, dlq: last }} ] }}\n");
    let outcome = start(&flow("", &rest), &broker).ended();
    let message = &outcome.failures[0].message;
    for part in ["topic a ", "topic d ", "topic dead ", "topic last "] {
        assert_eq!(message.matches(part).count(), 1, "{part}: {message}");
    }
}

#[test]
fn at_most_once_a_refused_record_is_dropped_loudly() {
    logs::keep();
    let broker = broker(&["a"]);
    produce(&broker, &["r0", "bad", "r2"]);
    refuse(&broker, "a", "bad");
    let yaml = flow("delivery: at_most_once", TO_A).replace("name: test", "name: refused-at-most-once");
    let running = start(&yaml, &broker);
    running.until_count("a", 2);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    let ends = [("dropped(delivery)", 1), ("topic", 2)];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
    let told = logs::of_flow("refused-at-most-once");
    assert!(
        told.iter().any(|line| line["level"] == "ERROR" && line["offset"] == 1 && line["kind"] == "delivery")
    );
}

#[test]
fn of_a_refused_batch_the_culprit_alone_is_blamed() {
    logs::keep();
    for code in ["INVALID_RECORD", "MSG_SIZE_TOO_LARGE"] {
        let broker = broker(&["a", "dead"]);
        produce(&broker, &["r0", "r1", "bad", "r3", "r4"]);
        refuse_batch(&broker, "a", 5, kafka_error(Kind::Refused, code));
        let running = start(&flow("", ROUTED), &broker);
        running.until_committed(5);
        produce(&broker, &["r5"]);
        running.until_committed(6);
        assert_eq!(running.stop().failures, []);
        assert_eq!(payloads(&broker, "a"), ["r0", "r1", "r3", "r4", "r5"], "{code}");
        let all = envelopes(&broker, "dead");
        assert_eq!((all.len(), &all[0]["record"]["offset"]), (1, &json!(2)), "{code}");
        assert_eq!(all[0]["attempt"], 1, "in company it was not its own attempt");
    }
}

#[test]
fn many_refused_records_stop_the_flow_with_one_line_of_log() {
    logs::keep();
    let broker = broker(&["a"]);
    produce(&broker, &["r0", "bad", "bad", "bad", "r4"]);
    refuse(&broker, "a", "bad");
    let yaml = flow("", TO_A).replace("name: test", "name: refused-thrice");
    let outcome = start(&yaml, &broker).ended();
    assert_eq!(outcome.failures.len(), 1, "{:?}", outcome.failures);
    let told = logs::of_flow("refused-thrice");
    let errors = told.iter().filter(|line| line["level"] == "ERROR" && line["kind"] == "delivery").count();
    assert_eq!(errors, 1, "{told:?}");
    assert_eq!(committed(&broker), Some(1));
}

#[test]
fn too_large_is_decided_for_that_record_alone_before_it_is_sent() {
    let large = "x".repeat(2000);
    for routed in [false, true] {
        let broker = broker(&["a", "dead"]);
        broker.configure_topic("a", TopicConfig { max_message_bytes: 1000, ..TopicConfig::default() });
        produce(&broker, &["r0", &large, "r2"]);
        if routed {
            let running = start(&flow("", ROUTED), &broker);
            running.until_committed(3);
            assert_eq!(running.stop().failures, []);
            let envelope = &envelopes(&broker, "dead")[0];
            assert_eq!(envelope["record"]["payload"].as_str().map(str::len), Some(2000));
            let reason = envelope["reason"].as_str().unwrap();
            assert!(reason.contains("topic a ") && reason.contains("max.message.bytes is 1000"), "{reason}");
        } else {
            let outcome = start(&flow("", TO_A), &broker).ended();
            assert_eq!(outcome.status(), 4);
            let message = &outcome.failures[0].message;
            assert!(message.contains("in/0 offset 1") && message.contains("max.message.bytes"), "{message}");
            assert_eq!(committed(&broker), Some(1));
        }
        assert_eq!(payloads(&broker, "a"), ["r0", "r2"], "neighbours are written, in order");
    }
}

#[test]
fn an_envelope_without_room_goes_out_as_the_raw_bytes_with_all_facts_in_headers() {
    let broker = broker(&["a", "dead"]);
    broker.configure_topic("a", TopicConfig { max_message_bytes: 400, ..TopicConfig::default() });
    broker.configure_topic("dead", TopicConfig { max_message_bytes: 1400, ..TopicConfig::default() });
    // As base64 in an envelope these bytes have no room; as they are they have.
    let bytes = vec![0xff_u8; 600];
    broker.produce("in", 0, Record::value(bytes.clone()).keyed("k").at(77).header("h", Some(b"v")));
    let running = start(&flow("", ROUTED), &broker);
    running.until_committed(1);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    let raw = &broker.records("dead")[0].record;
    assert_eq!((raw.payload.as_deref(), raw.key.as_deref()), (Some(&bytes[..]), Some(&b"k"[..])));
    for (name, value) in [
        ("h", "v"),
        ("loom-error-kind", "delivery"),
        ("loom-error-attempt", "1"),
        ("loom-error-flow", "test"),
        ("loom-error-node", "process[0]"),
        ("loom-error-topic", "in"),
        ("loom-error-partition", "0"),
        ("loom-error-offset", "0"),
        ("loom-error-record-timestamp", "77"),
    ] {
        assert_eq!(header(raw, name).as_deref(), Some(value), "{name}");
    }
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("error_route(delivery)", 1)]);
}

#[test]
fn a_keyless_record_for_a_compacted_output_fails_alone() {
    let broker = broker(&["a", "dead"]);
    broker.configure_topic("a", TopicConfig { compacted: true, ..TopicConfig::default() });
    broker.produce("in", 0, Record::value("r0").keyed("a"));
    broker.produce("in", 0, Record::value("r1"));
    broker.produce("in", 0, Record::value("r2").keyed("b"));
    let running = start(&flow("", ROUTED), &broker);
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "a"), ["r0", "r2"]);
    let envelope = &envelopes(&broker, "dead")[0];
    assert_eq!(envelope["record"]["payload"], "r1");
    assert!(envelope["reason"].as_str().unwrap().contains("compacted"), "{envelope}");
}

#[test]
fn a_topic_that_becomes_compacted_while_the_flow_runs_gets_no_keyless_record() {
    let broker = broker(&["a", "dead"]);
    let running = start(&flow("", &format!("runtime: {{ lease_interval: 20ms }}\n{ROUTED}")), &broker);
    produce(&broker, &["before"]);
    running.until_committed(1);
    broker.configure_topic("a", TopicConfig { compacted: true, ..TopicConfig::default() });
    let board = running.keeper.clone();
    let beats = board.read().beats;
    // The look at the topics of one beat is over when the next but one is counted.
    running.until("the topics were looked at", |_| board.read().beats >= beats + 8);
    let sent = broker.view(|view| view.calls(Call::Send));
    produce(&broker, &["after"]);
    running.until_committed(2);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "a"), ["before"]);
    let reason = envelopes(&broker, "dead")[0]["reason"].as_str().unwrap().to_owned();
    assert!(reason.contains("compacted"), "{reason}");
    assert_eq!(broker.view(|view| view.calls(Call::Send)), sent + 1, "only its error row was sent");
}

#[test]
fn a_record_that_is_called_corrupt_again_and_again_is_refused_alone() {
    let broker = broker(&["a", "dead"]);
    produce(&broker, &["r0", "bad", "r2"]);
    refuse_batch(&broker, "a", 3, kafka_error(Kind::Corrupt, "CORRUPT_MESSAGE"));
    let running = start(&flow("", ROUTED), &broker);
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "a"), ["r0", "r2"]);
    let envelope = &envelopes(&broker, "dead")[0];
    assert_eq!((&envelope["record"]["payload"], &envelope["attempt"]), (&json!("bad"), &json!(3)));
}

#[test]
fn bytes_that_were_damaged_once_are_sent_again() {
    let broker = broker(&["a", "dead"]);
    produce(&broker, &["r0", "r1"]);
    let error = kafka_error(Kind::Corrupt, "CORRUPT_MESSAGE");
    broker.faults().rows("a", When::next(3), RowFault::Refused(error));
    let running = start(&flow("", ROUTED), &broker);
    running.until_committed(2);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "a"), ["r0", "r1"]);
    assert_eq!(payloads(&broker, "dead"), [""; 0]);
}

#[test]
fn a_topic_that_is_unknown_for_a_while_is_waited_for_and_order_is_kept() {
    let broker = broker(&["a", "dead"]);
    let error = kafka_error(Kind::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION");
    broker.faults().rows("a", When::next(9), RowFault::Refused(error));
    produce(&broker, &["r0", "r1", "r2"]);
    let running = start(&flow("", ROUTED), &broker);
    running.until_committed(3);
    produce(&broker, &["r3"]);
    running.until_committed(4);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "a"), ["r0", "r1", "r2", "r3"]);
    assert_eq!(payloads(&broker, "dead"), [""; 0]);
}

#[test]
fn a_stop_does_not_wait_for_a_topic_that_is_unknown_and_says_where_rows_were() {
    let broker = broker(&["a"]);
    let error = kafka_error(Kind::UnknownTopic, "UNKNOWN_TOPIC_OR_PARTITION");
    broker.faults().rows("a", When::always(), RowFault::Refused(error));
    produce(&broker, &["r0"]);
    let running = start(&flow("", TO_A), &broker);
    running.until_committed(0);
    running.until("a second attempt", |view| view.calls(Call::Send) >= 2);
    let started = std::time::Instant::now();
    let outcome = running.stop();
    assert!(started.elapsed() < std::time::Duration::from_secs(10));
    assert_eq!(outcome.failures, []);
    assert_eq!(committed(&broker), Some(0));
    let held = &outcome.summary.held;
    assert!(
        held.iter().any(|(place, rows)| place.contains("brokers that know the topic") && *rows == 1),
        "{held:?}"
    );
}

#[test]
fn a_right_that_is_missing_is_no_matter_of_the_batch() {
    let broker = broker(&["a", "dead"]);
    produce(&broker, &["r0", "r1"]);
    let error = kafka_error(Kind::Authorization, "TOPIC_AUTHORIZATION_FAILED");
    broker.faults().rows("a", When::always(), RowFault::Refused(error));
    let running = start(&flow("", ROUTED), &broker);
    running.until_committed(2);
    assert_eq!(running.stop().failures, []);
    let attempts: Vec<Value> = envelopes(&broker, "dead").iter().map(|one| one["attempt"].clone()).collect();
    assert_eq!(attempts, [json!(1), json!(1)], "nothing was sent a second time");
}
