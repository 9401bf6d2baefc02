//! Who may work for a group: one host at a time, told from others by the lease; and nobody else's consumers beside it.

use std::time::Duration;

use loom_delivery::lease::{Holder, Layout, Seen};
use loom_delivery::{Mark, RunId};
use loom_kafka::memory::{Call, CommitFault, MemoryBroker, Right, View, When};
use loom_kafka::{KafkaError, Kind, Member};
use loom_runtime::{Identity, LeaseStatus, Options, Status};
use loom_types::CommitOffset;

use crate::harness::{
    Running, broker, committed, flow, in0, payloads, produce, refused, refused_with, set_committed, start,
    start_with,
};
use crate::logs;

const THROUGH: &str = "process: [ { into_topic: out } ]\n";
const OWNER: &str = "g.owner";

/// A flow whose lease beats ten times a second.
fn quick() -> String {
    flow("", &format!("runtime: {{ lease_interval: 100ms }}\n{THROUGH}"))
}

/// A host of its own, as on another machine.
fn host(name: &str, run: u64) -> Options {
    let identity = Identity {
        run: RunId(run),
        host: name.to_owned(),
        place: format!("machine-{name}"),
        ..Identity::of_this_process()
    };
    Options { identity, ..Options::default() }
}

/// The number of the owner's last beat.
pub fn beat(view: &View<'_>) -> i64 {
    view.committed(OWNER, &in0()).map_or(0, |entry| Seen::parse(entry.offset, &entry.metadata).beat)
}

fn holder(broker: &MemoryBroker) -> Option<Holder> {
    Holder::parse(&broker.committed(OWNER, &in0())?.metadata)
}

/// The runs that committed input offsets, in order.
fn writers(broker: &MemoryBroker) -> Vec<u64> {
    let requests = broker.commits("g");
    let marks = requests.iter().flat_map(|request| &request.entries).map(|entry| {
        let mark = Mark::parse(&entry.metadata).expect("every commit of ours is marked");
        assert_eq!(mark.topic, broker.topic_id("in"), "{}", entry.metadata);
        mark.run.expect("a run").0
    });
    let mut runs: Vec<u64> = marks.collect();
    runs.dedup();
    runs
}

fn until_owner(running: &Running, run: u64) {
    running.until(&format!("run {run} owns the group"), |view| {
        let entry = view.committed(OWNER, &in0()).and_then(|entry| Holder::parse(&entry.metadata));
        entry.is_some_and(|entry| entry.run == RunId(run) && !entry.released)
    });
}

#[test]
fn a_second_host_stops_naming_the_owner_before_it_commits_anything() {
    let broker = broker(&["out"]);
    set_committed(&broker, 0);
    let owner = start_with(&quick(), &broker, host("elder", 7));
    until_owner(&owner, 7);
    produce(&broker, &["a"]);
    owner.until_committed(1);
    let newcomer = start_with(&quick(), &broker, host("newcomer", 3));
    produce(&broker, &["b"]);
    let outcome = newcomer.ended();
    assert_eq!(outcome.status(), 3, "{:?}", outcome.failures);
    let message = &outcome.failures[0].message;
    for word in ["0000000000000007", "elder", "started 20", "--take-over"] {
        assert!(message.contains(word), "{word} is not in: {message}");
    }
    produce(&broker, &["c"]);
    owner.until_committed(3);
    assert_eq!(owner.stop().failures, []);
    assert_eq!(writers(&broker), [7]);
    assert!(holder(&broker).is_some_and(|entry| entry.released && entry.run == RunId(7)));
}

#[test]
fn a_host_that_takes_over_stops_the_owner_which_commits_nothing_more() {
    let broker = broker(&["out"]);
    set_committed(&broker, 0);
    let owner = start_with(&quick(), &broker, host("elder", 3));
    until_owner(&owner, 3);
    produce(&broker, &["a"]);
    owner.until_committed(1);
    let newcomer = start_with(&quick(), &broker, Options { take_over: true, ..host("newcomer", 7) });
    let outcome = owner.ended();
    assert_eq!(outcome.status(), 4, "{:?}", outcome.failures);
    let message = &outcome.failures[0].message;
    assert!(message.contains("newcomer") && message.contains("took these partitions over"), "{message}");
    produce(&broker, &["b"]);
    newcomer.until_committed(2);
    assert_eq!(newcomer.stop().failures, []);
    assert_eq!(writers(&broker), [3, 7]);
}

#[test]
fn an_entry_that_does_not_move_is_watched_for_two_intervals_and_then_taken() {
    logs::keep();
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b"]);
    set_committed(&broker, 0);
    let text = "loom1 run=0000000000000001 host=long-dead process=77 place=machine-dead start=1700000000000";
    broker.set_committed(OWNER, &in0(), CommitOffset(40), text);
    let running = start_with(&quick(), &broker, host("other", 5));
    // What it processes it does not commit yet.
    running.until_count("out", 2);
    running.until_committed(2);
    let requests = broker.commits(OWNER);
    let first_beat = requests[0].at;
    let first_commit = broker.commits("g")[0].at;
    assert!(first_commit >= first_beat, "an offset was committed before the lease was taken");
    let entry = &requests[0].entries[0];
    assert_eq!(Seen::parse(entry.offset, &entry.metadata).beat, 41);
    assert_eq!(running.stop().failures, []);
    let told =
        logs::lines(|line| line["holder"].as_str().is_some_and(|holder| holder.contains("host long-dead")));
    assert_eq!(told.len(), 2, "watched, and taken: {told:?}");
}

