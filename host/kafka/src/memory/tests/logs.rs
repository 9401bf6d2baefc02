//! Logs with gaps and a low end, what an observer gets, and waiting for the broker.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use loom_types::{CommitOffset, RecordOffset};

use super::{broker_with, client, input};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::{Reading, Writing};
use crate::contract::{Notice, Stamp};
use crate::memory::{Record, Stored};

#[test]
fn compaction_leaves_gaps_that_reading_passes() {
    let (broker, _) = broker_with(5);
    assert!(broker.compact("in", 0, RecordOffset(1)));
    assert!(!broker.compact("in", 0, RecordOffset(1)), "it is gone");
    broker.leave_gap("in", 0, 3);
    assert_eq!(broker.produce("in", 0, Record::value("8")), RecordOffset(8));
    assert_eq!(broker.produce_control("in", 0), RecordOffset(9));
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("in", 0, 1)]);
    reading.end(10);
    assert_eq!(reading.seen[0].offsets(), [2, 3, 4, 8]);
    assert_eq!(reading.seen[0].position, Some(9), "a control record at the tail is no position");
    assert_eq!(broker.view(|view| view.end(&input())), Some(CommitOffset(10)));
}

#[test]
fn a_gap_at_the_tail_is_part_of_the_end() {
    let (broker, _) = broker_with(2);
    broker.leave_gap("in", 0, 4);
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("in", 0, 0)]);
    reading.end(6);
    assert_eq!(reading.seen[0].position, Some(2));
}

#[test]
fn retention_overtakes_a_reader() {
    let (broker, _) = broker_with(10);
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("in", 0, 3)]);
    broker.delete_before("in", 0, CommitOffset(7));
    assert!(matches!(reading.notice(0), Notice::OutOfRange));
    assert_eq!(reading.take(0, crate::conformance::harness::WIDE).rows, 0, "it waits for a seek");
    reading.seek(0, 7);
    reading.records(3);
    assert_eq!(reading.seen[0].offsets(), [7, 8, 9]);
    broker.delete_before("in", 0, CommitOffset(99));
    assert_eq!(broker.view(|view| view.end(&input())), Some(CommitOffset(10)), "retention makes no records");
}

#[test]
fn an_observed_topic_shows_each_record_and_keeps_none() {
    let (broker, _) = broker_with(0);
    let (sender, seen) = channel();
    let observer = move |topic: &str, stored: &Stored, writer| {
        sender.send((topic.to_owned(), stored.clone(), writer)).unwrap()
    };
    broker.observe_topic("out", 1, Box::new(observer));
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["out"], &[]);
    let record = |number: i64| Record::value(number.to_string()).at(number);
    writing.write(0, &(0..3).map(record).collect::<Vec<_>>(), Stamp::Source);
    for number in 0..3 {
        let stored = Stored { partition: 0, offset: RecordOffset(number), record: record(number) };
        assert_eq!(seen.try_recv().unwrap(), ("out".to_owned(), stored, Some(0)));
    }
    assert!(broker.records("out").is_empty());
}

#[test]
fn an_observed_topic_that_exists_keeps_its_records() {
    let (broker, _) = broker_with(0);
    let (sender, seen) = channel();
    broker.observe_topic("in", 1, Box::new(move |_, stored, _| sender.send(stored.offset).unwrap()));
    broker.produce("in", 0, Record::value("a"));
    assert_eq!(seen.try_recv().unwrap(), RecordOffset(0));
    assert_eq!(broker.view(|view| view.count("in")), 1);
}

#[test]
fn a_test_can_wait_for_what_other_threads_do() {
    let (broker, _) = broker_with(0);
    let producer = broker.clone();
    let thread = thread::spawn(move || {
        for number in 0..100 {
            producer.produce("in", 0, Record::value(number.to_string()));
        }
    });
    assert!(broker.wait_until(Duration::from_secs(20), |view| view.count("in") == 100));
    thread.join().unwrap();
    assert!(!broker.wait_until(Duration::ZERO, |view| view.count("in") > 100));
}
