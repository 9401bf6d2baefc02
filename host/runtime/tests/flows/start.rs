//! Where a flow starts, and what keeps it from starting.

use loom_kafka::Kind;
use loom_kafka::memory::{Call, CommitFault, MemoryBroker, When, system_clock};
use loom_runtime::Status;

use crate::harness::{
    broker, commit_history, committed, committed_at, flow, in0, kafka_error, payloads, place, produce,
    refused, set_committed, start, wide_broker,
};
use crate::logs;

const THROUGH: &str = "process: [ { into_topic: out } ]\n";

#[test]
fn a_coordinator_that_moves_is_asked_again_and_reading_starts_at_the_committed_offset() {
    let broker = broker(&["out"]);
    produce(
        &broker,
        &(0..50).map(|n| n.to_string()).collect::<Vec<_>>().iter().map(|s| &**s).collect::<Vec<_>>(),
    );
    set_committed(&broker, 40);
    broker.faults().fail(Call::Committed, When::next(2), kafka_error(Kind::Coordinator, "NOT_COORDINATOR"));
    let running = start(&flow("auto_offset_reset: latest", THROUGH), &broker);
    running.until_committed(50);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), (40..50).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(broker.view(|view| view.calls(Call::Committed)), 3);
}

#[test]
fn an_error_inside_the_answer_counts_like_one_of_the_call() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b", "c"]);
    set_committed(&broker, 2);
    let loading = kafka_error(Kind::Coordinator, "COORDINATOR_LOAD_IN_PROGRESS");
    broker.faults().fail_partition(Call::Committed, in0(), When::next(2), loading);
    let running = start(&flow("", THROUGH), &broker);
    running.until_committed(3);
    running.stop();
    assert_eq!(payloads(&broker, "out"), ["c"]);
}

#[test]
fn a_coordinator_that_never_answers_ends_the_start_and_nothing_is_read() {
    for (kind, code) in [(Kind::Coordinator, "NOT_COORDINATOR"), (Kind::Transient, "_TIMED_OUT")] {
        let broker = broker(&["out"]);
        produce(&broker, &["a"]);
        set_committed(&broker, 1);
        broker.faults().fail(Call::Committed, When::always(), kafka_error(kind, code));
        let yaml = flow("", &format!("runtime: {{ startup_timeout: 1s }}\n{THROUGH}"));
        let errors = refused(&yaml, &broker);
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].status, Status::Failed);
        let message = &errors[0].message;
        assert!(message.contains("offsets of group g") && message.contains(code), "{message}");
        assert!(message.contains("startup_timeout"), "{message}");
        let attempts = broker.view(|view| view.calls(Call::Committed));
        assert!((3..=10).contains(&attempts), "{attempts} attempts");
        assert_eq!(broker.view(|view| (view.calls(Call::Take), view.readers())), (0, 0));
        assert_eq!(committed(&broker), Some(1));
    }
}

#[test]
fn a_right_that_is_missing_ends_the_start_at_the_first_attempt() {
    let broker = broker(&["out"]);
    let denied = kafka_error(Kind::Authorization, "TOPIC_AUTHORIZATION_FAILED");
    broker.faults().fail_partition(Call::Committed, in0(), When::always(), denied);
    let errors = refused(&flow("", THROUGH), &broker);
    assert_eq!(errors.iter().map(|error| error.status).collect::<Vec<_>>(), [Status::Failed]);
    assert!(errors[0].message.contains("TOPIC_AUTHORIZATION_FAILED"), "{}", errors[0].message);
    assert_eq!(broker.view(|view| view.calls(Call::Committed)), 1);
}

#[test]
fn a_start_chosen_by_the_reset_is_committed_before_the_first_record_is_taken() {
    for (reset, at, read) in [
        ("", 0, &["a", "b", "late"][..]),
        ("auto_offset_reset: earliest", 0, &["a", "b", "late"]),
        ("auto_offset_reset: latest", 2, &["late"]),
    ] {
        let broker = broker(&["out"]);
        produce(&broker, &["a", "b"]);
        let refusal = CommitFault::Refused(kafka_error(Kind::Coordinator, "NOT_COORDINATOR"));
        broker.faults().commit(When::always(), refusal);
        let running = start(&flow(reset, THROUGH), &broker);
        running.until("three commits", |view| view.commits("g").len() >= 3);
        assert_eq!(broker.view(|view| view.calls(Call::Take)), 0, "{reset}");
        assert_eq!(committed(&broker), None);
        broker.faults().clear();
        running.until_committed(at.max(if at == 0 { 2 } else { at }));
        produce(&broker, &["late"]);
        running.until_committed(3);
        assert_eq!(running.stop().failures, []);
        assert_eq!(payloads(&broker, "out"), read, "{reset}");
        assert!(commit_history(&broker, &in0())[..3].iter().all(|offset| *offset == at));
    }
}

