//! Rows on their way: batches that linger, overtake each other, are refused whole, and land after a crash.

use std::time::Duration;

use super::{ASK, broker_with, client, error};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::{Writing, producer};
use crate::contract::{Ack, Broker, OutputIndex, Stamp};
use crate::error::Kind;
use crate::facts::OutputSettings;
use crate::memory::{ManualClock, MemoryBroker, Network, Record, RowFault, TopicConfig, When};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn network(linger: u64, send: (u64, u64), acknowledge: (u64, u64)) -> Network {
    let range = |(from, to)| ms(from)..=ms(to);
    Network { linger: ms(linger), send: range(send), acknowledge: range(acknowledge) }
}

fn values(values: &[&str]) -> Vec<Record> {
    values.iter().map(|value| Record::value(*value)).collect()
}

fn send(writing: &mut Writing, output: usize, records: &[Record]) {
    let (batch, mut tokens) = writing.batch(records);
    writing.send(output, &batch, Stamp::Source, &mut tokens);
}

fn payloads(broker: &MemoryBroker, topic: &str) -> Vec<String> {
    broker.view(|view| view.payloads(topic)).into_iter().flatten().collect()
}

/// Moves the clock to each event in turn, until there is none.
fn run(broker: &MemoryBroker, clock: &ManualClock, writing: &mut Writing) {
    while let Some(at) = broker.next_event() {
        clock.advance(at.since(clock.now()));
        broker.tick();
        writing.collect();
    }
}

#[test]
fn rows_of_several_calls_are_one_batch_while_it_lingers() {
    let (broker, clock) = broker_with(0);
    broker.create_topic("a", 1);
    broker.faults().network(network(5, (10, 10), (10, 10)));
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    broker.faults().rows_where("a", |record| {
        let bad = record.payload.as_deref() == Some(b"bad");
        bad.then(|| RowFault::RefusedBatch(error(Kind::Refused, "INVALID_RECORD")))
    });
    send(&mut writing, 0, &values(&["0", "bad"]));
    clock.advance(ms(4));
    broker.tick();
    send(&mut writing, 0, &values(&["2"]));
    clock.advance(ms(2));
    send(&mut writing, 0, &values(&["3"]));
    assert_eq!(payloads(&broker, "a").len(), 0, "they are on their way");
    run(&broker, &clock, &mut writing);
    assert_eq!(payloads(&broker, "a"), ["3"], "a refused row takes its batch along, and no other");
    let refused = |(_, ack): &(i64, Ack)| matches!(ack, Ack::Refused(_));
    assert_eq!(writing.acks.iter().map(refused).collect::<Vec<_>>(), [true, true, true, false]);
    for (row, (_, ack)) in writing.acks.iter().enumerate().take(3) {
        let Ack::Refused(refusal) = ack else { panic!("{ack:?}") };
        assert_eq!(refusal.error.code, "INVALID_RECORD");
        assert_eq!(refusal.batch.payload(refusal.row), Some(["0", "bad", "2"][row].as_bytes()));
    }
}

#[test]
fn order_holds_in_a_partition_and_not_between_partitions() {
    let outcome = |seed| {
        let (broker, clock) = broker_with(0);
        broker.seed(seed);
        broker.create_topic("a", 3);
        broker.faults().network(network(0, (0, 50), (0, 50)));
        let client = client(&broker);
        let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
        for number in 0..60_i64 {
            send(&mut writing, 0, &[Record::value(number.to_string()).keyed((number % 7).to_string())]);
            clock.advance(ms(1));
            broker.tick();
        }
        run(&broker, &clock, &mut writing);
        writing.assert_written();
        for partition in 0..3 {
            let records = broker.records("a");
            let mine = records.iter().filter(|stored| stored.partition == partition);
            let text = |payload: &Option<Vec<u8>>| String::from_utf8(payload.clone().unwrap()).unwrap();
            let numbers: Vec<i64> =
                mine.map(|stored| text(&stored.record.payload).parse().unwrap()).collect();
            assert!(numbers.is_sorted(), "partition {partition}: {numbers:?}");
        }
        writing.acks.iter().map(|(offset, _)| *offset).collect::<Vec<_>>()
    };
    assert_eq!(outcome(7), outcome(7), "the seed decides");
    assert_ne!(outcome(7), outcome(8));
    assert!(!outcome(7).is_sorted(), "acknowledgements of several partitions overtake each other");
}

