//! Rows of types, each type's on its own way: a record is done when all of them are, whichever routes they took.

use loom_kafka::memory::{MemoryBroker, Record};
use loom_runtime::Status;
use serde_json::json;

use crate::expand::look_again;
use crate::harness::{
    broker, committed, endings, envelopes, flow, payloads, place, produce, refused, start, wide_broker,
};
use crate::logs;
use crate::status::{until, watched};

/// How the typed expander is called: on the worker's thread, and beside it.
const OPTIONS: [&str; 2] = ["", ", concurrency: 3"];

/// Routes of a typed expander, with what stands beside them and follows.
fn routes(routes: &str, options: &str, rest: &str) -> String {
    format!(
        "plugins: {{ x: {{ component: '{{guests}}/probe-roles.wasm', limits: {{ timeout: 20s }} }} }}
process: [ {{ expand_routes: {{ plugin: x, {routes} }}{options} }} ]
{rest}"
    )
}

const TWO: &str = "routes: { a: [ { into_topic: a } ], b: [ { into_topic: b } ] }";

fn ended(outcome: &loom_runtime::Outcome) -> Vec<(&'static str, u64)> {
    assert_eq!(outcome.failures, []);
    assert_eq!((outcome.summary.ledger.live, outcome.summary.counters.violations), (0, 0));
    endings(outcome).into_iter().collect()
}

#[test]
fn a_record_waits_for_the_rows_of_every_type() {
    for options in OPTIONS {
        let broker = broker(&["a", "b"]);
        produce(&broker, &["rows:a/1,b/2"]);
        broker.faults().hold_acks("a");
        broker.faults().hold_acks("b");
        let running = start(&flow("poll_backoff_ms: 5", &routes(TWO, options, "")), &broker);
        running.until_count("b", 1);
        broker.faults().release_all_acks("a");
        look_again(&running, &broker);
        assert_eq!(committed(&broker), Some(0));
        broker.faults().release_all_acks("b");
        running.until_committed(1);
        let outcome = running.stop();
        assert_eq!(ended(&outcome), [("topic", 2)]);
        let ledger = &outcome.summary.ledger;
        assert_eq!((ledger.registered, ledger.minted, ledger.consumed, ledger.resolved), (1, 3, 1, 1));
        assert_eq!((payloads(&broker, "a"), payloads(&broker, "b")), (vec!["1".into()], vec!["2".into()]));
    }
}

#[test]
fn a_failure_is_one_error_of_its_record_and_the_others_are_delivered() {
    for options in OPTIONS {
        let broker = broker(&["a", "b", "t"]);
        produce(&broker, &["rows:a/0", "fail:no", "rows:b/2"]);
        let rest = "errors: { task: [ { into_topic: t } ] }\n";
        let running = start(&flow("", &routes(TWO, options, rest)), &broker);
        running.until_committed(3);
        assert_eq!(ended(&running.stop()), [("error_route(task)", 1), ("topic", 2)]);
        let envelopes = envelopes(&broker, "t");
        assert_eq!(envelopes.len(), 1);
        assert_eq!(
            (&envelopes[0]["node"], &envelopes[0]["record"]["offset"]),
            (&json!("process[0]"), &json!(1))
        );
    }
}

#[test]
fn a_route_without_rows_freezes_nothing_and_many_rows_of_one_hold_their_record() {
    for options in OPTIONS {
        let broker = broker(&["a", "b"]);
        produce(&broker, &["rows:a/0", "rows:b/0,b/1,b/2,b/3", "rows:"]);
        broker.faults().hold_acks("b");
        let running = start(&flow("poll_backoff_ms: 5", &routes(TWO, options, "")), &broker);
        running.until_committed(1);
        running.until_count("b", 4);
        broker.faults().release_acks("b", 1);
        look_again(&running, &broker);
        assert_eq!(committed(&broker), Some(1));
        broker.faults().release_acks("b", 3);
        running.until_committed(3);
        assert_eq!(ended(&running.stop()), [("no_output", 1), ("topic", 5)]);
        assert_eq!(payloads(&broker, "b"), ["0", "1", "2", "3"]);
    }
}

#[test]
fn a_row_of_a_type_without_route_goes_to_default_and_is_counted() {
    for options in OPTIONS {
        let broker = broker(&["a", "rest"]);
        produce(&broker, &["rows:c/1,a/2,b/3", "rows:c/4"]);
        let routed =
            "routes: { a: [ { into_topic: a } ] }, default: [ { map: msg.type }, { into_topic: rest } ]";
        let (running, board) = watched(&flow("", &routes(routed, options, "")), &broker);
        running.until_committed(2);
        let status = until(&board, "all rows", |status| status.ledger.resolved == 2);
        let node = status.nodes.iter().find(|node| node.node == "process[0]").expect("the node");
        let expander = node.expander.expect("an expander");
        assert_eq!((node.rows, expander.made, expander.defaulted), (2, 4, 3));
        assert_eq!(ended(&running.stop()), [("topic", 4)]);
        assert_eq!(payloads(&broker, "a"), ["2"]);
        assert_eq!(payloads(&broker, "rest"), ["\"b\"", "\"c\"", "\"c\""], "by type, as the plugin has them");
    }
}

