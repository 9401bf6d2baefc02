//! What is asked at assembly.

use std::sync::Arc;
use std::time::Duration;

use loom_types::{CommitOffset, TopicPartition};

use super::Fixture;
use super::harness::{ASK, broker, once_ready, producer};
use super::reading::numbered;
use crate::error::Kind;
use crate::facts::{Bounds, DEFAULT_MAX_MESSAGE_BYTES, OutputSettings, Rights};
use crate::memory::{Record, TopicConfig};

pub fn topics_are_told_in_the_order_asked(fixture: &dyn Fixture) {
    let (one, three) = (fixture.create_topic(1), fixture.create_topic(3));
    let missing = fixture.fresh_name("missing");
    let broker = broker(fixture);
    let told = broker.topics(&[&three, &missing, &one, &three], ASK).unwrap();
    assert_eq!(told.len(), 4);
    assert_eq!(told[0].as_ref().unwrap().partitions, 3);
    assert_eq!(told[1].as_ref().unwrap_err().kind, Kind::UnknownTopic);
    assert_eq!(told[2].as_ref().unwrap().partitions, 1);
    assert_eq!(told[3], told[0], "what is asked twice is answered twice");

    let producer = producer(fixture, &[]);
    let output = |topic: &str| OutputSettings { topic: Arc::from(topic), producer: producer.clone() };
    let told = broker.output_topics(&[output(&one), output(&missing), output(&three)], ASK).unwrap();
    assert_eq!(told[0].as_ref().unwrap().partitions, 1);
    assert_eq!(told[1].as_ref().unwrap_err().kind, Kind::UnknownTopic);
    assert_eq!(told[2].as_ref().unwrap().partitions, 3);
}

pub fn a_topic_made_again_has_another_id(fixture: &dyn Fixture) {
    let (topic, other) = (fixture.create_topic(1), fixture.create_topic(1));
    let broker = broker(fixture);
    let ids = || -> Vec<_> {
        let told = broker.topics(&[&topic, &other], ASK).unwrap();
        told.into_iter().map(|topic| topic.unwrap().id.expect("the broker knows ids")).collect()
    };
    let before = ids();
    assert_ne!(before[0], before[1]);
    assert_eq!(ids(), before);
    let settings = OutputSettings { topic: Arc::from(&*topic), producer: producer(fixture, &[]) };
    let output = broker.output_topics(&[settings], ASK).unwrap().remove(0).unwrap();
    assert_eq!(output.id, Some(before[0]));
    fixture.recreate_topic(&topic, 1);
    let after = ids();
    assert_ne!(after[0], before[0]);
    assert_eq!(after[1], before[1]);
    assert_eq!(after[0].to_string().parse(), Ok(after[0]));
}

pub fn an_output_s_limits_are_told(fixture: &dyn Fixture) {
    let (plain, small) = (fixture.create_topic(1), fixture.create_topic(2));
    let (kept, arrived) = (fixture.create_topic(1), fixture.create_topic(1));
    let hour = Some(Duration::from_secs(3600));
    let config = TopicConfig { retention: hour, ..TopicConfig::default() };
    fixture.configure_topic(&kept, config);
    fixture.configure_topic(&arrived, TopicConfig { append_time: true, ..config });
    fixture.configure_topic(&small, TopicConfig { max_message_bytes: 2000, compacted: true, ..config });
    let broker = broker(fixture);
    let producer = producer(fixture, &[]);
    let output = |topic: &str| OutputSettings { topic: Arc::from(topic), producer: producer.clone() };
    let told = broker.output_topics(&[output(&small), output(&plain), output(&small)], ASK).unwrap();
    let told: Vec<_> = told.into_iter().map(Result::unwrap).collect();
    assert_eq!((told[0].max_message_bytes, told[0].compacted, told[0].partitions), (2000, true, 2));
    assert_eq!((told[1].max_message_bytes, told[1].compacted), (DEFAULT_MAX_MESSAGE_BYTES, false));
    assert_eq!(told[2], told[0]);
    let more = broker.output_topics(&[output(&kept), output(&arrived)], ASK).unwrap();
    let more: Vec<_> = more.into_iter().map(Result::unwrap).collect();
    assert_eq!([told[0].keeps, more[0].keeps, more[1].keeps], [None, hour, None]);
    for told in told.into_iter().chain(more) {
        assert_eq!((told.described, told.may_write), (Ok(()), Some(true)));
    }
}

pub fn rights_are_told(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(1);
    let broker = broker(fixture);
    let settings = OutputSettings { topic: Arc::from(&*topic), producer: producer(fixture, &[]) };
    broker.output_topics(&[settings], ASK).unwrap();
    let told = once_ready(fixture, || broker.rights(ASK));
    assert_eq!(told, Rights { idempotent_write: Some(true), owner_group: Some(true) });
}

pub fn a_time_finds_the_first_offset_from_it_on(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(2);
    let records: Vec<_> =
        [1000, 2000, 2000, 5000].map(|time| Record::value("v").at(1_700_000_000_000 + time)).into();
    fixture.produce(&topic, 1, &records);
    let broker = broker(fixture);
    let places = [TopicPartition::new(&*topic, 1), TopicPartition::new(&*topic, 0)];
    for (time, offset) in [(0, Some(0)), (1000, Some(0)), (1001, Some(1)), (2001, Some(3)), (5001, None)] {
        let told = broker.offsets_at(&places, 1_700_000_000_000 + time, ASK).unwrap();
        assert_eq!(told, [Ok(offset.map(CommitOffset)), Ok(None)], "at {time}");
    }
    let missing = [TopicPartition::new(&*topic, 7)];
    let told = broker.offsets_at(&missing, 0, Duration::from_secs(2));
    assert!(told.map_or(true, |told| told[0].is_err()), "a partition that is not there has no offset");
}

pub fn asking_creates_no_topic(fixture: &dyn Fixture) {
    let there = fixture.create_topic(1);
    let (input, output) = (fixture.fresh_name("input"), fixture.fresh_name("output"));
    let broker = broker(fixture);
    let settings = OutputSettings { topic: Arc::from(&*output), producer: producer(fixture, &[]) };
    for _ in 0..3 {
        assert!(broker.topics(&[&input], ASK).unwrap()[0].is_err());
        assert!(broker.output_topics(std::slice::from_ref(&settings), ASK).unwrap()[0].is_err());
    }
    let names = broker.topic_names(ASK).unwrap();
    assert!(names.contains(&there));
    assert!(!names.contains(&input) && !names.contains(&output), "asking created a topic");
}

pub fn bounds_follow_the_log(fixture: &dyn Fixture) {
    let topic = fixture.create_topic(2);
    fixture.produce(&topic, 1, &numbered(0..5));
    fixture.produce_in_transaction(&topic, 1, &numbered(5..6), true);
    let broker = broker(fixture);
    let bounds = |partition| broker.bounds(&TopicPartition::new(&*topic, partition), ASK).unwrap();
    let between = |low, high| Bounds { low: CommitOffset(low), high: CommitOffset(high) };
    assert_eq!(bounds(0), between(0, 0));
    assert_eq!(bounds(1), between(0, 7));
    fixture.delete_before(&topic, 1, 3);
    assert_eq!(bounds(1), between(3, 7));
    let log_end = |partition| broker.log_end(&TopicPartition::new(&*topic, partition), ASK).unwrap();
    assert_eq!((log_end(0), log_end(1)), (CommitOffset(0), CommitOffset(7)));
}
