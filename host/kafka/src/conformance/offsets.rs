//! The group's offsets: written by requests that are answered once, read back as they were written.

use std::time::Duration;

use loom_delivery::readback::{Expected, Guard};
use loom_delivery::{Mark, RunId};
use loom_types::{CommitOffset, PartitionId, TopicPartition};

use super::harness::{ASK, Reading, broker, consumer, once_ready};
use super::reading::numbered;
use super::{Fixture, MEMBER};
use crate::contract::{Broker, CommitAnswer, CommitEntry};
use crate::error::{KafkaError, Kind};
use crate::facts::{Committed, Group, GroupEntry};

/// Longer than a client's own commits are apart.
const BEYOND_AUTO_COMMIT: Duration = Duration::from_secs(6);

fn entry(partition: u32, offset: i64, metadata: &str) -> CommitEntry {
    CommitEntry {
        partition: PartitionId(partition),
        offset: CommitOffset(offset),
        metadata: metadata.to_owned(),
        leader_epoch: None,
        guard: None,
    }
}

fn kept(offset: i64, metadata: &str) -> Result<Option<Committed>, KafkaError> {
    Ok(Some(Committed { offset: CommitOffset(offset), metadata: metadata.to_owned(), leader_epoch: None }))
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
        let answer = broker.committed(Group::Input, places, ASK);
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

pub fn epochs_are_read_committed_and_read_back(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce(&topic, 0, &numbered(0..10));
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.records(10);
    let epoch = reading.seen[0].leader_epoch;
    assert!(epoch.is_some_and(|epoch| epoch >= 0), "a record has the epoch of its leader");
    commit(fixture, &mut reading, &[CommitEntry { leader_epoch: epoch, ..entry(0, 10, "with") }]);
    let place = [TopicPartition::new(&*topic, 0)];
    let found = fetch(fixture, &*broker, &place).remove(0).unwrap().unwrap();
    assert_eq!((found.offset, found.leader_epoch), (CommitOffset(10), epoch));
    commit(fixture, &mut reading, &[entry(0, 10, "without")]);
    let found = fetch(fixture, &*broker, &place).remove(0).unwrap().unwrap();
    assert_eq!((&*found.metadata, found.leader_epoch), ("without", None));
}

pub fn groups_are_written_from_outside(fixture: &dyn Fixture) {
    let (a, b) = (fixture.create_topic(2), fixture.create_topic(1));
    let group = fixture.fresh_name("group");
    let broker = fixture.broker(consumer(fixture, &group));
    let places = [TopicPartition::new(&*b, 0), TopicPartition::new(&*a, 1), TopicPartition::new(&*a, 0)];
    let outside = |place: usize, offset: i64, metadata: &str| GroupEntry {
        partition: places[place].clone(),
        offset: CommitOffset(offset),
        metadata: metadata.to_owned(),
        leader_epoch: None,
    };
    let set = |group, entries: &[GroupEntry]| {
        let results = once_ready(fixture, || {
            broker.commit_now(group, entries, ASK)?.into_iter().collect::<Result<Vec<()>, _>>()
        });
        assert_eq!(results.len(), entries.len());
    };
    let read = |group| {
        once_ready(fixture, || {
            broker.committed(group, &places, ASK)?.into_iter().collect::<Result<Vec<_>, _>>()
        })
    };
    let found = |offset, metadata: &str| kept(offset, metadata).unwrap();
    set(Group::Owner, &[outside(2, 7, "beat of run ü"), outside(0, 0, "")]);
    assert_eq!(read(Group::Owner), [found(0, ""), None, found(7, "beat of run ü")]);
    assert_eq!(read(Group::Input), [None, None, None], "the owner's group is another one");
    set(Group::Input, &[outside(1, 3, "m")]);
    set(Group::Owner, &[outside(2, 8, "")]);
    assert_eq!(read(Group::Input), [None, found(3, "m"), None]);
    assert_eq!(read(Group::Owner), [found(0, ""), None, found(8, "")]);
    set(Group::Input, &[]);

    let named = fixture.broker(consumer(fixture, &format!("{group}.owner")));
    assert_eq!(fetch(fixture, &*named, &places[2..]), [kept(8, "")], "its name is the group's with `.owner`");
}

pub fn a_group_with_members_refuses_commits(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let group = fixture.fresh_name("group");
    let broker = fixture.broker(consumer(fixture, &group));
    let members = || once_ready(fixture, || broker.members(ASK));
    assert_eq!(members(), []);
    let leave = fixture.join_group(&group, &topic);
    let mut told = members();
    for _ in 0..100 {
        if !told.is_empty() {
            break;
        }
        fixture.pass_time(Duration::from_millis(100));
        told = members();
    }
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].client_id, MEMBER);
    assert!(!told[0].host.is_empty());
    let entry = GroupEntry {
        partition: TopicPartition::new(&*topic, 0),
        offset: CommitOffset(0),
        metadata: String::new(),
        leader_epoch: None,
    };
    let results = once_ready(fixture, || broker.commit_now(Group::Input, std::slice::from_ref(&entry), ASK));
    assert_eq!(results[0].as_ref().unwrap_err().kind, Kind::GroupInUse, "{results:?}");
    let results = once_ready(fixture, || broker.commit_now(Group::Owner, std::slice::from_ref(&entry), ASK));
    assert_eq!(results, [Ok(())], "another group is not concerned");
    leave();
    for _ in 0..100 {
        if members().is_empty() {
            return;
        }
        fixture.pass_time(Duration::from_millis(100));
    }
    panic!("the member never left");
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

