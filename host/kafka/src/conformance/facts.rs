//! What is asked at assembly.

use std::sync::Arc;

use loom_types::{CommitOffset, TopicPartition};

use super::Fixture;
use super::harness::{ASK, broker, producer};
use super::reading::numbered;
use crate::contract::{Bounds, OutputSettings, TopicInfo};
use crate::error::Kind;

pub fn topics_are_told_in_the_order_asked(fixture: &dyn Fixture) {
    let (one, three) = (fixture.create_topic(1), fixture.create_topic(3));
    let missing = fixture.fresh_name("missing");
    let broker = broker(fixture);
    let told = broker.topics(&[&three, &missing, &one, &three], ASK).unwrap();
    assert_eq!(told.len(), 4);
    assert_eq!(told[0], Ok(TopicInfo { partitions: 3 }));
    assert_eq!(told[1].as_ref().unwrap_err().kind, Kind::UnknownTopic);
    assert_eq!(told[2], Ok(TopicInfo { partitions: 1 }));
    assert_eq!(told[3], Ok(TopicInfo { partitions: 3 }));

    let producer = producer(fixture, &[]);
    let output = |topic: &str| OutputSettings { topic: Arc::from(topic), producer: producer.clone() };
    let told = broker.output_topics(&[output(&one), output(&missing), output(&three)], ASK).unwrap();
    assert_eq!(told[0], Ok(TopicInfo { partitions: 1 }));
    assert_eq!(told[1].as_ref().unwrap_err().kind, Kind::UnknownTopic);
    assert_eq!(told[2], Ok(TopicInfo { partitions: 3 }));
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
}
