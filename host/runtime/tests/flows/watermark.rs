//! Which offset is committed: never beyond an unresolved record, and no gap is waited on.

use loom_kafka::memory::{Call, Record};

use crate::harness::{broker, committed, endings, flow, in0, payloads, produce, set_committed, start};

#[test]
fn records_that_a_client_gives_out_a_second_time_are_ignored_and_counted() {
    for mode in ["", "delivery: at_most_once"] {
        let broker = broker(&["out"]);
        broker.faults().hold_acks("out");
        produce(&broker, &["a", "b", "c"]);
        let running = start(&flow(mode, "process: [ { into_topic: out } ]\n"), &broker);
        running.until_count("out", 3);
        // Alone, and with a new one behind them.
        broker.faults().give_again(&in0(), 2);
        produce(&broker, &["d"]);
        running.until_count("out", 4);
        broker.faults().release_all_acks("out");
        running.until_committed(4);
        let polls = broker.view(|view| view.calls(Call::Take));
        broker.faults().give_again(&in0(), 4);
        running.until("it looked again", |view| view.calls(Call::Take) >= polls + 3);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(payloads(&broker, "out"), ["a", "b", "c", "d"], "{mode}");
        let ledger = &outcome.summary.ledger;
        assert_eq!((ledger.registered, ledger.resolved), (4, 4));
        assert!(ledger.repeated >= 6, "{ledger:?}");
        assert_eq!(committed(&broker), Some(4));
    }
}

#[test]
fn the_offset_stays_before_the_oldest_record_that_is_not_confirmed() {
    let broker = broker(&["x", "y", "z"]);
    produce(&broker, &["0", "0", "0", "3", "4", "5"]);
    set_committed(&broker, 3);
    for topic in ["x", "y", "z"] {
        broker.faults().hold_acks(topic);
    }
    let running = start(
        &flow(
            "",
            "process:
  - fork: { by: payload, branches: { 3: [ { into_topic: x } ], 4: [ { into_topic: y } ] }, default: [ { into_topic: z } ] }
",
        ),
        &broker,
    );
    for topic in ["x", "y", "z"] {
        running.until_count(topic, 1);
    }
    broker.faults().release_acks("z", 1);
    broker.faults().release_acks("x", 1);
    running.until_committed(4);
    broker.faults().release_acks("y", 1);
    running.until_committed(6);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn offsets_that_compaction_removed_are_not_waited_on() {
    let broker = broker(&["out"]);
    broker.leave_gap("in", 0, 100);
    produce(&broker, &["100", "101"]);
    broker.leave_gap("in", 0, 2);
    produce(&broker, &["104", "gone", "106"]);
    assert!(broker.compact("in", 0, loom_types::RecordOffset(105)));
    let running = start(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    running.until_committed(107);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["100", "101", "104", "106"]);
}

#[test]
fn a_tail_of_control_records_leaves_no_lag() {
    let broker = broker(&["out"]);
    for n in 0..10 {
        produce(&broker, &[&n.to_string()]);
    }
    broker.produce_control("in", 0);
    broker.faults().hold_acks("out");
    let running = start(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    running.until_count("out", 10);
    broker.faults().release_acks("out", 9);
    running.until_committed(9);
    broker.faults().release_acks("out", 1);
    running.until_committed(11);
    assert_eq!(broker.view(|view| view.end(&in0())).unwrap().0, 11);
    // A marker that comes to an idle partition moves the offset too.
    broker.produce_control("in", 0);
    running.until_committed(12);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_tombstone_is_skipped_reaches_no_node_and_holds_nothing_back() {
    let broker = broker(&["out"]);
    produce(&broker, &["0", "1"]);
    broker.produce("in", 0, Record::tombstone().keyed("k"));
    produce(&broker, &["3"]);
    broker.produce("in", 0, Record::tombstone());
    let running = start(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    running.until_committed(5);
    let outcome = running.stop();
    assert_eq!(payloads(&broker, "out"), ["0", "1", "3"]);
    let ledger = &outcome.summary.ledger;
    assert_eq!((ledger.registered, ledger.skipped, ledger.resolved), (3, 2, 3));
}

#[test]
fn a_tombstone_that_is_forwarded_is_a_record_without_payload() {
    let broker = broker(&["seen", "out"]);
    produce(&broker, &["0", "1"]);
    broker.produce("in", 0, Record::tombstone().keyed("k"));
    let running = start(
        &flow(
            "tombstones: forward",
            "plugins: { look: { component: '{guests}/probe-step.wasm', config: { command: message } } }
process:
  - filter: msg.key == 'k'
  - broadcast: [ [ { step: look }, { into_topic: seen } ], [ { into_topic: out } ] ]
",
        ),
        &broker,
    );
    running.until_committed(3);
    let outcome = running.stop();
    let seen: serde_json::Value = serde_json::from_str(&payloads(&broker, "seen")[0]).unwrap();
    assert_eq!((seen["payload"].clone(), seen["offset"].clone()), (serde_json::Value::Null, 2.into()));
    assert_eq!(payloads(&broker, "out"), ["null"]);
    let ledger = &outcome.summary.ledger;
    assert_eq!((ledger.registered, ledger.skipped), (3, 0));
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("filtered", 2), ("topic", 2)]);
}

#[test]
fn a_record_that_is_skipped_at_the_end_moves_the_offset_while_nothing_else_comes() {
    let broker = broker(&["out"]);
    let running = start(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    running.until_committed(0);
    broker.produce("in", 0, Record::tombstone());
    running.until_committed(1);
    running.stop();
    assert_eq!(committed(&broker), Some(1));
}
