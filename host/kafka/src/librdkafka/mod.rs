//! Kafka, through librdkafka.
//!
//! A flow's consumer has no group membership: partitions are assigned by us and the group only stores offsets. Each
//! worker has a consumer client of its own with one queue a partition, and a producer client for each distinct
//! producer's settings. One more client, without partitions, answers what is asked outside of workers.
//!
//! All calls into C are in `raw`; what codes mean is decided in `classify`; which keys are set, in `config`; which a flow
//! may set, in `keys`.

mod ahead;
mod asked;
mod classify;
mod commits;
mod config;
mod events;
mod files;
mod groups;
mod hints;
mod keys;
mod limits;
mod log;
mod raw;
mod reader;
mod trial;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loom_types::{CommitOffset, TopicPartition};

use self::ahead::Ahead;
use self::asked::Asked;
use self::classify::configuration;
use self::commits::Commits;
pub use self::config::ClientKind;
use self::groups::Groups;
pub use self::keys::{KeyRefusal, check_key, settable_keys};
use self::raw::{Client, Name, Queue, Role};
use self::reader::Source;
pub use self::trial::{try_consumer, try_producer};
use self::writer::Writer;
use crate::contract::{Broker, Reader, TopicSink, Waker};
use crate::error::KafkaError;
use crate::facts::{
    Assigned, Bounds, Committed, Group, GroupEntry, Member, OutputInfo, OutputSettings, Rights, TopicInfo,
};
use crate::settings::{ConsumerSettings, ProducerSettings};

/// How long the start of a writer waits for metadata, which only makes its first acknowledgement come sooner.
const WARM_UP: Duration = Duration::from_secs(5);

/// A Kafka cluster as one flow sees it: the cluster and the group of its consumer, and those of its producers.
pub struct KafkaBroker {
    settings: ConsumerSettings,
    /// Answers what is asked outside of workers.
    control: Asked,
    groups: Groups,
    /// Producer clients that were asked about their topics, for the writers to come: they are connected already.
    producers: Mutex<Vec<(Arc<ProducerSettings>, Arc<Client>)>>,
    certificates: Ahead,
}

impl KafkaBroker {
    /// A broker with these settings. Connects by itself, so that an address that nobody answers at is found by the first
    /// question, not here.
    ///
    /// # Errors
    /// [`crate::Kind::Configuration`] with librdkafka's sentence, where it refuses a key.
    pub fn new(settings: ConsumerSettings) -> Result<KafkaBroker, KafkaError> {
        let control = asker(settings.clone())?;
        let certificates = Ahead::default();
        certificates.watch(control.client().files());
        let groups = Groups::new(settings.clone());
        Ok(KafkaBroker { settings, control, groups, producers: Mutex::new(Vec::new()), certificates })
    }

    /// A producer client, kept from an earlier question or new.
    fn producer(&self, settings: &Arc<ProducerSettings>) -> Result<Arc<Client>, KafkaError> {
        let mut spare = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
        // One whose certificate was renewed since would be refused sooner or later.
        spare.retain(|(_, client)| !client.files().are_replaced());
        match spare.iter().position(|(of, _)| of == settings) {
            Some(index) => Ok(spare.swap_remove(index).1),
            None => {
                let client = start_producer(settings)?;
                self.certificates.watch(client.files());
                Ok(client)
            }
        }
    }
}

