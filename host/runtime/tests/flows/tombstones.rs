//! No value is no value, four letters are four letters, and nothing at all is neither.

use loom_kafka::memory::Record;
use serde_json::json;

use crate::harness::{broker, endings, envelopes, flow, payloads, start};

#[test]
fn map_tells_a_tombstone_from_the_text_null_and_from_an_empty_payload() {
    let broker = broker(&["out", "w"]);
    let record = Record::value("{\"a\":1}");
    let tombstone = Record { payload: None, ..record.clone() };
    for record in [record, tombstone, Record::value("null"), Record::value("")] {
        broker.produce("in", 0, record);
    }
    let rest =
        "process: [ { map: payload }, { into_topic: out } ]\nerrors: { wire: [ { into_topic: w } ] }\n";
    let running = start(&flow("tombstones: forward", rest), &broker);
    running.until_committed(4);
    let outcome = running.stop();
    let seen: Vec<Option<Vec<u8>>> =
        broker.records("out").into_iter().map(|stored| stored.record.payload).collect();
    assert_eq!(seen, [Some(b"{\"a\":1}".to_vec()), None, Some(b"null".to_vec())]);
    let failed = envelopes(&broker, "w");
    assert_eq!(
        (failed.len(), &failed[0]["record"]["offset"], &failed[0]["kind"]),
        (1, &json!(3), &json!("wire"))
    );
    assert_eq!(failed[0]["record"]["payload"], "");
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("error_route(wire)", 1), ("topic", 3)]);
}

#[test]
fn map_to_null_writes_the_text() {
    let broker = broker(&["out"]);
    let record = Record::value("{\"a\":1}");
    broker.produce("in", 0, Record { payload: None, ..record.clone() });
    broker.produce("in", 0, record);
    let rest = "process: [ { map: \"null\" }, { into_topic: out } ]\n";
    let running = start(&flow("tombstones: forward", rest), &broker);
    running.until_committed(2);
    assert_eq!(running.stop().failures, []);
    assert!(broker.records("out").iter().all(|stored| stored.record.payload.as_deref() == Some(b"null")));
    assert_eq!(payloads(&broker, "out").len(), 2);
}
