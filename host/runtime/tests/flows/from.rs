//! `--from`: where a person asks a flow to read from, and what becomes of the committed offsets meanwhile.

use loom_kafka::memory::{MemoryBroker, Record};
use loom_runtime::{Options, StartFrom};
use loom_types::CommitOffset;

use crate::harness::{
    Running, broker, commit_history, committed, flow, in0, payloads, produce, set_committed, start,
    start_with,
};
use crate::logs;

const THROUGH: &str = "process: [ { into_topic: out } ]\n";

fn numbered(broker: &MemoryBroker, count: i64) {
    for n in 0..count {
        broker.produce("in", 0, Record::value(n.to_string()).at(1000 + 10 * n));
    }
}

fn from(yaml: &str, broker: &MemoryBroker, from: StartFrom) -> Running {
    start_with(yaml, broker, Options { from, ..Options::default() })
}

fn replay_of(broker: &MemoryBroker) -> Option<i64> {
    let mark = loom_delivery::Mark::parse(&broker.committed("g", &in0())?.metadata)?;
    mark.replay.map(|offset| offset.0)
}

#[test]
fn every_place_is_found_and_nothing_below_the_committed_offset_is_committed() {
    for mode in ["", "delivery: at_most_once"] {
        every_place(mode);
    }
}

fn every_place(mode: &str) {
    for (place, first) in [
        (StartFrom::GoOn, 6),
        (StartFrom::Committed, 6),
        (StartFrom::Beginning, 0),
        (StartFrom::End, 10),
        (StartFrom::Time(1030), 3),
        (StartFrom::Time(1031), 4),
        (StartFrom::Time(0), 0),
        (StartFrom::Time(9_999_999), 10),
    ] {
        let broker = broker(&["out"]);
        numbered(&broker, 10);
        set_committed(&broker, 6);
        let running = from(&flow(mode, THROUGH), &broker, place);
        running.until_committed(10);
        numbered(&broker, 1);
        running.until_committed(11);
        running.until_count("out", (11 - first) as usize);
        assert_eq!(running.stop().failures, []);
        let out = payloads(&broker, "out");
        assert_eq!(out.len() as i64, 11 - first, "{place:?}: {out:?}");
        assert_eq!(out[0], if first == 10 { "0".to_owned() } else { first.to_string() }, "{place:?}");
        let history = commit_history(&broker, &in0());
        assert!(history.iter().all(|offset| *offset >= 6), "{place:?}: {history:?}");
        assert_eq!(replay_of(&broker), None, "the replay is over");
    }
}

#[test]
fn a_place_ahead_is_committed_before_the_first_record() {
    let broker = broker(&["out"]);
    numbered(&broker, 10);
    set_committed(&broker, 6);
    broker.faults().hold_acks("out");
    let running = from(&flow("", THROUGH), &broker, StartFrom::End);
    running.until_committed(10);
    produce(&broker, &["x"]);
    running.until_count("out", 1);
    assert_eq!(committed(&broker), Some(10));
    broker.faults().release_all_acks("out");
    running.until_committed(11);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_group_without_offsets_starts_at_the_place_whatever_the_reset() {
    let broker = broker(&["out"]);
    numbered(&broker, 10);
    let running = from(&flow("auto_offset_reset: latest", THROUGH), &broker, StartFrom::Time(1070));
    running.until_committed(10);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["7", "8", "9"]);
}

/// A replay of `1000` records that ends when 400 of them are done.
fn cut_replay(broker: &MemoryBroker) {
    numbered(broker, 1000);
    set_committed(broker, 1000);
    broker.faults().hold_acks("out");
    let yaml = flow("batch_size: 100", &format!("runtime: {{ shutdown_timeout: 1s }}\n{THROUGH}"));
    let running = from(&yaml, broker, StartFrom::Beginning);
    running.until_count("out", 400);
    broker.faults().release_acks("out", 400);
    running.until("the mark says 400", |view| {
        view.committed("g", &in0()).is_some_and(|committed| committed.metadata.ends_with(" replay=400"))
    });
    assert_eq!(committed(broker), Some(1000), "the floor stays");
    // What was not acknowledged is not done; a kill would leave the same behind.
    running.stop();
    assert_eq!((committed(broker), replay_of(broker)), (Some(1000), Some(400)));
    broker.faults().release_all_acks("out");
}

