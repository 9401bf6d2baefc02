//! Records that go round: from a flow's errors back into its input, again and again.

use loom_kafka::Kind;
use loom_kafka::memory::{MemoryBroker, Record, RowFault, Stored};
use loom_types::TopicPartition;
use serde_json::json;

use crate::harness::{Running, broker, envelopes, flow, header, kafka_error, start};

const ROUNDS: usize = 300;

/// Times have as many digits in every round.
const START_MS: i64 = 1_700_000_000_000;

/// A flow from `dead` back to `in`, with a group of its own.
fn back() -> String {
    flow("", "process: [ { into_topic: in } ]\n")
        .replace("name: test", "name: back")
        .replace("group_id: g", "group_id: back")
        .replace("topics: [in]", "topics: [dead]")
}

/// One record goes round; what `dead` got in each round.
fn rounds(forth: &str, broker: &MemoryBroker) -> Vec<Stored> {
    broker.started_at_ms(START_MS);
    let record = Record::value(vec![0xfe_u8; 10_000]).keyed("key").at(START_MS).header("h", Some(b"v"));
    broker.produce("in", 0, record);
    let forth: Running = start(forth, broker);
    let back = start(&back(), broker);
    forth.until_count("dead", ROUNDS);
    assert_eq!(back.stop().failures, []);
    assert_eq!(forth.stop().failures, []);
    broker.records("dead")
}

fn size(record: &Record) -> usize {
    let headers = record.headers.iter().map(|(name, value)| name.len() + value.as_ref().map_or(0, Vec::len));
    record.payload.as_ref().map_or(0, Vec::len) + headers.sum::<usize>()
}

/// A record is as large in the last round as in the first, but for its attempt, which stands in it `times` times.
fn does_not_grow(all: &[Stored], times: usize) {
    let (first, last) = (&all[0].record, &all[ROUNDS - 1].record);
    assert_eq!(last.headers.len(), first.headers.len());
    assert_eq!(header(last, "loom-error-attempt"), Some(ROUNDS.to_string()));
    assert_eq!(size(last), size(first) + times * (ROUNDS.to_string().len() - 1));
    for name in ["loom-error-kind", "loom-error-reason", "loom-error-attempt", "loom-error-timestamp"] {
        let count = last.headers.iter().filter(|(other, _)| other == name.as_bytes()).count();
        assert_eq!(count, 1, "{name}");
    }
    assert_eq!(last.key.as_deref(), Some(&b"key"[..]));
    assert_eq!(last.headers[0], (b"h".to_vec(), Some(b"v".to_vec())));
}

#[test]
fn an_envelope_stays_one_envelope_around_the_first_record() {
    let broker = broker(&["dead"]);
    let forth = flow(
        "",
        "plugins: { s: { component: '{guests}/probe-step.wasm', config: { command: 'fail:no' } } }
process: [ { step: s }, drain ]
errors: { default: [ { into_topic: dead } ] }
",
    );
    let all = rounds(&forth, &broker);
    does_not_grow(&all, 2);
    let envelope = &envelopes(&broker, "dead")[ROUNDS - 1];
    assert_eq!(envelope["attempt"], ROUNDS);
    let record = &envelope["record"];
    assert_eq!((&record["topic"], &record["offset"]), (&json!("in"), &json!(0)));
    assert_eq!(record["timestamp_ms"], START_MS);
    assert_eq!((&record["key"], &record["headers"][0][0]), (&json!("key"), &json!("h")));
    assert!(record["payload"]["base64"].as_str().unwrap().len() > 10_000);
}

#[test]
fn a_dead_letter_stays_the_record() {
    let broker = broker(&["out", "dead"]);
    let error = kafka_error(Kind::Refused, "INVALID_RECORD");
    broker.faults().rows_where("out", move |_| Some(RowFault::Refused(error.clone())));
    let all = rounds(&flow("", "process: [ { into_topic: out, dlq: dead } ]\n"), &broker);
    does_not_grow(&all, 1);
    assert_eq!(all[ROUNDS - 1].record.payload, all[0].record.payload);
    let committed = broker.committed("back", &TopicPartition::new("dead", 0));
    assert!(committed.is_some_and(|committed| committed.offset.0 >= ROUNDS as i64 - 1));
}
