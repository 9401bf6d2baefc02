//! The memory broker as a case's flow sees it: an output may refuse a record, and a process that was killed reaches it no
//! more.
//!
//! Rows are sent one by one, so that it is known which record each written one was made from.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::Token;
use loom_kafka::memory::{MemoryClient, Observer};
use loom_kafka::{
    Ack, Assigned, Bounds, Broker, Budget, CommitAnswer, CommitEntry, Committed, Group, GroupEntry,
    KafkaError, Kind, Member, OffsetStore, OutputIndex, OutputInfo, OutputSettings, PartitionSource, Reader,
    Refusal, RequestId, Rights, Stamp, Taken, TopicInfo, TopicSink, Waker,
};
use loom_types::{Batch, BatchBuilder, CommitOffset, Moves, PartitionId, TopicPartition};

use super::life::{Life, Origin};

thread_local! {
    /// What the row that is just being sent was made from: the broker writes it within the call.
    static SENDING: RefCell<Option<Origin>> = const { RefCell::new(None) };
}

/// Tells a life of each record that is written.
pub fn observer(life: Arc<Life>) -> Observer {
    Box::new(move |topic, stored, _| {
        if let Some(origin) = SENDING.with(|sending| sending.borrow().clone()) {
            life.saw_written(topic, stored.record.clone(), origin);
        }
    })
}

/// See the module's description.
pub struct StagedBroker {
    client: MemoryClient,
    life: Arc<Life>,
}

impl StagedBroker {
    pub fn new(client: MemoryClient, life: Arc<Life>) -> Self {
        StagedBroker { client, life }
    }
}

type Answers<T> = Result<Vec<Result<T, KafkaError>>, KafkaError>;

impl Broker for StagedBroker {
    fn topics(&self, names: &[&str], timeout: Duration) -> Answers<TopicInfo> {
        self.client.topics(names, timeout)
    }

    fn output_topics(&self, outputs: &[OutputSettings], timeout: Duration) -> Answers<OutputInfo> {
        self.client.output_topics(outputs, timeout)
    }

    fn topic_names(&self, timeout: Duration) -> Result<Vec<String>, KafkaError> {
        self.client.topic_names(timeout)
    }

    fn committed(
        &self,
        group: Group,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Answers<Option<Committed>> {
        self.client.committed(group, partitions, timeout)
    }

    fn commit_now(&self, group: Group, entries: &[GroupEntry], timeout: Duration) -> Answers<()> {
        if self.life.is_killed() {
            return Err(gone());
        }
        self.client.commit_now(group, entries, timeout)
    }

    fn members(&self, timeout: Duration) -> Result<Vec<Member>, KafkaError> {
        self.client.members(timeout)
    }

    fn offsets_at(
        &self,
        partitions: &[TopicPartition],
        timestamp_ms: i64,
        timeout: Duration,
    ) -> Answers<Option<CommitOffset>> {
        self.client.offsets_at(partitions, timestamp_ms, timeout)
    }

    fn rights(&self, timeout: Duration) -> Result<Rights, KafkaError> {
        self.client.rights(timeout)
    }

    fn bounds(&self, partition: &TopicPartition, timeout: Duration) -> Result<Bounds, KafkaError> {
        self.client.bounds(partition, timeout)
    }

    fn log_end(&self, partition: &TopicPartition, timeout: Duration) -> Result<CommitOffset, KafkaError> {
        self.client.log_end(partition, timeout)
    }

    fn reader(&self, assigned: Vec<Assigned>, sharing: usize, waker: Waker) -> Result<Reader, KafkaError> {
        let reading = assigned.iter().map(|one| (one.id, one.partition.clone(), one.start.0)).collect();
        let Reader { source, offsets } = self.client.reader(assigned, sharing, waker)?;
        let life = self.life.clone();
        Ok(Reader {
            source: Box::new(StagedSource { source, life: life.clone(), reading }),
            offsets: Box::new(StagedOffsets { offsets, life }),
        })
    }

    fn writer(
        &self,
        outputs: &[OutputSettings],
        room: usize,
        waker: Waker,
    ) -> Result<Box<dyn TopicSink>, KafkaError> {
        let sink = self.client.writer(outputs, room, waker.clone())?;
        let topics = outputs.iter().map(|output| output.topic.clone()).collect();
        Ok(Box::new(StagedSink { sink, topics, life: self.life.clone(), waker, refused: Vec::new() }))
    }
}

/// What a process that is no more would be answered.
fn gone() -> KafkaError {
    KafkaError { kind: Kind::Transient, code: "_DESTROY", message: "the process was killed".to_owned() }
}

/// Reads up to the record at which the flow is killed.
struct StagedSource {
    source: Box<dyn PartitionSource>,
    life: Arc<Life>,
    /// The next offset of each partition.
    reading: Vec<(PartitionId, TopicPartition, i64)>,
}

impl PartitionSource for StagedSource {
    fn take(&mut self, partition: PartitionId, budget: Budget, out: &mut BatchBuilder) -> Taken {
        if self.life.is_killed() {
            return Taken::default();
        }
        let reading = self.reading.iter_mut().find(|(id, ..)| *id == partition);
        let Some((_, name, next)) = reading else { return self.source.take(partition, budget, out) };
        let rows = match self.life.before_kill(&name.topic, name.partition, *next) {
            Some(0) => {
                self.life.kill_at_read(&name.topic, name.partition, *next);
                return Taken::default();
            }
            Some(rows) => budget.rows.min(usize::try_from(rows).unwrap_or(usize::MAX)),
            None => budget.rows,
        };
        let taken = self.source.take(partition, Budget { rows, ..budget }, out);
        if let Some(position) = taken.position {
            *next = position.0;
        }
        taken
    }

