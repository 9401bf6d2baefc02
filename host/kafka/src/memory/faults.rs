//! Scripted faults: which call goes wrong, when, and how.
//!
//! Rules for the same thing are asked in the order they were written; the first that strikes decides, and the ones
//! behind it do not count that call. So `fail(c, When::next(2), a)` followed by `fail(c, When::next(1), b)` answers
//! a, a, b, and then works.

use std::sync::Arc;
use std::time::Duration;

use loom_types::TopicPartition;

use super::record::Record;
use crate::error::{KafkaError, Kind};
use crate::facts::Group;

/// A call of the contract: for faults and for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `Broker::topics`
    Topics,
    /// `Broker::output_topics`
    OutputTopics,
    /// The part of `Broker::output_topics` that reads topics' configurations
    Configurations,
    /// `Broker::topic_names`
    TopicNames,
    /// `Broker::committed` of the flow's own group
    Committed,
    /// `Broker::committed` and `Broker::commit_now` of the owner group
    Lease,
    /// `Broker::commit_now` of the flow's own group
    CommitNow,
    /// `Broker::members`
    Members,
    /// `Broker::offsets_at`
    OffsetsAt,
    /// `Broker::rights`
    Rights,
    /// `Broker::bounds`
    Bounds,
    /// `Broker::reader`
    Reader,
    /// `Broker::writer`
    Writer,
    /// `PartitionSource::take`
    Take,
    /// `PartitionSource::seek`
    Seek,
    /// `OffsetStore::commit`
    Commit,
    /// `TopicSink::send`
    Send,
}

/// Which of the calls to come a rule strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    skip: u64,
    times: Option<u64>,
}

impl When {
    /// The next `n`.
    #[must_use]
    pub fn next(n: u64) -> Self {
        When { skip: 0, times: Some(n) }
    }

    /// Only the `n`th from now, counted from 1.
    #[must_use]
    pub fn nth(n: u64) -> Self {
        When { skip: n.saturating_sub(1), times: Some(1) }
    }

    /// All but the next `n`.
    #[must_use]
    pub fn after(n: u64) -> Self {
        When { skip: n, times: None }
    }

    /// All.
    #[must_use]
    pub fn always() -> Self {
        When { skip: 0, times: None }
    }

    fn strikes(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.times {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}

/// What goes wrong with a commit request.
#[derive(Clone, Debug)]
pub enum CommitFault {
    /// `commit` itself fails: nothing is sent.
    Local(KafkaError),
    /// The broker refuses it: every partition is answered with the error, nothing is set.
    Refused(KafkaError),
    /// It is set, and reported failed.
    AppliedThenFailed(KafkaError),
    /// It is lost: nothing is set and no answer ever comes. No client of Kafka's does that, since its requests time out;
    /// see [`CommitFault::Lost`].
    Unanswered,
    /// It is lost: nothing is set, and after this time it is answered with a time-out.
    Lost {
        /// From now.
        answered: Duration,
    },
    /// It is on its way: done when it arrives, also when its sender is gone by then, and answered later.
    Late {
        /// From now.
        arrives: Duration,
        /// From now; not before it arrives.
        answered: Duration,
    },
}

/// What goes wrong with a row that is sent.
#[derive(Clone, Debug)]
pub enum RowFault {
    /// It is refused and not written, as if it had been in a batch of its own.
    Refused(KafkaError),
    /// The broker refuses the whole batch that it is in, as brokers do: nothing of it is written.
    RefusedBatch(KafkaError),
    /// It is written, with its batch, and reported refused.
    WrittenThenRefused(KafkaError),
    /// It is written, and its acknowledgement is lost.
    AckLost,
    /// It is neither written nor answered for.
    Lost,
}

/// Judges rows sent to a topic; called under the broker's lock, so it must not call the broker.
pub(super) type RowRule = Box<dyn FnMut(&Record) -> Option<RowFault> + Send>;

#[derive(Debug, Default)]
pub(super) struct FaultBook {
    calls: Vec<(Call, When, KafkaError)>,
    places: Vec<(Call, Place, When, KafkaError)>,
    commits: Vec<(Group, When, CommitFault)>,
    rows: Vec<(Arc<str>, Judge)>,
}

/// A topic, or one partition of it.
#[derive(Debug)]
struct Place {
    topic: Arc<str>,
    partition: Option<i32>,
}

struct Judge(RowRule);

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("rule")
    }
}

impl FaultBook {
    pub fn add_call(&mut self, call: Call, when: When, error: KafkaError) {
        self.calls.push((call, when, error));
    }

    pub fn add_topic(&mut self, call: Call, topic: &str, when: When, error: KafkaError) {
        self.places.push((call, Place { topic: topic.into(), partition: None }, when, error));
    }

    pub fn add_partition(&mut self, call: Call, place: TopicPartition, when: When, error: KafkaError) {
        let place = Place { topic: place.topic, partition: Some(place.partition) };
        self.places.push((call, place, when, error));
    }

    pub fn add_commit(&mut self, group: Group, when: When, fault: CommitFault) {
        self.commits.push((group, when, fault));
    }

    pub fn add_rows(&mut self, topic: &str, rule: RowRule) {
        self.rows.push((topic.into(), Judge(rule)));
    }

    pub fn add_row_fault(&mut self, topic: &str, mut when: When, fault: RowFault) {
        self.add_rows(topic, Box::new(move |_| when.strikes().then(|| fault.clone())));
    }

    pub fn clear(&mut self) {
        *self = FaultBook::default();
    }

    pub fn call(&mut self, call: Call) -> Option<KafkaError> {
        let mut rules = self.calls.iter_mut().filter(|(other, ..)| *other == call);
        rules.find_map(|(_, when, error)| when.strikes().then(|| error.clone()))
    }

    pub fn place(&mut self, call: Call, topic: &str, partition: Option<i32>) -> Option<KafkaError> {
        let rules = self.places.iter_mut().filter(|(other, place, ..)| {
            *other == call
                && *place.topic == *topic
                && (place.partition.is_none() || place.partition == partition)
        });
        for (_, _, when, error) in rules {
            if when.strikes() {
                return Some(error.clone());
            }
        }
        None
    }

    pub fn commit(&mut self, group: Group) -> Option<CommitFault> {
        let mut rules = self.commits.iter_mut().filter(|(of, ..)| *of == group);
        rules.find_map(|(_, when, fault)| when.strikes().then(|| fault.clone()))
    }

    pub fn row(&mut self, topic: &str, record: &Record) -> Option<RowFault> {
        let rules = self.rows.iter_mut().filter(|(other, _)| **other == *topic);
        for (_, judge) in rules {
            if let Some(fault) = (judge.0)(record) {
                return Some(fault);
            }
        }
        None
    }
}

pub(super) fn unknown_topic(topic: &str) -> KafkaError {
    KafkaError {
        kind: Kind::UnknownTopic,
        code: "UNKNOWN_TOPIC_OR_PARTITION",
        message: format!("topic `{topic}` does not exist"),
    }
}

pub(super) fn unknown_partition(partition: &TopicPartition) -> KafkaError {
    KafkaError {
        kind: Kind::UnknownTopic,
        code: "UNKNOWN_TOPIC_OR_PARTITION",
        message: format!("partition {partition} does not exist"),
    }
}

pub(super) fn brokers_down() -> KafkaError {
    KafkaError {
        kind: Kind::Transient,
        code: "_ALL_BROKERS_DOWN",
        message: "no broker can be reached".into(),
    }
}
