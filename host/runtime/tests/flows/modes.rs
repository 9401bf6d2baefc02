//! At most once, and runs that end with their input.

use std::time::Duration;

use loom_delivery::Mark;
use loom_kafka::memory::{MemoryBroker, Pulled, Record, RecordStream, RowFault, system_clock};
use loom_kafka::{KafkaError, Kind, Waker};
use loom_runtime::{End, Options};

use crate::harness::{
    broker, commit_history, committed, committed_at, endings, flow, in0, kafka_error, payloads, place,
    produce, start, start_with, wide_broker,
};

#[test]
fn at_most_once_delivers_and_commits_what_was_read() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "fail:x", "retry-n:2", "b"]);
    let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\n";
    let running = start(&flow("delivery: at_most_once", rest), &broker);
    running.until_count("out", 3);
    running.until_committed(4);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "retry-n:2", "b"]);
    let mark = Mark::parse(&broker.committed("g", &in0()).unwrap().metadata).expect("a commit of ours");
    assert_eq!(mark.topic, broker.topic_id("in"));
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("dropped(task)", 1), ("topic", 3)]);
    assert_eq!(outcome.summary.ledger.outstanding, 0);
}

#[test]
fn at_most_once_a_start_at_the_end_is_committed_where_nothing_came_and_a_restart_goes_on_from_it() {
    let broker = wide_broker(2, &["out"]);
    for partition in 0..2 {
        (0..50).for_each(|n| _ = broker.produce("in", partition, Record::value(format!("old {n}"))));
    }
    let yaml =
        flow("delivery: at_most_once\nauto_offset_reset: latest", "process: [ { into_topic: out } ]\n");
    let running = start(&yaml, &broker);
    for partition in 0..2 {
        running.until_committed_at(&place("in", partition), 50);
    }
    produce(&broker, &["new"]);
    running.until_count("out", 1);
    assert_eq!(running.stop().failures, []);
    // While it is away, in the partition that had nothing.
    broker.produce("in", 1, Record::value("newer"));
    let again = start(&yaml, &broker);
    again.until_committed_at(&place("in", 1), 51);
    assert_eq!(again.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["new", "newer"]);
}

#[test]
fn at_most_once_what_was_read_is_committed_before_the_work_on_it() {
    let broker = broker(&["out"]);
    broker.set_committed("g", &in0(), loom_types::CommitOffset(0), "");
    produce(&broker, &["retry:for ever", "b"]);
    let rest = "runtime: { shutdown_timeout: 1s }\nplugins: { s: { component: '{guests}/probe-step.wasm' } }\n\
                process: [ { step: s }, { into_topic: out } ]\n";
    let running = start(&flow("delivery: at_most_once", rest), &broker);
    // Nothing of it was written, nor will be.
    running.until_committed(2);
    assert_eq!(payloads(&broker, "out"), [""; 0]);
    running.stop();
    let again = start(&flow("delivery: at_most_once", rest), &broker);
    produce(&broker, &["c"]);
    again.until_count("out", 1);
    assert_eq!(again.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["c"], "what a crash loses is not read again");
}

#[test]
fn at_most_once_commits_keep_to_their_interval() {
    let broker = broker(&["out"]);
    broker.set_committed("g", &in0(), loom_types::CommitOffset(0), "");
    let rest = "runtime: { commit_interval_ms: 3600000 }\nprocess: [ { into_topic: out } ]\n";
    let running = start(&flow("delivery: at_most_once", rest), &broker);
    for n in 0..20 {
        produce(&broker, &[&n.to_string()]);
        running.until_count("out", n + 1);
    }
    assert_eq!(commit_history(&broker, &in0()), [1], "the first at once, the others within the interval");
    assert_eq!(running.stop().failures, []);
    assert_eq!(committed_at(&broker, &in0()), Some(20), "and at the stop");
}

#[test]
fn at_most_once_drops_a_refused_record_loudly_and_goes_on() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "b", "c"]);
    let error = kafka_error(Kind::Refused, "MSG_SIZE_TOO_LARGE");
    broker.faults().rows_where("out", move |record| {
        (record.payload.as_deref() == Some(b"b")).then(|| RowFault::Refused(error.clone()))
    });
    let running = start(&flow("delivery: at_most_once", "process: [ { into_topic: out } ]\n"), &broker);
    running.until_count("out", 2);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "c"]);
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("dropped(delivery)", 1), ("topic", 2)]);
}