#[test]
fn a_chosen_start_is_committed_even_if_nothing_ever_arrives() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b"]);
    let running = start(&flow("auto_offset_reset: latest", THROUGH), &broker);
    running.until_committed(2);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), [""; 0]);
}

#[test]
fn a_partition_that_the_group_does_not_know_beside_others_starts_at_its_beginning_with_a_warning() {
    logs::keep();
    let broker = wide_broker(2, &["out"]);
    let name = "in-with-an-added-partition";
    broker.create_topic(name, 2);
    for n in 0..4 {
        broker.produce(name, 0, loom_kafka::memory::Record::value(format!("known {n}")));
        broker.produce(name, 1, loom_kafka::memory::Record::value(format!("added {n}")));
    }
    broker.set_committed("g", &place(name, 0), loom_types::CommitOffset(3), "");
    let yaml =
        flow("auto_offset_reset: latest", THROUGH).replace("topics: [in]", &format!("topics: [{name}]"));
    let running = start(&yaml, &broker);
    running.until_committed_at(&place(name, 1), 4);
    running.until_committed_at(&place(name, 0), 4);
    running.stop();
    let mut seen = payloads(&broker, "out");
    seen.sort();
    assert_eq!(seen, ["added 0", "added 1", "added 2", "added 3", "known 3"]);
    let warned = logs::lines(|line| line["topic"] == name && line["level"] == "WARN");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!(warned[0]["partition"], 1);
}

#[test]
fn topics_that_do_not_exist_are_named_all_at_once_with_the_nearest_names_and_never_created() {
    let broker = broker(&["orders.enriched"]);
    let yaml = flow(
        "",
        "process: [ { broadcast: [ [ { into_topic: orders.enrichd } ], [ { into_topic: zz } ] ] } ]\n",
    )
    .replace("topics: [in]", "topics: [inn, in]");
    let errors = refused(&yaml, &broker);
    let messages: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
    assert_eq!(errors.len(), 3, "{messages:?}");
    assert!(errors.iter().all(|error| error.status == Status::Failed));
    assert!(messages[0].contains("inn does not exist"), "{messages:?}");
    assert!(
        messages[1].contains("orders.enrichd does not exist") && messages[1].contains("orders.enriched?")
    );
    assert!(messages[2].contains("zz does not exist") && !messages[2].contains("did you mean"));
    let hints: Vec<&str> = errors.iter().filter_map(|error| error.hint.as_deref()).collect();
    assert_eq!(hints.len(), 3, "{errors:?}");
    assert_eq!(hints[0], "make it: `kafka-topics.sh --bootstrap-server memory --create --topic inn`");
    assert!(errors.iter().all(|error| error.about.is_some()), "{errors:?}");
    assert_eq!(broker.view(|view| view.end(&place("inn", 0))), None);
    assert_eq!(broker.view(|view| view.end(&place("zz", 0))), None);
}

#[test]
fn topics_that_were_made_just_now_are_waited_for() {
    let broker = MemoryBroker::new(system_clock());
    let late = broker.clone();
    let maker = std::thread::spawn(move || {
        // Each is asked for in vain before it is there.
        for topic in ["in", "out"] {
            let asked = |view: &loom_kafka::memory::View<'_>| {
                view.calls(Call::Topics) + view.calls(Call::OutputTopics)
            };
            let before = late.view(asked);
            assert!(late.wait_until(crate::harness::PATIENCE, |view| asked(view) > before));
            late.create_topic(topic, 1);
        }
        produce(&late, &["a"]);
    });
    let running = start(&flow("", "process: [ { into_topic: out } ]\n"), &broker);
    maker.join().unwrap();
    running.until_committed(1);
    assert_eq!(running.stop().failures, []);
}

