//! A real Kafka as a fixture: topics and groups with names of their own, removed at the end.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::sync::Mutex;

use super::Fixture;
use crate::contract::Broker;
use crate::librdkafka::KafkaBroker;
use crate::memory::Record;
use crate::settings::ConsumerSettings;

/// How long one request of the fixture's own may take.
const REQUEST: Duration = Duration::from_secs(30);

/// A broker at an address, under a prefix that nobody else uses.
pub struct KafkaFixture {
    address: String,
    prefix: String,
    admin: AdminClient<DefaultClientContext>,
    names: AtomicU64,
    topics: Mutex<Vec<String>>,
}

impl KafkaFixture {
    /// Uses the broker at `address` (`host:port`); all names begin with `prefix`. Panics when the client cannot be made.
    #[must_use]
    pub fn new(address: &str, prefix: &str) -> Self {
        let admin = config(address).create().expect("an admin client can be made");
        KafkaFixture {
            address: address.to_owned(),
            prefix: prefix.to_owned(),
            admin,
            names: AtomicU64::new(0),
            topics: Mutex::default(),
        }
    }

    fn producer(&self, transactional: bool) -> BaseProducer {
        let mut config = config(&self.address);
        config.set("queue.buffering.max.kbytes", "1000000").set("message.max.bytes", "10000000");
        if transactional {
            config.set("transactional.id", self.fresh_name("transaction"));
        }
        config.create().expect("a producer can be made")
    }
}

impl Fixture for KafkaFixture {
    fn addresses(&self) -> Vec<String> {
        vec![self.address.clone()]
    }

    fn broker(&self, consumer: ConsumerSettings) -> Box<dyn Broker> {
        Box::new(KafkaBroker::new(consumer).expect("a broker's client can be made"))
    }

    fn fresh_name(&self, prefix: &str) -> String {
        format!("{}-{prefix}-{}", self.prefix, self.names.fetch_add(1, Ordering::Relaxed))
    }

    fn create_topic(&self, partitions: i32) -> String {
        let name = self.fresh_name("topic");
        let topic = NewTopic::new(&name, partitions, TopicReplication::Fixed(1));
        let made = wait(self.admin.create_topics([&topic], &options())).expect("the broker answers");
        made.into_iter().for_each(|topic| drop(topic.expect("the topic can be made")));
        self.topics.lock().expect("no check panics here").push(name.clone());
        self.until_led(&name, partitions);
        name
    }

    fn produce(&self, topic: &str, partition: i32, records: &[Record]) {
        let producer = self.producer(false);
        send(&producer, topic, partition, records);
        producer.flush(REQUEST).expect("the records are written");
    }

    fn produce_in_transaction(&self, topic: &str, partition: i32, records: &[Record], commit: bool) {
        let producer = self.producer(true);
        producer.init_transactions(REQUEST).expect("transactions are there");
        producer.begin_transaction().expect("a transaction begins");
        send(&producer, topic, partition, records);
        producer.flush(REQUEST).expect("the records are written");
        if commit {
            producer.commit_transaction(REQUEST).expect("the transaction is committed");
        } else {
            producer.abort_transaction(REQUEST).expect("the transaction is aborted");
        }
    }

    fn delete_before(&self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset)).expect("the offset is one");
        let deleted = wait(self.admin.delete_records(&list, &options())).expect("the broker answers");
        for place in deleted.elements() {
            place.error().expect("the records are deleted");
        }
    }

    fn pass_time(&self, time: Duration) {
        // The clients' timers run by the system's clock, which cannot be moved.
        std::thread::sleep(time);
    }

    fn now_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn patience(&self) -> Duration {
        REQUEST
    }
}

impl KafkaFixture {
    /// A topic that was just made has no leader for a moment.
    fn until_led(&self, topic: &str, partitions: i32) {
        let deadline = std::time::Instant::now() + REQUEST;
        loop {
            let metadata =
                self.admin.inner().fetch_metadata(Some(topic), REQUEST).expect("the broker answers");
            let found = metadata.topics().first();
            let led =
                found.map_or(0, |topic| topic.partitions().iter().filter(|part| part.leader() >= 0).count());
            if led == partitions as usize {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "topic {topic} has no leaders");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for KafkaFixture {
    /// Removes the topics, as well as that goes.
    fn drop(&mut self) {
        let topics = std::mem::take(self.topics.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner));
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        if !names.is_empty() {
            let _ = wait(self.admin.delete_topics(&names, &options()));
        }
    }
}

fn config(address: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", address);
    config
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST))
}

fn send(producer: &BaseProducer, topic: &str, partition: i32, records: &[Record]) {
    for record in records {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (name, value) in &record.headers {
            let key = std::str::from_utf8(name).expect("the client takes header names as text");
            headers = headers.insert(Header { key, value: value.as_deref() });
        }
        let mut row = BaseRecord::<[u8], [u8]>::to(topic).partition(partition);
        if let Some(key) = &record.key {
            row = row.key(key);
        }
        if let Some(payload) = &record.payload {
            row = row.payload(payload);
        }
        if let Some(timestamp) = record.timestamp_ms {
            row = row.timestamp(timestamp);
        }
        if !record.headers.is_empty() {
            row = row.headers(headers);
        }
        producer.send(row).map_err(|(error, _)| error).expect("the queue has room");
        producer.poll(Duration::ZERO);
    }
}

/// Waits for one of the client's futures; its own threads drive them.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