/// A stream of so many records.
struct Numbers(std::ops::Range<u64>);

impl RecordStream for Numbers {
    fn bind(&mut self, _waker: Waker) {}

    fn pull(&mut self) -> Pulled {
        match self.0.next() {
            Some(n) => {
                Pulled::Record { topic: 0, partition: (n % 3) as i32, record: Record::value(n.to_string()) }
            }
            None => Pulled::End,
        }
    }
}

fn at_end(timeout: Duration) -> Options {
    Options { end: End::AtEndOfInput { timeout }, workers: 2, ..Options::default() }
}

#[test]
fn a_run_ends_by_itself_when_its_input_was_read_and_everything_is_resolved() {
    let broker = MemoryBroker::new(system_clock());
    broker.stream_topics(&[("in", 3)], Box::new(Numbers(0..5000)));
    broker.create_topic("out", 1);
    let rest = "plugins: { k: { component: '{guests}/probe-sink.wasm' } }
process: [ { broadcast: [ [ { into_topic: out } ], [ { into_sink: k, flush: { records: 100000, interval: 1h } } ] ] } ]
";
    let outcome = start_with(&flow("", rest), &broker, at_end(Duration::from_secs(60))).ended();
    assert_eq!(outcome.failures, []);
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("sink", 5000), ("topic", 5000)]);
    assert_eq!(payloads(&broker, "out").len(), 5000);
    for partition in &outcome.summary.partitions {
        assert_eq!(partition.committed, Some(partition.position));
        assert_eq!(partition.outstanding, 0);
    }
}

#[test]
fn a_run_on_an_empty_input_ends_at_once() {
    let broker = MemoryBroker::new(system_clock());
    broker.stream_topics(&[("in", 3)], Box::new(Numbers(0..0)));
    broker.create_topic("out", 1);
    let outcome =
        start_with(&flow("", "process: [ { into_topic: out } ]\n"), &broker, at_end(Duration::from_secs(60)))
            .ended();
    assert_eq!((outcome.status(), outcome.summary.ledger.registered), (0, 0));
}

#[test]
fn what_is_not_resolved_in_time_after_the_end_is_listed_with_its_node() {
    // With more input behind the row that waits, its end is never reached: that is told as well.
    for batch in [500, 1] {
        let broker = broker(&["out"]);
        produce(&broker, &["a", "retry:for ever", "b"]);
        let rest = "plugins: { s: { component: '{guests}/probe-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\n";
        let options = at_end(Duration::from_millis(300));
        let outcome = start_with(&flow(&format!("batch_size: {batch}"), rest), &broker, options).ended();
        assert_eq!(outcome.status(), 4);
        let message = &outcome.failures[0].message;
        let expected = if batch == 1 {
            "no further input can be read, and 1 record is"
        } else {
            "the input has ended, and 2 records are"
        };
        for part in [expected, "process[0] (plugin s)", "in/0 offset 1"] {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(committed(&broker), Some(1));
    }
}

/// A stream that is broken behind these records.
struct Broken(Numbers, KafkaError);

impl RecordStream for Broken {
    fn bind(&mut self, _waker: Waker) {}

    fn pull(&mut self) -> Pulled {
        match self.0.pull() {
            Pulled::End => Pulled::Failed(self.1.clone()),
            pulled => pulled,
        }
    }
}

#[test]
fn an_input_that_is_broken_somewhere_is_read_up_to_there_in_every_partition() {
    let broker = MemoryBroker::new(system_clock());
    let wrong = kafka_error(Kind::Configuration, "INPUT_INVALID");
    broker.stream_topics(&[("in", 3)], Box::new(Broken(Numbers(0..301), wrong)));
    broker.create_topic("out", 1);
    // Small cycles, so that one partition meets the end while the others have records to take.
    let yaml = flow("batch_size: 10", "process: [ { into_topic: out } ]\n");
    let options = Options { workers: 1, ..at_end(Duration::from_secs(60)) };
    let outcome = start_with(&yaml, &broker, options).ended();
    assert_eq!(outcome.status(), 4);
    assert!(outcome.failures[0].message.contains("scripted"), "{:?}", outcome.failures);
    let mut numbers: Vec<u64> = payloads(&broker, "out").iter().map(|text| text.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..301).collect::<Vec<_>>());
    assert!(
        outcome.summary.partitions.iter().all(|partition| partition.committed == Some(partition.position))
    );
}
