//! What the memory broker does beyond the contract: scripted faults, streams, what a test can see. The contract itself
//! is shown by the conformance suite.

mod acks;
mod commits;
mod faults;
mod logs;
mod network;
mod reads;
mod rights;
mod streams;

use std::time::Duration;

use loom_types::TopicPartition;

use super::{ManualClock, MemoryBroker, Record};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::consumer;
use crate::contract::Broker;
use crate::error::{KafkaError, Kind};

const ASK: Duration = Duration::from_secs(1);

/// A broker with the topic `in` of one partition and as many numbered records.
fn broker_with(records: i64) -> (MemoryBroker, ManualClock) {
    let clock = ManualClock::new();
    let broker = MemoryBroker::new(clock.clock());
    broker.create_topic("in", 1);
    for number in 0..records {
        broker.produce("in", 0, Record::value(number.to_string()));
    }
    (broker, clock)
}

/// The client of the group `rep`.
fn client(broker: &MemoryBroker) -> impl Broker {
    broker.as_broker(consumer(&MemoryFixture::default(), "rep"))
}

fn input() -> TopicPartition {
    TopicPartition::new("in", 0)
}

fn error(kind: Kind, code: &'static str) -> KafkaError {
    KafkaError { kind, code, message: "by the script".to_owned() }
}
