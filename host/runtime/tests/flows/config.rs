//! What the flow's configuration means while it runs: producers, keys, topics, workers.

use std::collections::BTreeMap;

use loom_kafka::memory::Record;
use loom_runtime::Options;

use crate::harness::{broker, endings, flow, payloads, place, produce, start, start_with, wide_broker};

#[test]
fn an_output_with_a_producer_of_its_own_writes_to_its_topic_and_others_through_the_default() {
    let broker = broker(&["audit.v2", "other"]);
    produce(&broker, &["a"]);
    let yaml = flow("", "process: [ { broadcast: [ [ { into_topic: audit } ], [ { into_topic: other } ] ] } ]\n")
        .replace("  producer: { brokers: [memory] }\n", "  producer: { brokers: [memory] }\n  producers: { audit: { brokers: [elsewhere], topic: audit.v2 } }\n");
    let running = start(&yaml, &broker);
    running.until_committed(1);
    running.stop();
    assert_eq!(
        (payloads(&broker, "audit.v2"), payloads(&broker, "other")),
        (vec!["a".to_owned()], vec!["a".to_owned()])
    );
}

#[test]
fn key_headers_and_time_pass_through_untouched_unless_the_node_says_otherwise() {
    let broker = broker(&["same", "now", "rekeyed", "unkeyed"]);
    let record = Record::value("{\"id\":7}")
        .keyed("k")
        .at(1_000)
        .header("b", Some(b"1"))
        .header("a", None)
        .header("b", Some(b"2"));
    broker.produce("in", 0, record.clone());
    broker.produce("in", 0, Record { key: None, ..record.clone() });
    let rest = "process:
  - broadcast:
      - [ { into_topic: same } ]
      - [ { into_topic: now, timestamp: now } ]
      - [ { into_topic: rekeyed, key: payload.id } ]
      - [ { into_topic: unkeyed, key: 'null' } ]
";
    broker.started_at_ms(5_000_000);
    let running = start(&flow("", rest), &broker);
    running.until_committed(2);
    running.stop();
    let of = |topic: &str| broker.records(topic)[0].record.clone();
    assert_eq!(of("same"), record);
    assert_eq!(broker.records("same")[1].record.key, None, "a record without a key gets none");
    assert_eq!(broker.records("rekeyed")[1].record.key.as_deref(), Some(&b"7"[..]));
    assert!(of("now").timestamp_ms.unwrap() >= 5_000_000);
    assert_eq!(Record { timestamp_ms: Some(1_000), ..of("now") }, record);
    assert_eq!(of("rekeyed"), Record { key: Some(b"7".to_vec()), ..record.clone() });
    assert_eq!(of("unkeyed"), Record { key: None, ..record });
}

#[test]
fn a_full_producer_queue_is_back_pressure_and_nothing_else() {
    let broker = broker(&["out"]);
    let records: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    for record in &records {
        produce(&broker, &[record]);
    }
    let yaml = flow("", "process: [ { into_topic: out } ]\n").replace(
        "producer: { brokers: [memory] }",
        "producer: { brokers: [memory], extra: { queue.buffering.max.messages: 10 } }",
    );
    let running = start(&yaml, &broker);
    running.until_committed(10_000);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out"), records);
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("topic", 10_000)]);
    assert!(outcome.summary.counters.errors.is_empty());
}

#[test]
fn two_topics_are_read_in_one_flow() {
    let broker = broker(&["out"]);
    broker.create_topic("a", 1);
    broker.create_topic("b", 2);
    for (topic, partition) in [("a", 0), ("b", 0), ("b", 1)] {
        for n in 0..100 {
            broker.produce(topic, partition, Record::value(format!("\"{topic}{partition} {n:02}\"")));
        }
    }
    let yaml = flow("", "process: [ { map: msg.topic + ' ' + payload }, { into_topic: out } ]\n")
        .replace("topics: [in]", "topics: [a, b]");
    let running = start(&yaml, &broker);
    for place in [place("a", 0), place("b", 0), place("b", 1)] {
        running.until_committed_at(&place, 100);
    }
    running.stop();
    let seen = by_source(&payloads(&broker, "out"));
    for (source, topic) in [("\"a a0", "a"), ("\"b b0", "b"), ("\"b b1", "b")] {
        let expected: Vec<String> = (0..100).map(|n| format!("{source} {n:02}\"")).collect();
        assert_eq!(seen[&source.to_owned()], expected, "{topic}");
    }
}

#[test]
fn two_workers_read_each_partition_once_and_keep_its_order() {
    let broker = wide_broker(4, &["out"]);
    for n in 0..1000 {
        for partition in 0..4 {
            broker.produce("in", partition, Record::value(format!("p{partition} {n:04}")));
        }
    }
    let rest = "plugins: { s: { component: '{guests}/probe-column-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\n";
    let running = start_with(&flow("", rest), &broker, Options { workers: 2, ..Options::default() });
    for partition in 0..4 {
        running.until_committed_at(&place("in", partition), 1000);
    }
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(outcome.summary.partitions.len(), 4);
    let seen = by_source(&payloads(&broker, "out"));
    for partition in 0..4 {
        let source = format!("p{partition}");
        let expected: Vec<String> = (0..1000).map(|n| format!("{source} {n:04}")).collect();
        assert_eq!(seen[&source], expected);
    }
}

#[test]
fn more_workers_than_partitions_run_and_stop() {
    let broker = broker(&["out"]);
    produce(&broker, &["a"]);
    let running = start_with(
        &flow("", "process: [ { into_topic: out } ]\n"),
        &broker,
        Options { workers: 3, ..Options::default() },
    );
    running.until_committed(1);
    assert_eq!(running.stop().failures, []);
}

/// Texts by all before their last word.
fn by_source(texts: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for text in texts {
        let (source, _) = text.rsplit_once(' ').unwrap();
        map.entry(source.to_owned()).or_default().push(text.clone());
    }
    map
}
