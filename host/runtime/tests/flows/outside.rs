//! What others do to the group's offsets and to the topics while a flow runs, and where that leaves it.

use loom_delivery::Mark;
use loom_kafka::Notice;
use loom_kafka::memory::{Call, MemoryBroker, Record};
use loom_runtime::offsets::{self, MoveTo};
use loom_runtime::{Options, StartFrom, Stop, consumer_settings};
use loom_types::CommitOffset;

use crate::harness::{
    broker, commit_history, committed, committed_at, flow, in0, payloads, place, plan, set_committed, start,
    start_with, wide_broker,
};
use crate::logs;
use crate::status::{until, watched};

const THROUGH: &str = "process: [ { into_topic: out } ]\n";

fn quick(consumer: &str) -> String {
    flow(consumer, &format!("runtime: {{ lease_interval: 50ms }}\n{THROUGH}"))
}

fn numbered(broker: &MemoryBroker, numbers: std::ops::Range<u32>) {
    for n in numbers {
        broker.produce("in", 0, Record::value(n.to_string()));
    }
}

#[test]
fn offsets_that_were_set_from_outside_stop_the_flow_and_are_not_overwritten() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..10);
    let running = start(&quick(""), &broker);
    running.until_committed(10);
    let before = broker.commits("g").len();
    set_committed(&broker, 4);
    let outcome = running.ended();
    assert_eq!(outcome.status(), 4);
    let message = &outcome.failures[0].message;
    assert!(message.contains("in/0 to 4") && message.contains("from outside"), "{message}");
    assert_eq!(committed(&broker), Some(4));
    assert_eq!(broker.commits("g").len(), before, "not even a last commit");
    let again = start(&quick(""), &broker);
    again.until_committed(10);
    assert_eq!(again.stop().failures, []);
    assert_eq!(payloads(&broker, "out").len(), 16);
}

#[test]
fn an_offset_that_is_set_right_before_a_commit_is_found_and_not_overwritten_at_every_try() {
    logs::keep();
    for (mode, name) in [("at_least_once", "in-moved"), ("at_most_once", "in-moved-once")] {
        for attempt in 0..6 {
            let broker = broker(&["out"]);
            broker.create_topic(name, 1);
            (0..10).for_each(|n| _ = broker.produce(name, 0, Record::value(n.to_string())));
            // No beat comes in this test.
            let yaml =
                flow(&format!("delivery: {mode}"), &format!("runtime: {{ lease_interval: 1h }}\n{THROUGH}"));
            let (running, board) = watched(&yaml.replace("[in]", &format!("[{name}]")), &broker);
            running.until_committed_at(&place(name, 0), 10);
            broker.set_committed(
                "g",
                &place(name, 0),
                CommitOffset(4),
                if attempt % 2 == 0 { "" } else { "a tool" },
            );
            broker.produce(name, 0, Record::value("10"));
            let outcome = running.ended();
            assert_eq!(outcome.status(), 4);
            assert_eq!(outcome.failures.len(), 1, "{:?}", outcome.failures);
            let message = &outcome.failures[0].message;
            let both = format!("{name}/0 to 4, where this run had committed 10");
            assert!(message.contains(&both) && message.contains("from outside"), "{message}");
            assert_eq!(committed_at(&broker, &place(name, 0)), Some(4));
            assert_eq!(outcome.summary.counters.set_from_outside, 1);
            assert_eq!(board.read(std::time::Duration::ZERO).commits.set_from_outside, 1);
        }
        let warned = logs::lines(|line| {
            let text = line["message"].as_str().unwrap_or_default();
            line["level"] == "WARN"
                && text.contains(&format!("{name}/0 to 4, where this run had committed 10"))
        });
        assert_eq!(warned.len(), 6, "{warned:?}");
    }
}

#[test]
fn the_offset_that_was_there_at_the_start_is_no_reset_until_the_flow_has_committed() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..5);
    set_committed(&broker, 5);
    let running = start(&quick(""), &broker);
    running.until("four beats", |view| crate::lease::beat(view) >= 4);
    assert_eq!(commit_history(&broker, &in0()), [0_i64; 0]);
    numbered(&broker, 5..6);
    running.until_committed(6);
    // The very same reset a second time is one, now that the flow has gone on from the first.
    set_committed(&broker, 5);
    assert_eq!(running.ended().status(), 4);
    assert_eq!(committed(&broker), Some(5));
}

