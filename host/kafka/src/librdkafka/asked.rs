//! Questions that may wait, asked through one client.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loom_types::{CommitOffset, TopicPartition};

use super::classify::{configuration, error, kind};
use super::events::Errors;
use super::hints;
use super::name;
use super::raw::{self, Client, Code, List, Operations, Queue};
use crate::error::{KafkaError, Kind};
use crate::facts::{DEFAULT_MAX_MESSAGE_BYTES, OutputInfo, TopicInfo};

/// One answer for each place of a question.
type Places<T> = Vec<Result<T, KafkaError>>;

/// The longest single question for metadata: between two, the client's errors are looked at, so that refused
/// credentials are told at once and not as silence.
const QUESTION: Duration = Duration::from_secs(2);

/// Starts a client.
pub(super) type Start = Box<dyn Fn() -> Result<Arc<Client>, KafkaError> + Send + Sync>;

/// A client that is asked questions. Once its certificate was renewed in its file, the next question is a new client's, which
/// has read it.
pub(super) struct Asked {
    start: Start,
    queue: fn(&Arc<Client>) -> Queue,
    current: Mutex<Arc<Current>>,
    brokers: Vec<String>,
}

/// The client that is asked now, with the errors that it reports meanwhile.
struct Current {
    queue: Queue,
    errors: Mutex<Errors>,
    since: Instant,
}

impl Current {
    fn new(queue: Queue) -> Arc<Current> {
        Arc::new(Current { queue, errors: Mutex::new(Errors::new()), since: Instant::now() })
    }

    fn is_outdated(&self) -> bool {
        self.queue.client().files().are_replaced()
    }
}

impl Asked {
    /// `queue`: where its clients report errors.
    pub(super) fn new(
        start: Start,
        queue: fn(&Arc<Client>) -> Queue,
        brokers: &[String],
    ) -> Result<Asked, KafkaError> {
        let client = start()?;
        Ok(Asked::of(&client, start, queue, brokers))
    }

    /// The same with a client that was started before.
    pub(super) fn of(
        client: &Arc<Client>,
        start: Start,
        queue: fn(&Arc<Client>) -> Queue,
        brokers: &[String],
    ) -> Asked {
        let current = Mutex::new(Current::new(queue(client)));
        Asked { start, queue, current, brokers: brokers.to_vec() }
    }

