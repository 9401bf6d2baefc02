//! Acknowledgements that are held, late or lost, and rows that are refused.

use std::time::Duration;

use super::{broker_with, client, error};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::Writing;
use crate::contract::{Ack, OutputIndex, Stamp};
use crate::error::Kind;
use crate::memory::{MemoryBroker, Record, RowFault, When};

fn numbered(count: i64) -> Vec<Record> {
    (0..count).map(|number| Record::value(number.to_string())).collect()
}

fn payloads(broker: &MemoryBroker, topic: &str) -> Vec<String> {
    broker.view(|view| view.payloads(topic)).into_iter().flatten().collect()
}

fn offsets(writing: &Writing) -> Vec<i64> {
    writing.acks.iter().map(|(offset, _)| *offset).collect()
}

#[test]
fn held_acknowledgements_come_when_they_are_released() {
    let (broker, _) = broker_with(0);
    broker.create_topic("a", 2);
    broker.create_topic("b", 1);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a", "b"], &[]);
    let faults = broker.faults();
    faults.hold_acks("a");
    for output in [0, 1] {
        let (batch, mut tokens) = writing.batch(&numbered(4));
        writing.send(output, &batch, Stamp::Source, &mut tokens);
    }
    writing.collect();
    assert_eq!(offsets(&writing), [4, 5, 6, 7], "the other topic is not held");
    assert_eq!(broker.records("a").len(), 4, "the rows are written");
    assert_eq!(writing.sink.in_flight(), 4);

    let calls = writing.signal.calls();
    faults.release_acks("a", 1);
    assert!(writing.signal.calls() > calls, "a release wakes");
    writing.collect();
    faults.release_acks("a", 4);
    writing.collect();
    assert_eq!(offsets(&writing)[4..], [0, 1, 2, 3], "in the order they were sent");

    // Of the five that were released two are for rows to come.
    let (batch, mut tokens) = writing.batch(&numbered(3));
    writing.send(0, &batch, Stamp::Source, &mut tokens);
    writing.collect();
    assert_eq!(offsets(&writing)[8..], [8]);
    faults.release_all_acks("a");
    writing.settle();
    writing.assert_written();
}

#[test]
fn late_acknowledgements_come_by_the_clock() {
    let (broker, clock) = broker_with(0);
    broker.create_topic("a", 1);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    broker.faults().delay_acks("a", Duration::from_millis(300));
    let (batch, mut tokens) = writing.batch(&numbered(2));
    writing.send(0, &batch, Stamp::Source, &mut tokens);
    assert_eq!(broker.records("a").len(), 2);
    let calls = writing.signal.calls();
    clock.advance(Duration::from_millis(299));
    broker.tick();
    assert!(!writing.collect());
    assert_eq!(writing.signal.calls(), calls);
    clock.advance(Duration::from_millis(1));
    broker.tick();
    assert!(writing.signal.calls() > calls, "what is due wakes");
    writing.settle();
    writing.assert_written();
}

#[test]
fn a_close_counts_what_is_due_in_its_time_and_gives_the_rest_back() {
    let (broker, _) = broker_with(0);
    broker.create_topic("soon", 1);
    broker.create_topic("never", 1);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["soon", "never"], &[]);
    broker.faults().delay_acks("soon", Duration::from_secs(2));
    broker.faults().hold_acks("never");
    for output in [0, 1] {
        let (batch, mut tokens) = writing.batch(&numbered(1));
        writing.send(output, &batch, Stamp::Source, &mut tokens);
    }
    writing.sink.close(Duration::from_secs(3));
    writing.collect();
    assert_eq!(offsets(&writing), [0, 1]);
    assert!(matches!(writing.acks[0].1, Ack::Written));
    assert!(matches!(writing.acks[1].1, Ack::Unknown));
}

#[test]
fn a_refused_row_is_refused_alone() {
    let (broker, _) = broker_with(0);
    broker.create_topic("a", 1);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    broker.faults().rows_where("a", |record| {
        let large = record.payload.as_deref() == Some(b"1");
        large.then(|| RowFault::Refused(error(Kind::Refused, "MSG_SIZE_TOO_LARGE")))
    });
    let (batch, mut tokens) = writing.batch(&numbered(3));
    writing.send(0, &batch, Stamp::Source, &mut tokens);
    writing.settle();
    assert_eq!(payloads(&broker, "a"), ["0", "2"]);
    assert_eq!(offsets(&writing), [0, 1, 2]);
    assert!(
        matches!(&writing.acks[1].1, Ack::Refused(refusal) if refusal.error.code == "MSG_SIZE_TOO_LARGE")
    );
    assert!(matches!((&writing.acks[0].1, &writing.acks[2].1), (Ack::Written, Ack::Written)));
}

#[test]
fn a_lost_acknowledgement_says_nothing_of_the_write() {
    let (broker, _) = broker_with(0);
    broker.create_topic("a", 1);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    broker.faults().rows("a", When::nth(2), RowFault::AckLost);
    broker.faults().rows("a", When::nth(3), RowFault::Lost);
    let (batch, mut tokens) = writing.batch(&numbered(5));
    writing.send(0, &batch, Stamp::Source, &mut tokens);
    writing.settle();
    let unknown: Vec<_> = writing.acks.iter().filter(|(_, ack)| matches!(ack, Ack::Unknown)).collect();
    assert_eq!(unknown.iter().map(|(offset, _)| *offset).collect::<Vec<_>>(), [1, 3]);
    assert_eq!(payloads(&broker, "a"), ["0", "1", "2", "4"], "row 1 was written, row 3 was not");
}

#[test]
fn a_sink_that_goes_with_its_process_takes_its_tokens_along() {
    let (broker, _) = broker_with(0);
    broker.create_topic("a", 1);
    broker.faults().hold_acks("a");
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    let (batch, mut tokens) = writing.batch(&numbered(3));
    assert_eq!(writing.sink.send(OutputIndex(0), &batch, &[0, 1], Stamp::Source, &mut tokens), 2);
    broker.faults().go_down();
    assert_eq!(writing.sink.send(OutputIndex(0), &batch, &[2], Stamp::Source, &mut tokens), 1);
    // A dropped token trips a debug assertion; these are given up.
    drop(writing);
    assert_eq!(broker.view(|view| view.writers()), 0);
    assert_eq!(broker.records("a").len(), 2, "what the broker has, it has");
}

#[test]
fn rows_without_key_go_where_the_seed_says() {
    let spread = |seed| {
        let (broker, _) = broker_with(0);
        broker.seed(seed);
        broker.create_topic("a", 8);
        let client = client(&broker);
        let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
        writing.write(0, &numbered(100), Stamp::Source);
        broker.records("a")
    };
    assert_eq!(spread(1), spread(1));
    assert_ne!(spread(1), spread(2));
    let mut partitions: Vec<_> = spread(1).iter().map(|stored| stored.partition).collect();
    partitions.dedup();
    assert_eq!(partitions, (0..8).collect::<Vec<_>>(), "every partition gets some");
}
