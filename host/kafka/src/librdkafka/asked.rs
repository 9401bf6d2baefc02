//! Questions that may wait, asked through one client.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loom_types::{CommitOffset, TopicPartition};

use super::classify::{configuration, error, kind, metadata_kind};
use super::events::Errors;
use super::hints;
use super::limits::Limits;
use super::name;
use super::raw::{self, Client, Code, List, Operations, Queue};
use crate::error::{KafkaError, Kind};
use crate::facts::{OutputInfo, TopicInfo};

/// One answer for each place of a question.
type Places<T> = Vec<Result<T, KafkaError>>;

/// The longest single question for metadata: between two, the client's errors are looked at, so that refused
/// credentials are told at once and not as silence.
const QUESTION: Duration = Duration::from_secs(2);

/// The first and the longest pause between two questions, from one to the next: an answer that sends one away may come back
/// at once, for as long as an election lasts.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

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

    /// Facts about topics, and what this client may do with them where the broker says. `right`: what they are for.
    pub(super) fn topics(
        &self,
        names: &[&str],
        right: &str,
        deadline: Instant,
    ) -> Result<Places<(TopicInfo, Option<Operations>)>, KafkaError> {
        let mut answers = Vec::with_capacity(names.len());
        let (mut known, mut places, mut broker) = (Vec::new(), Vec::new(), None);
        for (place, topic) in names.iter().enumerate() {
            let answer = self.partitions(topic, right, deadline)?;
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
                (answer, Err(code))
                    if matches!(metadata_kind(code), Kind::Transient | Kind::UnknownTopic) =>
                {
                    let doing = format!("asking for topic `{}`", names[place]);
                    *answer = Err(error(metadata_kind(code), code, doing));
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
        let topics = self.topics(names, "Write", deadline)?;
        let known = |place: &usize| topics[*place].is_ok();
        let places: Vec<usize> = (0..names.len()).filter(known).collect();
        let mut limits =
            self.limits(&places.iter().map(|place| names[*place]).collect::<Vec<_>>(), deadline)?;
        limits.reverse();
        let mut one = |(info, operations): (TopicInfo, Option<Operations>)| {
            let limits = limits.pop().unwrap_or_else(|| Err(configuration("it was not asked for".into())));
            let (limits, described) = match limits {
                Ok(limits) => (limits, Ok(())),
                Err(error) if error.kind == Kind::Transient => return Err(error),
                Err(error) => (Limits::ASSUMED, Err(error)),
            };
            Ok(OutputInfo {
                partitions: info.partitions,
                id: info.id,
                max_message_bytes: limits.max_message_bytes,
                compacted: limits.compacted,
                keeps: limits.keeps,
                described,
                may_write: operations.map(Operations::may_write),
            })
        };
        Ok(topics.into_iter().map(|topic| topic.and_then(&mut one)).collect())
    }

    /// What each topic takes, and for how long.
    fn limits(&self, names: &[&str], deadline: Instant) -> Result<Places<Limits>, KafkaError> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let c_names = names.iter().map(|topic| name(topic)).collect::<Result<Vec<_>, _>>()?;
        let doing = format!("reading the configuration of topics {}", names.join(", "));
        let told = self.patiently(deadline, &doing, |client, wait| {
            let broker = raw::topic_facts(client, &c_names[0], wait)?.ok().and_then(|(_, broker)| broker);
            raw::topic_configs(client, &c_names, &Limits::KEYS, broker, wait)
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
            let values = values.map_err(|(code, why)| {
                failed(kind(code), code, &why).naming_right("DescribeConfigs", topic, "")
            })?;
            Limits::read(&values).ok_or_else(|| {
                let why = "the broker does not tell its max.message.bytes and cleanup.policy";
                failed(Kind::Configuration, Code::BAD_MESSAGE, why)
            })
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
                let place = &partitions[entry.tag];
                let doing = format!("asking for the offset of {place} at {timestamp_ms} ms");
                let failed = error(kind(entry.code), entry.code, doing);
                *answer = Err(failed.naming_right("Read", &place.topic, ""));
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
        right: &str,
        deadline: Instant,
    ) -> Result<Result<(i32, Option<i32>), KafkaError>, KafkaError> {
        let doing = format!("asking for topic `{topic}`");
        let c_name = match name(topic) {
            Ok(name) => name,
            Err(error) => return Ok(Err(error)),
        };
        let mut pause = Pause::until(deadline);
        loop {
            let began = Instant::now();
            let answer =
                self.patiently(deadline, &doing, |client, wait| raw::topic_facts(client, &c_name, wait))?;
            match answer {
                Ok(partitions) => return Ok(Ok(partitions)),
                Err(code) if metadata_kind(code) == Kind::Transient && Instant::now() < deadline => {
                    pause.after(began);
                }
                Err(code) => {
                    let failed = error(metadata_kind(code), code, &doing);
                    return Ok(Err(failed.naming_right(right, topic, "")));
                }
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
        let mut pause = Pause::until(deadline);
        loop {
            let began = Instant::now();
            let left = deadline.saturating_duration_since(began);
            let code = match ask(&self.client(), left.min(QUESTION).max(Duration::from_millis(1))) {
                Ok(answer) => return Ok(answer),
                Err(code) => code,
            };
            let failed = self.explained(error(kind(code), code, doing));
            if failed.kind != Kind::Transient || Instant::now() >= deadline {
                return Err(failed);
            }
            pause.after(began);
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

/// Pauses between questions that are answered with errors.
struct Pause {
    next: Duration,
    deadline: Instant,
}

impl Pause {
    fn until(deadline: Instant) -> Pause {
        Pause { next: PAUSES.0, deadline }
    }

    /// Sleeps until the next question may begin, where the last one began then; not beyond the deadline.
    fn after(&mut self, began: Instant) {
        let until = (began + self.next).min(self.deadline);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        self.next = (2 * self.next).min(PAUSES.1);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    use super::Asked;
    use crate::error::Kind;
    use crate::librdkafka::raw::{Client, Code, Conf, Queue, Role};

    fn nobody() -> Asked {
        let start = || {
            let mut conf = Conf::new();
            for (key, value) in [("bootstrap.servers", "127.0.0.1:1"), ("group.id", "g")] {
                conf.set(key, value).unwrap();
            }
            Client::new(Role::Consumer, conf).map_err(super::configuration)
        };
        Asked::new(Box::new(start), Queue::consumer, &["127.0.0.1:1".to_owned()]).unwrap()
    }

    #[test]
    fn a_code_that_comes_back_at_once_is_asked_again_with_pauses_until_the_deadline() {
        const NOT_LEADER: Code = Code(6);
        let (asked, questions) = (nobody(), Cell::new(0));
        let began = Instant::now();
        let outcome = asked.patiently(began + Duration::from_secs(2), "asking", |_, _| {
            questions.set(questions.get() + 1);
            Err::<(), _>(NOT_LEADER)
        });
        assert_eq!(outcome.unwrap_err().kind, Kind::Transient);
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
        assert!((3..12).contains(&questions.get()), "{} questions in 2 s", questions.get());
    }

    #[test]
    fn an_answer_after_errors_comes_through() {
        let (asked, questions) = (nobody(), Cell::new(0));
        let answer = asked.patiently(Instant::now() + Duration::from_secs(60), "asking", |_, _| {
            questions.set(questions.get() + 1);
            if questions.get() < 4 { Err(Code::TIMED_OUT) } else { Ok(7) }
        });
        assert_eq!((answer, questions.get()), (Ok(7), 4));
    }
}