#[test]
fn offsets_that_vanished_are_committed_again_with_a_warning() {
    logs::keep();
    let broker = broker(&["out"]);
    broker.create_topic("in-vanishing", 1);
    broker.produce("in-vanishing", 0, Record::value("a"));
    let input = place("in-vanishing", 0);
    let running = start(&quick("").replace("[in]", "[in-vanishing]"), &broker);
    running.until_committed_at(&input, 1);
    broker.forget_committed("g", &input);
    running.until_committed_at(&input, 1);
    assert_eq!(running.keeper.read().committed_again, 1);
    assert_eq!(running.stop().failures, []);
    let warned = logs::lines(|line| line["topic"] == "in-vanishing" && line["level"] == "WARN");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert!(warned[0]["message"].as_str().unwrap().contains("vanished"));
}

#[test]
fn partitions_that_are_added_are_told_counted_and_read_after_a_restart() {
    logs::keep();
    let broker = broker(&["out"]);
    let name = "in-growing";
    broker.create_topic(name, 2);
    let yaml = quick("auto_offset_reset: latest").replace("[in]", &format!("[{name}]"));
    let (running, seen) = watched(&yaml, &broker);
    running.until_committed_at(&place(name, 1), 0);
    broker.add_partitions(name, 4);
    for partition in 0..4 {
        broker.produce(name, partition, Record::value(format!("{partition}")));
    }
    running.until_committed_at(&place(name, 1), 1);
    let board = running.keeper.clone();
    running.until("the keeper has noticed", |_| !board.read().added.is_empty());
    assert_eq!(board.read().added, [place(name, 2), place(name, 3)]);
    let status = until(&seen, "they are named", |status| status.added_partitions.len() == 2);
    let reason = status.reasons.iter().find(|reason| reason.kind == "partitions").expect("it is not ready");
    assert!(reason.text.contains("in-growing/2, in-growing/3"), "{reason:?}");
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(outcome.summary.counters.partitions_added, 2);
    let warned = logs::lines(|line| line["topic"] == name && line["level"] == "WARN");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!((&warned[0]["read"], &warned[0]["partitions"]), (&2.into(), &4.into()));

    let again = start(&yaml, &broker);
    for partition in 0..4 {
        again.until_committed_at(&place(name, partition), 1);
    }
    assert_eq!(again.stop().failures, []);
    let mut seen = payloads(&broker, "out");
    seen.sort();
    assert_eq!(seen, ["0", "1", "2", "3"]);
}

#[test]
fn a_topic_that_is_made_again_stops_the_flow_and_the_next_start_reads_it_from_its_beginning() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..10);
    let running = start(&quick(""), &broker);
    running.until_committed(10);
    broker.delete_topic("in");
    broker.create_topic("in", 1);
    let outcome = running.ended();
    assert_eq!(outcome.status(), 4);
    let messages: Vec<&str> = outcome.failures.iter().map(|failure| &*failure.message).collect();
    assert!(messages.iter().any(|message| message.contains("made again")), "{messages:?}");
    assert_eq!(committed(&broker), Some(10));
    numbered(&broker, 100..120);
    let again = start(&quick(""), &broker);
    again.until_committed(20);
    assert_eq!(again.stop().failures, []);
    assert_eq!(payloads(&broker, "out").len(), 30);
}

#[test]
fn retention_that_passes_a_slow_reader_costs_what_it_removed_and_a_warning() {
    logs::keep();
    let broker = broker(&["out"]);
    let name = "in-expiring";
    broker.create_topic(name, 1);
    for n in 0..10 {
        broker.produce(name, 0, Record::value(n.to_string()));
    }
    broker.faults().hold_acks("out");
    let limits = "runtime: { max_outstanding: { records: 2 }, lease_interval: 50ms }\n";
    let yaml = flow("", &format!("{limits}{THROUGH}")).replace("[in]", &format!("[{name}]"));
    let running = start(&yaml, &broker);
    running.until_count("out", 2);
    broker.delete_before(name, 0, CommitOffset(7));
    broker.faults().release_all_acks("out");
    running.until_committed_at(&place(name, 0), 10);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["0", "1", "7", "8", "9"]);
    let warned = logs::lines(|line| line["topic"] == name && line["level"] == "WARN");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!((&warned[0]["position"], &warned[0]["gone"]), (&2.into(), &5.into()));
}