#[test]
fn a_released_entry_and_one_of_a_process_that_is_gone_are_taken_at_once() {
    let here = Identity::of_this_process();
    let gone = format!(
        "loom1 run=0000000000000001 host={} process={} place={} start=1700000000000",
        here.host, here.process, here.place
    );
    let released = "loom1 run=0000000000000001 host=elsewhere process=9 start=1700000000000 released";
    for text in [gone.as_str(), released, "written by another tool"] {
        let broker = broker(&["out"]);
        produce(&broker, &["a"]);
        set_committed(&broker, 0);
        broker.set_committed(OWNER, &in0(), CommitOffset(40), text);
        // With the default interval a watch would take ten seconds.
        let running = start(&flow("", THROUGH), &broker);
        running.until_committed(1);
        assert_eq!(running.stop().failures, []);
    }
}

#[test]
fn the_entry_follows_its_partition_s_end_so_that_no_lag_shows_and_carries_the_layout() {
    let broker = broker(&["out"]);
    let options = Options { workers: 2, ..host("a", 4) };
    let running = start_with(&quick(), &broker, options);
    for end in [0, 3, 7] {
        let last = broker.view(beat);
        running.until("the entry lies at the end", |view| {
            beat(view) > last && view.committed(OWNER, &in0()).is_some_and(|entry| entry.offset.0 == end)
        });
        (0..if end == 0 { 3 } else { 4 }).for_each(|n| produce(&broker, &[&n.to_string()]));
    }
    let layout = holder(&broker).and_then(|holder| holder.layout);
    assert_eq!(layout, Some(Layout { processes: 1, workers: 2, partitions: vec![1] }));
    assert_eq!(running.stop().failures, []);
    let left = broker.committed(OWNER, &in0()).unwrap();
    assert!(left.offset.0 >= 7 && holder(&broker).is_some_and(|holder| holder.released), "{left:?}");
}

#[test]
fn of_two_newcomers_the_lower_run_stays() {
    let broker = broker(&["out"]);
    set_committed(&broker, 0);
    let text = "loom1 run=0000000000000001 host=dead process=77 place=machine-dead start=1700000000000";
    broker.set_committed(OWNER, &in0(), CommitOffset(40), text);
    let higher = start_with(&quick(), &broker, host("higher", 9));
    let lower = start_with(&quick(), &broker, host("lower", 5));
    let outcome = higher.ended();
    assert_eq!(outcome.status(), 3, "{:?}", outcome.failures);
    produce(&broker, &["a"]);
    lower.until_committed(1);
    assert_eq!(lower.stop().failures, []);
}

#[test]
fn while_a_lease_is_watched_nothing_is_committed_but_a_start_that_was_chosen_also_at_a_stop() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b"]);
    let text = "loom1 run=0000000000000001 host=dead process=77 place=machine-dead start=1700000000000";
    broker.set_committed(OWNER, &in0(), CommitOffset(40), text);
    let running = start_with(&flow("auto_offset_reset: latest", THROUGH), &broker, host("a", 2));
    running.until_committed(2);
    produce(&broker, &["c"]);
    running.until_count("out", 1);
    assert!(matches!(running.keeper.read().lease, LeaseStatus::Watching { .. }));
    assert_eq!(committed(&broker), Some(2));
    assert_eq!(running.stop().failures, []);
    assert_eq!(committed(&broker), Some(2), "its last commit could be over the owner's");
    assert_eq!(holder(&broker).map(|entry| entry.run), Some(RunId(1)), "what it never owned it leaves alone");
}

/// The owner has only just begun, and commits its start after the newcomer has looked.
#[test]
fn a_watcher_s_chosen_start_does_not_go_over_what_the_watched_owner_commits() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b"]);
    let text = "loom1 run=0000000000000007 host=owner process=77 place=machine-owner start=1700000000000";
    broker.set_committed(OWNER, &in0(), CommitOffset(40), text);
    let moved = KafkaError { kind: Kind::Coordinator, code: "NOT_COORDINATOR", message: "it moves".into() };
    broker.faults().commit(When::always(), CommitFault::Refused(moved));
    let yaml = flow("auto_offset_reset: latest", &format!("runtime: {{ lease_interval: 60s }}\n{THROUGH}"));
    let newcomer = start_with(&yaml, &broker, host("newcomer", 3));
    newcomer.until("its start is on its way", |view| view.calls(Call::Commit) > 0);
    broker.set_committed("g", &in0(), CommitOffset(1), "loom1 run=0000000000000007");
    broker.faults().clear();
    let outcome = newcomer.ended();
    assert_eq!(outcome.status(), 4, "{:?}", outcome.failures);
    assert_eq!(committed(&broker), Some(1), "the owner's start is overwritten");
}

