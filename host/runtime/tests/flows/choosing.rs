//! Components that choose: selectors pick a branch, partitioners make a key.

use loom_kafka::memory::{MemoryBroker, Record};
use serde_json::json;

use crate::harness::{broker, committed, endings, envelopes, flow, header, payloads, produce, start};

/// A record for each command, with a key where one is given.
pub fn commands(broker: &MemoryBroker, records: &[(&str, &str)]) {
    for (offset, (command, key)) in records.iter().enumerate() {
        let text = json!({"do": command, "at": offset}).to_string();
        let key = (!key.is_empty()).then(|| (*key).into());
        broker.produce("in", 0, Record { key, ..Record::value(text) });
    }
}

/// Offsets of the records of a topic, in the order in which they were written.
pub fn offsets(broker: &MemoryBroker, topic: &str) -> Vec<u64> {
    let at = |text: String| serde_json::from_str::<serde_json::Value>(&text).unwrap()["at"].as_u64().unwrap();
    payloads(broker, topic).into_iter().map(at).collect()
}

/// Keys of the records of a topic.
pub fn keys(broker: &MemoryBroker, topic: &str) -> Vec<String> {
    let records = broker.view(|view| view.records(topic));
    let text = |key: Option<Vec<u8>>| key.map_or("-".to_owned(), |key| String::from_utf8(key).unwrap());
    records.into_iter().map(|stored| text(stored.record.key)).collect()
}

/// Directly called, and beside the worker: a plugin that may use the network waits.
pub const GRANTS: [&str; 2] = ["", ", allow: { http: ['localhost:9'] }"];

#[test]
fn a_selector_component_picks_the_branch_by_its_label() {
    for grant in GRANTS {
        let broker = broker(&["a", "b", "rest", "t", "r"]);
        let labels = ["label:a", "label:c", "none", "fail:x", "label:b", "reject:y", "retry-n:1", "label:a"];
        commands(&broker, &labels.map(|label| (label, "")));
        let rest = format!(
            "plugins: {{ s: {{ component: '{{guests}}/probe-roles.wasm'{grant} }} }}
process:
  - fork:
      by: {{ plugin: s }}
      branches: {{ a: [ {{ into_topic: a }} ], b: [ {{ into_topic: b }} ] }}
      default: [ {{ into_topic: rest }} ]
errors: {{ task: [ {{ into_topic: t }} ], business: [ {{ into_topic: r }} ] }}
"
        );
        let running = start(&flow("", &rest), &broker);
        running.until_committed(8);
        let outcome = running.stop();
        assert_eq!((offsets(&broker, "a"), offsets(&broker, "b")), (vec![0, 7], vec![4]), "{grant}");
        assert_eq!(offsets(&broker, "rest"), [1, 2, 6]);
        for (topic, offset) in [("t", 3), ("r", 5)] {
            let failed = &envelopes(&broker, topic)[0];
            assert_eq!(
                (&failed["record"]["offset"], &failed["node"]),
                (&json!(offset), &json!("process[0]"))
            );
            assert_eq!(failed["plugin"]["name"], "s");
        }
        assert_eq!(outcome.summary.ledger.live, 0);
    }
}

#[test]
fn a_selector_that_is_late_holds_back_what_is_behind_it_in_every_branch_of_a_router() {
    for grant in GRANTS {
        let broker = broker(&["out", "r"]);
        commands(&broker, &["label:b", "retry-n:2", "label:b", "label:a", "none"].map(|label| (label, "")));
        let rest = format!(
            "plugins: {{ s: {{ component: '{{guests}}/probe-roles.wasm'{grant} }} }}
process:
  - router:
      by: {{ plugin: s }}
      branches: {{ a: [ {{ map: payload }} ], b: [] }}
      default: [ {{ filter: payload.at > 1 }} ]
  - into_topic: out
"
        );
        let running = start(&flow("", &rest), &broker);
        running.until_committed(5);
        let outcome = running.stop();
        assert_eq!(offsets(&broker, "out"), [0, 2, 3, 4], "{grant}");
        let ended: Vec<_> = endings(&outcome).into_iter().collect();
        assert_eq!(ended, [("filtered", 1), ("topic", 4)]);
    }
}

