//! How a run ends: what is in flight is written, the last offsets are committed, and everything is closed.

use std::time::{Duration, Instant};

use loom_kafka::Kind;
use loom_kafka::memory::{Call, CommitFault, MemoryBroker, Network, Record, When};
use loom_types::CommitOffset;

use crate::harness::{
    PATIENCE, broker, commit_history, committed, flow, in0, kafka_error, payloads, produce, set_committed,
    start, start_with,
};

const THROUGH: &str = "process: [ { into_topic: out } ]\n";
const QUICK: &str = "runtime: { shutdown_timeout: 2s }\nprocess: [ { into_topic: out } ]\n";

#[test]
fn a_stop_awaits_a_final_commit_even_of_an_offset_that_did_not_change() {
    let broker = broker(&["out"]);
    produce(&broker, &["a"]);
    let running = start(&flow("", THROUGH), &broker);
    running.until_committed(1);
    let before = commit_history(&broker, &in0());
    let outcome = running.stop();
    assert_eq!((outcome.status(), &outcome.failures[..]), (0, &[][..]));
    let after = commit_history(&broker, &in0());
    assert_eq!(after[before.len()..], [1]);
    assert!(
        broker.commits("g").iter().flat_map(|request| &request.entries).all(|entry| entry.answer.is_some())
    );
}

#[test]
fn a_stop_before_any_record_commits_where_the_group_stands() {
    let broker = broker(&["out"]);
    set_committed(&broker, 0);
    let running = start(&flow("", THROUGH), &broker);
    running.until("a poll", |view| view.calls(Call::Take) >= 1);
    assert_eq!(running.stop().status(), 0);
    assert_eq!(commit_history(&broker, &in0()), [0]);
}

#[test]
fn a_final_commit_that_is_refused_or_never_answered_is_reported_and_everything_is_closed() {
    let refused = CommitFault::Refused(kafka_error(Kind::Authorization, "GROUP_AUTHORIZATION_FAILED"));
    for (fault, told) in
        [(refused, "GROUP_AUTHORIZATION_FAILED"), (CommitFault::Unanswered, "not answered in time")]
    {
        let broker = broker(&["out"]);
        produce(&broker, &["a", "b"]);
        set_committed(&broker, 0);
        broker.faults().commit(When::always(), fault);
        let running = start(
            &flow(
                "",
                &format!("runtime: {{ commit_interval_ms: 3600000, shutdown_timeout: 2s }}\n{THROUGH}"),
            ),
            &broker,
        );
        running.until_count("out", 2);
        let begun = Instant::now();
        let outcome = running.stop();
        // The bound is 2 s; the rest is a busy machine's. An answer that is waited for without it never comes.
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert_eq!(outcome.status(), 4, "{:?}", outcome.failures);
        let message = &outcome.failures.last().unwrap().message;
        assert!(message.contains("in/0 at 2"), "{message}");
        assert!(message.contains(told) || message.contains("did not succeed in time"), "{message}");
        assert_eq!(committed(&broker), Some(0));
        assert_eq!(broker.view(|view| (view.readers(), view.writers())), (0, 0));
        // What was not committed is delivered again.
        broker.faults().clear();
        let again = start(&flow("", THROUGH), &broker);
        again.until_committed(2);
        assert_eq!(again.stop().status(), 0);
        assert_eq!(payloads(&broker, "out"), ["a", "b", "a", "b"]);
    }
}

#[test]
fn a_final_commit_that_fails_for_a_passing_reason_is_tried_again() {
    let broker = broker(&["out"]);
    set_committed(&broker, 0);
    let running = start(&flow("", THROUGH), &broker);
    running.until("a poll", |view| view.calls(Call::Take) >= 1);
    let passing = || kafka_error(Kind::Coordinator, "NOT_COORDINATOR");
    broker.faults().commit(When::next(1), CommitFault::Refused(passing()));
    broker.faults().commit(When::next(1), CommitFault::Local(passing()));
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(outcome.summary.counters.commit_failures, 2);
}

