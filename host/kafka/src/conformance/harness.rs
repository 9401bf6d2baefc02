//! What checks are written with: a waker that can be waited for, a reader that collects, a writer that keeps books.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use loom_delivery::{Accounts, Token};
use loom_types::{
    Batch, BatchBuilder, CommitOffset, Ending, PartitionId, RecordOffset, RecordRef, TopicPartition,
};

use super::Fixture;
use crate::contract::{Ack, Broker, Budget, Notice, OutputIndex, Reader, Stamp, Taken, TopicSink, Waker};
use crate::error::{KafkaError, Kind};
use crate::facts::{Assigned, OutputSettings};
use crate::memory::Record;
use crate::settings::{ConsumerSettings, CredentialSettings, ProducerSettings, Sensitive};

/// How long a question to a broker may take.
pub const ASK: Duration = Duration::from_secs(30);

/// A budget that no check reaches.
pub const WIDE: Budget = Budget { rows: 1000, bytes: 8 << 20 };

/// Counts calls of a waker.
#[derive(Default)]
pub struct Signal {
    calls: Mutex<u64>,
    called: Condvar,
}

impl Signal {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn waker(self: &Arc<Self>) -> Waker {
        let this = self.clone();
        Arc::new(move || {
            *this.calls.lock().unwrap() += 1;
            this.called.notify_all();
        })
    }

    pub fn calls(&self) -> u64 {
        *self.calls.lock().unwrap()
    }

    /// Waits until there were more calls than `seen`; false when there were not in time.
    pub fn wait_beyond(&self, seen: u64, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut calls = self.calls.lock().unwrap();
        while *calls <= seen {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            calls = self.called.wait_timeout(calls, left).unwrap().0;
        }
        true
    }
}

pub fn consumer(fixture: &dyn Fixture, group: &str) -> ConsumerSettings {
    ConsumerSettings {
        brokers: fixture.addresses(),
        group_id: group.to_owned(),
        credentials: CredentialSettings::default(),
        forward_tombstones: false,
        prefetch: 64 << 20,
        poll_backoff: Duration::from_millis(50),
        extra: BTreeMap::new(),
    }
}

pub fn broker(fixture: &dyn Fixture) -> Box<dyn Broker> {
    fixture.broker(consumer(fixture, &fixture.fresh_name("group")))
}

pub fn producer(fixture: &dyn Fixture, extra: &[(&str, &str)]) -> Arc<ProducerSettings> {
    Arc::new(ProducerSettings {
        brokers: fixture.addresses(),
        credentials: CredentialSettings::default(),
        compression: None,
        idempotence: true,
        largest_batch: None,
        extra: extra.iter().map(|(key, value)| ((*key).to_owned(), Sensitive((*value).to_owned()))).collect(),
    })
}

/// Asks until a coordinator that gets ready answers, as every user has to.
pub fn once_ready<T>(fixture: &dyn Fixture, mut ask: impl FnMut() -> Result<T, KafkaError>) -> T {
    for _ in 0..100 {
        match ask() {
            Err(error) if matches!(error.kind, Kind::Coordinator | Kind::Transient) => {}
            answer => return answer.unwrap(),
        }
        fixture.pass_time(Duration::from_millis(100));
    }
    panic!("the coordinator never got ready");
}

/// One record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub record: Record,
}

/// What was read of one partition so far.
#[derive(Default)]
pub struct Seen {
    pub records: Vec<Read>,
    pub skipped: u64,
    pub ends: Vec<i64>,
    pub position: Option<i64>,
    pub leader_epoch: Option<i32>,
    more: bool,
}

impl Seen {
    pub fn offsets(&self) -> Vec<i64> {
        self.records.iter().map(|read| read.offset).collect()
    }

    pub fn payloads(&self) -> Vec<String> {
        let text = |read: &Read| {
            String::from_utf8_lossy(read.record.payload.as_deref().unwrap_or(b"-")).into_owned()
        };
        self.records.iter().map(text).collect()
    }
}

/// A reader of some partitions of one or more topics, all from the given offset.
pub struct Reading {
    pub reader: Reader,
    pub signal: Arc<Signal>,
    pub seen: Vec<Seen>,
    topics: Arc<[Arc<str>]>,
    builder: BatchBuilder,
    patience: Duration,
}

