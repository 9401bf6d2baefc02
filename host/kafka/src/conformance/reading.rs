//! Records come as they were written, in order, each once, from where they are asked for.

use super::Fixture;
use super::harness::{Reading, WIDE, broker, consumer};
use crate::contract::{Budget, Notice};
use crate::memory::Record;

/// Records with these numbers as payloads.
pub fn numbered(numbers: std::ops::Range<i64>) -> Vec<Record> {
    numbers.map(|number| Record::value(number.to_string())).collect()
}

pub fn records_come_in_offset_order_each_once(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(3);
    for partition in 0..3 {
        fixture.produce(&topic, partition, &numbered(0..150));
    }
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0), (&topic, 1, 0), (&topic, 2, 0)]);
    let small = Budget { rows: 7, bytes: 1 << 20 };
    reading.until(small, "150 records", |seen| seen.iter().all(|seen| seen.records.len() >= 150));
    for partition in 0..3 {
        fixture.produce(&topic, partition, &numbered(150..160));
    }
    reading.until(small, "160 records", |seen| seen.iter().all(|seen| seen.records.len() >= 160));
    for (partition, seen) in reading.seen.iter().enumerate() {
        assert_eq!(seen.offsets(), (0..160).collect::<Vec<_>>());
        assert_eq!(seen.payloads(), (0..160).map(|number| number.to_string()).collect::<Vec<_>>());
        assert_eq!(seen.position, Some(160));
        assert!(seen.records.iter().all(|read| read.partition == partition as i32 && read.topic == topic));
    }
}

/// Records that are hard to keep as they are.
pub fn odd_records() -> Vec<Record> {
    vec![
        Record::value("plain").at(1_700_000_000_001),
        Record::value("").keyed("empty payload").at(1_700_000_000_002),
        Record::value("empty key").keyed("").at(1_700_000_000_003),
        Record::value(vec![0, 159, 146, 150, 255]).keyed(vec![255, 0]).at(1_700_000_000_004),
        Record::value("headers")
            .header("b", Some(b"1"))
            .header("a", None)
            .header("b", Some(b"2"))
            .header("a", Some(b""))
            .header("bytes", Some(&[0, 255]))
            .header("", Some(b"no name"))
            .at(1_700_000_000_005),
        Record::value("x".repeat(300_000)).at(1_700_000_000_006),
    ]
}

pub fn all_parts_of_a_record_pass_untouched(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce(&topic, 0, &odd_records());
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.records(odd_records().len());
    let read: Vec<Record> = reading.seen[0].records.iter().map(|read| read.record.clone()).collect();
    assert_eq!(read, odd_records());
}

pub fn a_take_keeps_to_its_budget(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let size = |number: usize| if number % 10 == 3 { 5000 } else { 100 };
    let records: Vec<_> =
        (0..60).map(|number| Record::value("x".repeat(size(number) - 1)).keyed("k")).collect();
    fixture.produce(&topic, 0, &records);
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    let mut alone = 0;
    while reading.seen[0].records.len() < 60 {
        let calls = reading.signal.calls();
        let taken = reading.take(0, Budget { rows: 8, bytes: 550 });
        assert!(taken.rows <= 8, "{} rows", taken.rows);
        let records = &reading.seen[0].records;
        let bytes: usize = records[records.len() - taken.rows..].iter().map(|read| read.record.bytes()).sum();
        assert!(bytes <= 550 || taken.rows == 1, "{bytes} bytes in {} rows", taken.rows);
        alone += usize::from(bytes > 550);
        if taken.rows == 0 && !taken.more {
            assert!(reading.signal.wait_beyond(calls, fixture.patience()), "nothing woke");
        }
    }
    assert_eq!(alone, 6, "a record above the budget comes alone");
    let lengths: Vec<_> = reading.seen[0].records.iter().map(|read| read.record.bytes()).collect();
    assert_eq!(lengths, (0..60).map(size).collect::<Vec<_>>(), "nothing was lost at a bound");

    fixture.produce(&topic, 0, &numbered(0..1));
    let taken = reading.take(0, Budget { rows: 0, bytes: 550 });
    assert_eq!((taken.rows, taken.position), (0, None), "no row was asked for");
    reading.records(61);
}

pub fn headers_count_towards_a_budget(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let header = vec![b'h'; 200];
    let record = |number: usize| Record::value(number.to_string()).header("h", Some(&header));
    fixture.produce(&topic, 0, &(0..40).map(record).collect::<Vec<_>>());
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    while reading.seen[0].records.len() < 40 {
        let calls = reading.signal.calls();
        let taken = reading.take(0, Budget { rows: 40, bytes: 700 });
        assert!(taken.rows <= 3, "{} rows with 200 bytes of headers each within 700", taken.rows);
        if taken.rows == 0 && !taken.more {
            assert!(reading.signal.wait_beyond(calls, fixture.patience()), "nothing woke");
        }
    }
    let headers = reading.seen[0].records.iter().map(|read| read.record.headers.len());
    assert_eq!(headers.collect::<Vec<_>>(), [1; 40], "each has its own");
}

