//! The memory broker's client with a witness: what a worker takes, sends and commits is told to the model.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{ANSWER_WITHIN, Token};
use loom_kafka::memory::MemoryClient;
use loom_kafka::{
    Ack, Assigned, Bounds, Broker, Budget, CommitAnswer, CommitEntry, Committed, Group, GroupEntry,
    KafkaError, Member, OffsetStore, OutputIndex, OutputInfo, OutputSettings, PartitionSource, Reader,
    RequestId, Rights, Stamp, Taken, TopicInfo, TopicSink, Waker,
};
use loom_types::{Batch, BatchBuilder, CommitOffset, Moment, PartitionId, TopicPartition};

use super::world::Sim;

/// See the module's description.
pub(super) struct Watched {
    pub sim: Arc<Sim>,
    pub client: MemoryClient,
}

impl Broker for Watched {
    fn topics(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Result<TopicInfo, KafkaError>>, KafkaError> {
        self.client.topics(names, timeout)
    }

    fn output_topics(
        &self,
        outputs: &[OutputSettings],
        timeout: Duration,
    ) -> Result<Vec<Result<OutputInfo, KafkaError>>, KafkaError> {
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
    ) -> Result<Vec<Result<Option<Committed>, KafkaError>>, KafkaError> {
        self.client.committed(group, partitions, timeout)
    }

    fn commit_now(
        &self,
        group: Group,
        entries: &[GroupEntry],
        timeout: Duration,
    ) -> Result<Vec<Result<(), KafkaError>>, KafkaError> {
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
    ) -> Result<Vec<Result<Option<CommitOffset>, KafkaError>>, KafkaError> {
        self.client.offsets_at(partitions, timestamp_ms, timeout)
    }

    fn rights(&self, timeout: Duration) -> Result<Rights, KafkaError> {
        self.client.rights(timeout)
    }

    fn bounds(&self, partition: &TopicPartition, timeout: Duration) -> Result<Bounds, KafkaError> {
        self.client.bounds(partition, timeout)
    }

    fn reader(&self, assigned: Vec<Assigned>, sharing: usize, waker: Waker) -> Result<Reader, KafkaError> {
        let starts: Vec<(TopicPartition, CommitOffset)> =
            assigned.iter().map(|assigned| (assigned.partition.clone(), assigned.start)).collect();
        let reader = self.client.reader(assigned, sharing, waker.clone())?;
        let mut partitions = Vec::with_capacity(starts.len());
        for (name, start) in starts {
            let committed = self.sim.broker.committed(super::GROUP, &name);
            let committed = committed.map(|committed| committed.offset.0);
            let mut state = self.sim.lock();
            let partition = state.model.partition(&name);
            partitions.push(partition);
            state.tell(self.sim.now(), || format!("{name} is read from {start}, committed {committed:?}"));
            state.model.assigned(partition, start.0, committed);
        }
        let partitions: Arc<[usize]> = partitions.into();
        Ok(Reader {
            source: Box::new(Source {
                sim: self.sim.clone(),
                partitions: partitions.clone(),
                committed: vec![false; partitions.len()],
                source: reader.source,
            }),
            offsets: Box::new(Offsets {
                sim: self.sim.clone(),
                partitions,
                offsets: reader.offsets,
                waker,
                in_flight: None,
                answers: VecDeque::new(),
            }),
        })
    }

    fn writer(&self, outputs: &[OutputSettings], waker: Waker) -> Result<Box<dyn TopicSink>, KafkaError> {
        let sink = self.client.writer(outputs, waker)?;
        let topics = outputs.iter().map(|output| output.topic.clone()).collect();
        Ok(Box::new(Sink { sim: self.sim.clone(), topics, sink }))
    }
}

struct Source {
    sim: Arc<Sim>,
    /// The model's numbers for the reader's partitions.
    partitions: Arc<[usize]>,
    /// The group is known to have an offset.
    committed: Vec<bool>,
    source: Box<dyn PartitionSource>,
}

impl PartitionSource for Source {
    fn take(&mut self, partition: PartitionId, budget: Budget, out: &mut BatchBuilder) -> Taken {
        let before = out.len();
        let taken = self.source.take(partition, budget, out);
        let index = self.partitions[partition.index()];
        let mut state = self.sim.lock();
        for row in before..out.len() {
            state.model.taken(index, out.offset(row).0);
        }
        if taken.rows > 0 && !self.committed[partition.index()] {
            let name = state.model.name(index).clone();
            self.committed[partition.index()] = self.sim.broker.committed(super::GROUP, &name).is_some();
            if !self.committed[partition.index()] {
                state.model.breaks(|| format!("{name} gave records out before its start was committed"));
            }
        }
        if taken.rows > 0 || taken.notice.is_some() || taken.end.is_some() {
            let name = state.model.name(index).clone();
            state.tell(self.sim.now(), || {
                let offsets: Vec<i64> = (before..out.len()).map(|row| out.offset(row).0).collect();
                format!("  {name} gives {offsets:?}, end {:?}, {:?}", taken.end, taken.notice)
            });
        }
        taken
    }

