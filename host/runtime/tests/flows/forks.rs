//! Rows that part: each to one branch of a fork, or to every branch of a broadcast.

use crate::harness::{broker, endings, envelopes, flow, payloads, produce, start};

#[test]
fn a_broadcast_record_is_done_when_every_branch_is() {
    let broker = broker(&["a", "b"]);
    produce(&broker, &["r0"]);
    broker.faults().hold_acks("b");
    broker.faults().hold_acks("a");
    let rest = "process: [ { broadcast: [ [ { into_topic: a } ], [ { into_topic: b } ] ] } ]\n";
    let running = start(&flow("poll_backoff_ms: 5", rest), &broker);
    running.until_count("b", 1);
    broker.faults().release_all_acks("a");
    let polls = broker.view(|view| view.calls(loom_kafka::memory::Call::Take));
    running.until("three polls more", |view| view.calls(loom_kafka::memory::Call::Take) >= polls + 3);
    assert_eq!(crate::harness::committed(&broker), Some(0));
    broker.faults().release_all_acks("b");
    running.until_committed(1);
    let outcome = running.stop();
    let ledger = &outcome.summary.ledger;
    assert_eq!((ledger.registered, ledger.minted, ledger.consumed, ledger.live), (1, 3, 1, 0));
}

#[test]
fn a_broadcast_branch_without_terminal_completes_its_share() {
    let broker = broker(&["a"]);
    produce(&broker, &["1", "2"]);
    let rest =
        "process: [ { broadcast: [ [ { map: payload } ], [ { into_topic: a } ], [ { map: payload } ] ] } ]\n";
    let running = start(&flow("", rest), &broker);
    running.until_committed(2);
    let outcome = running.stop();
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("drained", 4), ("topic", 2)]);
}

#[test]
fn a_branch_that_fails_ends_its_own_row_and_no_other() {
    let broker = broker(&["a", "b"]);
    produce(&broker, &["fail:x", "ok"]);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }
process: [ { broadcast: [ [ { step: s }, { into_topic: a } ], [ { into_topic: b } ] ] } ]
errors: { unrouted: drop }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(2);
    let outcome = running.stop();
    assert_eq!(
        (payloads(&broker, "a"), payloads(&broker, "b")),
        (vec!["ok".to_owned()], vec!["fail:x".to_owned(), "ok".to_owned()])
    );
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("dropped(task)", 1), ("topic", 3)]);
}

#[test]
fn a_condition_that_cannot_be_decided_fails_the_record_at_that_fork() {
    let broker = broker(&["big", "yes", "rest", "t"]);
    let records = [
        r#"{"total":20,"do":"yes"}"#,
        r#"{"do":"yes"}"#,
        r#"{"total":1,"do":"trap"}"#,
        r#"{"total":1,"do":"yes"}"#,
        r#"{"total":1}"#,
    ];
    produce(&broker, &records);
    let rest = "plugins: { p: { component: '{guests}/probe-predicate.wasm' } }
process:
  - fork:
      when:
        - if: payload.total > 10
          process: [ { into_topic: big } ]
        - if: { plugin: p }
          process: [ { into_topic: yes } ]
      default: [ { into_topic: rest } ]
errors: { task: [ { into_topic: t } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(5);
    let outcome = running.stop();
    assert_eq!(payloads(&broker, "big"), [records[0]]);
    assert_eq!(payloads(&broker, "yes"), [records[3]]);
    assert_eq!(payloads(&broker, "rest"), [records[4]]);
    let failed = envelopes(&broker, "t");
    let mut failed: Vec<_> = failed
        .iter()
        .map(|e| {
            (
                e["record"]["offset"].as_i64().unwrap(),
                e["node"].as_str().unwrap(),
                e["plugin"]["name"].as_str(),
            )
        })
        .collect();
    failed.sort();
    assert_eq!(failed, [(1, "process[0]", None), (2, "process[0]", Some("p"))]);
    assert_eq!(outcome.summary.ledger.live, 0);
}

#[test]
fn a_selector_sends_each_record_to_the_branch_of_its_label() {
    let broker = broker(&["a", "b", "rest"]);
    let records = [r#"{"k":"a"}"#, r#"{"k":"b"}"#, r#"{"k":"c"}"#, r#"{"k":"a"}"#];
    produce(&broker, &records);
    let rest = "process:
  - fork: { by: payload.k, branches: { a: [ { into_topic: a } ], b: [ { into_topic: b } ] }, default: [ { into_topic: rest } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(4);
    running.stop();
    assert_eq!(payloads(&broker, "a"), [records[0], records[3]]);
    assert_eq!(payloads(&broker, "b"), [records[1]]);
    assert_eq!(payloads(&broker, "rest"), [records[2]]);
}

#[test]
fn the_first_condition_that_holds_takes_the_record_alone() {
    let broker = broker(&["vip", "large"]);
    let records =
        [r#"{"vip":true,"amount":500}"#, r#"{"vip":false,"amount":500}"#, r#"{"vip":false,"amount":5}"#];
    produce(&broker, &records);
    let rest = "process:
  - fork:
      when:
        - if: payload.vip
          process: [ { into_topic: vip } ]
        - if: payload.amount >= 100
          process: [ { into_topic: large } ]
      default: [ drain ]
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(3);
    let outcome = running.stop();
    assert_eq!(
        (payloads(&broker, "vip"), payloads(&broker, "large")),
        (vec![records[0].to_owned()], vec![records[1].to_owned()])
    );
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("drained", 1), ("topic", 2)]);
}

#[test]
fn without_default_what_no_branch_takes_is_a_routing_error() {
    let broker = broker(&["a", "r"]);
    produce(&broker, &["1", "2"]);
    let rest = "process: [ { fork: { when: [ { if: payload == 1, process: [ { into_topic: a } ] } ] } } ]
errors: { routing: [ { into_topic: r } ] }
";
    let running = start(&flow("delivery: at_most_once", rest), &broker);
    running.until_count("a", 1);
    running.until_count("r", 1);
    let outcome = running.stop();
    assert_eq!(envelopes(&broker, "r")[0]["kind"], "routing");
    assert_eq!(
        endings(&outcome).into_iter().collect::<Vec<_>>(),
        [("error_route(routing)", 1), ("topic", 1)]
    );
}

#[test]
fn branches_that_write_one_topic_keep_the_order_of_the_source() {
    let broker = broker(&["out"]);
    let records: Vec<String> = (0..1500).map(|n| n.to_string()).collect();
    for record in &records {
        produce(&broker, &[record]);
    }
    let rest = "plugins: { s: { component: '{guests}/probe-column-step.wasm' } }
process:
  - fork:
      when:
        - if: payload % 3 == 0
          process: [ { step: s }, { into_topic: out } ]
        - if: payload % 3 == 1
          process: [ { broadcast: [ [ { into_topic: out } ], [ drain ] ] } ]
      default: [ { into_topic: out } ]
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(1500);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), records);
}
