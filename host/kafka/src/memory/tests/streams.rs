//! Topics that are fed while they are read.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::{broker_with, client, error};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::{Reading, WIDE};
use crate::contract::{Budget, Notice, Waker};
use crate::error::Kind;
use crate::memory::{MemoryBroker, Pulled, READ_AHEAD_ROWS, Record, RecordStream};

/// A stream that the test feeds; a clone is the other end.
#[derive(Clone, Default)]
struct Fed {
    items: Arc<Mutex<VecDeque<Pulled>>>,
    waker: Arc<Mutex<Option<Waker>>>,
    pulled: Arc<Mutex<usize>>,
}

impl RecordStream for Fed {
    fn bind(&mut self, waker: Waker) {
        *self.waker.lock().unwrap() = Some(waker);
    }

    fn pull(&mut self) -> Pulled {
        let next = self.items.lock().unwrap().pop_front();
        *self.pulled.lock().unwrap() += usize::from(matches!(next, Some(Pulled::Record { .. })));
        next.unwrap_or(Pulled::Pending)
    }
}

impl Fed {
    fn feed(&self, items: impl IntoIterator<Item = Pulled>) {
        self.items.lock().unwrap().extend(items);
        let waker = self.waker.lock().unwrap().clone().expect("the stream is bound");
        waker();
    }

    fn pulled(&self) -> usize {
        *self.pulled.lock().unwrap()
    }
}

fn record(topic: usize, partition: i32, number: i64) -> Pulled {
    Pulled::Record { topic, partition, record: Record::value(number.to_string()) }
}

/// A broker whose topic `fed` has two partitions, and `other` one.
fn fed() -> (MemoryBroker, Fed) {
    let (broker, _) = broker_with(0);
    let stream = Fed::default();
    broker.stream_topics(&[("fed", 2), ("other", 1)], Box::new(stream.clone()));
    (broker, stream)
}

#[test]
fn a_stream_is_read_as_it_is_consumed_and_its_end_is_final() {
    let (broker, stream) = fed();
    let client = client(&broker);
    let places = [("fed", 0, 0), ("fed", 1, 0), ("other", 0, 0)];
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &places);
    for place in 0..3 {
        let taken = reading.take(place, WIDE);
        assert!(!taken.more && taken.end.is_none(), "what waits for more has no end");
    }
    let calls = reading.signal.calls();
    stream.feed([record(0, 1, 0), record(1, 0, 0), record(0, 0, 0), record(0, 1, 1)]);
    assert!(reading.signal.calls() > calls, "the stream wakes");
    reading.until(WIDE, "four records", |seen| seen.iter().map(|seen| seen.records.len()).eq([1, 2, 1]));
    assert!(reading.seen.iter().all(|seen| seen.ends.is_empty()));
    assert!(!broker.streams_ended());

    stream.feed([record(0, 0, 1), Pulled::End]);
    reading.until(WIDE, "all ends", |seen| seen.iter().all(|seen| !seen.ends.is_empty()));
    assert_eq!(reading.seen[0].payloads(), ["0", "1"]);
    assert_eq!(reading.seen.iter().map(|seen| seen.ends.clone()).collect::<Vec<_>>(), [[2], [2], [1]]);
    assert!(broker.streams_ended());
    assert!(broker.records("fed").is_empty(), "what was given out is gone");
}

#[test]
fn an_end_that_one_partition_meets_wakes_the_others() {
    let (broker, stream) = fed();
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("fed", 0, 0), ("fed", 1, 0)]);
    assert!(!reading.take(0, WIDE).more);
    stream.feed([Pulled::End]);
    let calls = reading.signal.calls();
    assert!(reading.take(1, WIDE).end.is_some());
    assert!(reading.signal.calls() > calls, "the first partition has an end to say, too");
    assert!(reading.take(0, WIDE).end.is_some());
}

#[test]
fn a_budget_takes_no_more_from_the_stream_than_it_must() {
    let (broker, stream) = fed();
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("fed", 0, 0)]);
    stream.feed((0..1000).map(|number| record(0, 0, number)));
    let ten = Budget { rows: 10, bytes: 1 << 20 };
    let taken = reading.take(0, ten);
    assert!(taken.rows == 10 && taken.more);
    assert_eq!(stream.pulled(), 11, "ten, and one to know that there is more");
    reading.until(ten, "all records", |seen| seen[0].records.len() == 1000);
    assert_eq!(reading.seen[0].offsets(), (0..1000).collect::<Vec<_>>());
}

#[test]
fn a_partition_that_takes_nothing_bounds_what_is_held_for_it() {
    let (broker, stream) = fed();
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("fed", 0, 0), ("fed", 1, 0)]);
    let many = 3 * READ_AHEAD_ROWS as i64;
    stream.feed((0..many).map(|number| record(0, 0, number)));
    stream.feed([record(0, 1, 0), Pulled::End]);
    for _ in 0..5 {
        let taken = reading.take(1, WIDE);
        assert!(taken.rows == 0 && !taken.more && taken.end.is_none(), "its record lies behind the bound");
    }
    assert_eq!(stream.pulled(), READ_AHEAD_ROWS);
    // Once the other takes, it is woken and gets what is its own.
    let calls = reading.signal.calls();
    reading.take(0, WIDE);
    assert!(reading.signal.calls() > calls, "room in the read-ahead wakes");
    reading.until(WIDE, "both ends", |seen| seen.iter().all(|seen| !seen.ends.is_empty()));
    assert_eq!(reading.seen[0].offsets(), (0..many).collect::<Vec<_>>());
    assert_eq!(reading.seen[1].payloads(), ["0"]);
}

#[test]
fn a_broken_input_is_said_behind_its_records_and_has_no_end() {
    let (broker, stream) = fed();
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("fed", 0, 0), ("fed", 1, 0)]);
    let wrong = error(Kind::Configuration, "INPUT_INVALID");
    stream.feed([record(0, 0, 0), record(0, 1, 0), Pulled::Failed(wrong)]);
    for place in 0..2 {
        let notice = reading.notice(place);
        assert!(matches!(notice, Notice::Failed(error) if error.code == "INPUT_INVALID"));
        assert_eq!(reading.seen[place].payloads(), ["0"]);
        assert!(reading.take(place, WIDE).end.is_none());
    }
    assert!(!broker.streams_ended());
}

#[test]
fn a_record_for_a_partition_that_is_not_there_breaks_the_input() {
    for stray in [record(0, 2, 0), record(0, -1, 0), record(2, 0, 0)] {
        let (broker, stream) = fed();
        let client = client(&broker);
        let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("fed", 0, 0)]);
        stream.feed([stray]);
        let notice = reading.notice(0);
        assert!(matches!(notice, Notice::Failed(error) if error.kind == Kind::Configuration));
    }
}