#[test]
fn a_row_of_a_type_without_route_and_default_is_a_routing_error_of_that_row() {
    logs::keep();
    for options in OPTIONS {
        let broker = broker(&["a", "r"]);
        produce(&broker, &["rows:a/1,c/untaken,a/2"]);
        broker.faults().hold_acks("a");
        let routed = "routes: { a: [ { into_topic: a } ] }";
        let yaml = routes(routed, options, "") + "errors: { unrouted: drop }\n";
        let running = start(&flow("poll_backoff_ms: 5", &yaml), &broker);
        running.until_count("a", 2);
        look_again(&running, &broker);
        assert_eq!(committed(&broker), Some(0), "the other rows decide");
        broker.faults().release_all_acks("a");
        running.until_committed(1);
        let outcome = running.stop();
        assert_eq!(ended(&outcome), [("dropped(routing)", 1), ("topic", 2)]);
        let errors: Vec<_> = outcome.summary.counters.errors.iter().collect();
        assert_eq!(errors, [(&("process[0]".into(), loom_types::ErrorKind::Routing), &1)]);
        let told = logs::lines(|line| line["kind"] == "routing" && line["node"] == "process[0]");
        let told = told.last().expect("it is logged");
        assert_eq!(
            (&told["offset"], &told["row"], &told["level"]),
            (&json!(0), &json!("2"), &json!("ERROR"))
        );
        assert!(told["reason"].as_str().unwrap().contains("the type `c`"), "{told}");

        // With a route of its own it is told of as the row that was made.
        let rest = "errors: { routing: [ { into_topic: r } ] }\n";
        produce(&broker, &["rows:c/again,a/3"]);
        let running = start(&flow("", &routes(routed, options, rest)), &broker);
        running.until_committed(2);
        assert_eq!(ended(&running.stop()), [("error_route(routing)", 1), ("topic", 1)]);
        let record = &envelopes(&broker, "r")[0]["record"];
        assert_eq!((&record["payload"], &record["row"]), (&json!("again"), &json!("1")));
    }
}

