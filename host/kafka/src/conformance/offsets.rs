//! The group's offsets: written by requests that are answered once, read back as they were written.

use std::time::Duration;

use loom_types::{CommitOffset, PartitionId, TopicPartition};

use super::Fixture;
use super::harness::{ASK, Reading, WIDE, broker, consumer};
use super::reading::numbered;
use crate::contract::{Broker, Budget, CommitAnswer, CommitEntry, Committed};
use crate::error::{KafkaError, Kind};

/// Longer than a client's own commits are apart.
const BEYOND_AUTO_COMMIT: Duration = Duration::from_secs(6);

fn entry(partition: u32, offset: i64, metadata: &str) -> CommitEntry {
    CommitEntry {
        partition: PartitionId(partition),
        offset: CommitOffset(offset),
        metadata: metadata.to_owned(),
    }
}

fn kept(offset: i64, metadata: &str) -> Result<Option<Committed>, KafkaError> {
    Ok(Some(Committed { offset: CommitOffset(offset), metadata: metadata.to_owned() }))
}

/// Fetches committed offsets, trying again while the group's coordinator gets ready, as every user has to.
fn fetch(
    fixture: &dyn Fixture,
    broker: &dyn Broker,
    places: &[TopicPartition],
) -> Vec<Result<Option<Committed>, KafkaError>> {
    let passes = |error: &KafkaError| matches!(error.kind, Kind::Coordinator | Kind::Transient);
    let mut tries = 0;
    loop {
        let answer = broker.committed(places, ASK);
        tries += 1;
        match answer {
            Err(error) if passes(&error) && tries < 100 => {}
            Ok(found) if found.iter().flatten().count() < found.len() && tries < 100 => {
                if let Some(error) =
                    found.iter().filter_map(|place| place.as_ref().err()).find(|error| !passes(error))
                {
                    panic!("{error}");
                }
            }
            answer => return answer.unwrap(),
        }
        fixture.pass_time(Duration::from_millis(100));
    }
}

/// Sends one request, again while the coordinator gets ready, and returns its one good answer.
fn commit(fixture: &dyn Fixture, reading: &mut Reading, entries: &[CommitEntry]) -> CommitAnswer {
    for _ in 0..100 {
        let mut calls = reading.signal.calls();
        let request = reading.reader.offsets.commit(entries).unwrap();
        let mut answers = Vec::new();
        while answers.is_empty() {
            assert!(reading.signal.wait_beyond(calls, fixture.patience()), "no answer to a commit woke");
            calls = reading.signal.calls();
            reading.reader.offsets.answers(&mut answers);
        }
        assert_eq!(answers.len(), 1, "one request, one answer");
        let answer = answers.pop().expect("just counted");
        assert_eq!(answer.request, request);
        let places: Vec<_> = answer.results.iter().map(|(partition, _)| *partition).collect();
        assert_eq!(
            places,
            entries.iter().map(|entry| entry.partition).collect::<Vec<_>>(),
            "in the order asked"
        );
        let fails = |(_, result): &(PartitionId, Result<(), KafkaError>)| {
            result.as_ref().is_err_and(|error| matches!(error.kind, Kind::Coordinator | Kind::Transient))
        };
        if !answer.results.iter().any(fails) {
            return answer;
        }
        fixture.pass_time(Duration::from_millis(100));
    }
    panic!("the coordinator never got ready");
}

pub fn a_new_group_has_no_offsets(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(2);
    let broker = broker(fixture);
    let places = [TopicPartition::new(&*topic, 1), TopicPartition::new(&*topic, 0)];
    assert_eq!(fetch(fixture, &*broker, &places), [Ok(None), Ok(None)]);
}

pub fn commits_are_answered_once_and_read_back(fixture: &dyn Fixture) {
    let (a, b) = (fixture.create_topic(2), fixture.create_topic(1));
    for partition in 0..2 {
        fixture.produce(&a, partition, &numbered(0..10));
    }
    fixture.produce(&b, 0, &numbered(0..10));
    let group = fixture.fresh_name("group");
    let broker = fixture.broker(consumer(fixture, &group));
    let mut reading = Reading::start(fixture, &*broker, &[(&a, 0, 0), (&a, 1, 0), (&b, 0, 0)]);
    reading.records(10);
    let answer = commit(fixture, &mut reading, &[entry(1, 6, "one"), entry(0, 0, "")]);
    assert!(answer.results.iter().all(|(_, result)| result.is_ok()), "{answer:?}");
    let places = [TopicPartition::new(&*b, 0), TopicPartition::new(&*a, 1), TopicPartition::new(&*a, 0)];
    assert_eq!(fetch(fixture, &*broker, &places), [Ok(None), kept(6, "one"), kept(0, "")]);

    let answer = commit(fixture, &mut reading, &[entry(2, 10, "ü {\"t\":1}"), entry(1, 7, "")]);
    assert!(answer.results.iter().all(|(_, result)| result.is_ok()), "{answer:?}");
    assert_eq!(fetch(fixture, &*broker, &places), [kept(10, "ü {\"t\":1}"), kept(7, ""), kept(0, "")]);

    let mut more = Vec::new();
    reading.reader.offsets.answers(&mut more);
    assert!(more.is_empty(), "an answer came twice");
    drop(reading);
    let again = fixture.broker(consumer(fixture, &group));
    assert_eq!(fetch(fixture, &*again, &places), [kept(10, "ü {\"t\":1}"), kept(7, ""), kept(0, "")]);
    let other = super::harness::broker(fixture);
    assert_eq!(fetch(fixture, &*other, &places), [Ok(None), Ok(None), Ok(None)], "another group has its own");
}

pub fn a_commit_can_go_back(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce(&topic, 0, &numbered(0..10));
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    let places = [TopicPartition::new(&*topic, 0)];
    for offset in [8, 8, 3] {
        commit(fixture, &mut reading, &[entry(0, offset, "")]);
        assert_eq!(fetch(fixture, &*broker, &places), [kept(offset, "")]);
    }
}

pub fn a_client_at_most_once_commits_what_it_gave_out(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(2);
    fixture.produce(&topic, 0, &numbered(0..50));
    let group = fixture.fresh_name("group");
    let mut settings = consumer(fixture, &group);
    settings.auto_commit = true;
    let broker = fixture.broker(settings.clone());
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0), (&topic, 1, 0)]);
    let ten = Budget { rows: 10, bytes: 1 << 20 };
    reading.until(ten, "ten records", |seen| seen[0].records.len() >= 10);
    let given = reading.seen[0].position.expect("records were given out");
    assert!(given < 50, "the check needs records that were not given out");
    fixture.pass_time(BEYOND_AUTO_COMMIT);
    let places = [TopicPartition::new(&*topic, 0), TopicPartition::new(&*topic, 1)];
    assert_eq!(fetch(fixture, &*broker, &places), [kept(given, ""), Ok(None)]);

    reading.until(WIDE, "all records", |seen| seen[0].records.len() >= 50);
    drop(reading);
    let again = fixture.broker(settings);
    assert_eq!(fetch(fixture, &*again, &places)[0], kept(50, ""), "a close commits the rest");
}

pub fn a_client_at_least_once_commits_nothing_itself(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce(&topic, 0, &numbered(0..5));
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.records(5);
    fixture.pass_time(BEYOND_AUTO_COMMIT);
    drop(reading);
    assert_eq!(fetch(fixture, &*broker, &[TopicPartition::new(&*topic, 0)]), [Ok(None)]);
}