pub fn reading_starts_at_the_given_offset(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(2);
    fixture.produce(&topic, 0, &numbered(0..20));
    fixture.produce(&topic, 1, &numbered(0..20));
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 15), (&topic, 1, 20)]);
    reading.until(WIDE, "five records and an end", |seen| {
        seen[0].records.len() >= 5 && !seen[1].ends.is_empty()
    });
    assert_eq!(reading.seen[0].offsets(), [15, 16, 17, 18, 19]);
    assert_eq!(reading.seen[1].ends, [20]);
    fixture.produce(&topic, 1, &numbered(20..22));
    reading.until(WIDE, "two new records", |seen| seen[1].records.len() >= 2);
    assert_eq!(reading.seen[1].offsets(), [20, 21]);
    assert_eq!(reading.seen[0].records.len(), 5);
}

pub fn a_seek_goes_on_elsewhere(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(2);
    fixture.produce(&topic, 0, &numbered(0..100));
    fixture.produce(&topic, 1, &numbered(0..100));
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0), (&topic, 1, 0)]);
    let small = Budget { rows: 10, bytes: 1 << 20 };
    reading.until(small, "some records", |seen| seen.iter().all(|seen| seen.records.len() >= 10));
    let before = reading.seen[1].records.len();
    reading.seek(0, 90);
    reading.until(small, "the last ten", |seen| seen[0].records.len() >= 10);
    assert_eq!(reading.seen[0].offsets(), (90..100).collect::<Vec<_>>(), "forward");
    reading.seek(0, 40);
    reading
        .until(small, "the last sixty", |seen| seen[0].records.len() >= 60 && seen[1].records.len() >= 100);
    assert_eq!(reading.seen[0].offsets(), (40..100).collect::<Vec<_>>(), "back");
    assert!(before >= 10);
    assert_eq!(reading.seen[1].offsets(), (0..100).collect::<Vec<_>>(), "the other partition went on");
}

pub fn a_position_out_of_range_waits_for_a_seek(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(3);
    for partition in 0..3 {
        fixture.produce(&topic, partition, &numbered(0..10));
    }
    fixture.delete_before(&topic, 1, 6);
    let broker = broker(fixture);
    let places = [(&*topic, 0, 500), (&*topic, 1, 2), (&*topic, 2, 0)];
    let mut reading = Reading::start(fixture, &*broker, &places);
    for place in 0..2 {
        let notice = reading.notice(place);
        assert!(matches!(notice, Notice::OutOfRange), "partition {place}: {notice:?}");
        assert!(reading.seen[place].records.is_empty(), "nothing is read at a place of the client's choice");
    }
    // The other partition is not held up.
    while reading.seen[2].records.len() < 10 {
        let calls = reading.signal.calls();
        if !reading.take(2, WIDE).more && reading.seen[2].records.len() < 10 {
            assert!(reading.signal.wait_beyond(calls, fixture.patience()), "nothing woke");
        }
    }
    reading.seek(0, 8);
    reading.seek(1, 6);
    reading.until(WIDE, "the rest", |seen| seen[0].records.len() >= 2 && seen[1].records.len() >= 4);
    assert_eq!(reading.seen[0].offsets(), [8, 9]);
    assert_eq!(reading.seen[1].offsets(), [6, 7, 8, 9]);
}

pub fn two_topics_keep_their_places(fixture: &dyn Fixture) {
    let (a, b) = (fixture.create_topic(1), fixture.create_topic(2));
    fixture.produce(&a, 0, &numbered(0..5));
    fixture.produce(&b, 1, &numbered(100..103));
    fixture.produce(&b, 0, &numbered(200..202));
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&b, 1, 0), (&a, 0, 0), (&b, 0, 0)]);
    reading.until(WIDE, "all records", |seen| {
        seen.iter().map(|seen| seen.records.len()).collect::<Vec<_>>() == [3, 5, 2]
    });
    for (seen, (topic, partition, first)) in
        reading.seen.iter().zip([(&b, 1, "100"), (&a, 0, "0"), (&b, 0, "200")])
    {
        assert!(seen.records.iter().all(|read| read.topic == *topic && read.partition == partition));
        assert_eq!(seen.payloads()[0], first);
    }
}

pub fn tombstones_are_skipped_and_counted(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let tombstone = || Record::tombstone().keyed("k");
    let records =
        [tombstone(), Record::value("1"), tombstone(), tombstone(), Record::value(""), Record::value("5")];
    fixture.produce(&topic, 0, &records);
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    let single = Budget { rows: 1, bytes: 1 << 20 };
    reading.until(single, "three records", |seen| seen[0].records.len() >= 3);
    assert_eq!(reading.seen[0].offsets(), [1, 4, 5], "a payload of 0 bytes is a payload");
    assert_eq!(reading.seen[0].skipped, 3);
}

pub fn tombstones_are_forwarded_when_asked_for(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let records =
        [Record::value("0"), Record::tombstone().keyed("k").at(1_700_000_000_000), Record::value("")];
    fixture.produce(&topic, 0, &records);
    let mut settings = consumer(fixture, &fixture.fresh_name("group"));
    settings.forward_tombstones = true;
    let broker = fixture.broker(settings);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.records(3);
    let read: Vec<_> = reading.seen[0].records.iter().map(|read| read.record.payload.clone()).collect();
    assert_eq!(read, [Some(b"0".to_vec()), None, Some(Vec::new())]);
    assert_eq!(reading.seen[0].records[1].record.key.as_deref(), Some(&b"k"[..]));
    assert_eq!(reading.seen[0].skipped, 0);
}
