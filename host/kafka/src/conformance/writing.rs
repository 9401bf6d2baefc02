//! Rows are written in the order they were sent, as they are, and every token comes back once.

use std::time::{Duration, Instant};

use super::Fixture;
use super::harness::{Reading, Writing, broker};
use super::reading::{numbered, odd_records};
use crate::contract::{Ack, OutputIndex, Stamp};
use crate::error::Kind;
use crate::memory::{Record, TopicConfig, partition_of_key};

/// How far a broker's and the test's clocks may be apart, in milliseconds.
pub const CLOCKS_APART: i64 = 60_000;

pub fn rows_are_written_in_the_order_sent(fixture: &dyn Fixture) {
    let (a, b) = (fixture.create_topic(1), fixture.create_topic(3));
    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&a, &b], &[]);
    let keyed = |number: i64| Record::value(number.to_string()).keyed((number % 17).to_string());
    for start in (0..1000).step_by(100) {
        let records: Vec<_> = (start..start + 100).map(keyed).collect();
        for output in 0..2 {
            let (batch, mut tokens) = writing.batch(&records);
            writing.send(output, &batch, Stamp::Source, &mut tokens);
            assert!(tokens.is_empty(), "tokens of accepted rows are taken");
        }
        writing.collect();
    }
    writing.settle();
    writing.assert_written();

    let mut reading = Reading::start(fixture, &*broker, &[(&a, 0, 0)]);
    reading.records(1000);
    assert_eq!(reading.seen[0].payloads(), (0..1000).map(|number| number.to_string()).collect::<Vec<_>>());
    let mut reading = Reading::start(fixture, &*broker, &[(&b, 0, 0), (&b, 1, 0), (&b, 2, 0)]);
    reading.until(super::harness::WIDE, "all rows", |seen| {
        seen.iter().map(|seen| seen.records.len()).sum::<usize>() >= 1000
    });
    for seen in &reading.seen {
        let numbers: Vec<i64> = seen.payloads().iter().map(|text| text.parse().unwrap()).collect();
        assert!(numbers.is_sorted(), "a partition is out of order");
    }
}

pub fn all_parts_of_a_row_are_written(fixture: &dyn Fixture) {
    let (source, now) = (fixture.create_topic(1), fixture.create_topic(1));
    let broker = broker(fixture);
    let mut records = odd_records();
    records.push(Record::tombstone().keyed("gone").at(1_700_000_000_007));
    let mut writing = Writing::start(fixture, &*broker, &[&source, &now], &[]);
    writing.write(0, &records, Stamp::Source);
    writing.write(0, &[Record::value("no time")], Stamp::Source);
    writing.write(1, &records[..1], Stamp::Now);

    let mut settings = super::harness::consumer(fixture, &fixture.fresh_name("group"));
    settings.forward_tombstones = true;
    let reader = fixture.broker(settings);
    let mut reading = Reading::start(fixture, &*reader, &[(&source, 0, 0), (&now, 0, 0)]);
    reading.until(super::harness::WIDE, "all rows", |seen| {
        seen[0].records.len() > records.len() && !seen[1].records.is_empty()
    });
    let mut read: Vec<Record> = reading.seen[0].records.iter().map(|read| read.record.clone()).collect();
    let untimed = read.pop().expect("just counted");
    assert_eq!(read, records);
    let present = fixture.now_ms();
    let produced = reading.seen[1].records[0].record.timestamp_ms;
    for (what, stamp) in [("a row without time", untimed.timestamp_ms), ("a row stamped now", produced)] {
        let stamp = stamp.expect("a producer sets the time");
        assert!((stamp - present).abs() < CLOCKS_APART, "{what} carries {stamp}, the clock says {present}");
    }
}