#[test]
fn at_most_once_a_replay_that_was_cut_goes_on_behind_what_was_read() {
    let broker = broker(&["out"]);
    produce(&broker, &["0", "1", "retry:for ever", "3", "4"]);
    set_committed(&broker, 5);
    let rest = "runtime: { shutdown_timeout: 1s }\nplugins: { s: { component: '{guests}/probe-step.wasm' } }\n\
                process: [ { step: s }, { into_topic: out } ]\n";
    let yaml = flow("delivery: at_most_once\nbatch_size: 1", rest);
    let running = from(&yaml, &broker, StartFrom::Beginning);
    running.until("the mark says 3", |view| {
        view.committed("g", &in0()).is_some_and(|committed| committed.metadata.ends_with(" replay=3"))
    });
    assert_eq!(committed(&broker), Some(5), "the floor stays");
    running.stop();
    let again = start(&yaml, &broker);
    produce(&broker, &["5"]);
    again.until_committed(6);
    again.until_count("out", 5);
    assert_eq!(again.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["0", "1", "3", "4", "5"]);
    assert_eq!(replay_of(&broker), None);
}

#[test]
fn a_replay_that_was_cut_goes_on_where_it_was_and_says_so() {
    logs::keep();
    let broker = broker(&["out"]);
    cut_replay(&broker);
    let before = payloads(&broker, "out").len();
    let running = start(&flow("", THROUGH), &broker);
    running.until("the replay is over", |view| {
        let committed = view.committed("g", &in0());
        committed
            .is_some_and(|committed| committed.offset.0 == 1000 && !committed.metadata.contains("replay"))
    });
    produce(&broker, &["new"]);
    running.until_committed(1001);
    assert_eq!(running.stop().failures, []);
    let out = payloads(&broker, "out");
    assert_eq!(out.len(), before + 601);
    assert_eq!(out[before], "400");
    let told = logs::lines(|line| line["at"] == 400 && line["committed"] == 1000 && line["level"] == "WARN");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["message"].as_str().unwrap().contains("--from committed"), "it says how to leave it");
}

#[test]
fn a_log_that_is_cut_below_the_committed_offset_takes_that_along_while_records_are_read_again() {
    logs::keep();
    let broker = broker(&["out"]);
    numbered(&broker, 10);
    set_committed(&broker, 10);
    broker.faults().hold_acks("out");
    let bounded = "runtime: { max_outstanding: { records: 2, bytes: 1MiB } }\n";
    let running = from(&flow("", &format!("{bounded}{THROUGH}")), &broker, StartFrom::Beginning);
    // The reader stands below the cut: its position says nothing of it.
    running.until_count("out", 2);
    broker.elect_leader("in", 0, CommitOffset(6));
    broker.faults().release_all_acks("out");
    running.until("commits fall back to the new end", |view| {
        view.committed("g", &in0()).is_some_and(|committed| committed.offset.0 == 6)
    });
    assert_eq!(replay_of(&broker), None);
    produce(&broker, &["new", "newer"]);
    running.until_committed(8);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["0", "1", "2", "3", "4", "5", "new", "newer"]);
    let told = logs::lines(|line| line["committed"] == 10 && line["end"] == 6 && line["level"] == "WARN");
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn a_replay_that_was_cut_is_left_where_the_committed_offset_is_asked_for() {
    let broker = broker(&["out"]);
    cut_replay(&broker);
    let before = payloads(&broker, "out").len();
    let running = from(&flow("", THROUGH), &broker, StartFrom::Committed);
    produce(&broker, &["new"]);
    running.until_committed(1001);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out")[before..], ["new"]);
    assert_eq!(replay_of(&broker), None);
}

#[test]
fn after_a_reset_commits_follow_from_there_and_a_restart_goes_on_near_them() {
    let broker = broker(&["out"]);
    numbered(&broker, 1000);
    // As `offsets reset` leaves it: no floor above.
    set_committed(&broker, 0);
    broker.faults().hold_acks("out");
    let yaml = flow("batch_size: 100", &format!("runtime: {{ shutdown_timeout: 1s }}\n{THROUGH}"));
    let running = start(&yaml, &broker);
    running.until_count("out", 400);
    broker.faults().release_acks("out", 400);
    running.until_committed(400);
    running.stop();
    broker.faults().release_all_acks("out");
    let before = payloads(&broker, "out").len();
    let again = start(&flow("", THROUGH), &broker);
    again.until_committed(1000);
    assert_eq!(again.stop().failures, []);
    assert_eq!(payloads(&broker, "out")[before], "400");
    assert_eq!(broker.committed("g", &in0()).map(|committed| committed.offset), Some(CommitOffset(1000)));
}