#[test]
fn a_log_that_is_cut_goes_on_at_its_new_end_when_what_was_read_is_resolved_and_commits_fall_back() {
    for refuse in [false, true] {
        let broker = broker(&["out"]);
        numbered(&broker, 0..10);
        set_committed(&broker, 8);
        broker.faults().hold_acks("out");
        let running = start(&quick(if refuse { "offset_out_of_range: fail" } else { "" }), &broker);
        running.until_count("out", 2);
        broker.elect_leader("in", 0, CommitOffset(6));
        broker.faults().release_all_acks("out");
        if refuse {
            let outcome = running.ended();
            assert_eq!(outcome.status(), 4);
            assert!(outcome.failures[0].message.contains("offset_out_of_range"), "{:?}", outcome.failures);
            continue;
        }
        running.until("the commit falls back to the new end", |view| {
            view.committed("g", &in0()).is_some_and(|committed| committed.offset.0 == 6)
        });
        numbered(&broker, 101..103);
        running.until_committed(8);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(committed_at(&broker, &in0()), Some(8));
        assert_eq!(payloads(&broker, "out"), ["8", "9", "101", "102"]);
    }
}

#[test]
fn a_log_that_was_cut_and_has_grown_past_the_position_is_read_from_where_it_was_cut() {
    for running in [false, true] {
        let broker = broker(&["out"]);
        numbered(&broker, 0..10);
        let first = start(&quick(""), &broker);
        first.until_committed(10);
        // Either the flow stands still meanwhile, or its reader sees what became of the log.
        let first = if running {
            Some(first)
        } else {
            drop(first.stop());
            None
        };
        broker.elect_leader("in", 0, CommitOffset(6));
        numbered(&broker, 101..111);
        let second = first.unwrap_or_else(|| start(&quick(""), &broker));
        second.until_committed(16);
        assert_eq!(second.stop().failures, []);
        let expected: Vec<String> = (0..10).chain(101..111).map(|n: u32| n.to_string()).collect();
        assert_eq!(payloads(&broker, "out"), expected, "what was written below the position is not left out");
    }
}

#[test]
fn a_late_commit_of_the_run_before_is_committed_over_though_nothing_new_comes() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..10);
    let first = start(&quick(""), &broker);
    first.until_committed(10);
    assert_eq!(first.stop().failures, []);
    let last = broker.committed("g", &in0()).unwrap();
    let second = start(&quick(""), &broker);
    // It has found the last commit, and an earlier one arrives only now.
    let text = last.metadata.clone();
    broker.set_committed("g", &in0(), CommitOffset(9), &text);
    second.until("it is set right", |view| {
        let committed = view.committed("g", &in0());
        committed.is_some_and(|committed| committed.offset.0 == 10 && committed.metadata != text)
    });
    assert_eq!(second.stop().failures, []);
    assert_eq!(payloads(&broker, "out").len(), 10, "nothing is read again");
}

#[test]
fn an_input_topic_that_is_deleted_is_told_and_its_neighbours_go_on_until_it_is_made_again() {
    logs::keep();
    let broker = broker(&["out"]);
    broker.create_topic("in-deleted", 1);
    broker.produce("in-deleted", 0, Record::value("gone"));
    let yaml = quick("").replace("[in]", "[in, in-deleted]");
    let (running, board) = watched(&yaml, &broker);
    running.until_committed_at(&place("in-deleted", 0), 1);
    broker.delete_topic("in-deleted");
    let status = until(&board, "the topic is missed", |status| !status.missing_topics.is_empty());
    assert_eq!(status.missing_topics, ["in-deleted"]);
    assert!(!status.ready);
    assert!(status.reasons.iter().any(|reason| reason.kind == "topic" && reason.text.contains("in-deleted")));
    numbered(&broker, 0..3);
    running.until_committed(3);
    let told = logs::lines(|line| line["topic"] == "in-deleted" && line["level"] == "WARN");
    assert!(told.iter().any(|line| line["message"].as_str().unwrap().contains("input topic")), "{told:?}");
    broker.create_topic("in-deleted", 1);
    let outcome = running.ended();
    assert_eq!(outcome.status(), 4);
    assert!(outcome.failures.iter().any(|failure| failure.message.contains("made again")));
}

