//! The memory broker as `dev` on a terminal sees it: it is known of each record that is written which one it was made from.
//!
//! Rows are sent one by one, and the broker writes each within the call that sends it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::Token;
use loom_kafka::memory::MemoryClient;
use loom_kafka::{
    Ack, Assigned, Bounds, Broker, Committed, Group, GroupEntry, KafkaError, Member, OutputIndex, OutputInfo,
    OutputSettings, Reader, Rights, Stamp, TopicInfo, TopicSink, Waker,
};
use loom_types::{Batch, CommitOffset, Moves, PartitionId, Source, TopicPartition};

thread_local! {
    /// What the row that is just being sent was made from.
    static SENDING: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Where the record that is being written came from, as people write it; called within the call that sends it.
pub fn of_written() -> Option<String> {
    SENDING.with(|sending| sending.borrow().clone())
}

/// A place in the input: topic, partition and offset, and which of the rows that were made of the record there.
pub fn place(source: Source<'_>) -> String {
    let row = if source.row.is_empty() { String::new() } else { format!(" row {}", source.row) };
    format!("{}/{} at {}{row}", source.topic, source.partition, source.offset)
}

/// See the module's description.
pub struct Traced(pub MemoryClient);

type Answers<T> = Result<Vec<Result<T, KafkaError>>, KafkaError>;

impl Broker for Traced {
    fn topics(&self, names: &[&str], timeout: Duration) -> Answers<TopicInfo> {
        self.0.topics(names, timeout)
    }

    fn output_topics(&self, outputs: &[OutputSettings], timeout: Duration) -> Answers<OutputInfo> {
        self.0.output_topics(outputs, timeout)
    }

    fn topic_names(&self, timeout: Duration) -> Result<Vec<String>, KafkaError> {
        self.0.topic_names(timeout)
    }

    fn committed(
        &self,
        group: Group,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Answers<Option<Committed>> {
        self.0.committed(group, partitions, timeout)
    }

    fn commit_now(&self, group: Group, entries: &[GroupEntry], timeout: Duration) -> Answers<()> {
        self.0.commit_now(group, entries, timeout)
    }

    fn members(&self, timeout: Duration) -> Result<Vec<Member>, KafkaError> {
        self.0.members(timeout)
    }

    fn offsets_at(
        &self,
        partitions: &[TopicPartition],
        timestamp_ms: i64,
        timeout: Duration,
    ) -> Answers<Option<CommitOffset>> {
        self.0.offsets_at(partitions, timestamp_ms, timeout)
    }

    fn rights(&self, timeout: Duration) -> Result<Rights, KafkaError> {
        self.0.rights(timeout)
    }

    fn bounds(&self, partition: &TopicPartition, timeout: Duration) -> Result<Bounds, KafkaError> {
        self.0.bounds(partition, timeout)
    }

    fn log_end(&self, partition: &TopicPartition, timeout: Duration) -> Result<CommitOffset, KafkaError> {
        self.0.log_end(partition, timeout)
    }

    fn reader(&self, assigned: Vec<Assigned>, sharing: usize, waker: Waker) -> Result<Reader, KafkaError> {
        self.0.reader(assigned, sharing, waker)
    }

    fn writer(
        &self,
        outputs: &[OutputSettings],
        room: usize,
        waker: Waker,
    ) -> Result<Box<dyn TopicSink>, KafkaError> {
        Ok(Box::new(TracedSink(self.0.writer(outputs, room, waker)?)))
    }
}

struct TracedSink(Box<dyn TopicSink>);

impl TopicSink for TracedSink {
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
            SENDING.set(Some(place(batch.source(*row))));
            let took = self.0.send(output, batch, std::slice::from_ref(row), stamp, tokens);
            SENDING.set(None);
            if took == 0 {
                break;
            }
            accepted += took;
        }
        accepted
    }

    fn acks(&mut self, out: &mut Vec<(OutputIndex, Token, Ack)>) {
        self.0.acks(out);
    }

    fn flush(&mut self) {
        self.0.flush();
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token)) {
        self.0.each_in_flight(each);
    }

    fn each_held(&self, each: &mut dyn FnMut(PartitionId, &Arc<Batch>, u32)) {
        self.0.each_held(each);
    }

    fn move_rows(&mut self, moves: &Moves) {
        self.0.move_rows(moves);
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.0.client_errors(out);
    }

    fn close(&mut self, timeout: Duration) {
        self.0.close(timeout);
    }
}
