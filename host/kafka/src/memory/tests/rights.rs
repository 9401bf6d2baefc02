//! Rights that are taken away while clients run.

use std::time::Duration;

use loom_types::{CommitOffset, PartitionId};

use super::{ASK, broker_with, client, input};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::{Reading, WIDE, Writing, producer};
use crate::contract::{Ack, Broker, CommitEntry, Notice, Stamp};
use crate::error::Kind;
use crate::facts::{DEFAULT_MAX_MESSAGE_BYTES, Group, GroupEntry, OutputSettings, Rights};
use crate::memory::{CommitFault, Record, Right, TopicConfig, When};

#[test]
fn a_topic_that_may_not_be_read_says_so_until_it_may() {
    let (broker, _) = broker_with(3);
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("in", 0, 0)]);
    let right = Right::Read("in".into());
    broker.faults().deny(right.clone());
    assert!(matches!(reading.notice(0), Notice::Failed(error) if error.kind == Kind::Authorization));
    let calls = reading.signal.calls();
    broker.faults().allow(&right);
    assert!(reading.signal.calls() > calls);
    assert_eq!(reading.take(0, WIDE).rows, 3);
}

#[test]
fn a_topic_that_may_not_be_written_to_refuses() {
    let (broker, _) = broker_with(0);
    broker.create_topic("out", 1);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["out"], &[]);
    broker.faults().deny(Right::Write("out".into()));
    let (batch, mut tokens) = writing.batch(&[Record::value("a"), Record::value("b")]);
    writing.send(0, &batch, Stamp::Now, &mut tokens);
    writing.settle();
    let denied = |ack: &Ack| matches!(ack, Ack::Refused(why) if why.error.kind == Kind::Authorization);
    assert!(writing.acks.iter().all(|(_, ack)| denied(ack)), "{:?}", writing.acks);
}

#[test]
fn what_is_told_of_an_output_follows_the_rights() {
    let (broker, _) = broker_with(0);
    broker.create_topic("out", 1);
    let config = TopicConfig { max_message_bytes: 99, compacted: true, ..TopicConfig::default() };
    broker.configure_topic("out", config);
    let client = client(&broker);
    let ask = || {
        let producer = producer(&MemoryFixture::default(), &[]);
        let settings = OutputSettings { topic: "out".into(), producer };
        client.output_topics(&[settings], ASK).unwrap().remove(0).unwrap()
    };
    assert_eq!((ask().max_message_bytes, ask().compacted, ask().may_write), (99, true, Some(true)));
    broker.faults().deny(Right::Write("out".into()));
    broker.faults().deny(Right::DescribeConfigs("out".into()));
    let told = ask();
    assert_eq!(told.may_write, Some(false));
    assert_eq!(told.described.unwrap_err().kind, Kind::Authorization);
    assert_eq!((told.max_message_bytes, told.compacted), (DEFAULT_MAX_MESSAGE_BYTES, false));

    broker.faults().deny(Right::Group("rep.owner".into()));
    broker.faults().deny(Right::IdempotentWrite);
    assert_eq!(
        client.rights(ASK).unwrap(),
        Rights { idempotent_write: Some(false), owner_group: Some(false) }
    );
    broker.faults().tell_all(false);
    assert_eq!(client.rights(ASK).unwrap(), Rights::default());
    assert_eq!((ask().id, ask().may_write), (None, None));
}

#[test]
fn a_group_that_may_not_be_used_refuses_everything() {
    let (broker, _) = broker_with(1);
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("in", 0, 0)]);
    broker.faults().deny(Right::Group("rep".into()));
    assert_eq!(client.committed(Group::Input, &[input()], ASK).unwrap_err().kind, Kind::Authorization);
    assert_eq!(client.members(ASK).unwrap_err().kind, Kind::Authorization);
    let entry = CommitEntry {
        partition: PartitionId(0),
        offset: CommitOffset(1),
        metadata: String::new(),
        leader_epoch: None,
        guard: None,
    };
    reading.reader.offsets.commit(&[entry]).unwrap();
    let mut answers = Vec::new();
    reading.reader.offsets.answers(&mut answers);
    assert_eq!(answers[0].results[0].1.as_ref().unwrap_err().kind, Kind::Authorization);
    assert_eq!(client.committed(Group::Owner, &[input()], ASK).unwrap(), [Ok(None)], "another group");
}

#[test]
fn an_idempotent_producer_fails_where_it_is_not_allowed() {
    let (broker, _) = broker_with(0);
    broker.create_topic("out", 1);
    broker.faults().deny(Right::IdempotentWrite);
    let client = client(&broker);
    let mut writing = Writing::start(&MemoryFixture::default(), &client, &["out"], &[]);
    let (batch, mut tokens) = writing.batch(&[Record::value("a")]);
    writing.send(0, &batch, Stamp::Now, &mut tokens);
    writing.settle();
    assert!(matches!(writing.acks[..], [(0, Ack::Unknown)]));
    let mut errors = Vec::new();
    writing.sink.client_errors(&mut errors);
    assert_eq!((errors[0].kind, errors[0].code), (Kind::Fatal, "CLUSTER_AUTHORIZATION_FAILED"));
}

#[test]
fn commits_from_outside_go_wrong_by_the_script_too() {
    let (broker, clock) = broker_with(1);
    let client = client(&broker);
    let beat = |offset| {
        let entry = GroupEntry {
            partition: input(),
            offset: CommitOffset(offset),
            metadata: "run".into(),
            leader_epoch: None,
        };
        client.commit_now(Group::Owner, &[entry], ASK)
    };
    let committed = || broker.committed("rep.owner", &input()).map(|committed| committed.offset.0);
    assert_eq!(beat(1).unwrap(), [Ok(())]);
    broker.faults().beat(When::next(1), CommitFault::Unanswered);
    assert_eq!(beat(2).unwrap_err().kind, Kind::Coordinator);
    let second = Duration::from_secs(1);
    broker.faults().beat(When::next(1), CommitFault::Late { arrives: second, answered: second });
    assert_eq!(beat(3).unwrap_err().kind, Kind::Coordinator);
    assert_eq!(committed(), Some(1));
    assert_eq!(beat(4).unwrap(), [Ok(())]);
    clock.advance(second);
    broker.tick();
    assert_eq!(committed(), Some(3), "an old beat overtakes nothing: it lands after the newer one");
}