#[test]
fn an_input_topic_that_stays_away_stops_the_flow_with_what_was_read_committed_and_it_can_start_again() {
    let broker = broker(&["out"]);
    broker.create_topic("in-away", 1);
    broker.produce("in-away", 0, Record::value("gone"));
    let yaml = quick("").replace("[in]", "[in, in-away]");
    let running = start(&yaml, &broker);
    running.until_committed_at(&place("in-away", 0), 1);
    broker.delete_topic("in-away");
    numbered(&broker, 0..3);
    let outcome = running.ended();
    assert_eq!(outcome.status(), 4);
    let failures = &outcome.failures;
    assert!(failures.iter().any(|failure| failure.message.contains("in-away: the input topic was deleted")));
    // The group has lost the topic's offset, and the host may have tried to set it right.
    assert!(failures.iter().all(|failure| failure.message.contains("in-away")), "{failures:?}");
    assert_eq!(committed(&broker), Some(3), "its neighbours are not held up");

    broker.create_topic("in-away", 1);
    broker.produce("in-away", 0, Record::value("again"));
    let again = start(&yaml, &broker);
    again.until_count("out", 5);
    assert_eq!(again.stop().failures, []);
    let mut seen = payloads(&broker, "out");
    seen.sort();
    assert_eq!(seen, ["0", "1", "2", "again", "gone"]);
}

/// What lies behind an open transaction cannot be read yet; it is in the log all the same.
#[test]
fn an_offset_that_was_committed_behind_an_open_transaction_is_of_the_same_topic() {
    for (tells, from) in [
        (true, StartFrom::GoOn),
        (false, StartFrom::GoOn),
        (true, StartFrom::End),
        (true, StartFrom::Time(i64::MAX)),
    ] {
        let broker = broker(&["out"]);
        broker.faults().tell_all(tells);
        numbered(&broker, 0..5);
        let transaction = broker.begin("in", 0);
        broker.produce_in(&transaction, Record::value("5"));
        numbered(&broker, 6..8);
        // By a tool, or by a run that read before the transaction was begun.
        set_committed(&broker, 8);
        let options = Options { from, ..Options::default() };
        let running = start_with(&quick("offset_out_of_range: fail"), &broker, options);
        numbered(&broker, 8..10);
        broker.end(&transaction, true);
        running.until_committed(11);
        assert_eq!(running.stop().failures, []);
        assert_eq!(payloads(&broker, "out"), ["8", "9"], "nothing is read again ({tells}, {from:?})");
        let history = commit_history(&broker, &in0());
        assert!(history.iter().all(|offset| *offset >= 8), "the group is not rewound: {history:?}");
    }
}

#[test]
fn a_replay_that_comes_to_an_open_transaction_keeps_what_was_committed_behind_it() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..5);
    let transaction = broker.begin("in", 0);
    broker.produce_in(&transaction, Record::value("5"));
    numbered(&broker, 6..8);
    set_committed(&broker, 8);
    let options = Options { from: StartFrom::Beginning, ..Options::default() };
    let running = start_with(&quick(""), &broker, options);
    running.until("what can be read is replayed", |view| {
        let mark = view.committed("g", &in0()).and_then(|committed| Mark::parse(&committed.metadata));
        mark.is_some_and(|mark| mark.replay == Some(CommitOffset(5)))
    });
    broker.end(&transaction, true);
    running.until_committed(9);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), (0..8).map(|n| n.to_string()).collect::<Vec<_>>());
    let history = commit_history(&broker, &in0());
    assert!(history.iter().all(|offset| *offset >= 8), "{history:?}");
}

#[test]
fn offsets_are_moved_within_the_log_also_behind_an_open_transaction() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..5);
    let transaction = broker.begin("in", 0);
    broker.produce_in(&transaction, Record::value("5"));
    set_committed(&broker, 6);
    let plan = plan(&quick(""));
    let client = broker.as_broker(consumer_settings(&plan));
    let target = |to| {
        let found = offsets::read(&plan, &client, &Stop::new()).unwrap();
        offsets::moves(&plan, &client, found, to, &Stop::new()).map(|moves| moves[0].to)
    };
    assert_eq!(target(MoveTo::Offset(CommitOffset(6))), Ok(CommitOffset(6)));
    assert!(target(MoveTo::Offset(CommitOffset(7))).is_err());
    assert_eq!(target(MoveTo::End), Ok(CommitOffset(6)), "the end is no way back");
    broker.end(&transaction, false);
    assert_eq!(target(MoveTo::End), Ok(CommitOffset(7)));
}

