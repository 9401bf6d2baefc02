//! Routers: each record through one branch, and all of them on in the order of their source.

use std::collections::BTreeMap;

use loom_kafka::memory::Record;
use loom_runtime::status::Intake;
use loom_runtime::{Options, Outcome};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::harness::{
    broker, committed, endings, envelopes, flow, payloads, place, produce, start, start_with, wide_broker,
};
use crate::status::{until, watched};
use crate::waiting::Service;

fn ended(outcome: &Outcome) -> Vec<(&'static str, u64)> {
    endings(outcome).into_iter().collect()
}

#[test]
fn the_first_branch_that_takes_a_record_takes_it_alone() {
    let broker = broker(&["out", "r"]);
    let records =
        [r#"{"vip":true,"amount":500}"#, r#"{"vip":false,"amount":500}"#, r#"{"vip":false,"amount":5}"#];
    produce(&broker, &records);
    let rest = "process:
  - router:
      when:
        - if: payload.vip
          process: [ { map: \"'vip'\" } ]
        - if: payload.amount >= 100
          process: [ { map: \"'large'\" } ]
  - into_topic: out
errors: { routing: [ { into_topic: r } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(payloads(&broker, "out"), [r#""vip""#, r#""large""#]);
    let failed = &envelopes(&broker, "r")[0];
    assert_eq!((&failed["kind"], &failed["node"]), (&json!("routing"), &json!("process[0]")));
    assert_eq!(failed["record"]["offset"], 2);
    assert_eq!(ended(&outcome), [("error_route(routing)", 1), ("topic", 2)]);
}

#[test]
fn what_no_branch_takes_passes_or_goes_through_the_default() {
    let broker = broker(&["out"]);
    produce(&broker, &[r#"{"k":"a"}"#, r#"{"k":7}"#, r#"{"k":"c"}"#]);
    let rest = "process:
  - router: { by: payload.k, branches: { a: [ { map: \"{'k': 'A'}\" } ], '7': [] }, default: [ { map: \"{'k': 'rest'}\" } ] }
  - router: { by: payload.k, branches: { A: [ { map: \"'again'\" } ] }, default: pass }
  - into_topic: out
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(3);
    assert_eq!(ended(&running.stop()), [("topic", 3)]);
    assert_eq!(payloads(&broker, "out"), [r#""again""#, r#"{"k":7}"#, r#"{"k":"rest"}"#]);
}

#[test]
fn rows_keep_their_keys_headers_and_order_whatever_their_branch() {
    let broker = wide_broker(2, &["out"]);
    let records = 1500;
    for n in 0..records {
        let key = (n % 4 > 0).then(|| format!("k{n}"));
        let headers = if n % 3 == 0 { vec![("h".into(), Some(n.to_string().into()))] } else { vec![] };
        let record = Record { key: key.map(Into::into), headers, ..Record::value(n.to_string()) };
        broker.produce("in", n % 2, record);
    }
    let rest = "plugins: { s: { component: '{guests}/probe-column-step.wasm', config: { command: upper } } }
process:
  - router:
      when:
        - if: payload % 5 == 0
          process: [ { step: s }, { filter: payload % 10 == 0 } ]
        - if: payload % 5 == 1
          process: [ { map: payload } ]
        - if: payload % 5 == 2
          process: []
      default: [ { map: payload + 0 }, { step: s } ]
  - into_topic: out
";
    let running = start(&flow("", rest), &broker);
    for partition in 0..2 {
        running.until_committed_at(&place("in", partition), i64::from(records) / 2);
    }
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(ended(&outcome), [("filtered", 150), ("topic", 1350)]);
    let mut seen: [Vec<i32>; 2] = [Vec::new(), Vec::new()];
    broker.view(|view| {
        for stored in view.records("out") {
            let record = stored.record;
            let n: i32 = String::from_utf8(record.payload.clone().unwrap()).unwrap().parse().unwrap();
            seen[(n % 2) as usize].push(n);
            let key = record.key.as_ref().map(|key| String::from_utf8(key.clone()).unwrap());
            assert_eq!(key, (n % 4 > 0).then(|| format!("k{n}")));
            assert_eq!(record.headers.len(), usize::from(n % 3 == 0), "{n}");
        }
    });
    for (partition, seen) in seen.iter().enumerate() {
        let of = (0..records).filter(|n| n % 2 == partition as i32 && n % 10 != 5);
        assert_eq!(*seen, of.collect::<Vec<_>>());
    }
}

#[test]
fn a_row_that_is_tried_again_in_a_branch_holds_back_later_rows_of_its_partition_only() {
    let broker = wide_broker(2, &["out"]);
    for (partition, record) in [(0, "a"), (0, "retry:x"), (0, "b"), (0, "c"), (1, "d")] {
        broker.produce("in", partition, Record::value(format!("{{\"do\":\"{record}\"}}")));
    }
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }
process:
  - router: { when: [ { if: \"payload.do == 'retry:x'\", process: [ { step: s } ] } ], default: [ { map: payload.do } ] }
  - into_topic: out
";
    let (running, board) = watched(&flow("", rest), &broker);
    running.until_count("out", 2);
    running.until_committed_at(&place("in", 1), 1);
    let status = until(&board, "rows that wait at the router", |status| {
        status.nodes.iter().any(|node| node.node == "process[0]" && node.waiting == 2)
    });
    let router = status.nodes.iter().find(|node| node.node == "process[0]").unwrap();
    assert_eq!((router.kind.as_str(), router.rows), ("router", 5));
    let oldest = status.partitions[0].oldest.as_ref().unwrap();
    assert_eq!((oldest.offset, oldest.places[0].node.as_str()), (1, "process[0].router.when[0].process[0]"));
    assert_eq!(status.partitions[0].intake, Intake::Held);
    // Nothing that waited behind it is written, and all of it comes again.
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert!(
        outcome.summary.held.contains(&("process[0] (router)".to_owned(), 2)),
        "{:?}",
        outcome.summary.held
    );
    assert_eq!(payloads(&broker, "out"), [r#""a""#, r#""d""#]);
    assert_eq!(committed(&broker), Some(1));
    let again = flow("", &rest.replace("probe-step.wasm'", "probe-step.wasm', config: { command: nothing }"));
    let running = start(&again, &broker);
    running.until_committed(4);
    running.stop();
    let written = payloads(&broker, "out");
    assert_eq!(written[2..], [r#"{"do":"retry:x"}"#, r#""b""#, r#""c""#]);
}

#[test]
fn rows_behind_a_call_that_is_waited_for_leave_with_its_answer() {
    let (service, broker) = (Service::default(), wide_broker(2, &["out"]));
    let port = service.start(0);
    service.hold("/slow", usize::MAX);
    let rest = format!(
        "plugins:
  s:
    component: '{{guests}}/probe-http.wasm'
    config: {{ url: 'http://localhost:{port}' }}
    allow: {{ http: ['localhost:{port}'] }}
    limits: {{ timeout: 30s }}
process:
  - router: {{ when: [ {{ if: \"string(msg.key) == 'ask'\", process: [ {{ step: s, concurrency: 4 }} ] }} ], default: pass }}
  - into_topic: out
"
    );
    let records = [(0, "/slow", "ask"), (0, "x", ""), (0, "/fast", "ask"), (0, "y", ""), (1, "z", "")];
    for (partition, text, key) in records {
        broker.produce("in", partition, Record { key: Some(key.into()), ..Record::value(text) });
    }
    let (running, board) = watched(&flow("", &rest), &broker);
    service.until_seen(2);
    running.until_committed_at(&place("in", 1), 1);
    // The fast one was answered, and waits in its window; the others wait at the router.
    until(&board, "rows that wait at the router", |status| {
        status.nodes.iter().any(|node| node.node == "process[0]" && node.waiting == 2)
    });
    assert_eq!(payloads(&broker, "out"), ["z"]);
    // A stop waits for what is under way, and for what is behind it.
    running.request_stop();
    service.release("/slow");
    let outcome = running.ended();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out"), ["z", "200 /slow", "x", "200 /fast", "y"]);
    assert_eq!(committed(&broker), Some(4));
}

#[test]
fn a_node_without_order_in_a_branch_holds_nobody_back() {
    let (service, broker) = (Service::default(), broker(&["out"]));
    let port = service.start(0);
    service.hold("/slow", usize::MAX);
    let rest = format!(
        "plugins:
  s:
    component: '{{guests}}/probe-http.wasm'
    config: {{ url: 'http://localhost:{port}' }}
    allow: {{ http: ['localhost:{port}'] }}
    limits: {{ timeout: 30s }}
process:
  - router: {{ when: [ {{ if: \"string(msg.key) == 'ask'\", process: [ {{ step: s, concurrency: 4, ordered: false }} ] }} ], default: pass }}
  - into_topic: out
"
    );
    for (text, key) in [("/slow", "ask"), ("x", ""), ("/fast", "ask")] {
        broker.produce("in", 0, Record { key: Some(key.into()), ..Record::value(text) });
    }
    let running = start(&flow("", &rest), &broker);
    running.until_count("out", 2);
    let mut first = payloads(&broker, "out");
    first.sort();
    assert_eq!(first, ["200 /fast", "x"]);
    service.release("/slow");
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_row_that_fails_in_a_branch_takes_the_nearest_route_and_frees_what_is_behind() {
    let broker = broker(&["out", "own", "t"]);
    produce(&broker, &["retry-n:1", "fail:x", "reject:y", "ok"]);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }
process:
  - router:
      when: [ { if: msg.offset < 3, process: [ { step: s, errors: { business: [ { into_topic: own } ] } } ] } ]
      default: pass
    errors: { task: [ { into_topic: t } ] }
  - into_topic: out
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(4);
    let outcome = running.stop();
    assert_eq!(payloads(&broker, "out"), ["retry-n:1", "ok"]);
    let at = |topic| envelopes(&broker, topic)[0]["record"]["offset"].clone();
    assert_eq!((at("t"), at("own")), (json!(1), json!(2)));
    assert_eq!(ended(&outcome), [("error_route(business)", 1), ("error_route(task)", 1), ("topic", 2)]);
}

#[test]
fn a_router_may_stand_in_an_error_route_and_in_a_branch_of_other_nodes() {
    let broker = broker(&["a", "b", "dead"]);
    produce(&broker, &["1", "no json", "2", "3"]);
    let router =
        "{ router: { when: [ { if: payload > 1, process: [ { map: payload * 10 } ] } ], default: pass } }";
    let rest = format!(
        "process: [ {{ broadcast: [ [ {router}, {{ into_topic: a }} ], [ {{ fork: {{ when: [ {{ if: 'true', process: [ {router}, {{ into_topic: b }} ] }} ], default: [ drain ] }} }} ] ] }} ]
errors: {{ wire: [ {{ router: {{ by: payload.kind, branches: {{ wire: [ {{ map: payload.record.payload }} ] }} }} }}, {{ into_topic: dead }} ] }}
"
    );
    let running = start(&flow("", &rest), &broker);
    running.until_committed(4);
    let outcome = running.stop();
    for topic in ["a", "b"] {
        assert_eq!(payloads(&broker, topic), ["1", "20", "30"]);
    }
    assert_eq!(payloads(&broker, "dead"), [r#""no json""#; 2]);
    assert_eq!(ended(&outcome), [("error_route(wire)", 2), ("topic", 6)]);
}

#[test]
fn without_accounting_rows_come_out_in_order_too() {
    let broker = broker(&["out"]);
    let records: Vec<String> = (0..40).map(|n| n.to_string()).collect();
    records.iter().for_each(|record| produce(&broker, &[record]));
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm', config: { command: 'retry-n:1' } } }
process:
  - router: { when: [ { if: payload % 7 == 3, process: [ { step: s } ] }, { if: payload % 2 == 0, process: [ { map: payload } ] } ], default: pass }
  - into_topic: out
";
    let running = start(&flow("delivery: at_most_once", rest), &broker);
    running.until_count("out", 40);
    let outcome = running.stop();
    assert_eq!(payloads(&broker, "out"), records);
    assert_eq!(ended(&outcome), [("topic", 40)]);
}

/// What becomes of a record in a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Fail,
    Retry,
    Trap,
}

#[derive(Clone, Debug)]
enum Branch {
    Pass,
    Map,
    Filter,
    Step { columns: bool, waits: Option<usize> },
}

#[derive(Clone, Debug)]
struct Case {
    branches: Vec<Branch>,
    /// By partition: the branch, and the fate.
    records: Vec<Vec<(usize, Fate)>>,
    by_label: bool,
    batch_size: usize,
    max_outstanding: usize,
    workers: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let branch = prop_oneof![
        1 => Just(Branch::Pass),
        1 => Just(Branch::Map),
        1 => Just(Branch::Filter),
        3 => (any::<bool>(), prop::option::of(1..4_usize))
            .prop_map(|(columns, waits)| Branch::Step { columns, waits }),
    ];
    let fate = prop_oneof![8 => Just(Fate::Pass), 1 => Just(Fate::Fail), 1 => Just(Fate::Retry), 1 => Just(Fate::Trap)];
    let records = prop::collection::vec(prop::collection::vec((0..4_usize, fate), 0..30), 1..4);
    let sizes = (1..12_usize, 1..40_usize, 1..3_usize);
    (prop::collection::vec(branch, 1..4), records, any::<bool>(), sizes).prop_map(
        |(branches, records, by_label, (batch_size, max_outstanding, workers))| Case {
            branches,
            records,
            by_label,
            batch_size,
            max_outstanding,
            workers,
        },
    )
}

impl Case {
    fn yaml(&self) -> String {
        let nodes = |branch: &Branch| match branch {
            Branch::Pass => String::new(),
            Branch::Map => "{ map: payload }".to_owned(),
            Branch::Filter => "{ filter: msg.offset % 3 > 0 }".to_owned(),
            Branch::Step { columns, waits } => {
                let step = if *columns { "c" } else { "s" };
                let waits = waits.map_or_else(String::new, |calls| format!(", concurrency: {calls}"));
                format!("{{ step: {step}{waits} }}")
            }
        };
        let branches = self.branches.iter().enumerate();
        let branches: Vec<String> = if self.by_label {
            branches.map(|(label, branch)| format!("{label}: [ {} ]", nodes(branch))).collect()
        } else {
            branches
                .map(|(label, branch)| {
                    format!("{{ if: payload.to == {label}, process: [ {} ] }}", nodes(branch))
                })
                .collect()
        };
        let branches = branches.join(", ");
        let router = if self.by_label {
            format!("by: payload.to, branches: {{ {branches} }}")
        } else {
            format!("when: [ {branches} ]")
        };
        let rest = format!(
            "runtime: {{ max_outstanding: {{ records: {} }}, commit_interval_ms: 0 }}
plugins: {{ s: {{ component: '{{guests}}/probe-step.wasm' }}, c: {{ component: '{{guests}}/probe-column-step.wasm' }} }}
process: [ {{ router: {{ {router} }} }}, {{ into_topic: out }} ]
errors: {{ default: [ {{ into_topic: e }} ] }}
",
            self.max_outstanding
        );
        flow(&format!("batch_size: {}\npoll_backoff_ms: 5", self.batch_size), &rest)
    }

    /// Whether a record comes out, fails, or is filtered.
    fn passes(&self, offset: usize, (to, fate): (usize, Fate)) -> Option<bool> {
        match self.branches.get(to) {
            None => Some(false),
            Some(Branch::Pass | Branch::Map) => Some(true),
            Some(Branch::Filter) => (!offset.is_multiple_of(3)).then_some(true),
            Some(Branch::Step { .. }) => Some(matches!(fate, Fate::Pass | Fate::Retry)),
        }
    }
}

fn check(case: &Case) {
    let broker = wide_broker(case.records.len() as i32, &["out", "e"]);
    let (mut passed, mut failed): (BTreeMap<usize, Vec<usize>>, usize) = (BTreeMap::new(), 0);
    for (partition, records) in case.records.iter().enumerate() {
        for (offset, record) in records.iter().enumerate() {
            let command = match record.1 {
                Fate::Pass => "nothing",
                Fate::Fail => "fail:x",
                Fate::Retry => "retry-n:1",
                Fate::Trap => "trap",
            };
            let text = json!({"do": command, "to": record.0, "at": [partition, offset]}).to_string();
            broker.produce("in", partition as i32, Record::value(text));
            match case.passes(offset, *record) {
                Some(true) => passed.entry(partition).or_default().push(offset),
                Some(false) => failed += 1,
                None => {}
            }
        }
    }
    let running = start_with(&case.yaml(), &broker, Options { workers: case.workers, ..Options::default() });
    for (partition, records) in case.records.iter().enumerate() {
        running.until_committed_at(&place("in", partition as i32), records.len() as i64);
    }
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    let mut seen: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for text in payloads(&broker, "out") {
        let value: Value = serde_json::from_str(&text).unwrap();
        let number = |index: usize| value["at"][index].as_u64().unwrap() as usize;
        seen.entry(number(0)).or_default().push(number(1));
    }
    // In order, each once.
    assert_eq!(seen, passed);
    assert_eq!(payloads(&broker, "e").len(), failed);
    let ledger = &outcome.summary.ledger;
    assert_eq!((ledger.outstanding, ledger.live), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_record_comes_out_once_and_in_order_whatever_is_late_inside(case in cases()) {
        check(&case);
    }
}