#[test]
fn a_committed_offset_outside_the_partition_goes_on_from_its_beginning_or_is_refused() {
    for (low, committed) in [(3, 1), (0, 9)] {
        let broker = broker(&["out"]);
        produce(&broker, &["a", "b", "c", "d", "e"]);
        broker.delete_before("in", 0, loom_types::CommitOffset(low));
        set_committed(&broker, committed);
        let errors = refused(&flow("offset_out_of_range: fail", THROUGH), &broker);
        assert_eq!(errors[0].status, Status::Failed);
        assert!(errors[0].message.contains("outside the partition"), "{}", errors[0].message);
        let running = start(&flow("", THROUGH), &broker);
        running.until_committed(5);
        assert_eq!(running.stop().failures, []);
        assert_eq!(payloads(&broker, "out").len() as i64, 5 - low);
        assert_eq!(committed_at(&broker, &in0()), Some(5));
    }
}

#[test]
fn a_topic_that_was_made_again_is_read_from_its_beginning_whatever_it_holds() {
    logs::keep();
    // Fewer records than the committed offset, and more: neither "beyond the end" nor a skip of the first thousand.
    for records in [10, 5000] {
        let broker = broker(&["out"]);
        let name = format!("in-made-again-{records}");
        let yaml = flow("", THROUGH).replace("[in]", &format!("[{name}]"));
        broker.create_topic(&name, 1);
        for n in 0..1000 {
            broker.produce(&name, 0, loom_kafka::memory::Record::value(format!("old {n}")));
        }
        let first = start(&yaml, &broker);
        first.until_committed_at(&place(&name, 0), 1000);
        assert_eq!(first.stop().failures, []);
        broker.delete_topic(&name);
        broker.create_topic(&name, 1);
        for n in 0..records {
            broker.produce(&name, 0, loom_kafka::memory::Record::value(format!("new {n}")));
        }
        let refusing = yaml.replace("topics:", "offset_out_of_range: fail\n    topics:");
        let errors = refused(&refusing, &broker);
        assert!(errors[0].message.contains("made again"), "{}", errors[0].message);
        let second = start(&yaml, &broker);
        second.until_committed_at(&place(&name, 0), records);
        assert_eq!(second.stop().failures, []);
        let out = payloads(&broker, "out");
        assert_eq!(out.len() as i64, 1000 + records);
        assert_eq!(
            (out[1000].as_str(), out.last().unwrap().as_str()),
            ("new 0", &*format!("new {}", records - 1))
        );
        let warned = logs::lines(|line| line["topic"] == *name && line["level"] == "WARN");
        assert_eq!(warned.len(), 1, "{warned:?}");
        assert_eq!(warned[0]["committed"], 1000);
    }
}

#[test]
fn a_log_that_was_cut_before_the_start_goes_on_at_its_new_end() {
    logs::keep();
    let broker = broker(&["out"]);
    let name = "in-cut";
    let yaml = flow("", THROUGH).replace("[in]", &format!("[{name}]"));
    broker.create_topic(name, 1);
    for n in 0..10 {
        broker.produce(name, 0, loom_kafka::memory::Record::value(n.to_string()));
    }
    let first = start(&yaml, &broker);
    first.until_committed_at(&place(name, 0), 10);
    assert_eq!(first.stop().failures, []);
    broker.elect_leader(name, 0, loom_types::CommitOffset(6));
    let second = start(&yaml, &broker);
    second.until_committed_at(&place(name, 0), 6);
    broker.produce(name, 0, loom_kafka::memory::Record::value("after"));
    second.until_committed_at(&place(name, 0), 7);
    assert_eq!(second.stop().failures, []);
    assert_eq!(payloads(&broker, "out").last().unwrap(), "after");
    assert_eq!(payloads(&broker, "out").len(), 11);
    let warned = logs::lines(|line| line["topic"] == name && line["level"] == "WARN");
    assert_eq!(warned.len(), 1, "{warned:?}");
    assert_eq!((&warned[0]["committed"], &warned[0]["end"]), (&10.into(), &6.into()));
}

#[test]
fn an_output_that_may_not_be_written_to_ends_the_start_where_the_broker_says_so() {
    let broker = broker(&["out"]);
    produce(&broker, &["a"]);
    broker.faults().deny(loom_kafka::memory::Right::Write("out".into()));
    let errors = refused(&flow("", THROUGH), &broker);
    assert_eq!(errors.iter().map(|error| error.status).collect::<Vec<_>>(), [Status::Failed]);
    let message = &errors[0].message;
    assert!(message.contains("output topic out") && message.contains("right to write"), "{message}");
    assert_eq!(broker.view(|view| (view.calls(Call::Take), view.readers())), (0, 0));
}
