//! The memory broker as a fixture: its clock moves when time is passed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Fixture;
use crate::contract::Broker;
use crate::facts::Member;
use crate::memory::{ManualClock, MemoryBroker, Record, TopicConfig};
use crate::settings::ConsumerSettings;
use loom_types::CommitOffset;

/// The wall clock of the fixture at its start, in milliseconds since 1970-01-01 UTC.
const STARTED_MS: i64 = 1_750_000_000_000;

/// The `client.id` of consumers that join groups.
pub const MEMBER: &str = "conformance-member";

/// A memory broker with a clock of its own.
#[derive(Debug)]
pub struct MemoryFixture {
    broker: MemoryBroker,
    clock: ManualClock,
    names: AtomicU64,
}

impl Default for MemoryFixture {
    fn default() -> Self {
        let clock = ManualClock::new();
        let broker = MemoryBroker::new(clock.clock());
        broker.started_at_ms(STARTED_MS);
        MemoryFixture { broker, clock, names: AtomicU64::new(0) }
    }
}

impl Fixture for MemoryFixture {
    fn addresses(&self) -> Vec<String> {
        vec!["memory".to_owned()]
    }

    fn broker(&self, consumer: ConsumerSettings) -> Box<dyn Broker> {
        Box::new(self.broker.as_broker(consumer))
    }

    fn fresh_name(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }

    fn create_topic(&self, partitions: i32) -> String {
        let name = self.fresh_name("topic");
        self.broker.create_topic(&name, partitions);
        name
    }

    fn produce(&self, topic: &str, partition: i32, records: &[Record]) {
        for record in records {
            self.broker.produce(topic, partition, record.clone());
        }
    }

    fn produce_in_transaction(&self, topic: &str, partition: i32, records: &[Record], commit: bool) {
        let transaction = self.broker.begin(topic, partition);
        for record in records {
            self.broker.produce_in(&transaction, record.clone());
        }
        self.broker.end(&transaction, commit);
    }

    fn recreate_topic(&self, topic: &str, partitions: i32) {
        self.broker.delete_topic(topic);
        self.broker.create_topic(topic, partitions);
    }

    fn configure_topic(&self, topic: &str, config: TopicConfig) {
        self.broker.configure_topic(topic, config);
    }

    fn join_group<'a>(&'a self, group: &str, _: &str) -> Box<dyn FnOnce() + 'a> {
        self.broker.join_group(group, Member { client_id: MEMBER.into(), host: "/127.0.0.1".into() });
        let group = group.to_owned();
        Box::new(move || self.broker.leave_group(&group))
    }

    fn delete_before(&self, topic: &str, partition: i32, offset: i64) {
        self.broker.delete_before(topic, partition, CommitOffset(offset));
    }

    fn pass_time(&self, time: Duration) {
        self.clock.advance(time);
        self.broker.tick();
    }

    fn now_ms(&self) -> i64 {
        STARTED_MS + self.clock.now().0.as_millis() as i64
    }

    fn patience(&self) -> Duration {
        // Everything happens at once here; a wait that is needed at all is a lost wake-up.
        Duration::from_secs(2)
    }
}
