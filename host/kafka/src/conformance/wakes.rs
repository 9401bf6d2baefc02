//! Wake-ups: what a worker sleeps on.

use super::Fixture;
use super::harness::{Reading, WIDE, Writing, broker};
use super::reading::numbered;
use crate::contract::Stamp;

pub fn the_next_record_wakes(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(2);
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0), (&topic, 1, 0)]);
    reading.until(WIDE, "both ends", |seen| seen.iter().all(|seen| seen.ends == [0]));
    for round in 0..8 {
        let partition = round % 2;
        while reading.take(0, WIDE).more || reading.take(1, WIDE).more {}
        let calls = reading.signal.calls();
        let before = reading.seen[partition as usize].records.len();
        fixture.produce(&topic, partition, &numbered(round.into()..i64::from(round) + 1));
        // The first wake may be an end that was on its way; the record's own comes.
        let mut calls = calls;
        while reading.seen[partition as usize].records.len() == before {
            assert!(
                reading.signal.wait_beyond(calls, fixture.patience()),
                "round {round}: the record did not wake"
            );
            calls = reading.signal.calls();
            while reading.take(0, WIDE).more || reading.take(1, WIDE).more {}
        }
    }
}

pub fn acknowledgements_wake(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[]);
    for round in 0..5 {
        let calls = writing.signal.calls();
        let (batch, mut tokens) = writing.batch(&numbered(round..round + 1));
        writing.send(0, &batch, Stamp::Source, &mut tokens);
        assert!(
            writing.signal.wait_beyond(calls, fixture.patience()),
            "round {round}: no acknowledgement woke"
        );
        writing.settle();
    }
    writing.assert_written();
}