pub fn a_guarded_commit_leaves_what_others_set(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(2);
    let group = fixture.fresh_name("group");
    let broker = fixture.broker(consumer(fixture, &group));
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0), (&topic, 1, 0)]);
    let places = [TopicPartition::new(&*topic, 0), TopicPartition::new(&*topic, 1)];
    let run = RunId(7);
    let mine = Mark { run: Some(run), ..Mark::default() }.to_string();
    let guarded = |partition, offset, acknowledged: Option<i64>| {
        let acknowledged = acknowledged.map(CommitOffset);
        let expected = Expected { initial: None, predecessor: None, acknowledged };
        CommitEntry { guard: Some(Guard { run, expected }), ..entry(partition, offset, &mine) }
    };
    // Nothing is there, and then what it wrote itself.
    for (offset, acknowledged) in [(3, None), (5, Some(3))] {
        let answer = commit(
            fixture,
            &mut reading,
            &[guarded(0, offset, acknowledged), guarded(1, offset, acknowledged)],
        );
        assert!(answer.results.iter().all(|(_, result)| result.is_ok()), "{answer:?}");
    }
    let outside = GroupEntry {
        partition: places[0].clone(),
        offset: CommitOffset(1),
        metadata: String::new(),
        leader_epoch: None,
    };
    once_ready(fixture, || {
        broker
            .commit_now(Group::Input, std::slice::from_ref(&outside), ASK)?
            .into_iter()
            .collect::<Result<Vec<()>, _>>()
    });
    let answer = commit(fixture, &mut reading, &[guarded(0, 7, Some(5)), guarded(1, 7, Some(5))]);
    let error = answer.results[0].1.as_ref().unwrap_err();
    assert_eq!(error.kind, Kind::Moved, "{error}");
    assert!(error.message.contains("/0 to 1, where this run had committed 5"), "{error}");
    assert_eq!(answer.results[1].1, Ok(()), "the others are committed");
    assert_eq!(fetch(fixture, &*broker, &places), [kept(1, ""), kept(7, &mine)]);
}

pub fn a_client_commits_nothing_itself(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    fixture.produce(&topic, 0, &numbered(0..5));
    let broker = broker(fixture);
    let mut reading = Reading::start(fixture, &*broker, &[(&topic, 0, 0)]);
    reading.records(5);
    fixture.pass_time(BEYOND_AUTO_COMMIT);
    drop(reading);
    assert_eq!(fetch(fixture, &*broker, &[TopicPartition::new(&*topic, 0)]), [Ok(None)]);
}