    /// The client for the next question.
    pub(super) fn client(&self) -> Arc<Client> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_outdated() {
            match (self.start)() {
                Ok(client) => *current = Current::new((self.queue)(&client)),
                // A certificate may be there before its key is.
                Err(error) => {
                    tracing::warn!(target: "kafka", reason = %error, "renewed files cannot be used yet")
                }
            }
        }
        current.queue.client().clone()
    }

    /// Facts about topics, and what this client may do with them where the broker says.
    pub(super) fn topics(
        &self,
        names: &[&str],
        deadline: Instant,
    ) -> Result<Places<(TopicInfo, Option<Operations>)>, KafkaError> {
        let mut answers = Vec::with_capacity(names.len());
        let (mut known, mut places, mut broker) = (Vec::new(), Vec::new(), None);
        for (place, topic) in names.iter().enumerate() {
            let answer = self.partitions(topic, deadline)?;
            if let Ok((_, told_by)) = &answer {
                broker = broker.or(*told_by);
                known.push(name(topic)?);
                places.push(place);
            }
            answers.push(answer.map(|(partitions, _)| (TopicInfo { partitions, id: None }, None)));
        }
        if known.is_empty() {
            return Ok(answers);
        }
        let doing = format!("asking about topics {}", names.join(", "));
        let told = self
            .patiently(deadline, &doing, |client, wait| raw::describe_topics(client, &known, broker, wait));
        let told = match told {
            Ok(told) => told,
            Err(error) if error.kind == Kind::Transient => return Err(error),
            Err(error) => {
                tracing::debug!(target: "kafka", reason = %error, "the broker does not describe topics");
                return Ok(answers);
            }
        };
        for (place, told) in places.into_iter().zip(told) {
            match (&mut answers[place], told) {
                (Ok((info, operations)), Ok(told)) => {
                    info.id = told.id;
                    *operations = told.operations;
                }
                // It went away, or its leader did, between the two questions.
                (answer, Err(code)) if matches!(kind(code), Kind::Transient | Kind::UnknownTopic) => {
                    *answer = Err(error(kind(code), code, format!("asking for topic `{}`", names[place])));
                }
                _ => {}
            }
        }
        Ok(answers)
    }

    /// Facts about topics that this client writes to.
    pub(super) fn output_topics(
        &self,
        names: &[&str],
        deadline: Instant,
    ) -> Result<Vec<Result<OutputInfo, KafkaError>>, KafkaError> {
        let topics = self.topics(names, deadline)?;
        let known = |place: &usize| topics[*place].is_ok();
        let places: Vec<usize> = (0..names.len()).filter(known).collect();
        let mut limits =
            self.limits(&places.iter().map(|place| names[*place]).collect::<Vec<_>>(), deadline)?;
        limits.reverse();
        let mut one = |(info, operations): (TopicInfo, Option<Operations>)| {
            let limit = limits.pop().unwrap_or_else(|| Err(configuration("it was not asked for".into())));
            let (max_message_bytes, compacted, described) = match limit {
                Ok((bytes, compacted)) => (bytes, compacted, Ok(())),
                Err(error) => (DEFAULT_MAX_MESSAGE_BYTES, false, Err(error)),
            };
            OutputInfo {
                partitions: info.partitions,
                id: info.id,
                max_message_bytes,
                compacted,
                described,
                may_write: operations.map(Operations::may_write),
            }
        };
        Ok(topics.into_iter().map(|topic| topic.map(&mut one)).collect())
    }

    /// The largest batch of each topic, and whether it is compacted.
    fn limits(&self, names: &[&str], deadline: Instant) -> Result<Places<(usize, bool)>, KafkaError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let c_names = names.iter().map(|topic| name(topic)).collect::<Result<Vec<_>, _>>()?;
        let keys = ["max.message.bytes", "cleanup.policy"];
        let doing = format!("reading the configuration of topics {}", names.join(", "));
        let told = self.patiently(deadline, &doing, |client, wait| {
            let broker = raw::topic_facts(client, &c_names[0], wait)?.ok().and_then(|(_, broker)| broker);
            raw::topic_configs(client, &c_names, &keys, broker, wait)
        });
        let told = match told {
            Ok(told) => told,
            Err(error) if error.kind == Kind::Transient => return Err(error),
            Err(error) => return Ok(names.iter().map(|_| Err(error.clone())).collect()),
        };
        let one = |(values, topic): (raw::TopicValues, &&str)| {
            let failed = |kind, code: Code, why: &str| KafkaError {
                kind,
                code: code.name(),
                message: format!("reading the configuration of topic `{topic}`: {why}"),
            };
            let values = values.map_err(|(code, why)| failed(kind(code), code, &why))?;
            let bytes = values[0].as_deref().and_then(|bytes| bytes.parse().ok());
            let bytes = bytes.ok_or_else(|| {
                failed(Kind::Other, Code::BAD_MESSAGE, "the broker does not tell its max.message.bytes")
            })?;
            Ok((bytes, values[1].as_deref().is_some_and(|policy| policy.contains("compact"))))
        };
        Ok(told.into_iter().zip(names).map(one).collect())
    }

    /// The first offset at or after a time, for each partition.
    pub(super) fn offsets_at(
        &self,
        partitions: &[TopicPartition],
        timestamp_ms: i64,
        timeout: Duration,
    ) -> Result<Vec<Result<Option<CommitOffset>, KafkaError>>, KafkaError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let mut list = List::new(partitions.len());
        for (tag, partition) in partitions.iter().enumerate() {
            list.push(&name(&partition.topic)?, partition.partition, timestamp_ms.max(0), tag);
        }
        raw::offsets_at(&self.client(), &mut list, timeout).map_err(|code| {
            let doing = format!("asking for the offsets at {timestamp_ms} ms");
            self.explained(error(kind(code), code, doing))
        })?;
        let mut answers: Vec<_> = partitions.iter().map(|_| Ok(None)).collect();
        for entry in list.iter() {
            let Some(answer) = answers.get_mut(entry.tag) else { continue };
            if entry.code.is_error() {
                let doing =
                    format!("asking for the offset of {} at {timestamp_ms} ms", partitions[entry.tag]);
                *answer = Err(error(kind(entry.code), entry.code, doing));
            } else if entry.offset >= 0 {
                *answer = Ok(Some(CommitOffset(entry.offset)));
            }
        }
        Ok(answers)
    }

    /// How many partitions one topic has, and a broker to ask more. What can pass (a leader is being chosen) is waited out.
    fn partitions(
        &self,
        topic: &str,
        deadline: Instant,
    ) -> Result<Result<(i32, Option<i32>), KafkaError>, KafkaError> {
        let doing = format!("asking for topic `{topic}`");
        let c_name = match name(topic) {
            Ok(name) => name,
            Err(error) => return Ok(Err(error)),
        };
        loop {
            let answer =
                self.patiently(deadline, &doing, |client, wait| raw::topic_facts(client, &c_name, wait))?;
            match answer {
                Ok(partitions) => return Ok(Ok(partitions)),
                Err(code) if kind(code) == Kind::Transient && Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(code) => return Ok(Err(error(kind(code), code, &doing))),
            }
        }
    }

    /// Asks until there is an answer, or an error that waiting does not help, or the deadline.
    pub(super) fn patiently<T>(
        &self,
        deadline: Instant,
        doing: &str,
        ask: impl Fn(&Arc<Client>, Duration) -> Result<T, Code>,
    ) -> Result<T, KafkaError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let code = match ask(&self.client(), left.min(QUESTION).max(Duration::from_millis(1))) {
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
    pub(super) fn explained(&self, mut failed: KafkaError) -> KafkaError {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut errors = current.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.drain_all(&current.queue);
        if !matches!(failed.kind, Kind::Transient | Kind::Coordinator) {
            return failed;
        }
        let asked = format!("{} (brokers {})", failed.message, self.brokers.join(","));
        match errors.cause() {
            Some(cause) => {
                failed.message = format!("{asked}: {}", cause.message);
                // The next question is for a client that knows the renewed files.
                if cause.kind == Kind::Authentication && !current.is_outdated() {
                    (failed.kind, failed.code) = (cause.kind, cause.code);
                }
            }
            None => {
                failed.message = match hints::why_no_answer(&self.brokers, current.since) {
                    Some(hint) => format!("{asked}: {hint}"),
                    None => asked,
                }
            }
        }
        failed
    }
}