#[test]
fn what_was_sent_lands_after_a_crash_and_what_lingers_does_not() {
    let (broker, clock) = broker_with(0);
    broker.create_topic("a", 1);
    broker.faults().network(network(5, (30, 30), (0, 0)));
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    send(&mut writing, 0, &values(&["sent"]));
    clock.advance(ms(6));
    send(&mut writing, 0, &values(&["lingers"]));
    drop(writing);
    assert_eq!(payloads(&broker, "a").len(), 0);
    let at = broker.next_event().expect("a batch is on its way");
    clock.advance(at.since(clock.now()));
    broker.tick();
    assert_eq!(payloads(&broker, "a"), ["sent"]);
    assert_eq!(broker.next_event(), None);
}

#[test]
fn a_close_sends_what_lingers_and_gives_back_what_does_not_arrive_in_time() {
    let (broker, clock) = broker_with(0);
    broker.create_topic("a", 1);
    broker.faults().network(network(1000, (30, 30), (5, 5)));
    let client = client(&broker);
    for (timeout, arrives) in [(ms(40), true), (ms(20), false)] {
        let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
        send(&mut writing, 0, &values(&["x"]));
        writing.sink.close(timeout);
        writing.collect();
        assert_eq!(matches!(writing.acks[..], [(0, Ack::Written)]), arrives, "{:?}", writing.acks);
        assert_eq!(writing.acks.len(), 1);
    }
    assert_eq!(payloads(&broker, "a"), ["x"]);
    clock.advance(ms(30));
    broker.tick();
    assert_eq!(payloads(&broker, "a"), ["x", "x"], "no verdict is no word of what becomes of it");
}

#[test]
fn a_batch_that_was_written_may_be_reported_refused() {
    let (broker, _) = broker_with(0);
    broker.create_topic("a", 1);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    let fault = RowFault::WrittenThenRefused(error(Kind::Refused, "INVALID_RECORD"));
    broker.faults().rows("a", When::nth(2), fault);
    send(&mut writing, 0, &values(&["0", "1", "2"]));
    writing.settle();
    assert_eq!(payloads(&broker, "a"), ["0", "1", "2"]);
    assert!(writing.acks.iter().all(|(_, ack)| matches!(ack, Ack::Refused(_))), "{:?}", writing.acks);
}