#[test]
fn a_position_behind_an_open_transaction_that_its_client_calls_outside_is_inside() {
    for tells in [true, false] {
        let broker = broker(&["out"]);
        broker.faults().tell_all(tells);
        numbered(&broker, 0..5);
        let transaction = broker.begin("in", 0);
        broker.produce_in(&transaction, Record::value("5"));
        set_committed(&broker, 6);
        broker.faults().notice(&in0(), CommitOffset(5), Notice::OutOfRange);
        let running = start(&quick("offset_out_of_range: fail"), &broker);
        running.until("the client was sent back", |view| view.calls(Call::Seek) > 0);
        broker.end(&transaction, true);
        numbered(&broker, 7..9);
        running.until_committed(9);
        assert_eq!(running.stop().failures, []);
        assert_eq!(payloads(&broker, "out"), ["7", "8"]);
    }
}

/// What is gathered, or written and not flushed, would stay there for ever.
#[test]
fn a_partition_whose_log_was_cut_asks_for_what_it_waits_for() {
    let flush = "flush: { records: 1000, interval: 1h }";
    let plugins = "plugins: { k: { component: '{guests}/probe-sink.wasm' } }\n";
    for (rest, gathers) in [
        ("process: [ { collect_batch: { max_records: 1000 } }, for_each, { into_topic: out } ]\n".to_owned(), true),
        (
            "process: [ { collect_batch: { max_records: 1000, key: \"'one'\" } }, for_each, { collect_batch: { max_records: 1000 } }, for_each, { into_topic: out } ]\n"
                .to_owned(),
            true,
        ),
        (
            format!("{plugins}process: [ {{ broadcast: [ [ {{ into_topic: out }} ], [ {{ into_sink: k, {flush} }} ] ] }} ]\n"),
            false,
        ),
    ] {
        let broker = wide_broker(2, &["out"]);
        numbered(&broker, 0..10);
        let yaml = flow("", &format!("runtime: {{ lease_interval: 50ms }}\n{rest}"));
        let (running, board) = watched(&yaml, &broker);
        until(&board, "all of it is in the flow", |status| {
            status.partitions.first().is_some_and(|partition| partition.outstanding_records == 10)
        });
        broker.elect_leader("in", 0, CommitOffset(6));
        numbered(&broker, 101..111);
        running.until_count("out", 10);
        until(&board, "reading goes on where it was cut", |status| status.partitions[0].position == 16);
        if gathers {
            assert_eq!(broker.view(|view| view.count("out")), 10, "the next batch is not full");
        }
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(committed(&broker), Some(16));
        let expected: Vec<String> = (0..10).chain(101..111).map(|n: u32| n.to_string()).collect();
        assert_eq!(payloads(&broker, "out"), expected);
    }
}

#[test]
fn a_replay_finds_that_the_log_was_cut_below_what_was_committed_though_it_has_grown_past_that() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..10);
    let first = start(&quick(""), &broker);
    first.until_committed(10);
    assert_eq!(first.stop().failures, []);
    broker.faults().hold_acks("out");
    let bound = quick("").replace("runtime: {", "runtime: { max_outstanding: { records: 2 },");
    let options = Options { from: StartFrom::Beginning, ..Options::default() };
    let running = start_with(&bound, &broker, options);
    running.until_count("out", 12);
    // It has read two records again, and the offsets from 6 on become others'.
    broker.elect_leader("in", 0, CommitOffset(6));
    numbered(&broker, 101..111);
    broker.faults().release_acks("out", 8);
    running.until_committed(8);
    broker.faults().release_all_acks("out");
    running.until_committed(16);
    assert_eq!(running.stop().failures, []);
    let again = (0..6).chain(101..111).map(|n: u32| n.to_string());
    let expected: Vec<String> = (0..10).map(|n: u32| n.to_string()).chain(again).collect();
    assert_eq!(payloads(&broker, "out"), expected);
}

