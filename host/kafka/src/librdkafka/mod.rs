//! Kafka, through librdkafka.
//!
//! A flow's consumer has no group membership: partitions are assigned by us and the group only stores offsets. Each
//! worker has a consumer client of its own with one queue a partition, and a producer client for each distinct
//! producer's settings. One more client, without partitions, answers what is asked at assembly.
//!
//! All calls into C are in `raw`; what codes mean is decided in `classify`; which keys are set, in `config`.

mod classify;
mod commits;
mod config;
mod events;
mod log;
mod raw;
mod reader;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loom_types::{CommitOffset, TopicPartition};

use self::classify::{configuration, error, group_kind, kind};
use self::commits::Commits;
pub use self::config::{ClientKind, check_key};
use self::events::Errors;
use self::raw::{Client, Code, List, Name, Queue, Role};
use self::reader::Source;
use self::writer::Writer;
use crate::contract::{
    Assigned, Bounds, Broker, Committed, OutputSettings, Reader, TopicInfo, TopicSink, Waker,
};
use crate::error::{KafkaError, Kind};
use crate::settings::{ConsumerSettings, ProducerSettings};

/// How long the start of a writer waits for metadata, which only makes its first acknowledgement come sooner.
const WARM_UP: Duration = Duration::from_secs(5);

/// The longest single question for metadata: between two, the client's errors are looked at, so that refused
/// credentials are told at once and not as silence.
const QUESTION: Duration = Duration::from_secs(2);

/// A Kafka cluster as one flow sees it: the cluster and the group of its consumer, and those of its producers.
pub struct KafkaBroker {
    settings: ConsumerSettings,
    /// Answers what is asked at assembly.
    control: Asked,
    /// Producer clients that were asked about their topics, for the writers to come: they are connected already.
    producers: Mutex<Vec<(Arc<ProducerSettings>, Arc<Client>)>>,
}

impl KafkaBroker {
    /// A broker with these settings. Connects by itself, so that an address that nobody answers at is found by the first
    /// question, not here.
    ///
    /// # Errors
    /// [`Kind::Configuration`] with librdkafka's sentence, where it refuses a key.
    pub fn new(settings: ConsumerSettings) -> Result<KafkaBroker, KafkaError> {
        let role = Role::Consumer { commits: false };
        let client = Client::new(role, config::consumer(&settings, 1, false)?).map_err(configuration)?;
        let control = Asked::new(Queue::consumer(&client), &settings.brokers);
        Ok(KafkaBroker { settings, control, producers: Mutex::new(Vec::new()) })
    }

    /// A producer client, kept from an earlier question or new.
    fn producer(&self, settings: &Arc<ProducerSettings>) -> Result<Arc<Client>, KafkaError> {
        let mut spare = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
        match spare.iter().position(|(of, _)| of == settings) {
            Some(index) => Ok(spare.swap_remove(index).1),
            None => Client::new(Role::Producer, config::producer(settings)?).map_err(configuration),
        }
    }
}