#[test]
fn a_batch_above_the_limit_is_refused_whole_unless_batches_are_kept_small() {
    let (broker, _) = broker_with(0);
    broker.create_topic("a", 1);
    broker.configure_topic("a", TopicConfig { max_message_bytes: 10, ..TopicConfig::default() });
    let client = client(&broker);
    let rows = ["1111", "2222", "3333"];
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    send(&mut writing, 0, &values(&rows));
    writing.settle();
    let large = |ack: &Ack| matches!(ack, Ack::Refused(refusal) if refusal.error.is_too_large());
    assert!(writing.acks.iter().all(|(_, ack)| large(ack)), "neighbours are blamed: {:?}", writing.acks);

    let mut settings = (*producer(&MemoryFixture::default(), &[])).clone();
    settings.largest_batch = Some(10);
    let small = OutputSettings { topic: "a".into(), producer: settings.into() };
    let signal = writing.signal.clone();
    writing.sink = client.writer(&[small], 128 << 20, signal.waker()).unwrap();
    writing.acks.clear();
    send(&mut writing, 0, &values(&["4444", "5555", "666666666666"]));
    writing.settle();
    assert_eq!(writing.acks.iter().map(|(_, ack)| large(ack)).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(payloads(&broker, "a"), ["4444", "5555"]);
}

#[test]
fn a_keyless_row_for_a_compacted_topic_blocks_its_partition_for_ever() {
    let (broker, clock) = broker_with(0);
    broker.create_topic("a", 1);
    broker.configure_topic("a", TopicConfig { compacted: true, ..TopicConfig::default() });
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    let keyed = [Record::value("1").keyed("k")];
    send(&mut writing, 0, &keyed);
    send(&mut writing, 0, &values(&["no key"]));
    send(&mut writing, 0, &keyed);
    for _ in 0..50 {
        clock.advance(Duration::from_secs(60));
        broker.tick();
        writing.collect();
    }
    assert_eq!((payloads(&broker, "a").len(), writing.sink.in_flight()), (1, 2));
    writing.sink.close(ms(500));
    writing.collect();
    clock.advance(Duration::from_secs(1));
    broker.tick();
    assert_eq!((writing.acks.len(), broker.next_event()), (3, None), "it goes with its client");
    assert_eq!(payloads(&broker, "a").len(), 1);
}

#[test]
fn a_topic_that_is_not_there_is_waited_for_a_minute() {
    let (broker, clock) = broker_with(0);
    broker.create_topic("a", 2);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    broker.faults().hide_topic("a", Duration::from_secs(20));
    let unknown = client.topics(&["a"], ASK).unwrap().remove(0).unwrap_err();
    assert_eq!(unknown.kind, Kind::UnknownTopic);
    send(&mut writing, 0, &values(&["0", "1"]));
    clock.advance(Duration::from_secs(19));
    broker.tick();
    assert!(!writing.collect());
    clock.advance(Duration::from_secs(1));
    broker.tick();
    writing.settle();
    writing.assert_written();
    assert!(client.topics(&["a"], ASK).unwrap()[0].is_ok());

    broker.delete_topic("a");
    send(&mut writing, 0, &values(&["2"]));
    for _ in 0..62 {
        clock.advance(Duration::from_secs(1));
        broker.tick();
    }
    writing.settle();
    let Some((2, Ack::Refused(refusal))) = writing.acks.last() else { panic!("{:?}", writing.acks) };
    assert_eq!(refusal.error.kind, Kind::UnknownTopic);
}

#[test]
fn rows_that_waited_for_their_topic_go_ahead_of_those_that_come_when_it_is_there() {
    let (broker, clock) = broker_with(0);
    broker.create_topic("a", 1);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    broker.faults().hide_topic("a", Duration::from_secs(20));
    send(&mut writing, 0, &values(&["0", "1"]));
    send(&mut writing, 0, &values(&["2"]));
    // The client tries them again a little later than the topic is there.
    clock.advance(ms(19_990));
    broker.tick();
    clock.advance(ms(10));
    send(&mut writing, 0, &values(&["3"]));
    run(&broker, &clock, &mut writing);
    writing.assert_written();
    assert_eq!(payloads(&broker, "a"), ["0", "1", "2", "3"]);
}

#[test]
fn a_producer_that_fails_for_good_says_nothing_of_its_rows() {
    let (broker, clock) = broker_with(0);
    broker.create_topic("a", 1);
    broker.faults().network(network(0, (10, 10), (0, 0)));
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    send(&mut writing, 0, &values(&["0"]));
    clock.advance(ms(1));
    let calls = writing.signal.calls();
    broker.faults().fail_writers(error(Kind::Other, "UNKNOWN_PRODUCER_ID"));
    assert!(writing.signal.calls() > calls);
    let mut errors = Vec::new();
    writing.sink.client_errors(&mut errors);
    assert_eq!(errors.iter().map(|error| error.kind).collect::<Vec<_>>(), [Kind::Fatal]);
    let (batch, mut tokens) = writing.batch(&values(&["1"]));
    assert_eq!(writing.sink.send(OutputIndex(0), &batch, &[0], Stamp::Now, &mut tokens), 1);
    writing.settle();
    assert!(writing.acks.iter().all(|(_, ack)| matches!(ack, Ack::Unknown)) && writing.acks.len() == 2);
    clock.advance(ms(10));
    broker.tick();
    assert_eq!(payloads(&broker, "a"), ["0"], "it was on its way");
    let mut next = Writing::start(&MemoryFixture::default(), &client, &["a"], &[]);
    broker.faults().network(Network::default());
    next.write(0, &values(&["2"]), Stamp::Now);
}
