//! A mock cluster, settings for it, and a worker's share of reading and writing.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use loom_delivery::{Accounts, Token};
use loom_kafka::librdkafka::KafkaBroker;
use loom_kafka::{
    Ack, Assigned, Broker, Budget, ConsumerSettings, CredentialSettings, OutputIndex, OutputSettings,
    ProducerSettings, Reader, Sensitive, Stamp, Taken, TopicSink, Waker,
};
use loom_types::{Batch, BatchBuilder, CommitOffset, PartitionId, RecordOffset, RecordRef, TopicPartition};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;

/// How long anything may take that must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A budget that no test reaches.
pub const WIDE: Budget = Budget { rows: 10_000, bytes: 64 << 20 };

pub type Mock = MockCluster<'static, DefaultProducerContext>;

/// A cluster of one broker with a topic of one partition.
pub fn mock(topic: &str) -> Mock {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic(topic, 1, 1).unwrap();
    cluster
}

pub fn settings(addresses: String) -> ConsumerSettings {
    ConsumerSettings {
        brokers: vec![addresses],
        group_id: "g".into(),
        credentials: CredentialSettings::default(),
        forward_tombstones: false,
        prefetch: 64 << 20,
        poll_backoff: Duration::from_millis(50),
        extra: BTreeMap::new(),
    }
}

pub fn broker(cluster: &Mock) -> KafkaBroker {
    KafkaBroker::new(settings(cluster.bootstrap_servers())).unwrap()
}

pub fn output(cluster: &Mock, topic: &str, extra: &[(&str, &str)]) -> OutputSettings {
    let extra = extra.iter().map(|(key, value)| ((*key).to_owned(), Sensitive((*value).to_owned())));
    OutputSettings {
        topic: topic.into(),
        producer: Arc::new(ProducerSettings {
            brokers: vec![cluster.bootstrap_servers()],
            credentials: CredentialSettings::default(),
            compression: None,
            idempotence: true,
            largest_batch: None,
            extra: extra.collect(),
        }),
    }
}

/// Counts wake-ups.
#[derive(Default)]
pub struct Signal {
    calls: Mutex<u64>,
    called: Condvar,
}

impl Signal {
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

    /// Sleeps until there were more wake-ups than `seen`, or so long.
    pub fn wait(&self, seen: u64, time: Duration) {
        let calls = self.calls.lock().unwrap();
        drop(self.called.wait_timeout_while(calls, time, |calls| *calls <= seen).unwrap());
    }

    /// Sleeps until there were more wake-ups than `seen`.
    pub fn beyond(&self, seen: u64, deadline: Instant, what: &str) {
        let mut calls = self.calls.lock().unwrap();
        while *calls <= seen {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{what} did not come");
            calls = self.called.wait_timeout(calls, left).unwrap().0;
        }
    }

    /// Tries again at each wake-up until there is an answer.
    pub fn until<T>(&self, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.calls();
            if let Some(answer) = attempt() {
                return answer;
            }
            self.beyond(seen, deadline, what);
        }
    }
}

/// A reader of one partition.
pub struct Reading {
    pub reader: Reader,
    pub signal: Arc<Signal>,
    pub builder: BatchBuilder,
}

pub fn read(broker: &KafkaBroker, topic: &str, start: i64) -> Reading {
    let signal = Arc::<Signal>::default();
    let assigned = Assigned {
        id: PartitionId(0),
        partition: TopicPartition::new(topic, 0),
        topic: 0,
        start: CommitOffset(start),
        leader_epoch: None,
    };
    Reading {
        reader: broker.reader(vec![assigned], 1, signal.waker()).unwrap(),
        signal,
        builder: BatchBuilder::new(Arc::from(vec![Arc::from(topic)])),
    }
}

impl Reading {
    pub fn take(&mut self, budget: Budget) -> Taken {
        self.reader.source.take(PartitionId(0), budget, &mut self.builder)
    }

    /// Takes until `enough`, which sees each take.
    pub fn until<T>(&mut self, what: &str, mut enough: impl FnMut(&Taken) -> Option<T>) -> T {
        let signal = self.signal.clone();
        signal.until(what, || {
            loop {
                let taken = self.take(WIDE);
                if let Some(answer) = enough(&taken) {
                    return Some(answer);
                }
                if !taken.more {
                    return None;
                }
            }
        })
    }
}