impl Broker for KafkaBroker {
    fn topics(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Result<TopicInfo, KafkaError>>, KafkaError> {
        let deadline = Instant::now() + timeout;
        names.iter().map(|name| self.control.topic(name, deadline)).collect()
    }

    fn output_topics(
        &self,
        outputs: &[OutputSettings],
        timeout: Duration,
    ) -> Result<Vec<Result<TopicInfo, KafkaError>>, KafkaError> {
        let deadline = Instant::now() + timeout;
        let mut asked: Vec<(Arc<ProducerSettings>, Asked)> = Vec::new();
        let mut answers = Vec::with_capacity(outputs.len());
        for output in outputs {
            let index = match asked.iter().position(|(of, _)| *of == output.producer) {
                Some(index) => index,
                None => {
                    let client = self.producer(&output.producer)?;
                    let queue = Queue::main(&client);
                    asked.push((output.producer.clone(), Asked::new(queue, &output.producer.brokers)));
                    asked.len() - 1
                }
            };
            answers.push(asked[index].1.topic(&output.topic, deadline)?);
        }
        let mut spare = self.producers.lock().unwrap_or_else(PoisonError::into_inner);
        spare.extend(asked.into_iter().map(|(settings, asked)| (settings, asked.queue.client().clone())));
        Ok(answers)
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
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Result<Option<Committed>, KafkaError>>, KafkaError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let mut list = List::new(partitions.len());
        for (tag, partition) in partitions.iter().enumerate() {
            list.push(&name(&partition.topic)?, partition.partition, -1, tag, "");
        }
        let group = &self.settings.group_id;
        raw::committed(self.control.client(), &mut list, timeout).map_err(|code| {
            let doing = format!("fetching the offsets of group `{group}`");
            self.control.explained(error(group_kind(code), code, doing))
        })?;
        let mut answers: Vec<_> = partitions.iter().map(|_| Ok(None)).collect();
        for entry in list.iter() {
            let Some(answer) = answers.get_mut(entry.tag) else { continue };
            if entry.code.is_error() {
                let doing = format!("fetching the offset of group `{group}` for {}", partitions[entry.tag]);
                *answer = Err(error(group_kind(entry.code), entry.code, doing));
            } else if entry.offset >= 0 {
                let metadata = String::from_utf8_lossy(entry.metadata).into_owned();
                *answer = Ok(Some(Committed { offset: CommitOffset(entry.offset), metadata }));
            }
        }
        Ok(answers)
    }

    fn bounds(&self, partition: &TopicPartition, timeout: Duration) -> Result<Bounds, KafkaError> {
        let topic = name(&partition.topic)?;
        let doing = format!("asking for the first and last offset of {partition}");
        let (low, high) = self.control.patiently(Instant::now() + timeout, &doing, |client, wait| {
            raw::bounds(client, &topic, partition.partition, wait)
        })?;
        Ok(Bounds { low: CommitOffset(low), high: CommitOffset(high) })
    }

    fn reader(&self, assigned: Vec<Assigned>, sharing: usize, waker: Waker) -> Result<Reader, KafkaError> {
        let commits = self.settings.auto_commit;
        let conf = config::consumer(&self.settings, sharing, commits)?;
        let client = Client::new(Role::Consumer { commits }, conf).map_err(configuration)?;
        let source = Source::new(&client, &assigned, &self.settings, &waker)?;
        let offsets = Commits::new(&client, &assigned, &waker)?;
        Ok(Reader { source: Box::new(source), offsets: Box::new(offsets) })
    }

    fn writer(&self, outputs: &[OutputSettings], waker: Waker) -> Result<Box<dyn TopicSink>, KafkaError> {
        Ok(Box::new(Writer::new(outputs, &waker, |settings| self.producer(settings))?))
    }
}

/// A client that is asked questions, with the errors that it reports meanwhile.
struct Asked {
    queue: Queue,
    errors: Mutex<Errors>,
    brokers: String,
}

impl Asked {
    fn new(queue: Queue, brokers: &[String]) -> Asked {
        Asked { queue, errors: Mutex::new(Errors::new()), brokers: brokers.join(",") }
    }

    fn client(&self) -> &Arc<Client> {
        self.queue.client()
    }

    /// Facts about one topic. What can pass (a leader is being chosen) is waited out.
    fn topic(&self, topic: &str, deadline: Instant) -> Result<Result<TopicInfo, KafkaError>, KafkaError> {
        let doing = format!("asking for topic `{topic}`");
        let c_name = match name(topic) {
            Ok(name) => name,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            let answer =
                self.patiently(deadline, &doing, |client, wait| raw::topic_facts(client, &c_name, wait))?;
            match answer {
                Ok(partitions) => return Ok(Ok(TopicInfo { partitions })),
                Err(code) if kind(code) == Kind::Transient && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(code) => return Ok(Err(error(kind(code), code, &doing))),
            }
        }
    }

    /// Asks until there is an answer, or an error that waiting does not help, or the deadline.
    fn patiently<T>(
        &self,
        deadline: Instant,
        doing: &str,
        ask: impl Fn(&Arc<Client>, Duration) -> Result<T, Code>,
    ) -> Result<T, KafkaError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let code = match ask(self.client(), left.min(QUESTION).max(Duration::from_millis(1))) {
                Ok(answer) => return Ok(answer),
                Err(code) => code,
            };
            let failed = self.explained(error(kind(code), code, doing));
            if failed.kind != Kind::Transient || Instant::now() >= deadline {
                return Err(failed);
            }
        }
    }

    /// An error with what the client itself said last: "timed out" has a cause, such as a refused connection.
    fn explained(&self, mut failed: KafkaError) -> KafkaError {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.drain_all(&self.queue);
        if !matches!(failed.kind, Kind::Transient | Kind::Coordinator) {
            return failed;
        }
        match errors.cause() {
            Some(cause) => {
                failed.message = format!("{} (brokers {}): {}", failed.message, self.brokers, cause.message);
                if cause.kind == Kind::Authentication {
                    (failed.kind, failed.code) = (cause.kind, cause.code);
                }
            }
            None => failed.message = format!("{} (brokers {})", failed.message, self.brokers),
        }
        failed
    }
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
