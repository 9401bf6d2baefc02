//! Committed offsets: errors of the coordinator, of a request and of one partition in it.

use std::time::Duration;

use loom_delivery::readback::{Expected, Guard};
use loom_delivery::{Mark, RunId};
use loom_kafka::{Broker, CommitEntry, Group, KafkaError, Kind};
use loom_types::{CommitOffset, PartitionId, TopicPartition};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use crate::support::{Mock, PATIENCE, Reading, broker, mock, read};

fn place(topic: &str) -> [TopicPartition; 1] {
    [TopicPartition::new(topic, 0)]
}

fn commit(reading: &mut Reading, offset: i64) -> Result<(), KafkaError> {
    let entry = CommitEntry {
        partition: PartitionId(0),
        offset: CommitOffset(offset),
        metadata: "of run 7".into(),
        leader_epoch: None,
        guard: None,
    };
    send(reading, entry)
}

fn send(reading: &mut Reading, entry: CommitEntry) -> Result<(), KafkaError> {
    let request = reading.reader.offsets.commit(&[entry]).unwrap();
    let signal = reading.signal.clone();
    let mut answers = Vec::new();
    signal.until("the answer to a commit", || {
        reading.reader.offsets.answers(&mut answers);
        (!answers.is_empty()).then_some(())
    });
    assert_eq!(answers.len(), 1);
    let mut answer = answers.remove(0);
    assert_eq!(answer.request, request);
    assert_eq!(answer.results.len(), 1);
    let (partition, result) = answer.results.remove(0);
    assert_eq!(partition, PartitionId(0));
    result
}

/// Has the next fetches of offsets answered so.
fn fetches(cluster: &Mock, codes: &[RDKafkaRespErr]) {
    cluster.request_errors(RDKafkaApiKey::OffsetFetch, codes);
}

#[test]
fn an_attempt_to_fetch_offsets_fails_as_the_coordinator_says() {
    let cluster = mock("in");
    let broker = broker(&cluster);
    assert_eq!(broker.committed(Group::Input, &place("in"), PATIENCE).unwrap(), [Ok(None)]);

    fetches(&cluster, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED]);
    let error = broker.committed(Group::Input, &place("in"), PATIENCE).unwrap_err();
    assert_eq!((error.kind, error.code), (Kind::Authorization, "GROUP_AUTHORIZATION_FAILED"));
    assert!(error.message.contains("missing right: `Read` on group `g`"), "{error}");

    for code in [
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
    ] {
        // The client tries some of these again by itself, with growing delays, as long as the attempt may take.
        fetches(&cluster, &[code; 50]);
        let error = broker.committed(Group::Input, &place("in"), Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.kind, Kind::Coordinator, "{error}");
        cluster.clear_request_errors(RDKafkaApiKey::OffsetFetch);
    }
    assert_eq!(
        broker.committed(Group::Input, &place("in"), PATIENCE).unwrap(),
        [Ok(None)],
        "and then it answers"
    );
}

#[test]
fn a_commit_is_read_back_with_what_was_written_beside_it() {
    let cluster = mock("in");
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    assert_eq!(commit(&mut reading, 17), Ok(()));
    let answers = broker.committed(Group::Input, &place("in"), PATIENCE).unwrap();
    let committed = answers[0].as_ref().unwrap().as_ref().unwrap();
    assert_eq!((committed.offset, committed.metadata.as_str()), (CommitOffset(17), "of run 7"));
}

#[test]
fn a_refused_commit_is_answered_with_its_error_and_the_next_one_is_on_its_own() {
    let cluster = mock("in");
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    let denied = RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::OffsetCommit, &[denied]);
    let error = commit(&mut reading, 5).unwrap_err();
    assert_eq!((error.kind, error.code), (Kind::Authorization, "GROUP_AUTHORIZATION_FAILED"));
    assert!(error.message.contains("in/0") && error.message.contains("`Read` on group `g`"), "{error}");
    assert_eq!(commit(&mut reading, 6), Ok(()));
}

#[test]
fn a_commit_of_nothing_is_answered_and_one_of_a_foreign_partition_is_refused() {
    let cluster = mock("in");
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    let request = reading.reader.offsets.commit(&[]).unwrap();
    let mut answers = Vec::new();
    reading.reader.offsets.answers(&mut answers);
    assert_eq!((answers.len(), answers[0].request, answers[0].results.len()), (1, request, 0));

    let foreign = CommitEntry {
        partition: PartitionId(3),
        offset: CommitOffset(1),
        metadata: String::new(),
        leader_epoch: None,
        guard: None,
    };
    assert_eq!(reading.reader.offsets.commit(&[foreign]).unwrap_err().kind, Kind::Configuration);
}

#[test]
fn a_guarded_commit_is_not_sent_over_what_others_set_nor_where_that_is_not_known() {
    let cluster = mock("in");
    let broker = broker(&cluster);
    let mut reading = read(&broker, "in", 0);
    // "of run 7" names no run of ours: the guard knows nothing of it.
    assert_eq!(commit(&mut reading, 5), Ok(()));
    let guarded = |offset| CommitEntry {
        partition: PartitionId(0),
        offset: CommitOffset(offset),
        metadata: Mark { run: Some(RunId(7)), ..Mark::default() }.to_string(),
        leader_epoch: None,
        guard: Some(Guard {
            run: RunId(7),
            expected: Expected { initial: None, predecessor: None, acknowledged: None },
        }),
    };
    let error = send(&mut reading, guarded(9)).unwrap_err();
    assert_eq!(error.kind, Kind::Moved);
    assert!(error.message.contains("in/0 to 5"), "{error}");
    fetches(&cluster, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED]);
    let error = send(&mut reading, guarded(9)).unwrap_err();
    assert_eq!(error.kind, Kind::Authorization, "{error}");
    let answers = broker.committed(Group::Input, &place("in"), PATIENCE).unwrap();
    let committed = answers[0].as_ref().unwrap().as_ref().unwrap();
    assert_eq!(committed.offset, CommitOffset(5), "neither went over it");
}