pub fn selected_rows_are_written(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[]);
    let (batch, mut tokens) = writing.batch(&numbered(0..10));
    let evens = std::sync::Arc::new(batch.select(&[0, 2, 4, 6, 8]));
    let mut given: std::collections::VecDeque<_> = Default::default();
    for (row, token) in tokens.drain(..).enumerate() {
        if row % 2 == 0 { given.push_back(token) } else { token.give_up() }
    }
    let mut rows = &[1_u32, 3, 4][..];
    // The tokens of the rows that are sent: 2, 6 and 8.
    let mut sent: std::collections::VecDeque<_> = Default::default();
    for (row, token) in given.drain(..).enumerate() {
        if rows.contains(&(row as u32)) { sent.push_back(token) } else { token.give_up() }
    }
    while !rows.is_empty() {
        let calls = writing.signal.calls();
        let accepted = writing.sink.send(OutputIndex(0), &evens, rows, Stamp::Source, &mut sent);
        rows = &rows[accepted..];
        if !rows.is_empty() {
            assert!(
                writing.signal.wait_beyond(calls, fixture.patience()),
                "nothing is accepted, and nothing woke"
            );
        }
    }
    writing.settle();
    let offsets: Vec<i64> = writing.acks.iter().map(|(offset, _)| *offset).collect();
    assert_eq!(offsets, [2, 6, 8], "each row's own token comes back");
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.records(3);
    assert_eq!(reading.seen[0].payloads(), ["2", "6", "8"]);
}

pub fn a_key_finds_the_partition_of_kafka_s_default(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(5);
    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[]);
    let records: Vec<_> = (0..40).map(|number| Record::value("v").keyed("k".repeat(number))).collect();
    writing.write(0, &records, Stamp::Source);
    let places: Vec<_> = (0..5).map(|partition| (&*topic, partition, 0)).collect();
    let mut reading = Reading::start(fixture, &*broker, &places);
    reading.until(super::harness::WIDE, "all rows", |seen| {
        seen.iter().map(|seen| seen.records.len()).sum::<usize>() >= 40
    });
    for read in reading.seen.iter().flat_map(|seen| &seen.records) {
        let key = read.record.key.as_deref().expect("every row has a key");
        assert_eq!(read.partition, partition_of_key(key, 5), "{} bytes", key.len());
    }
}

pub fn a_full_queue_accepts_a_part(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[("queue.buffering.max.messages", "10")]);
    let (batch, mut tokens) = writing.batch(&numbered(0..200));
    let rows: Vec<u32> = (0..200).collect();
    let accepted = writing.sink.send(OutputIndex(0), &batch, &rows, Stamp::Source, &mut tokens);
    assert!((1..200).contains(&accepted), "{accepted} rows of 200 in a queue of 10");
    assert_eq!(tokens.len(), 200 - accepted, "only tokens of accepted rows are taken");
    let rest = std::sync::Arc::new(batch.select(&rows[accepted..]));
    writing.send(0, &rest, Stamp::Source, &mut tokens);
    writing.settle();
    writing.assert_written();
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.records(200);
    assert_eq!(reading.seen[0].payloads(), (0..200).map(|number| number.to_string()).collect::<Vec<_>>());
}

pub fn a_row_that_is_too_large_comes_back(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.configure_topic(&topic, TopicConfig { max_message_bytes: 2000, ..TopicConfig::default() });
    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[]);
    for size in [10, 5000, 20] {
        let (batch, mut tokens) = writing.batch(&[Record::value("v".repeat(size))]);
        writing.send(0, &batch, Stamp::Source, &mut tokens);
        writing.settle();
    }
    let acks: Vec<_> = writing.acks.iter().map(|(_, ack)| ack).collect();
    let [Ack::Written, Ack::Refused(refusal), Ack::Written] = acks[..] else { panic!("{acks:?}") };
    assert!(refusal.error.is_too_large(), "{:?}", refusal.error);
    assert_eq!(refusal.error.kind, Kind::Refused);
    assert_eq!(refusal.batch.payload(refusal.row).map(<[u8]>::len), Some(5000), "the row comes back");
}

pub fn a_flush_sends_what_is_held_back(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[("linger.ms", "900000")]);
    let (batch, mut tokens) = writing.batch(&numbered(0..50));
    writing.send(0, &batch, Stamp::Source, &mut tokens);
    let deadline = Instant::now() + fixture.patience();
    while writing.acks.len() < 50 {
        assert!(Instant::now() < deadline, "{} of 50 rows were acknowledged", writing.acks.len());
        let calls = writing.signal.calls();
        writing.sink.flush();
        if !writing.collect() {
            // One flush need not reach all of them.
            writing.signal.wait_beyond(calls, Duration::from_millis(50));
        }
    }
    writing.assert_written();
}