    fn seek(
        &mut self,
        partition: PartitionId,
        to: CommitOffset,
        leader_epoch: Option<i32>,
    ) -> Result<(), KafkaError> {
        if let Some((.., next)) = self.reading.iter_mut().find(|(id, ..)| *id == partition) {
            *next = to.0;
        }
        self.source.seek(partition, to, leader_epoch)
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.source.client_errors(out);
    }
}

struct StagedOffsets {
    offsets: Box<dyn OffsetStore>,
    life: Arc<Life>,
}

impl OffsetStore for StagedOffsets {
    fn commit(&mut self, entries: &[CommitEntry]) -> Result<RequestId, KafkaError> {
        if self.life.is_killed() { Err(gone()) } else { self.offsets.commit(entries) }
    }

    fn answers(&mut self, out: &mut Vec<CommitAnswer>) {
        if !self.life.is_killed() {
            self.offsets.answers(out);
        }
    }
}

struct StagedSink {
    sink: Box<dyn TopicSink>,
    /// By output.
    topics: Vec<Arc<str>>,
    life: Arc<Life>,
    waker: Waker,
    /// Rows that an output refuses, until that is asked for.
    refused: Vec<(OutputIndex, Token, Ack)>,
}

impl TopicSink for StagedSink {
    fn send(
        &mut self,
        output: OutputIndex,
        batch: &Arc<Batch>,
        rows: &[u32],
        stamp: Stamp,
        tokens: &mut VecDeque<Token>,
    ) -> usize {
        let mut accepted = 0;
        for row in rows {
            if self.life.is_killed() {
                break;
            }
            let source = batch.source(*row);
            if let Some(reason) = self.life.refuses(&self.topics[output.0], source) {
                let Some(token) = tokens.pop_front() else { break };
                let error = KafkaError { kind: Kind::Refused, code: "INVALID_RECORD", message: reason };
                let refusal = Refusal { error, batch: batch.clone(), row: *row };
                self.refused.push((output, token, Ack::Refused(refusal)));
                (self.waker)();
                accepted += 1;
                continue;
            }
            let origin = Origin::of(source);
            SENDING.set(Some(origin.clone()));
            let took = self.sink.send(output, batch, std::slice::from_ref(row), stamp, tokens);
            SENDING.set(None);
            if took == 0 {
                break;
            }
            accepted += 1;
            self.life.was_written(&origin);
        }
        accepted
    }

    fn acks(&mut self, out: &mut Vec<(OutputIndex, Token, Ack)>) {
        if !self.life.is_killed() {
            out.append(&mut self.refused);
            self.sink.acks(out);
        }
    }

    fn flush(&mut self) {
        if !self.life.is_killed() {
            self.sink.flush();
        }
    }

    fn in_flight(&self) -> usize {
        self.refused.len() + self.sink.in_flight()
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token)) {
        self.refused.iter().for_each(|(output, token, _)| each(*output, token));
        self.sink.each_in_flight(each);
    }

    fn each_held(&self, each: &mut dyn FnMut(PartitionId, &Arc<Batch>, u32)) {
        self.sink.each_held(each);
    }

    fn move_rows(&mut self, moves: &Moves) {
        self.sink.move_rows(moves);
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.sink.client_errors(out);
    }

    fn close(&mut self, timeout: Duration) {
        if !self.life.is_killed() {
            self.sink.close(timeout);
        }
    }
}
