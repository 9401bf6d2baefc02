//! Values that a client may take for "not set": a record is what it is, with them as with others.

use super::Fixture;
use super::harness::{Reading, WIDE, Writing, broker, consumer};
use super::writing::CLOCKS_APART;
use crate::contract::Stamp;
use crate::memory::Record;

type Part = Option<&'static [u8]>;

/// Absent, empty, and a byte of 0.
const PARTS: [Part; 3] = [None, Some(b""), Some(b"\0")];

/// Every combination of a key, a payload and a header, at these times in turn.
fn combinations(times: &[i64]) -> Vec<Record> {
    let named = ["", "h"].into_iter().flat_map(|name| PARTS.map(|value| Some((name, value))));
    let headers: Vec<Option<(&str, Part)>> = std::iter::once(None).chain(named).collect();
    let mut records = Vec::new();
    for (key, payload) in PARTS.iter().flat_map(|key| PARTS.map(|payload| (key, payload))) {
        for header in &headers {
            let mut record = Record {
                key: key.map(<[u8]>::to_vec),
                payload: payload.map(<[u8]>::to_vec),
                ..Record::default()
            }
            .at(times[records.len() % times.len()]);
            if let Some((name, value)) = header {
                record = record.header(*name, *value);
            }
            records.push(record);
        }
    }
    records
}

/// What a reader that passes tombstones on gets of a topic's one partition.
fn read(fixture: &dyn Fixture, topic: &str, count: usize) -> Vec<Record> {
    let mut settings = consumer(fixture, &fixture.fresh_name("group"));
    settings.forward_tombstones = true;
    let broker = fixture.broker(settings);
    let mut reading = Reading::start(fixture, &*broker, &[(topic, 0, 0)]);
    reading.until(WIDE, "all records", |seen| seen[0].records.len() >= count);
    reading.seen[0].records.iter().map(|read| read.record.clone()).collect()
}

pub fn what_may_seem_unset_is_read_as_it_is(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let records = combinations(&[1, 1_700_000_000_000]);
    fixture.produce(&topic, 0, &records);
    assert_eq!(read(fixture, &topic, records.len()), records);
}

pub fn what_may_seem_unset_is_written_as_it_is(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    let records = combinations(&[0, 1, 1_700_000_000_000]);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[]);
    writing.write(0, &records, Stamp::Source);
    assert_eq!(read(fixture, &topic, records.len()), records);
}

pub fn a_time_below_0_is_none(fixture: &dyn Fixture) {
    let (given, topic) = (fixture.create_topic(1), fixture.create_topic(1));
    fixture.produce(&given, 0, &[Record::value("v").at(-1)]);
    assert_eq!(read(fixture, &given, 1), [Record::value("v")]);

    let broker = broker(fixture);
    let mut writing = Writing::start(fixture, &*broker, &[&topic], &[]);
    writing.write(0, &[Record::value("v").at(-1), Record::value("v")], Stamp::Source);
    let present = fixture.now_ms();
    for record in read(fixture, &topic, 2) {
        let time = record.timestamp_ms.expect("a producer sets the time");
        assert!((time - present).abs() < CLOCKS_APART, "written at {time}, the clock says {present}");
    }
}