impl Broker for KafkaBroker {
    fn topics(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Result<TopicInfo, KafkaError>>, KafkaError> {
        let told = self.control.topics(names, "Read", Instant::now() + timeout)?;
        Ok(told.into_iter().map(|topic| topic.map(|(info, _)| info)).collect())
    }

    fn output_topics(
        &self,
        outputs: &[OutputSettings],
        timeout: Duration,
    ) -> Result<Vec<Result<OutputInfo, KafkaError>>, KafkaError> {
        let deadline = Instant::now() + timeout;
        let mut answers: Vec<Option<Result<OutputInfo, KafkaError>>> = outputs.iter().map(|_| None).collect();
        for (place, output) in outputs.iter().enumerate() {
            if answers[place].is_some() {
                continue;
            }
            let settings = output.producer.clone();
            let start = Box::new(move || start_producer(&settings));
            let client = self.producer(&output.producer)?;
            let asked = Asked::of(&client, start, Queue::main, &output.producer.brokers);
            let same: Vec<usize> =
                (place..outputs.len()).filter(|other| outputs[*other].producer == output.producer).collect();
            let names: Vec<&str> = same.iter().map(|place| &*outputs[*place].topic).collect();
            let told = asked.output_topics(&names, deadline);
            let mut spare = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
            spare.push((output.producer.clone(), asked.client()));
            drop(spare);
            for (place, answer) in same.into_iter().zip(told?) {
                answers[place] = Some(answer);
            }
        }
        Ok(answers.into_iter().flatten().collect())
    }

    fn topic_names(&self, timeout: Duration) -> Result<Vec<String>, KafkaError> {
        self.control.patiently(
            Instant::now() + timeout,
            "asking for the names of all topics",
            |client, wait| raw::all_topics(client, wait),
        )
    }

    fn committed(
        &self,
        group: Group,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Result<Option<Committed>, KafkaError>>, KafkaError> {
        self.groups.committed(group, &self.control, partitions, timeout)
    }

    fn commit_now(
        &self,
        group: Group,
        entries: &[GroupEntry],
        timeout: Duration,
    ) -> Result<Vec<Result<(), KafkaError>>, KafkaError> {
        self.groups.commit(group, &self.control, entries, timeout)
    }

    fn members(&self, timeout: Duration) -> Result<Vec<Member>, KafkaError> {
        self.groups.members(&self.control, timeout)
    }

    fn offsets_at(
        &self,
        partitions: &[TopicPartition],
        timestamp_ms: i64,
        timeout: Duration,
    ) -> Result<Vec<Result<Option<CommitOffset>, KafkaError>>, KafkaError> {
        self.control.offsets_at(partitions, timestamp_ms, timeout)
    }

    fn rights(&self, timeout: Duration) -> Result<Rights, KafkaError> {
        // A copy, so that the lock is not held while brokers are waited for.
        let producers = self.producers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.groups.rights(&self.control, &producers, timeout)
    }

    fn bounds(&self, partition: &TopicPartition, timeout: Duration) -> Result<Bounds, KafkaError> {
        let topic = name(&partition.topic)?;
        let doing = format!("asking for the first and last offset of {partition}");
        let answer = self.control.patiently(Instant::now() + timeout, &doing, |client, wait| {
            raw::bounds(client, &topic, partition.partition, wait)
        });
        let (low, high) = answer.map_err(|error| error.naming_right("Read", &partition.topic, ""))?;
        Ok(Bounds { low: CommitOffset(low), high: CommitOffset(high) })
    }

    fn log_end(&self, partition: &TopicPartition, timeout: Duration) -> Result<CommitOffset, KafkaError> {
        let topic = name(&partition.topic)?;
        let doing = format!("asking where the log of {partition} ends");
        let end = self.control.patiently(Instant::now() + timeout, &doing, |client, wait| {
            raw::log_end(client, &topic, partition.partition, wait)
        })?;
        Ok(CommitOffset(end))
    }

    fn look_ahead(&self) {
        self.certificates.look();
    }

    fn reader(&self, assigned: Vec<Assigned>, sharing: usize, waker: Waker) -> Result<Reader, KafkaError> {
        let conf = config::consumer(&self.settings, sharing)?;
        let client = Client::new(Role::Consumer, conf).map_err(configuration)?;
        let source = Source::new(&client, &assigned, &self.settings, &waker)?;
        let offsets = Commits::new(&client, &assigned, &self.settings.group_id, &waker)?;
        Ok(Reader { source: Box::new(source), offsets: Box::new(offsets) })
    }

    fn writer(
        &self,
        outputs: &[OutputSettings],
        room: usize,
        waker: Waker,
    ) -> Result<Box<dyn TopicSink>, KafkaError> {
        Ok(Box::new(Writer::new(outputs, room, &waker, |settings| self.producer(settings))?))
    }
}

/// What is asked outside of workers, through a consumer client of its own.
fn asker(settings: ConsumerSettings) -> Result<Asked, KafkaError> {
    let brokers = settings.brokers.clone();
    let start = move || Client::new(Role::Consumer, config::consumer(&settings, 1)?).map_err(configuration);
    Asked::new(Box::new(start), Queue::consumer, &brokers)
}

fn start_producer(settings: &ProducerSettings) -> Result<Arc<Client>, KafkaError> {
    Client::new(Role::Producer, config::producer(settings)?).map_err(configuration)
}

/// A topic's name for C.
fn name(topic: &str) -> Result<Name, KafkaError> {
    Name::new(topic).ok_or_else(|| configuration(format!("the topic name {topic:?} holds a NUL byte")))
}

/// Fetches the topics' metadata: a record that is produced before it is there waits half a second for it. (A reader
/// that starts at an exact offset does not.) Whatever goes wrong here goes wrong again, and is told, where it matters.
fn warm_up<'a>(client: &Arc<Client>, topics: impl Iterator<Item = &'a Name>) {
    let deadline = Instant::now() + WARM_UP;
    for topic in topics {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        if let Err(code) = raw::topic_facts(client, topic, left) {
            tracing::debug!(target: "kafka", code = code.name(), "metadata was not there in time");
        }
    }
}
