//! What the host expects of a broker, held against a real Kafka: the suite that the memory broker passes, too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use loom_kafka::conformance::{Fixture, MEMBER, run};
use loom_kafka::librdkafka::KafkaBroker;
use loom_kafka::memory::{self, TopicConfig};
use loom_kafka::{Broker, ConsumerSettings};
use loom_tests::PATIENCE;
use loom_tests::kafka::{Outcome, Record, Space, shared};

/// A real broker; what is made on it goes with the space.
struct RealKafka<'a> {
    space: Space<'a>,
    names: AtomicU64,
}

impl RealKafka<'_> {
    fn next(&self, prefix: &str) -> String {
        format!("{prefix}-{}", self.names.fetch_add(1, Ordering::Relaxed))
    }
}

impl Fixture for RealKafka<'_> {
    fn addresses(&self) -> Vec<String> {
        vec![self.space.broker().address()]
    }

    fn broker(&self, consumer: ConsumerSettings) -> Box<dyn Broker> {
        Box::new(KafkaBroker::new(consumer).expect("the settings are good"))
    }

    fn fresh_name(&self, prefix: &str) -> String {
        self.space.group(&self.next(prefix))
    }

    fn create_topic(&self, partitions: i32) -> String {
        self.space.topic(&self.next("topic"), partitions).expect("a topic is made")
    }

    fn produce(&self, topic: &str, partition: i32, records: &[memory::Record]) {
        self.space.broker().write(topic, written(partition, records)).expect("records are written");
    }

    fn produce_in_transaction(&self, topic: &str, partition: i32, records: &[memory::Record], commit: bool) {
        let outcome = if commit { Outcome::Commit } else { Outcome::Abort };
        let broker = self.space.broker();
        broker.write_in_transaction(topic, written(partition, records), outcome).expect("it ends as asked");
    }

    fn recreate_topic(&self, topic: &str, partitions: i32) {
        self.space.delete_topic(topic).expect("a topic is deleted");
        let name = topic.strip_prefix(&self.space.name("")).expect("the topic is of this space");
        self.space.topic(name, partitions).expect("a topic is made again");
    }

    fn configure_topic(&self, topic: &str, config: TopicConfig) {
        let policy = if config.compacted { "compact" } else { "delete" };
        let bytes = config.max_message_bytes.to_string();
        let retention = config.retention.map_or(-1, |time| time.as_millis() as i64).to_string();
        let time = if config.append_time { "LogAppendTime" } else { "CreateTime" };
        let all = [
            ("max.message.bytes", &*bytes),
            ("cleanup.policy", policy),
            ("retention.ms", &retention),
            ("message.timestamp.type", time),
        ];
        self.space.configure_topic(topic, &all).expect("a topic is configured");
    }

    fn join_group<'a>(&'a self, group: &str, topic: &str) -> Box<dyn FnOnce() + 'a> {
        let member = self.space.broker().join(group, topic, MEMBER, "classic").expect("a client is made");
        Box::new(move || drop(member))
    }

    fn delete_before(&self, topic: &str, partition: i32, offset: i64) {
        self.space.delete_before(topic, partition, offset).expect("records are removed");
    }

    fn pass_time(&self, time: Duration) {
        // The clients' own clock cannot be turned.
        thread::sleep(time);
    }

    fn now_ms(&self) -> i64 {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
        i64::try_from(now.as_millis()).expect("it is not the far future")
    }

    fn patience(&self) -> Duration {
        PATIENCE
    }
}

fn written(partition: i32, records: &[memory::Record]) -> Vec<Record> {
    let one = |record: &memory::Record| Record {
        partition: Some(partition),
        key: record.key.clone(),
        payload: record.payload.clone(),
        headers: record
            .headers
            .iter()
            .map(|(name, value)| (String::from_utf8(name.clone()).expect("a name is text"), value.clone()))
            .collect(),
        timestamp_ms: record.timestamp_ms,
    };
    records.iter().map(one).collect()
}

#[test]
fn librdkafka_on_a_real_kafka_keeps_every_promise() {
    let Some(broker) = shared() else { return };
    run(&RealKafka { space: broker.space(), names: AtomicU64::new(0) });
}