/// A run that is killed in a replay leaves the floor with the epoch that it had, for the next one.
#[test]
fn a_replay_that_goes_on_after_a_restart_finds_it_too() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..10);
    let first = start(&quick(""), &broker);
    first.until_committed(10);
    assert_eq!(first.stop().failures, []);
    broker.faults().hold_acks("out");
    let bound =
        quick("").replace("runtime: {", "runtime: { shutdown_timeout: 2s, max_outstanding: { records: 2 },");
    let options = || Options { from: StartFrom::Beginning, ..Options::default() };
    let cut_short = start_with(&bound, &broker, options());
    cut_short.until_count("out", 12);
    broker.faults().release_acks("out", 1);
    cut_short.until("a replay is under way", |view| {
        let mark = view.committed("g", &in0()).and_then(|committed| Mark::parse(&committed.metadata));
        mark.is_some_and(|mark| mark.replay.is_some())
    });
    assert_eq!(cut_short.stop().failures, []);
    broker.elect_leader("in", 0, CommitOffset(6));
    numbered(&broker, 101..111);
    let running = start(&bound, &broker);
    running.until("it goes on", |view| view.count("out") > 13);
    broker.faults().release_acks("out", 8);
    running.until("commits fall back below the floor", |view| {
        view.committed("g", &in0()).is_some_and(|committed| (6..10).contains(&committed.offset.0))
    });
    broker.faults().release_all_acks("out");
    running.until_committed(16);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_batch_that_cannot_be_read_holds_its_partition_and_says_how_it_is_left_out() {
    logs::keep();
    let broker = broker(&["out"]);
    broker.create_topic("in-broken", 2);
    for n in 0..10 {
        broker.produce("in-broken", 0, Record::value(n.to_string()));
    }
    broker.faults().break_batch(&place("in-broken", 0), CommitOffset(3), CommitOffset(5));
    let yaml = quick("").replace("[in]", "[in-broken]");
    let (running, board) = watched(&yaml, &broker);
    running.until_count("out", 3);
    broker.produce("in-broken", 1, Record::value("other"));
    running.until_count("out", 4);
    let command = "`loom-host offsets reset FLOW --topic in-broken --partition 0 --to 6`";
    let status = until(&board, "it is told", |status| {
        status.reasons.iter().any(|reason| reason.text.contains(command)) || {
            let stalled = status.partitions.first().and_then(|partition| partition.stalled.as_ref());
            stalled.is_some_and(|stalled| format!("{stalled:?}").contains(command))
        }
    });
    let told = format!("{status:?}");
    assert!(told.contains("CRC") && told.contains("of offsets 3 to 5"), "{told}");
    assert_eq!(status.partitions[0].position, 3);
    // Whole again, as where another copy is read: it goes on by itself, and nothing is left out.
    broker.faults().mend_batches(&place("in-broken", 0));
    running.until_committed_at(&place("in-broken", 0), 10);
    assert_eq!(running.stop().failures, []);
    let mut seen = payloads(&broker, "out");
    seen.retain(|text| text != "other");
    assert_eq!(seen, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    let told = logs::lines(|line| line["topic"] == "in-broken" && line["first"] == 3);
    assert_eq!(told.len(), 1, "once in a while: {told:?}");
    assert_eq!((&told[0]["last"], &told[0]["level"]), (&5.into(), &"ERROR".into()));
    let cut =
        logs::lines(|line| line["topic"] == "in-broken" && line["message"].as_str().unwrap().contains("cut"));
    assert!(cut.is_empty(), "{cut:?}");
}

#[test]
fn a_batch_that_cannot_be_read_is_left_out_where_a_person_says_so() {
    let broker = broker(&["out"]);
    numbered(&broker, 0..10);
    broker.faults().break_batch(&in0(), CommitOffset(3), CommitOffset(9));
    let running = start(&quick(""), &broker);
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
    let plan = plan(&quick(""));
    let client = broker.as_broker(consumer_settings(&plan));
    let found = offsets::read(&plan, &client, &Stop::new()).unwrap();
    let moves =
        offsets::moves(&plan, &client, found, MoveTo::Offset(CommitOffset(10)), &Stop::new()).unwrap();
    offsets::commit(&plan, &client, &moves, &Stop::new()).unwrap();
    numbered(&broker, 10..12);
    let again = start(&quick(""), &broker);
    again.until_committed(12);
    assert_eq!(again.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["0", "1", "2", "10", "11"]);
}

#[test]
fn a_client_that_calls_a_position_outside_that_is_inside_is_sent_back_and_told_of_once() {
    logs::keep();
    let broker = broker(&["out"]);
    broker.create_topic("in-lost", 1);
    let input = place("in-lost", 0);
    for n in 0..10 {
        broker.produce("in-lost", 0, Record::value(n.to_string()));
    }
    for at in [3, 4, 5] {
        broker.faults().notice(&input, CommitOffset(at), Notice::OutOfRange);
    }
    let running = start(&quick("").replace("[in]", "[in-lost]"), &broker);
    running.until_committed_at(&input, 10);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
    let told = logs::lines(|line| line["topic"] == "in-lost" && line["level"] == "WARN");
    assert_eq!(told.len(), 1, "{told:?}");
    let message = told[0]["message"].as_str().unwrap();
    assert!(message.contains("lies inside") && !message.contains("left out"), "{message}");
}
