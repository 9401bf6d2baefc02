//! When offsets are committed, and what a commit that fails costs: nothing.

use loom_kafka::memory::{Call, CommitFault, Record, When};
use loom_kafka::{Kind, Member};
use loom_runtime::Options;
use loom_types::CommitOffset;

use crate::harness::{
    broker, commit_history, committed, committed_at, flow, in0, kafka_error, payloads, place, produce, start,
    start_with, wide_broker,
};
use crate::logs;

const THROUGH: &str = "process: [ { into_topic: out } ]\n";

#[test]
fn a_commit_that_fails_leaves_the_flow_running_and_is_tried_again_without_new_records() {
    let coordinator = || kafka_error(Kind::Coordinator, "NOT_COORDINATOR");
    for fault in [
        CommitFault::Local(kafka_error(Kind::Transient, "_STATE")),
        CommitFault::Refused(coordinator()),
        CommitFault::AppliedThenFailed(coordinator()),
    ] {
        let broker = broker(&["out"]);
        broker.set_committed("g", &in0(), CommitOffset(0), "");
        broker.faults().commit(When::next(3), fault);
        produce(&broker, &["a", "b"]);
        let running = start(&flow("", THROUGH), &broker);
        running.until("a fourth commit", |view| view.calls(Call::Commit) >= 4);
        running.until_committed(2);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert!(outcome.summary.counters.commit_failures >= 3);
        assert_eq!(outcome.summary.partitions[0].committed, Some(CommitOffset(2)));
        assert_eq!(payloads(&broker, "out"), ["a", "b"]);
    }
}

#[test]
fn a_commit_refused_for_one_partition_is_tried_again_for_that_one() {
    let broker = crate::harness::wide_broker(2, &["out"]);
    let (ok, bad) = (place("in", 0), place("in", 1));
    for partition in [&ok, &bad] {
        broker.set_committed("g", partition, CommitOffset(0), "");
    }
    broker.faults().fail_partition(
        Call::Commit,
        bad.clone(),
        When::next(2),
        kafka_error(Kind::Coordinator, "X"),
    );
    for partition in 0..2 {
        broker.produce("in", partition, Record::value("a"));
    }
    let running = start(&flow("", THROUGH), &broker);
    running.until_committed_at(&bad, 1);
    running.until_committed_at(&ok, 1);
    let before_stop = commit_history(&broker, &ok).len();
    assert_eq!(before_stop, 1, "what was acknowledged is not asked for again");
    assert_eq!(running.stop().failures, []);
}

