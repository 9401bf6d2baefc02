//! The broker's whole state, behind one lock that is taken once a call, never once a record.
//!
//! Wakers are called under that lock; observers, fault rules and the clock too, so none of them may call the broker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loom_types::{Moment, RecordOffset, TopicId, TopicPartition};

use super::clock::Clock;
use super::faults::{Call, FaultBook, unknown_topic};
use super::group::Group;
use super::late::LateCommit;
use super::log::{Body, Log};
use super::network::{Lane, LaneKey, Network};
use super::reader::ReaderState;
use super::record::Stored;
use super::rights::Right;
use super::sink::WriterState;
use super::stream::{Feed, FeedState, Pulled};
use crate::contract::{Notice, Waker};
use crate::error::{KafkaError, Kind};
use crate::facts::DEFAULT_MAX_MESSAGE_BYTES;

/// Gets each record that is written to a topic, in the order of writing, with the number of the writer that sent it: they
/// are counted from 0 in the order in which they were made, and what somebody else produced has none. Must not call the
/// broker.
pub type Observer = Box<dyn FnMut(&str, &Stored, Option<usize>) + Send>;

/// How long a topic keeps its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keep {
    /// For ever, or until retention is scripted.
    All,
    /// Until they are given out.
    UntilRead,
    /// Not at all.
    Nothing,
}

/// What a topic's configuration says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicConfig {
    /// `max.message.bytes`: of one record's payload and key, since nothing is compressed or framed here.
    pub max_message_bytes: usize,
    /// `cleanup.policy=compact`: it takes no record without a key.
    pub compacted: bool,
    /// `retention.ms`: how long it keeps a record; none is for ever. Nothing is removed here by it.
    pub retention: Option<Duration>,
    /// `message.timestamp.type=LogAppendTime`: records carry the time of their arrival.
    pub append_time: bool,
}

impl Default for TopicConfig {
    /// Kafka's, but for records being kept for ever. It is also what is assumed where it is not told.
    fn default() -> Self {
        TopicConfig {
            max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES,
            compacted: false,
            retention: None,
            append_time: false,
        }
    }
}

impl TopicConfig {
    /// How long a record is kept by the time that it carries.
    pub(super) fn keeps(&self) -> Option<Duration> {
        self.retention.filter(|_| !self.append_time && !self.compacted)
    }
}

pub(super) struct Topic {
    pub name: Arc<str>,
    pub id: TopicId,
    pub config: TopicConfig,
    pub logs: Vec<Log>,
    pub keep: Keep,
    /// Index into the feeds.
    pub feed: Option<usize>,
    pub observer: Option<Observer>,
    /// Rows that were ever accepted for it.
    pub sent: u64,
    /// While acknowledgements are held: rows below this number have theirs.
    pub acknowledged_below: Option<u64>,
    /// How long an acknowledgement takes.
    pub ack_delay: Duration,
    /// Until then clients do not see that it is there.
    pub hidden_until: Option<Moment>,
}

pub(super) struct State {
    pub clock: Clock,
    /// The wall clock at [`Moment::START`].
    pub started_ms: i64,
    pub names: BTreeMap<Arc<str>, usize>,
    pub topics: Vec<Topic>,
    pub feeds: Vec<Feed>,
    pub groups: BTreeMap<String, Group>,
    pub keep_history: bool,
    pub readers: Vec<Option<ReaderState>>,
    pub writers: Vec<Option<WriterState>>,
    pub faults: FaultBook,
    pub calls: BTreeMap<Call, u64>,
    pub down: bool,
    pub denied: BTreeSet<Right>,
    pub network: Network,
    pub lanes: BTreeMap<LaneKey, Lane>,
    /// Batches that were ever sent.
    pub flights: u64,
    pub late_commits: Vec<LateCommit>,
    /// Records that a reader's client fetches ahead of what it gives out; 0: none.
    pub read_ahead: usize,
    /// Transactions that were ever begun.
    pub transactions: u64,
    /// The broker does not say what older ones do not: ids, epochs, rights.
    pub silent: bool,
    pub seed: u64,
}