impl Reading {
    pub fn start(fixture: &dyn Fixture, broker: &dyn Broker, places: &[(&str, i32, i64)]) -> Self {
        let mut topics: Vec<Arc<str>> = Vec::new();
        let mut assigned = Vec::new();
        for (id, (topic, partition, start)) in places.iter().enumerate() {
            let index = topics.iter().position(|other| **other == **topic).unwrap_or_else(|| {
                topics.push((*topic).into());
                topics.len() - 1
            });
            assigned.push(Assigned {
                id: PartitionId(id as u32),
                partition: TopicPartition::new(*topic, *partition),
                topic: index as u16,
                start: CommitOffset(*start),
                leader_epoch: None,
            });
        }
        let topics: Arc<[Arc<str>]> = topics.into();
        let signal = Signal::new();
        let reader = broker.reader(assigned, 4, signal.waker()).unwrap();
        Reading {
            reader,
            signal,
            seen: places.iter().map(|_| Seen { more: true, ..Seen::default() }).collect(),
            builder: BatchBuilder::new(topics.clone()),
            topics,
            patience: fixture.patience(),
        }
    }

    /// One take, its records booked and compared with what it says of them.
    pub fn take(&mut self, place: usize, budget: Budget) -> Taken {
        let taken = self.reader.source.take(PartitionId(place as u32), budget, &mut self.builder);
        let batch = self.builder.finish();
        assert_eq!(batch.len(), taken.rows, "a take says how many rows it appended");
        let seen = &mut self.seen[place];
        for row in 0..batch.len() as u32 {
            let source = batch.source(row);
            assert!(self.topics.contains(source.topic));
            assert_eq!(source.row, "", "a record as Kafka has it has no row");
            seen.records.push(Read {
                topic: source.topic.to_string(),
                partition: source.partition,
                offset: source.offset.0,
                record: record_of(&batch, row),
            });
        }
        seen.skipped += taken.skipped;
        if let Some(position) = taken.position {
            assert!(seen.position.is_none_or(|before| before <= position.0), "a position never goes back");
            seen.position = Some(position.0);
        } else {
            assert_eq!(taken.leader_epoch, None, "an epoch belongs to a record");
        }
        seen.leader_epoch = taken.leader_epoch.or(seen.leader_epoch);
        if taken.rows > 0 || taken.skipped > 0 {
            assert!(taken.position.is_some(), "what was appended or skipped moves the position");
        }
        if taken.rows > 0 {
            let last = seen.records.last().expect("just appended").offset;
            assert!(seen.position > Some(last), "the position lies behind the last record");
        }
        if let Some(end) = taken.end {
            assert!(
                seen.position.is_none_or(|position| position <= end.0),
                "the end lies at or behind the position"
            );
            seen.ends.push(end.0);
        }
        seen.more = taken.more;
        taken
    }

    /// Takes from every partition, as a worker does, until `done`; sleeps only where nothing more is said to be there.
    pub fn until(&mut self, budget: Budget, what: &str, done: impl Fn(&[Seen]) -> bool) {
        loop {
            let calls = self.signal.calls();
            for place in 0..self.seen.len() {
                let taken = self.take(place, budget);
                assert!(taken.notice.is_none(), "{what}: {:?}", taken.notice);
            }
            if done(&self.seen) {
                return;
            }
            if self.seen.iter().any(|seen| seen.more) {
                continue;
            }
            assert!(
                self.signal.wait_beyond(calls, self.patience),
                "{what}: nothing woke, and {}",
                self.state()
            );
        }
    }

    /// Goes on elsewhere; what was seen of the partition is forgotten.
    pub fn seek(&mut self, place: usize, to: i64) {
        self.reader.source.seek(PartitionId(place as u32), CommitOffset(to), None).unwrap();
        self.seen[place] = Seen { more: true, ..Seen::default() };
    }

    /// Takes from one partition until it gives a notice.
    pub fn notice(&mut self, place: usize) -> Notice {
        loop {
            let calls = self.signal.calls();
            let taken = self.take(place, WIDE);
            if let Some(notice) = taken.notice {
                return notice;
            }
            if !taken.more {
                assert!(
                    self.signal.wait_beyond(calls, self.patience),
                    "no notice came, and {}",
                    self.state()
                );
            }
        }
    }

    /// Reads until each partition has given that many records.
    pub fn records(&mut self, each: usize) {
        self.until(WIDE, &format!("{each} records"), |seen| {
            seen.iter().all(|seen| seen.records.len() >= each)
        });
    }

    /// Reads until the first partition has said this end.
    pub fn end(&mut self, end: i64) {
        self.until(WIDE, &format!("the end {end}"), |seen| seen[0].ends.contains(&end));
    }

    fn state(&self) -> String {
        let one = |seen: &Seen| {
            format!("{} records, position {:?}, ends {:?}", seen.records.len(), seen.position, seen.ends)
        };
        self.seen.iter().map(one).collect::<Vec<_>>().join("; ")
    }
}