#[test]
fn only_partitions_that_moved_are_committed_each_by_the_worker_that_owns_it() {
    let broker = broker(&["x", "y"]);
    for topic in ["a", "b"] {
        broker.create_topic(topic, 2);
        for partition in 0..2 {
            for n in 0..6 {
                broker.produce(topic, partition, Record::value(n.to_string()));
            }
            broker.set_committed("g", &place(topic, partition), CommitOffset(5), "");
        }
    }
    broker.faults().hold_acks("y");
    let yaml = flow(
        "",
        "process: [ { fork: { when: [ { if: msg.topic == 'a', process: [ { into_topic: x } ] } ], default: [ { into_topic: y } ] } } ]\n",
    )
    .replace("topics: [in]", "topics: [a, b]");
    let running = start_with(&yaml, &broker, Options { workers: 2, ..Options::default() });
    running.until_count("y", 2);
    running.until_committed_at(&place("a", 0), 6);
    running.until_committed_at(&place("a", 1), 6);
    for partition in 0..2 {
        assert_eq!(commit_history(&broker, &place("a", partition)), [6]);
        assert_eq!(commit_history(&broker, &place("b", partition)), [0_i64; 0]);
        assert_eq!(committed_at(&broker, &place("b", partition)), Some(5));
    }
    assert_eq!(broker.commits("g").len(), 2, "one request of each owner");
    broker.faults().release_all_acks("y");
    running.until_committed_at(&place("b", 0), 6);
    running.until_committed_at(&place("b", 1), 6);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn many_completions_make_one_commit_and_no_other_follows() {
    let broker = broker(&["out"]);
    broker.set_committed("g", &in0(), CommitOffset(0), "");
    broker.faults().hold_acks("out");
    for n in 0..500 {
        produce(&broker, &[&n.to_string()]);
    }
    let running = start(
        &flow("poll_backoff_ms: 5", &format!("runtime: {{ commit_interval_ms: 0 }}\n{THROUGH}")),
        &broker,
    );
    running.until_count("out", 500);
    assert_eq!(commit_history(&broker, &in0()), [0_i64; 0]);
    broker.faults().release_all_acks("out");
    running.until_committed(500);
    let polls = broker.view(|view| view.calls(Call::Take));
    running.until("five polls more", |view| view.calls(Call::Take) >= polls + 5);
    assert_eq!(commit_history(&broker, &in0()), [500]);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn an_interval_bounds_how_often_offsets_are_committed_busy_or_idle() {
    let broker = broker(&["out"]);
    broker.set_committed("g", &in0(), CommitOffset(0), "");
    for n in 0..2000 {
        produce(&broker, &[&n.to_string()]);
    }
    let running = start(
        &flow("batch_size: 1", &format!("runtime: {{ commit_interval_ms: 3600000 }}\n{THROUGH}")),
        &broker,
    );
    running.until_count("out", 2000);
    for n in 2000..2020 {
        // One by one: the partition is idle before each.
        produce(&broker, &[&n.to_string()]);
        running.until_count("out", n + 1);
    }
    assert_eq!(running.stop().failures, []);
    let history = commit_history(&broker, &in0());
    // The first is due at once, the last belongs to the stop.
    assert!(history.len() <= 2, "{history:?}");
    assert_eq!(history.last(), Some(&2020));
}

#[test]
fn what_was_not_flushed_when_a_process_died_is_delivered_again() {
    let broker = broker(&[]);
    produce(&broker, &["a", "b", "c"]);
    let folder = tempfile::tempdir().unwrap();
    let yaml = |interval: &str| {
        flow(
            "",
            &format!(
                "plugins:
  k:
    component: '{{guests}}/probe-sink.wasm'
    config: {{ folder: /out }}
    allow: {{ dirs: [ {{ host: '{}', guest: /out, mode: rw }} ] }}
process: [ {{ into_sink: k, flush: {{ interval: {interval} }} }} ]
",
                folder.path().display()
            ),
        )
    };
    // The first host holds the rows, unflushed, for as long as it lives; the second starts as after its death.
    let dead = start(&yaml("1h"), &broker);
    dead.until("all rows are taken", |view| view.calls(Call::Take) >= 2);
    assert_eq!(committed(&broker), Some(0));
    let again = start(&yaml("10ms"), &broker);
    again.until_committed(3);
    assert_eq!(again.stop().failures, []);
    let written = std::fs::read_to_string(folder.path().join("0.jsonl")).unwrap();
    assert_eq!(written.lines().count(), 3);
    // It lives after all, and does not set the group back.
    let outcome = dead.stop();
    assert_eq!(outcome.failures.len(), 1, "{:?}", outcome.failures);
    assert!(outcome.failures[0].message.contains("set from outside"), "{:?}", outcome.failures);
    assert_eq!(committed(&broker), Some(3));
}

#[test]
fn a_position_is_committed_again_when_its_commit_grows_old_idle_or_stuck_in_both_modes() {
    let again =
        |broker: &loom_kafka::memory::MemoryBroker, running: &crate::harness::Running, offset: i64| {
            running.until("three commits of the same offset", |view| view.commits("g").len() >= 3);
            let history = commit_history(broker, &in0());
            assert!(history.iter().all(|other| *other == offset), "{history:?}");
        };
    let idle = broker(&["out"]);
    produce(&idle, &["0", "1", "2"]);
    idle.set_committed("g", &in0(), CommitOffset(3), "");
    let running = start(&flow("commit_keepalive_ms: 20", THROUGH), &idle);
    again(&idle, &running, 3);
    assert_eq!(running.stop().failures, []);

    let stuck = broker(&["out"]);
    produce(&stuck, &["0", "1", "2"]);
    stuck.set_committed("g", &in0(), CommitOffset(1), "");
    stuck.faults().hold_acks("out");
    let running = start(&flow("commit_keepalive_ms: 20", THROUGH), &stuck);
    running.until_count("out", 2);
    again(&stuck, &running, 1);
    stuck.faults().release_all_acks("out");
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);

    let once = broker(&["out"]);
    once.set_committed("g", &in0(), CommitOffset(0), "");
    let running = start(&flow("commit_keepalive_ms: 20\ndelivery: at_most_once", THROUGH), &once);
    again(&once, &running, 0);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_commit_carries_the_topic_s_id_the_run_and_the_leader_s_epoch() {
    let broker = broker(&["out"]);
    produce(&broker, &["a"]);
    broker.elect_leader("in", 0, CommitOffset(1));
    produce(&broker, &["b"]);
    let options = Options::default();
    let run = options.identity.run;
    let running = start_with(&flow("", THROUGH), &broker, options);
    running.until_committed(2);
    assert_eq!(running.stop().failures, []);
    let committed = broker.committed("g", &in0()).unwrap();
    let topic = broker.topic_id("in").unwrap();
    assert_eq!(committed.metadata, format!("loom1 topic={topic} run={run}"));
    assert_eq!(committed.leader_epoch, Some(1));
}

#[test]
fn brokers_that_tell_no_ids_and_epochs_are_served_all_the_same() {
    let broker = broker(&["out"]);
    broker.faults().tell_all(false);
    produce(&broker, &["a"]);
    let running = start(&flow("", THROUGH), &broker);
    running.until_committed(1);
    assert_eq!(running.stop().failures, []);
    let committed = broker.committed("g", &in0()).unwrap();
    assert!(committed.metadata.starts_with("loom1 run="), "{}", committed.metadata);
    assert_eq!(committed.leader_epoch, None);
}

#[test]
fn commits_that_are_refused_for_many_partitions_are_told_in_one_line_with_who_is_in_the_group() {
    logs::keep();
    let broker = wide_broker(50, &["out"]);
    let name = "failing_commits_in";
    broker.create_topic(name, 50);
    let yaml = flow("", "process: [ drain ]\n").replace("topics: [in]", &format!("topics: [{name}]"));
    let running = start(&yaml.replace("group_id: g", "group_id: crowded"), &broker);
    running.until("it reads", |view| view.calls(Call::Take) >= 1);
    let member = Member { client_id: "newcomer-1".into(), host: "/10.0.0.9".into() };
    broker.join_group("crowded", member);
    for partition in 0..50 {
        broker.produce(name, partition, Record::value("a"));
    }
    let before = broker.view(|view| view.calls(Call::Commit));
    running.until("several attempts", |view| view.calls(Call::Commit) >= before + 5);
    let lines =
        logs::lines(|line| line["topic"] == name && line["message"] == "a commit failed; it is tried again");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines[0]["partitions"], lines[0]["failures"]);
    broker.leave_group("crowded");
    running.until("all is committed", |view| {
        (0..50).all(|partition| {
            view.committed("crowded", &place(name, partition))
                .is_some_and(|committed| committed.offset.0 == 1)
        })
    });
    assert_eq!(running.stop().failures, []);
    let who = logs::lines(|line| {
        line["message"].as_str().is_some_and(|text| text.contains("newcomer-1 at /10.0.0.9"))
    });
    assert_eq!(who.len(), 1, "{who:?}");
    let text = who[0]["message"].as_str().unwrap();
    assert!(text.contains("group crowded") && text.contains("group_id"), "{text}");
}