pub(super) struct Shared {
    state: Mutex<State>,
    /// Told after every call that may have changed something: for tests that wait.
    pub changed: Condvar,
    /// Wakers of all readers, apart from the state: streams call them from threads that know no lock of ours.
    pub stream_wakers: Arc<Mutex<Vec<(usize, Waker)>>>,
}

impl Shared {
    pub fn new(clock: Clock) -> Self {
        Shared {
            state: Mutex::new(State {
                clock,
                started_ms: 0,
                names: BTreeMap::new(),
                topics: Vec::new(),
                feeds: Vec::new(),
                groups: BTreeMap::new(),
                keep_history: true,
                readers: Vec::new(),
                writers: Vec::new(),
                faults: FaultBook::default(),
                calls: BTreeMap::new(),
                down: false,
                denied: BTreeSet::new(),
                network: Network::default(),
                lanes: BTreeMap::new(),
                flights: 0,
                late_commits: Vec::new(),
                read_ahead: 0,
                transactions: 0,
                silent: false,
                seed: 0,
            }),
            changed: Condvar::new(),
            stream_wakers: Arc::default(),
        }
    }

    /// The state. A test that panicked under the lock must not hide its message behind others' panics.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls every reader's waker.
pub(super) fn wake_streams(wakers: &Mutex<Vec<(usize, Waker)>>) {
    for (_, waker) in wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        waker();
    }
}

impl State {
    pub fn now(&self) -> Moment {
        (self.clock)()
    }

    /// The producer's wall clock, in milliseconds since 1970-01-01 UTC.
    pub fn wall_ms(&self) -> i64 {
        let since = i64::try_from(self.now().0.as_millis()).unwrap_or(i64::MAX);
        self.started_ms.saturating_add(since)
    }

    /// Counts a call and says what the script makes of it.
    pub fn enter(&mut self, call: Call) -> Result<(), KafkaError> {
        *self.calls.entry(call).or_default() += 1;
        self.faults.call(call).map_or(Ok(()), Err)
    }

    pub fn slot(&self, topic: &str) -> Result<usize, KafkaError> {
        self.names.get(topic).copied().ok_or_else(|| unknown_topic(topic))
    }

    /// A topic's place, where clients see that it is there.
    pub fn seen(&self, topic: &str) -> Option<usize> {
        let slot = *self.names.get(topic)?;
        let hidden = self.topics[slot].hidden_until.is_some_and(|until| self.now() < until);
        (!hidden).then_some(slot)
    }

    pub fn log(&self, place: &TopicPartition) -> Option<&Log> {
        let slot = *self.names.get(&place.topic)?;
        self.topics[slot].logs.get(usize::try_from(place.partition).ok()?)
    }

    pub fn log_mut(&mut self, place: &TopicPartition) -> Option<&mut Log> {
        let slot = *self.names.get(&place.topic)?;
        self.topics[slot].logs.get_mut(usize::try_from(place.partition).ok()?)
    }

    pub fn add_topic(&mut self, name: &str, partitions: i32, keep: Keep) -> usize {
        assert!(partitions > 0, "topic `{name}` needs at least one partition");
        assert!(!self.names.contains_key(name), "topic `{name}` exists already");
        let name: Arc<str> = name.into();
        let slot = self.topics.len();
        self.names.insert(name.clone(), slot);
        self.topics.push(Topic {
            name,
            id: TopicId((0x4c6f_6f6d_u128 << 96 | (slot as u128 + 1)).to_be_bytes()),
            config: match keep {
                // Nobody configured it: it takes what comes.
                Keep::Nothing => TopicConfig { max_message_bytes: usize::MAX, ..TopicConfig::default() },
                Keep::All | Keep::UntilRead => TopicConfig::default(),
            },
            logs: (0..partitions).map(|_| Log::default()).collect(),
            keep,
            feed: None,
            observer: None,
            sent: 0,
            acknowledged_below: None,
            ack_delay: Duration::ZERO,
            hidden_until: None,
        });
        slot
    }