#[test]
fn rows_without_an_acknowledgement_stay_uncommitted_and_are_delivered_again() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b", "c"]);
    broker.faults().hold_acks("out");
    broker.faults().release_acks("out", 1);
    let running = start(&flow("", QUICK), &broker);
    running.until_committed(1);
    running.until_count("out", 3);
    let outcome = running.stop();
    assert_eq!(outcome.status(), 0, "{:?}", outcome.failures);
    assert_eq!(outcome.summary.ledger.outstanding, 2);
    assert_eq!(committed(&broker), Some(1));
    broker.faults().release_all_acks("out");
    let again = start(&flow("", THROUGH), &broker);
    again.until_committed(3);
    again.stop();
    assert_eq!(payloads(&broker, "out"), ["a", "b", "c", "b", "c"]);
}

#[test]
fn rows_in_flight_are_confirmed_before_the_final_commit() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b", "c"]);
    broker.faults().hold_acks("out");
    let running = start(&flow("", THROUGH), &broker);
    running.until_count("out", 3);
    running.request_stop();
    broker.faults().release_all_acks("out");
    let outcome = running.ended();
    assert_eq!(outcome.failures, []);
    assert_eq!(committed(&broker), Some(3));
}

#[test]
fn a_row_that_waits_for_another_attempt_does_not_hold_up_a_stop() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "retry:for ever", "b"]);
    let plugins = "plugins: { s: { component: '{guests}/probe-step.wasm' } }\n";
    let running =
        start(&flow("", &format!("{plugins}process: [ {{ step: s }}, {{ into_topic: out }} ]\n")), &broker);
    running.until_committed(1);
    let outcome = running.stop();
    assert_eq!(outcome.status(), 0);
    assert_eq!(committed(&broker), Some(1));
    assert_eq!(outcome.summary.ledger.outstanding, 2);
    assert_eq!(payloads(&broker, "out"), ["a"]);
}

#[test]
fn a_failure_on_one_worker_stops_the_others_gracefully() {
    let broker = crate::harness::wide_broker(2, &["out"]);
    broker.faults().rows_where("out", |record| {
        (record.payload.as_deref() == Some(b"bad"))
            .then(|| loom_kafka::memory::RowFault::Refused(kafka_error(Kind::Refused, "MSG_SIZE_TOO_LARGE")))
    });
    let options = loom_runtime::Options { workers: 2, ..Default::default() };
    let running = crate::harness::start_with(&flow("", THROUGH), &broker, options);
    broker.produce("in", 0, loom_kafka::memory::Record::value("good"));
    running.until_committed_at(&crate::harness::place("in", 0), 1);
    broker.produce("in", 1, loom_kafka::memory::Record::value("bad"));
    let outcome = running.ended();
    assert_eq!(outcome.status(), 4);
    assert_eq!(outcome.failures.len(), 1);
    assert_eq!(broker.view(|view| (view.readers(), view.writers())), (0, 0));
}

#[test]
fn a_stop_does_not_wait_for_a_batch_of_slow_rows() {
    let broker = broker(&["out"]);
    for n in 0..500 {
        broker.produce("in", 0, Record::value(n.to_string()));
    }
    let rest = "runtime: { shutdown_timeout: 4s }
plugins: { s: { component: '{guests}/probe-step.wasm', limits: { timeout: 10s }, config: { command: 'sleep:100' } } }
process: [ { step: s }, { into_topic: out } ]
";
    let running = start(&flow("", rest), &broker);
    running.until("records are taken", |view| view.calls(Call::Take) > 0);
    let begun = Instant::now();
    let outcome = running.stop();
    // All rows together would take 50 s; the bound leaves room for a busy machine.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(outcome.failures, []);
    let held = &outcome.summary.held;
    assert!(held.iter().any(|(place, rows)| place.contains("process[0]") && *rows > 0), "{held:?}");
    let written = broker.records("out").len() as i64;
    assert_eq!(committed(&broker), Some(written), "what was written is committed, the rest is not");
}

#[test]
fn a_commit_that_is_under_way_and_never_answered_delays_a_stop_no_further_than_its_deadline() {
    let broker = broker(&["out"]);
    set_committed(&broker, 0);
    broker.faults().commit(When::always(), CommitFault::Unanswered);
    produce(&broker, &["a"]);
    let running = start(&flow("", &format!("runtime: {{ shutdown_timeout: 2s }}\n{THROUGH}")), &broker);
    running.until("a commit under way", |view| view.calls(Call::Commit) >= 1);
    let begun = Instant::now();
    let outcome = running.stop();
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(outcome.status(), 4);
    let message = &outcome.failures[0].message;
    assert!(message.contains("did not succeed in time") && message.contains("in/0 at 1"), "{message}");
    assert_eq!(broker.view(|view| (view.readers(), view.writers())), (0, 0));
}