#[test]
fn a_second_host_that_is_stopped_at_once_leaves_the_owner_alone_in_both_modes() {
    for mode in ["at_least_once", "at_most_once"] {
        let broker = broker(&["out"]);
        set_committed(&broker, 0);
        let yaml = quick().replace("at_least_once", mode);
        let owner = start_with(&yaml, &broker, host("elder", 7));
        until_owner(&owner, 7);
        produce(&broker, &["a"]);
        owner.until_committed(1);
        // Its watch lasts for as long as the test.
        let slow = yaml.replace("lease_interval: 100ms", "lease_interval: 60s");
        let newcomer = start_with(&slow, &broker, host("newcomer", 3));
        newcomer.until("it watches", |view| view.readers() == 2);
        assert_eq!(newcomer.stop().failures, []);
        produce(&broker, &["b"]);
        owner.until_committed(2);
        let last = broker.view(beat);
        owner.until("two beats more", |view| beat(view) >= last + 2);
        assert_eq!(owner.stop().failures, [], "{mode}");
        assert_eq!(writers(&broker), [7], "{mode}");
    }
}

#[test]
fn at_most_once_nothing_is_read_while_a_lease_is_watched() {
    let broker = broker(&["out"]);
    set_committed(&broker, 0);
    produce(&broker, &["a"]);
    let text = "loom1 run=0000000000000001 host=dead process=77 place=machine-dead start=1700000000000";
    broker.set_committed(OWNER, &in0(), CommitOffset(40), text);
    let yaml = quick().replace("at_least_once", "at_most_once");
    let running = start_with(&yaml.replace("100ms", "60s"), &broker, host("a", 2));
    running.until("it watches", |view| view.readers() == 1);
    assert_eq!(running.stop().failures, []);
    assert_eq!((payloads(&broker, "out").len(), committed(&broker)), (0, Some(0)));
    let running = start_with(&yaml, &broker, host("a", 2));
    running.until_committed(1);
    running.until_count("out", 1);
    assert_eq!(running.stop().failures, []);
    let (taken, commits) = (broker.commits(OWNER)[0].at, broker.commits("g"));
    assert!(commits[0].at >= taken, "an offset was committed before the lease was taken");
}

#[test]
fn without_the_right_to_the_owner_group_there_is_one_warning_and_no_lease() {
    logs::keep();
    for (tells, group) in [(true, "no-lease-told"), (false, "no-lease-found")] {
        let broker = broker(&["out"]);
        broker.faults().tell_all(tells);
        broker.faults().deny(Right::Group(format!("{group}.owner")));
        produce(&broker, &["a"]);
        let running = start(&quick().replace("group_id: g", &format!("group_id: {group}")), &broker);
        running.until("the record is committed", |view| {
            view.committed(group, &in0()).is_some_and(|committed| committed.offset.0 == 1)
        });
        assert_eq!(running.stop().failures, []);
        let warned = logs::lines(|line| line["group"] == format!("{group}.owner") && line["level"] == "WARN");
        assert_eq!(warned.len(), 1, "{warned:?}");
    }
}

#[test]
fn a_group_with_live_members_is_refused_naming_them() {
    let broker = broker(&["out"]);
    let member = Member { client_id: "old-service-1".into(), host: "/10.0.0.7".into() };
    broker.join_group("g", member);
    let errors = refused(&quick(), &broker);
    assert_eq!(errors.iter().map(|error| error.status).collect::<Vec<_>>(), [Status::Runtime]);
    let message = &errors[0].message;
    assert!(message.contains("old-service-1 at /10.0.0.7") && message.contains("group g"), "{message}");
    assert_eq!(broker.view(|view| (view.calls(Call::Take), view.readers())), (0, 0));
    broker.leave_group("g");
    produce(&broker, &["a"]);
    let running = start(&quick(), &broker);
    running.until_committed(1);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["a"]);
}

#[test]
fn the_lease_is_read_with_the_patience_of_a_start() {
    let broker = broker(&["out"]);
    broker.faults().go_down();
    let yaml = flow("", &format!("runtime: {{ startup_timeout: 300ms }}\n{THROUGH}"));
    let errors = refused_with(&yaml, &broker, host("a", 1));
    assert_eq!(errors[0].status, Status::Failed);
    assert!(errors[0].message.contains("startup_timeout"), "{}", errors[0].message);
}

#[test]
fn the_board_shows_the_owner() {
    let broker = broker(&["out"]);
    let running = start_with(&quick(), &broker, host("a", 4));
    until_owner(&running, 4);
    let board = running.keeper.clone();
    running.until("a second beat", |_| board.read().beats >= 2);
    let status = board.read();
    assert_eq!((status.lease, status.failed_beats), (LeaseStatus::Owner, 0));
    let began = std::time::Instant::now();
    assert_eq!(running.stop().failures, []);
    assert!(began.elapsed() < Duration::from_secs(5), "a stop does not wait for the next beat");
}