#[test]
fn rows_of_several_types_in_one_topic_are_in_the_order_in_which_they_were_made() {
    for options in OPTIONS {
        let broker = wide_broker(2, &["out"]);
        for n in 0..50 {
            broker.produce(
                "in",
                n % 2,
                Record::value(format!("rows:b/{n}b0,a/{n}a0,b/{n}b1,c/{n}c0,a/{n}a1")),
            );
        }
        let into = "[ { into_topic: out } ]";
        let routed = format!(
            "routes: {{ b: {into}, a: [ {{ fork: {{ when: [ {{ if: msg.row == '0', process: {into} }} ], default: {into} }} }} ] }}, default: {into}"
        );
        let running = start(&flow("batch_size: 20", &routes(&routed, options, "")), &broker);
        (0..2).for_each(|partition| running.until_committed_at(&place("in", partition), 25));
        assert_eq!(ended(&running.stop()), [("topic", 250)]);
        let seen = payloads(&broker, "out");
        for partition in 0..2 {
            let own = (0..50).filter(|n| n % 2 == partition);
            let expected: Vec<String> =
                own.flat_map(|n| ["a0", "a1", "b0", "b1", "c0"].map(|name| format!("{n}{name}"))).collect();
            let of = |text: &&String| {
                text.trim_end_matches(['a', 'b', 'c', '0', '1']).len() < text.len()
                    && number(text) % 2 == partition
            };
            assert_eq!(seen.iter().filter(of).collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        }
    }
}

/// The number that a row's payload begins with.
fn number(text: &str) -> i32 {
    text[..text.find(['a', 'b', 'c']).unwrap()].parse().unwrap()
}

#[test]
fn routes_lead_to_sinks_and_end_without_a_terminal_and_hold_nodes_of_all_kinds() {
    let broker = broker(&["out", "t"]);
    produce(&broker, &["rows:a/1,b/rows:x,c/3,b/fail:no,a/4"]);
    let rest = "plugins:
  x: { component: '{guests}/probe-roles.wasm' }
  k: { component: '{guests}/probe-sink.wasm' }
process:
  - expand_routes:
      plugin: x
      routes:
        a: [ { into_sink: k, flush: { records: 2, interval: 1h } } ]
        b: [ { expand: x }, { map: msg.row }, { into_topic: out } ]
        c: [ { map: payload } ]
errors: { task: [ { into_topic: t } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(1);
    assert_eq!(ended(&running.stop()), [("drained", 1), ("error_route(task)", 1), ("sink", 2), ("topic", 1)]);
    assert_eq!(payloads(&broker, "out"), ["\"2.0\""]);
    assert_eq!(envelopes(&broker, "t")[0]["record"]["row"], "3");
}

#[test]
fn a_route_of_a_type_that_the_plugin_does_not_make_is_told_at_the_start() {
    logs::keep();
    let broker = broker(&["a"]);
    produce(&broker, &["rows:a/1"]);
    let routed = "routes: { a: [ { into_topic: a } ], misspelt: [ drain ] }";
    let running = start(&flow("", &routes(routed, "", "")), &broker);
    running.until_committed(1);
    assert_eq!(ended(&running.stop()), [("topic", 1)]);
    let told = logs::lines(|line| line["row_type"] == "misspelt");
    assert_eq!((told.len(), &told[0]["level"], &told[0]["plugin"]), (1, &json!("WARN"), &json!("x")));
    assert!(told[0]["message"].as_str().unwrap().contains("its types are a, b, c"), "{told:?}");
}

#[test]
fn a_plugin_that_breaks_its_word_about_types_fails_its_record_and_names_itself_wrongly_at_the_start() {
    let broker = broker(&["a", "b", "t"]);
    produce(&broker, &["rows:a/1,other/2", "rows:b/3"]);
    let rest = "errors: { task: [ { into_topic: t } ] }\n";
    let running = start(&flow("", &routes(TWO, "", rest)), &broker);
    running.until_committed(2);
    assert_eq!(ended(&running.stop()), [("error_route(task)", 1), ("topic", 1)]);
    assert!(envelopes(&broker, "t")[0]["reason"].as_str().unwrap().contains("of the type \"other\""));

    let twice = routes(TWO, "", "").replace("limits:", "config: { types: [ a, a ] }, limits:");
    refuses(&twice, "named a type twice", &broker);
    let column = routes(TWO, "", "").replace("probe-roles", "probe-column-expand");
    refuses(&column, "typed expander", &broker);
}

fn refuses(rest: &str, told: &str, broker: &MemoryBroker) {
    let errors = refused(&flow("", rest), broker);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0].status, Status::Runtime);
    assert!(errors[0].message.contains(told) && errors[0].message.contains("process[0]"), "{errors:?}");
}

#[test]
fn exploded_rows_part_by_their_types_and_come_together_in_the_order_in_which_they_were_made() {
    for options in OPTIONS {
        let broker = broker(&["out"]);
        produce(&broker, &["rows:b/en,a/shop,b/de", "fail:no", "rows:c/x"]);
        broker.faults().hold_acks("out");
        let rest = format!(
            "plugins: {{ x: {{ component: '{{guests}}/probe-roles.wasm' }} }}
process:
  - explode: x{}
  - router:
      by: msg.type
      branches:
        a: [ {{ map: \"'store ' + msg.row\" }} ]
        b: [ {{ map: \"'language ' + msg.row\" }} ]
      default: pass
  - into_topic: out
errors: {{ unrouted: drop }}
",
            options.replace(", ", "\n    ")
        );
        let running = start(&flow("poll_backoff_ms: 5", &rest), &broker);
        running.until_count("out", 4);
        broker.faults().release_acks("out", 2);
        look_again(&running, &broker);
        assert_eq!(committed(&broker), Some(0));
        broker.faults().release_all_acks("out");
        running.until_committed(3);
        assert_eq!(ended(&running.stop()), [("dropped(task)", 1), ("topic", 4)]);
        let expected = ["\"store 0\"", "\"language 1\"", "\"language 2\"", "x"];
        assert_eq!(payloads(&broker, "out"), expected, "{options}");
    }
}

#[test]
fn no_row_of_a_batch_has_a_type_whether_the_batch_was_full_or_not() {
    let broker = broker(&["a", "b"]);
    produce(&broker, &["rows:a/1,a/2,a/3"]);
    let untyped = "{ fork: { when: [ { if: msg.type == null, process: [ { into_topic: a } ] } ], \
                   default: [ { into_topic: b } ] } }";
    let batch = "{ collect_batch: { max_records: 2, timeout_ms: 50 } }";
    let of_a = format!("routes: {{ a: [ {batch}, for_each, {untyped} ] }}");
    let running = start(&flow("", &routes(&of_a, "", "")), &broker);
    running.until_committed(1);
    assert_eq!(ended(&running.stop()), [("topic", 3)]);
    assert_eq!((payloads(&broker, "a").len(), payloads(&broker, "b").len()), (3, 0));
}