/// A writer and the records that it stands in for.
pub struct Writing {
    pub sink: Box<dyn TopicSink>,
    pub signal: Arc<Signal>,
    accounts: Accounts,
    next: i64,
}

pub fn write(broker: &KafkaBroker, outputs: &[OutputSettings]) -> Writing {
    let signal = Arc::<Signal>::default();
    let sink = broker.writer(outputs, 128 << 20, signal.waker()).unwrap();
    let mut accounts = Accounts::tracked();
    accounts.add_partition(CommitOffset(0), None);
    Writing { sink, signal, accounts, next: 0 }
}

impl Writing {
    /// A batch with these payloads, and a token for each row.
    pub fn batch(&mut self, payloads: &[&[u8]]) -> (Arc<Batch>, VecDeque<Token>) {
        self.batch_of(payloads.iter().map(|payload| (*payload, None)))
    }

    /// The same, each with the time of its source.
    fn batch_of<'a>(
        &mut self,
        rows: impl Iterator<Item = (&'a [u8], Option<i64>)>,
    ) -> (Arc<Batch>, VecDeque<Token>) {
        let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("source")]));
        let mut tokens = VecDeque::new();
        for (payload, timestamp_ms) in rows {
            let offset = RecordOffset(self.next);
            self.next += 1;
            builder
                .push(RecordRef {
                    topic: 0,
                    partition: 0,
                    offset,
                    timestamp_ms,
                    key: Some(b"k"),
                    payload: Some(payload),
                    row: "",
                })
                .unwrap();
            tokens.push_back(self.accounts.register(PartitionId(0), offset, payload.len() as u32));
        }
        (Arc::new(builder.finish()), tokens)
    }

    /// Sends payloads to the first output, whose queue has room for them.
    pub fn send(&mut self, payloads: &[&[u8]]) {
        self.send_to(OutputIndex(0), payloads);
    }

    /// The same to any output.
    pub fn send_to(&mut self, output: OutputIndex, payloads: &[&[u8]]) {
        let batch = self.batch(payloads);
        self.send_all(output, batch);
    }

    /// Sends rows with these times to the first output.
    pub fn send_at(&mut self, times: &[Option<i64>]) {
        let batch = self.batch_of(times.iter().map(|time| (&b"timed"[..], *time)));
        self.send_all(OutputIndex(0), batch);
    }

    fn send_all(&mut self, output: OutputIndex, (batch, mut tokens): (Arc<Batch>, VecDeque<Token>)) {
        let rows: Vec<u32> = (0..batch.len() as u32).collect();
        let sent = self.sink.send(output, &batch, &rows, Stamp::Source, &mut tokens);
        assert_eq!((sent, tokens.len()), (rows.len(), 0));
    }

    /// What became of each row so far, by its number. Tokens are given up, since nothing commits here.
    pub fn acks(&mut self, into: &mut BTreeMap<i64, Ack>) {
        let mut acks = Vec::new();
        self.sink.acks(&mut acks);
        for (_, token, ack) in acks {
            let row = self.accounts.offset(&token).unwrap().0;
            assert!(into.insert(row, ack).is_none(), "row {row} was answered twice");
            token.give_up();
        }
    }

    /// Waits for the answers of so many rows.
    pub fn settle(&mut self, rows: usize) -> BTreeMap<i64, Ack> {
        let mut all = BTreeMap::new();
        let signal = self.signal.clone();
        signal.until("an acknowledgement", || {
            self.acks(&mut all);
            (all.len() >= rows).then_some(())
        });
        assert_eq!(self.sink.in_flight(), 0);
        all
    }
}

/// Writes payloads of these sizes, each its own number over and over.
pub fn fill(cluster: &Mock, sizes: &[usize]) {
    let payloads: Vec<Vec<u8>> =
        sizes.iter().enumerate().map(|(number, size)| vec![number as u8; *size]).collect();
    let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
    let broker = broker(cluster);
    let mut writing = write(&broker, &[output(cluster, "in", &[])]);
    writing.send(&payloads);
    let acks = writing.settle(sizes.len());
    assert!(acks.values().all(|ack| matches!(ack, Ack::Written)), "{acks:?}");
}