/// Keys and headers count: of payloads there are none.
pub fn a_queue_takes_so_many_bytes(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    let mut writing = Writing::within(fixture, &*broker, &[&topic], &[], 1 << 20);
    let (key, header) = (vec![b'k'; 50_000], vec![b'h'; 50_000]);
    let record = Record::tombstone().keyed(key).header("h", Some(&header));
    let (batch, mut tokens) = writing.batch(&vec![record; 40]);
    let rows: Vec<u32> = (0..40).collect();
    let accepted = writing.sink.send(OutputIndex(0), &batch, &rows, Stamp::Source, &mut tokens);
    assert!((5..=10).contains(&accepted), "{accepted} rows of 100 kB in a share of 1 MiB");
    let rest = std::sync::Arc::new(batch.select(&rows[accepted..]));
    writing.send(0, &rest, Stamp::Source, &mut tokens);
    writing.settle();
    writing.assert_written();
}

pub fn a_row_comes_back_as_its_copy(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.configure_topic(&topic, TopicConfig { max_message_bytes: 2000, ..TopicConfig::default() });
    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[]);
    let sizes = [10, 5000, 20];
    let records: Vec<_> = sizes.iter().map(|size| Record::value("v".repeat(*size))).collect();
    let (batch, mut tokens) = writing.batch(&records);
    // Each its own batch of the broker's, so that nothing but the large one is refused.
    for row in [1, 2] {
        let accepted = writing.sink.send(OutputIndex(0), &batch, &[row], Stamp::Source, &mut tokens);
        assert_eq!(accepted, 1);
        let mut moves = loom_types::Moves::new();
        let mut held = Vec::new();
        writing.sink.each_held(&mut |_, batch, row| held.push((batch.clone(), row)));
        assert!(held.iter().all(|(held, at)| std::sync::Arc::ptr_eq(held, &batch) && *at == row), "{held:?}");
        moves.add(&batch, vec![row]).expect("it is small");
        writing.sink.move_rows(&moves);
        writing.sink.each_held(&mut |_, batch, row| assert_eq!((batch.len(), row), (1, 0)));
        writing.settle();
    }
    let acks: Vec<_> = writing.acks.iter().map(|(_, ack)| ack).collect();
    let [Ack::Refused(refusal), Ack::Written] = acks[..] else { panic!("{acks:?}") };
    assert_eq!(refusal.batch.payload(refusal.row).map(<[u8]>::len), Some(5000), "the row comes back");
    tokens.into_iter().for_each(loom_delivery::Token::give_up);
}

pub fn close_gives_every_token_back(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    for (round, timeout) in [fixture.patience(), Duration::ZERO].into_iter().enumerate() {
        let mut writing = Writing::start(fixture, &*broker, &[&topic], &[]);
        let (batch, mut tokens) = writing.batch(&numbered(0..50));
        writing.send(0, &batch, Stamp::Source, &mut tokens);
        writing.sink.close(timeout);
        writing.collect();
        assert_eq!(writing.sink.in_flight(), 0);
        let mut offsets: Vec<i64> = writing.acks.iter().map(|(offset, _)| *offset).collect();
        offsets.sort_unstable();
        assert_eq!(offsets, (0..50).collect::<Vec<_>>(), "each token comes back once");
        for (offset, ack) in &writing.acks {
            let fits = matches!(ack, Ack::Written) || (round == 1 && matches!(ack, Ack::Unknown));
            assert!(fits, "row {offset}: {ack:?}");
        }
        let (batch, mut tokens) = writing.batch(&numbered(50..51));
        let accepted = writing.sink.send(OutputIndex(0), &batch, &[0], Stamp::Source, &mut tokens);
        assert_eq!((accepted, tokens.len()), (0, 1), "a closed sink accepts nothing");
        tokens.into_iter().for_each(loom_delivery::Token::give_up);
    }
}
