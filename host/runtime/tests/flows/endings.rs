//! Every row ends in one way, and each way is a count of its own.

use loom_kafka::Kind;
use loom_kafka::memory::RowFault;

use crate::harness::{broker, endings, flow, kafka_error, produce, start};

#[test]
fn each_way_to_end_is_visible_and_different() {
    let broker = broker(&["out", "a", "d", "t"]);
    let ways = ["filtered", "topic", "sink", "dead", "drained", "failed"];
    for way in ways {
        produce(&broker, &[&format!("{{\"way\":\"{way}\"}}")]);
    }
    produce(&broker, &["no json"]);
    let error = kafka_error(Kind::Refused, "INVALID_RECORD");
    broker.faults().rows_where("a", move |_| Some(RowFault::Refused(error.clone())));
    let rest = "plugins: { k: { component: '{guests}/probe-sink.wasm' } }
process:
  - filter: payload.way != 'filtered'
  - fork:
      by: payload.way
      branches:
        topic: [ { into_topic: out } ]
        sink: [ { into_sink: k, flush: { interval: 20ms } } ]
        dead: [ { into_topic: a, dlq: d } ]
        failed: [ { map: payload.missing }, drain ]
      default: [ drain ]
errors: { task: [ { into_topic: t } ], unrouted: drop }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(7);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    let expected = [
        ("dead_letter", 1),
        ("drained", 1),
        ("dropped(wire)", 1),
        ("error_route(task)", 1),
        ("filtered", 1),
        ("sink", 1),
        ("topic", 1),
    ];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), expected);
    let errors = &outcome.summary.counters.errors;
    let kinds: std::collections::BTreeSet<&str> = errors.keys().map(|(_, kind)| kind.name()).collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["delivery", "task", "wire"]);
}