    fn seek(&mut self, partition: PartitionId, to: CommitOffset) -> Result<(), KafkaError> {
        self.sim.tell(|| format!("  {partition:?} is sought to {to}"));
        self.source.seek(partition, to)
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.source.client_errors(out);
    }
}

struct Offsets {
    sim: Arc<Sim>,
    partitions: Arc<[usize]>,
    offsets: Box<dyn OffsetStore>,
    waker: Waker,
    /// When the request was sent that has no answer.
    in_flight: Option<Moment>,
    /// Answers that are on their way, with when they come.
    answers: VecDeque<(Moment, CommitAnswer)>,
}

impl OffsetStore for Offsets {
    fn commit(&mut self, entries: &[CommitEntry]) -> Result<RequestId, KafkaError> {
        // What was written in this step counts: the model has to have seen it.
        let mut state = self.sim.lock();
        self.sim.look(&mut state);
        for entry in entries {
            let index = self.partitions[entry.partition.index()];
            let name = state.model.name(index).clone();
            state.tell(self.sim.now(), || format!("  commit {name} at {}", entry.offset));
            state.model.commit(index, entry.offset.0);
        }
        let waits = self.in_flight.is_some_and(|sent| self.sim.now().since(sent) < ANSWER_WITHIN);
        if waits {
            state.model.breaks(|| "a commit was sent while another had no answer".to_owned());
        }
        drop(state);
        let sent = self.offsets.commit(entries);
        if sent.is_ok() {
            self.in_flight = Some(self.sim.now());
        }
        sent
    }

    fn answers(&mut self, out: &mut Vec<CommitAnswer>) {
        let mut came = Vec::new();
        self.offsets.answers(&mut came);
        let now = self.sim.now();
        {
            let mut state = self.sim.lock();
            let by = if state.calm { Duration::ZERO } else { state.slow_commits };
            for answer in came {
                if !by.is_zero() {
                    state.wakes.push((now + by, self.waker.clone()));
                }
                self.answers.push_back((now + by, answer));
            }
        }
        let before = out.len();
        while let Some((_, answer)) = self.answers.pop_front_if(|(due, _)| *due <= now) {
            out.push(answer);
        }
        for answer in &out[before..] {
            self.in_flight = None;
            self.sim.tell(|| {
                let failed: Vec<String> = answer
                    .results
                    .iter()
                    .filter_map(|(id, result)| Some(format!("{id:?} {}", result.as_ref().err()?)))
                    .collect();
                format!("  commit answered, failed: {failed:?}")
            });
        }
    }
}

struct Sink {
    sim: Arc<Sim>,
    topics: Vec<Arc<str>>,
    sink: Box<dyn TopicSink>,
}

impl TopicSink for Sink {
    fn send(
        &mut self,
        output: OutputIndex,
        batch: &Arc<Batch>,
        rows: &[u32],
        stamp: Stamp,
        tokens: &mut VecDeque<Token>,
    ) -> usize {
        let accepted = self.sink.send(output, batch, rows, stamp, tokens);
        self.sim.tell(|| format!("  sent {accepted} of {} to {}", rows.len(), self.topics[output.0]));
        accepted
    }

    fn acks(&mut self, out: &mut Vec<(OutputIndex, Token, Ack)>) {
        let before = out.len();
        self.sink.acks(out);
        for (output, _, ack) in &out[before..] {
            let mut state = self.sim.lock();
            let told = match ack {
                Ack::Written => "written",
                Ack::Refused(_) => {
                    state.excuse("an output refused a row");
                    "refused"
                }
                Ack::Unknown => {
                    state.excuse("an output gave a row back");
                    "unknown"
                }
            };
            state.tell(self.sim.now(), || format!("  {} answers {told}", self.topics[output.0]));
        }
    }

    fn in_flight(&self) -> usize {
        self.sink.in_flight()
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token)) {
        self.sink.each_in_flight(each);
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.sink.client_errors(out);
    }

    fn close(&mut self, timeout: Duration) {
        self.sink.close(timeout);
    }
}