#[test]
fn a_call_of_a_plugin_that_outlasts_the_stop_is_ended_and_its_record_stays_uncommitted() {
    for command in ["sleep", "loop"] {
        let broker = broker(&["out"]);
        let step = "plugins: { s: { component: '{guests}/probe-step.wasm' } }
runtime: { shutdown_timeout: 2s }
process: [ { step: s, timeout: 1h }, { into_topic: out } ]
errors: { default: [ { into_topic: out } ] }
";
        produce(&broker, &["a", command, "c"]);
        let running = start(&flow("", step), &broker);
        running.until("the records are read", |view| view.calls(Call::Take) >= 1);
        let begun = Instant::now();
        let outcome = running.stop();
        assert!(begun.elapsed() < Duration::from_secs(15), "{command}: {:?}", begun.elapsed());
        assert_eq!((outcome.status(), &outcome.failures[..]), (0, &[][..]), "{command}");
        let at = committed(&broker).unwrap_or(0);
        assert!(at <= 1, "{command}: {at} is committed, and record 1 is not done");
        let ended = crate::harness::endings(&outcome);
        assert!(ended.keys().all(|ending| *ending == "topic"), "{command}: {ended:?}");
        assert!(!payloads(&broker, "out").iter().any(|payload| payload.contains("loom_error")));
    }
}

/// What a client with a long `linger.ms` does: nothing is sent before so long.
fn hold_back(broker: &MemoryBroker) {
    broker.faults().network(Network { linger: Duration::from_secs(3600), ..Network::default() });
}

#[test]
fn a_stop_sends_what_clients_hold_back_and_commits_it() {
    let batch = "plugins: { b: { component: '{guests}/probe-roles.wasm' } }
process: [ { collect_batch: { max_records: 1000 } }, { batch_step: b }, for_each, { into_topic: out } ]
";
    for process in [THROUGH, batch] {
        let broker = broker(&["out"]);
        hold_back(&broker);
        produce(&broker, &["set:a", "set:b"]);
        set_committed(&broker, 0);
        let running = start(&flow("", &format!("runtime: {{ shutdown_timeout: 60s }}\n{process}")), &broker);
        running.until("a poll", |view| view.calls(Call::Take) >= 1);
        let begun = Instant::now();
        let outcome = running.stop();
        assert!(begun.elapsed() < PATIENCE, "{process}: {:?}", begun.elapsed());
        assert_eq!(outcome.failures, [], "{process}");
        assert_eq!((committed(&broker), payloads(&broker, "out").len()), (Some(2), 2), "{process}");
    }
}

#[test]
fn the_end_of_the_input_sends_what_clients_hold_back() {
    let broker = broker(&["out"]);
    hold_back(&broker);
    produce(&broker, &["a", "b"]);
    let end = loom_runtime::End::AtEndOfInput { timeout: PATIENCE };
    let options = loom_runtime::Options { end, ..Default::default() };
    let begun = Instant::now();
    let outcome = start_with(&flow("", THROUGH), &broker, options).ended();
    assert!(begun.elapsed() < PATIENCE / 2, "{:?}", begun.elapsed());
    assert_eq!((outcome.failures, committed(&broker)), (vec![], Some(2)));
}

#[test]
fn a_partition_whose_log_was_cut_does_not_wait_for_what_clients_hold_back() {
    let broker = broker(&["out"]);
    for number in 0..10 {
        produce(&broker, &[&number.to_string()]);
    }
    set_committed(&broker, 8);
    hold_back(&broker);
    let running = start(&flow("", THROUGH), &broker);
    running.until("both are sent", |view| view.calls(Call::Send) >= 1);
    broker.elect_leader("in", 0, CommitOffset(6));
    running.until_committed(6);
    assert_eq!(payloads(&broker, "out"), ["8", "9"]);
    assert_eq!(running.stop().failures, []);
}
