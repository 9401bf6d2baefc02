//! The end of a partition, said on its queue, behind all that was given out; and what lies in a log beside records.

use super::Fixture;
use super::harness::{Reading, WIDE, broker};
use super::reading::numbered;
use crate::memory::Record;

pub fn the_end_comes_behind_the_records(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce(&topic, 0, &numbered(0..30));
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    while reading.seen[0].ends.is_empty() {
        let calls = reading.signal.calls();
        let taken = reading.take(0, WIDE);
        if taken.end.is_some() {
            assert_eq!(reading.seen[0].records.len(), 30, "the end came before the records");
        } else if !taken.more {
            assert!(reading.signal.wait_beyond(calls, fixture.patience()), "no end came");
        }
    }
    assert_eq!(reading.seen[0].ends, [30]);
    for _ in 0..5 {
        reading.take(0, WIDE);
    }
    assert_eq!(reading.seen[0].ends, [30], "an end is said once");
    fixture.produce(&topic, 0, &numbered(30..33));
    reading.end(33);
    assert_eq!(reading.seen[0].records.len(), 33);
}

pub fn an_empty_partition_says_its_end(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.end(0);
    assert_eq!(reading.seen[0].position, None, "nothing was appended or skipped");
}

pub fn a_tail_of_control_records_moves_the_end(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce_in_transaction(&topic, 0, &numbered(0..10), true);
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.end(11);
    assert_eq!(reading.seen[0].offsets(), (0..10).collect::<Vec<_>>());
    fixture.produce_in_transaction(&topic, 0, &numbered(10..12), true);
    reading.end(14);
    assert_eq!(reading.seen[0].offsets(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12]);
}

pub fn gaps_are_passed(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce(&topic, 0, &numbered(0..2));
    fixture.produce_in_transaction(&topic, 0, &numbered(2..5), false);
    fixture.produce(&topic, 0, &numbered(6..8));
    fixture.produce_in_transaction(&topic, 0, &numbered(8..9), false);
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.end(10);
    assert_eq!(
        reading.seen[0].offsets(),
        [0, 1, 6, 7],
        "records of an aborted transaction are not given out"
    );
    assert_eq!(reading.seen[0].payloads(), ["0", "1", "6", "7"]);
    assert_eq!(reading.seen[0].skipped, 0, "a gap is no tombstone");

    let mut inside = Reading::start(fixture, &*broker, &[(&topic, 0, 3)]);
    inside.end(10);
    assert_eq!(inside.seen[0].offsets(), [6, 7], "reading may start inside a gap");
}

pub fn a_tail_of_tombstones_moves_the_position(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce(&topic, 0, &numbered(0..1));
    fixture.produce(&topic, 0, &[Record::tombstone().keyed("a"), Record::tombstone().keyed("b")]);
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.end(3);
    assert_eq!((reading.seen[0].position, reading.seen[0].skipped), (Some(3), 2));
}