    /// Appends to a partition, for a writer or somebody else, shows it to the observer and wakes who waits there.
    pub fn append(&mut self, slot: usize, partition: i32, body: Body, writer: Option<usize>) -> RecordOffset {
        let arrival = self.wall_ms();
        let topic = &mut self.topics[slot];
        let log = &mut topic.logs[partition as usize];
        let body = match body {
            Body::Record(record) if topic.config.append_time => Body::Record(record.at(arrival)),
            body => body,
        };
        let offset = match (body, &mut topic.observer) {
            (Body::Record(record), Some(observer)) => {
                let stored = Stored { partition, offset: RecordOffset(log.high()), record };
                observer(&topic.name, &stored, writer);
                if topic.keep == Keep::Nothing { log.pass() } else { log.append(Body::Record(stored.record)) }
            }
            (body, _) => log.append(body),
        };
        wake(log);
        offset
    }

    /// The next number of the seeded sequence (splitmix64).
    pub fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.seed;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Pulls from a feed until a partition has that many records from `next` on, or the feed gives no more now.
    pub fn pull(&mut self, feed: usize, slot: usize, partition: i32, next: i64, rows: usize) {
        let mut wanted = {
            let log = &self.topics[slot].logs[partition as usize];
            rows.saturating_sub(log.from(next).take(rows).count())
        };
        while wanted > 0 && self.feeds[feed].state == FeedState::Open {
            if self.feeds[feed].is_full() {
                self.feeds[feed].blocked = true;
                return;
            }
            match self.feeds[feed].stream.pull() {
                Pulled::Record { topic, partition: to, record } => {
                    let target = self.feeds[feed].topics.get(topic).copied();
                    let exists = |slot: &usize| to >= 0 && (to as usize) < self.topics[*slot].logs.len();
                    let Some(target) = target.filter(exists) else {
                        self.fail_feed(feed, stray(topic, to));
                        return;
                    };
                    self.feeds[feed].rows += 1;
                    self.feeds[feed].bytes += record.bytes();
                    self.append(target, to, Body::Record(record), None);
                    wanted -= usize::from(target == slot && to == partition);
                }
                Pulled::Pending => return,
                Pulled::End => {
                    self.feeds[feed].state = FeedState::Ended;
                    self.wake_feed(feed);
                }
                Pulled::Failed(error) => self.fail_feed(feed, error),
            }
        }
    }

    fn fail_feed(&mut self, feed: usize, error: KafkaError) {
        self.feeds[feed].state = FeedState::Failed;
        for slot in self.feeds[feed].topics.clone() {
            for log in &mut self.topics[slot].logs {
                log.add_notice(log.high(), Notice::Failed(error.clone()));
            }
        }
        self.wake_feed(feed);
    }

    /// Wakes who waits at a partition of a feed: its end, or its failure, can be seen now, or it can be pulled again.
    pub fn wake_feed(&mut self, feed: usize) {
        for slot in self.feeds[feed].topics.clone() {
            for log in &mut self.topics[slot].logs {
                wake(log);
            }
        }
    }

    /// Wakes every reader and writer.
    pub fn wake_all(&mut self) {
        for reader in self.readers.iter().flatten() {
            (reader.waker)();
        }
        for writer in self.writers.iter().flatten() {
            (writer.waker)();
        }
    }
}

/// Wakes who waits at a partition.
pub(super) fn wake(log: &mut Log) {
    let lost = !log.waiting.is_empty() && log.lost_wakes > 0;
    log.lost_wakes -= u64::from(lost);
    for (_, waker) in log.waiting.drain(..) {
        if !lost {
            waker();
        }
    }
}

fn stray(topic: usize, partition: i32) -> KafkaError {
    KafkaError {
        kind: Kind::Configuration,
        code: "UNKNOWN_TOPIC_OR_PARTITION",
        message: format!(
            "the input has a record for partition {partition} of its topic {topic}, which does not exist"
        ),
    }
}