#[test]
fn without_a_default_what_a_selector_has_no_branch_for_is_a_routing_error() {
    let broker = broker(&["out", "r"]);
    commands(&broker, &[("label:a", ""), ("label:b", ""), ("none", "")]);
    let rest = "plugins: { s: { component: '{guests}/probe-roles.wasm' } }
process: [ { router: { by: { plugin: s }, branches: { a: [] } } }, { into_topic: out } ]
errors: { routing: [ { into_topic: r } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(3);
    running.stop();
    assert_eq!(offsets(&broker, "out"), [0]);
    let failed = envelopes(&broker, "r");
    assert_eq!(failed.iter().map(|failed| &failed["record"]["offset"]).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_partitioner_makes_keys_for_records_that_have_none_or_where_it_may_for_all() {
    for grant in GRANTS {
        for (options, expected) in [
            ("partitioner: p", ["old", "new", "old", "-", "old", "late"]),
            (
                "partitioner: { plugin: p }, allow_repartition: true",
                ["new", "new", "old", "-", "late", "late"],
            ),
            ("key: { plugin: p }", ["new", "new", "old", "-", "late", "late"]),
            ("key: \"'k'\", partitioner: p", ["k"; 6]),
            ("key: 'null', partitioner: p", ["new", "new", "-", "-", "late", "late"]),
            ("key: \"payload.at > 0 ? null : 'k'\", partitioner: p", ["k", "new", "-", "-", "late", "late"]),
        ] {
            let broker = broker(&["out"]);
            let records = [
                ("key:new", "old"),
                ("key:new", ""),
                ("none", "old"),
                ("none", ""),
                ("key:late", "old"),
                ("key:late", ""),
            ];
            commands(&broker, &records);
            let rest = format!(
                "plugins: {{ p: {{ component: '{{guests}}/probe-roles.wasm'{grant} }} }}
process: [ {{ into_topic: out, {options} }} ]
"
            );
            let running = start(&flow("", &rest), &broker);
            running.until_committed(6);
            assert_eq!(running.stop().failures, [], "{options}");
            assert_eq!(keys(&broker, "out"), expected, "{options}{grant}");
            assert_eq!(offsets(&broker, "out"), [0, 1, 2, 3, 4, 5], "{options}{grant}");
        }
    }
}

#[test]
fn keys_that_are_late_hold_back_records_that_have_one() {
    for grant in GRANTS {
        let broker = broker(&["out"]);
        commands(
            &broker,
            &[("key:a", ""), ("retry-n:2", ""), ("none", "own"), ("key:b", ""), ("none", "own")],
        );
        let rest = format!(
            "plugins: {{ p: {{ component: '{{guests}}/probe-roles.wasm'{grant} }} }}
process: [ {{ into_topic: out, partitioner: p }} ]
"
        );
        let running = start(&flow("", &rest), &broker);
        running.until_committed(5);
        running.stop();
        assert_eq!(offsets(&broker, "out"), [0, 1, 2, 3, 4], "{grant}");
        assert_eq!(keys(&broker, "out"), ["a", "-", "own", "b", "own"]);
    }
}

#[test]
fn an_error_of_a_partitioner_is_a_task_error_and_the_row_has_the_key_that_it_came_with() {
    let broker = broker(&["out", "e"]);
    commands(&broker, &[("fail:x", "own"), ("key:k", ""), ("trap", "own"), ("reject:y", "")]);
    let rest = "plugins: { p: { component: '{guests}/probe-roles.wasm' } }
process: [ { into_topic: out, key: \"msg.offset == 2 ? 'other' : null\", partitioner: p, allow_repartition: true } ]
errors: { default: [ { into_topic: e } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(4);
    let outcome = running.stop();
    assert_eq!((offsets(&broker, "out"), committed(&broker)), (vec![1], Some(4)));
    let mut failed: Vec<_> = broker
        .view(|view| view.records("e"))
        .into_iter()
        .map(|stored| {
            let kind = header(&stored.record, "loom-error-kind").unwrap();
            let envelope: serde_json::Value =
                serde_json::from_slice(stored.record.payload.as_deref().unwrap()).unwrap();
            (envelope["record"]["offset"].as_i64().unwrap(), kind, envelope["record"]["key"].clone())
        })
        .collect();
    failed.sort_by_key(|(offset, ..)| *offset);
    let task = || "task".to_owned();
    assert_eq!(
        failed,
        [(0, task(), json!("own")), (2, task(), json!("own")), (3, "business".to_owned(), json!(null))]
    );
    assert_eq!(outcome.summary.ledger.live, 0);
}

#[test]
fn without_accounting_keys_are_made_too() {
    let broker = broker(&["out"]);
    produce(&broker, &["key:a", "retry-n:1", "key:b"]);
    let rest = "plugins: { p: { component: '{guests}/probe-roles.wasm' } }
process: [ { into_topic: out, partitioner: p } ]
";
    let running = start(&flow("delivery: at_most_once", rest), &broker);
    running.until_count("out", 3);
    running.stop();
    assert_eq!(keys(&broker, "out"), ["a", "-", "b"]);
}
