//! Names of a test's own: a random prefix, and the removal of all topics and groups that carry it.

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{Offset, TopicPartitionList};

use super::{Broker, REQUEST, wait};
use crate::PATIENCE;

/// A prefix on a broker; dropping it removes what was made under it.
pub struct Space<'a> {
    broker: &'a Broker,
    prefix: String,
    topics: RefCell<Vec<String>>,
    groups: RefCell<Vec<String>>,
}

impl<'a> Space<'a> {
    pub(super) fn new(broker: &'a Broker) -> Self {
        let prefix = format!("t{:08x}", RandomState::new().hash_one(0) as u32);
        Self { broker, prefix, topics: RefCell::default(), groups: RefCell::default() }
    }

    /// The broker that it is on.
    pub fn broker(&self) -> &'a Broker {
        self.broker
    }

    /// A name under the prefix; nothing is made.
    pub fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// The full name of a group, whose offsets are removed in the end, with those of its lease.
    pub fn group(&self, name: &str) -> String {
        let group = self.name(name);
        self.groups.borrow_mut().extend([group.clone(), format!("{group}.owner")]);
        group
    }

    /// Makes a topic with so many partitions, and returns its full name.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn topic(&self, name: &str, partitions: i32) -> Result<String> {
        self.topic_with(name, partitions, &[])
    }

    /// Makes a topic with configuration such as `cleanup.policy`. Returns once its partitions have leaders.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn topic_with(&self, name: &str, partitions: i32, config: &[(&str, &str)]) -> Result<String> {
        let topic = self.name(name);
        let new = NewTopic::new(&topic, partitions, TopicReplication::Fixed(self.broker.replicas()));
        self.make(new, config)?;
        Ok(topic)
    }

    /// Makes a topic of one partition whose copies are on these brokers, the first of which leads.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn topic_on(&self, name: &str, brokers: &[i32], config: &[(&str, &str)]) -> Result<String> {
        let (topic, copies) = (self.name(name), [brokers]);
        self.make(NewTopic::new(&topic, 1, TopicReplication::Variable(&copies)), config)?;
        Ok(topic)
    }

    /// Makes a topic with a partition for each of these, whose copies are on the brokers named, the first of which leads.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn topic_at<const COPIES: usize>(&self, name: &str, brokers: &[[i32; COPIES]]) -> Result<String> {
        let topic = self.name(name);
        let copies: Vec<&[i32]> = brokers.iter().map(|brokers| &brokers[..]).collect();
        let count = i32::try_from(brokers.len())?;
        self.make(NewTopic::new(&topic, count, TopicReplication::Variable(&copies)), &[])?;
        Ok(topic)
    }

    fn make<'b>(&self, new: NewTopic<'b>, config: &[(&'b str, &'b str)]) -> Result<()> {
        let new = config.iter().fold(new, |new, (key, value)| new.set(key, value));
        let answers = wait(self.admin()?.create_topics([&new], &options()))?;
        for answer in answers {
            answer.map_err(|(topic, code)| anyhow!("cannot make topic {topic}: {code}"))?;
        }
        self.topics.borrow_mut().push(new.name.to_owned());
        self.await_partitions(new.name, new.num_partitions)
    }

    /// Has a topic that something else makes removed in the end.
    pub fn adopt_topic(&self, topic: &str) {
        self.topics.borrow_mut().push(topic.to_owned());
    }

    /// Gives a topic more partitions, so many in all.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn add_partitions(&self, topic: &str, total: i32) -> Result<()> {
        let new = NewPartitions::new(topic, usize::try_from(total)?);
        for answer in wait(self.admin()?.create_partitions([&new], &options()))? {
            answer.map_err(|(topic, code)| anyhow!("cannot add partitions to {topic}: {code}"))?;
        }
        self.await_partitions(topic, total)
    }

    /// Sets one of a topic's configurations. The others go back to their defaults.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn alter_topic(&self, topic: &str, key: &str, value: &str) -> Result<()> {
        self.configure_topic(topic, &[(key, value)])
    }

    /// Sets several of a topic's configurations. The others go back to their defaults.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn configure_topic(&self, topic: &str, config: &[(&str, &str)]) -> Result<()> {
        let change = AlterConfig::new(ResourceSpecifier::Topic(topic));
        let change = config.iter().fold(change, |change, (key, value)| change.set(key, value));
        for answer in wait(self.admin()?.alter_configs([&change], &options()))? {
            answer.map_err(|(topic, code)| anyhow!("cannot configure {topic:?}: {code}"))?;
        }
        Ok(())
    }

    /// Deletes a topic now, and waits until it is gone.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn delete_topic(&self, topic: &str) -> Result<()> {
        for answer in wait(self.admin()?.delete_topics(&[topic], &options()))? {
            answer.map_err(|(topic, code)| anyhow!("cannot delete {topic}: {code}"))?;
        }
        self.topics.borrow_mut().retain(|name| name != topic);
        self.await_topic(topic, 0)
    }

    /// Removes the records of a partition below an offset, as retention does.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn delete_before(&self, topic: &str, partition: i32, offset: i64) -> Result<()> {
        let mut before = TopicPartitionList::new();
        before.add_partition_offset(topic, partition, Offset::Offset(offset))?;
        let answers = wait(self.admin()?.delete_records(&before, &options()))?;
        for answer in answers.elements() {
            answer.error().with_context(|| format!("cannot remove records of {topic}/{partition}"))?;
        }
        Ok(())
    }

    /// Deletes a group's offsets now.
    ///
    /// # Errors
    /// What the broker answers.
    pub fn delete_group(&self, group: &str) -> Result<()> {
        for answer in wait(self.admin()?.delete_groups(&[group], &options()))? {
            answer.map_err(|(group, code)| anyhow!("cannot delete {group}: {code}"))?;
        }
        self.groups.borrow_mut().retain(|name| name != group);
        Ok(())
    }

    /// The names of all topics on the broker.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub fn topics(&self) -> Result<Vec<String>> {
        let consumer: BaseConsumer = self.broker.client().create()?;
        let metadata = consumer.fetch_metadata(None, REQUEST)?;
        Ok(metadata.topics().iter().map(|topic| topic.name().to_owned()).collect())
    }

    fn await_partitions(&self, topic: &str, partitions: i32) -> Result<()> {
        self.await_topic(topic, usize::try_from(partitions)?)
    }

    /// Waits until the broker itself sees a topic with so many led partitions; the controller's answer comes before.
    fn await_topic(&self, topic: &str, partitions: usize) -> Result<()> {
        let consumer: BaseConsumer = self.broker.client().create()?;
        let start = Instant::now();
        loop {
            // All topics are asked for: asking for one would make it, where the broker makes topics by itself.
            let metadata = consumer.fetch_metadata(None, REQUEST)?;
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            let led = found.map_or(0, |found| found.partitions().iter().filter(|p| p.leader() >= 0).count());
            if led == partitions {
                return Ok(());
            }
            anyhow::ensure!(
                start.elapsed() < PATIENCE,
                "{topic} has {led} partitions with a leader, not {partitions}"
            );
            // The broker tells nobody when its metadata changes.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        self.broker.client().create().context("cannot make an admin client")
    }

    fn remove_all(&self) -> Result<()> {
        let (topics, groups) = (self.topics.take(), self.groups.take());
        let admin = self.admin()?;
        if !topics.is_empty() {
            let names: Vec<&str> = topics.iter().map(String::as_str).collect();
            wait(admin.delete_topics(&names, &options()))?;
        }
        if !groups.is_empty() {
            let names: Vec<&str> = groups.iter().map(String::as_str).collect();
            wait(admin.delete_groups(&names, &options()))?;
        }
        Ok(())
    }
}

impl Drop for Space<'_> {
    fn drop(&mut self) {
        // The broker may be down, or be removed whole at the end; a test does not fail for what it left behind.
        let _ = self.remove_all();
    }
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(REQUEST)).operation_timeout(Some(REQUEST))
}

/// Whether an answer only means that the broker is still settling.
pub(super) fn is_settling(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::NotCoordinator
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::OperationTimedOut
            | Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::RequestTimedOut
            | Code::DestroyBroker
            | Code::NodeUpdate
            | Code::LeaderNotAvailable
            // A broker that comes back knows the newest topics a little later than the others.
            | Code::UnknownPartition
            | Code::UnknownTopicOrPartition
            | Code::NotLeaderForPartition
            | Code::BrokerNotAvailable
            | Code::ReplicaNotAvailable
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
            | Code::OffsetNotAvailable
            | Code::KafkaStorageError
            | Code::NetworkException
    )
}