pub fn record_of(batch: &Batch, row: u32) -> Record {
    Record {
        key: batch.key(row).map(<[u8]>::to_vec),
        payload: batch.payload(row).map(<[u8]>::to_vec),
        headers: batch.headers(row).map(|(name, value)| (name.to_vec(), value.map(<[u8]>::to_vec))).collect(),
        timestamp_ms: batch.source(row).timestamp_ms,
    }
}

/// A writer with the books of what it sends: each token must come back once.
pub struct Writing {
    pub sink: Box<dyn TopicSink>,
    pub signal: Arc<Signal>,
    pub accounts: Accounts,
    /// Offsets of rows whose tokens came back, with what became of them, in that order.
    pub acks: Vec<(i64, Ack)>,
    patience: Duration,
    next: i64,
}

impl Writing {
    pub fn start(
        fixture: &dyn Fixture,
        broker: &dyn Broker,
        topics: &[&str],
        extra: &[(&str, &str)],
    ) -> Self {
        Writing::within(fixture, broker, topics, extra, 128 << 20)
    }

    /// With so many bytes of room in its queue.
    pub fn within(
        fixture: &dyn Fixture,
        broker: &dyn Broker,
        topics: &[&str],
        extra: &[(&str, &str)],
        room: usize,
    ) -> Self {
        let producer = producer(fixture, extra);
        let outputs: Vec<OutputSettings> = topics
            .iter()
            .map(|topic| OutputSettings { topic: (*topic).into(), producer: producer.clone() })
            .collect();
        let signal = Signal::new();
        let sink = broker.writer(&outputs, room, signal.waker()).unwrap();
        let mut accounts = Accounts::tracked();
        accounts.add_partition(CommitOffset(0), None);
        Writing { sink, signal, accounts, acks: Vec::new(), patience: fixture.patience(), next: 0 }
    }

    /// Registers records as if they had been read, at the next offsets.
    pub fn batch(&mut self, records: &[Record]) -> (Arc<Batch>, VecDeque<Token>) {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("source")]));
        let mut tokens = VecDeque::new();
        for record in records {
            for (name, value) in &record.headers {
                builder.header(name, value.as_deref());
            }
            let offset = RecordOffset(self.next);
            self.next += 1;
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 0,
                    offset,
                    timestamp_ms: record.timestamp_ms,
                    key: record.key.as_deref(),
                    payload: record.payload.as_deref(),
                    row: "",
                })
                .unwrap();
            tokens.push_back(self.accounts.register(PartitionId(0), offset, record.bytes() as u32));
        }
        (Arc::new(builder.finish()), tokens)
    }

    /// Sends all rows of a batch, taking acknowledgements where the queue is full.
    pub fn send(&mut self, output: usize, batch: &Arc<Batch>, stamp: Stamp, tokens: &mut VecDeque<Token>) {
        let rows: Vec<u32> = (0..batch.len() as u32).collect();
        let mut sent = 0;
        loop {
            let calls = self.signal.calls();
            sent += self.sink.send(OutputIndex(output), batch, &rows[sent..], stamp, tokens);
            if sent == rows.len() {
                return;
            }
            if !self.collect() {
                assert!(self.signal.wait_beyond(calls, self.patience), "a full queue has no room again");
            }
        }
    }

    /// Takes the acknowledgements that have come; whether there were any.
    pub fn collect(&mut self) -> bool {
        let mut acks = Vec::new();
        self.sink.acks(&mut acks);
        let some = !acks.is_empty();
        for (_, token, ack) in acks {
            let offset = self.accounts.offset(&token).expect("the token is one of ours");
            self.acks.push((offset.0, ack));
            self.accounts.redeem(token, Ending::Topic);
        }
        some
    }

    /// Waits until every row has its answer.
    pub fn settle(&mut self) {
        while self.sink.in_flight() > 0 {
            let calls = self.signal.calls();
            if !self.collect() && self.sink.in_flight() > 0 {
                assert!(
                    self.signal.wait_beyond(calls, self.patience),
                    "{} rows have no acknowledgement, and nothing woke",
                    self.sink.in_flight()
                );
            }
        }
        self.collect();
    }

    /// Sends these records, waits for their acknowledgements, and demands that each was written.
    pub fn write(&mut self, output: usize, records: &[Record], stamp: Stamp) {
        let (batch, mut tokens) = self.batch(records);
        self.send(output, &batch, stamp, &mut tokens);
        self.settle();
        self.assert_written();
    }

    /// Every token came back once, and each row was written.
    pub fn assert_written(&self) {
        assert_eq!(self.acks.len() as i64, self.next, "each row has one answer");
        for (offset, ack) in &self.acks {
            assert!(matches!(ack, Ack::Written), "row {offset}: {ack:?}");
        }
        assert_eq!(self.accounts.tracker(PartitionId(0)).watermark(), CommitOffset(self.next));
    }
}
