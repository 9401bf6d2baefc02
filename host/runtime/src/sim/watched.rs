//! The memory broker's client with a witness: what a worker takes, sends and commits is told to the model.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loom_delivery::lease::Holder;
use loom_delivery::{ANSWER_WITHIN, Mark, Token};
use loom_flow::Plan;
use loom_flow::plan::OffsetReset;
use loom_kafka::memory::MemoryClient;
use loom_kafka::{
    Ack, Assigned, Bounds, Broker, Budget, CommitAnswer, CommitEntry, Committed, Group, GroupEntry,
    KafkaError, Member, OffsetStore, OutputIndex, OutputInfo, OutputSettings, PartitionSource, Reader,
    RequestId, Rights, Stamp, Taken, TopicInfo, TopicSink, Waker,
};
use loom_types::{Batch, BatchBuilder, CommitOffset, Moment, Moves, PartitionId, TopicId, TopicPartition};

use super::excuse::Excuse;
use super::process::How;
use super::run::{Assignment, Found};
use super::world::Sim;
use crate::StartFrom;
use crate::stop::Stop;

/// See the module's description.
pub(super) struct Watched {
    sim: Arc<Sim>,
    client: MemoryClient,
    run: usize,
    /// The start was asked for.
    asked: bool,
    /// The reset goes to the end.
    latest: bool,
    take_over: bool,
    stop: Stop,
    /// Between two beats.
    interval: Duration,
    looked: Mutex<Looked>,
}

/// What a process has read from the broker.
#[derive(Default)]
struct Looked {
    /// The input topics' ids, as it read them last before it began to read records.
    ids: BTreeMap<String, Option<TopicId>>,
    /// The group's offsets, likewise.
    committed: BTreeMap<TopicPartition, Option<Committed>>,
    /// Where partitions end, likewise.
    ends: BTreeMap<TopicPartition, i64>,
    /// The holder of the lease, likewise.
    holder: Option<Holder>,
    reads: bool,
}

impl Watched {
    pub(super) fn new(
        sim: Arc<Sim>,
        client: MemoryClient,
        plan: &Plan,
        run: usize,
        how: &How,
        stop: &Stop,
    ) -> Watched {
        let (asked, take_over) = (how.from != StartFrom::GoOn, how.take_over);
        let interval = plan.runtime.lease_interval;
        let latest = matches!(plan.consumer.auto_offset_reset, OffsetReset::Latest);
        Watched {
            sim,
            client,
            run,
            asked,
            latest,
            take_over,
            stop: stop.clone(),
            interval,
            looked: Mutex::default(),
        }
    }

    fn looked(&self) -> std::sync::MutexGuard<'_, Looked> {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a partition starts, by what the process has read.
    fn assignment(&self, assigned: &Assigned) -> Assignment {
        let Assigned { partition: name, start, leader_epoch, .. } = assigned;
        let looked = self.looked();
        let id = looked.ids.get(&*name.topic).copied().flatten();
        let high = looked.ends.get(name).copied().expect("where it ends is asked before it is read");
        let cut = |epoch: i32| self.sim.broker.view(|view| view.cut_since(name, epoch, *start));
        let committed = looked.committed.get(name).cloned().flatten();
        let found = committed.map(|committed| {
            let mark = Mark::parse(&committed.metadata);
            let topic = mark.and_then(|mark| mark.topic);
            Found {
                offset: committed.offset.0,
                ours: mark.is_some(),
                run: mark.and_then(|mark| mark.run),
                // Where nobody says which topic it was, an offset beyond the end is of another.
                same_topic: topic.map_or(committed.offset.0 <= high, |topic| Some(topic) == id),
                replay: mark.and_then(|mark| mark.replay).map(|replay| replay.0),
            }
        });
        let mut siblings = looked.committed.iter().filter(|(other, _)| other.topic == name.topic);
        let knows_topic = siblings.any(|(_, committed)| committed.is_some());
        Assignment {
            start: start.0,
            high,
            back: leader_epoch.and_then(cut).map(|at| at.0),
            found,
            to_the_end: self.latest && !knows_topic && !self.asked,
            asked: self.asked,
            torn: id != self.sim.broker.topic_id(&name.topic),
        }
    }
}

impl Broker for Watched {
    fn topics(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Result<TopicInfo, KafkaError>>, KafkaError> {
        let infos = self.client.topics(names, timeout)?;
        let mut looked = self.looked();
        if !looked.reads {
            let known =
                names.iter().zip(&infos).filter_map(|(name, info)| Some((*name, info.as_ref().ok()?.id)));
            looked.ids.extend(known.map(|(name, id)| (name.to_owned(), id)));
        }
        Ok(infos)
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
        let answers = self.client.committed(group, partitions, timeout)?;
        let mut looked = self.looked();
        if group == Group::Owner {
            if !looked.reads {
                let entry = answers.first().and_then(|answer| answer.as_ref().ok()?.as_ref());
                looked.holder = entry.and_then(|entry| Holder::parse(&entry.metadata));
            } else if let Some(entry) = answers.first().and_then(|answer| answer.as_ref().ok()?.as_ref())
                && let Some(holder) = Holder::parse(&entry.metadata)
            {
                let mut state = self.sim.lock();
                state.model.reads_lease(self.run, &holder, self.sim.now());
            }
            return Ok(answers);
        }
        for (name, answer) in partitions.iter().zip(&answers) {
            let Ok(answer) = answer else { continue };
            if !looked.reads {
                looked.committed.insert(name.clone(), answer.clone());
                continue;
            }
            let foreign = answer.as_ref().filter(|committed| Mark::parse(&committed.metadata).is_none());
            if foreign.is_some() && looked.committed.get(name) != Some(answer) {
                let mut state = self.sim.lock();
                state.tell(self.sim.now(), || format!("  {name} is found to be set from outside"));
                state.model.run(self.run).shut = true;
            }
        }
        Ok(answers)
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
        let bounds = self.client.bounds(partition, timeout)?;
        let mut looked = self.looked();
        if !looked.reads {
            looked.ends.insert(partition.clone(), bounds.high.0);
        }
        Ok(bounds)
    }

    fn log_end(&self, partition: &TopicPartition, timeout: Duration) -> Result<CommitOffset, KafkaError> {
        let end = self.client.log_end(partition, timeout)?;
        let mut looked = self.looked();
        if !looked.reads {
            looked.ends.insert(partition.clone(), end.0);
        }
        Ok(end)
    }

    fn reader(&self, assigned: Vec<Assigned>, sharing: usize, waker: Waker) -> Result<Reader, KafkaError> {
        let starts: Vec<(TopicPartition, Assignment)> =
            assigned.iter().map(|assigned| (assigned.partition.clone(), self.assignment(assigned))).collect();
        let reader = self.client.reader(assigned, sharing, waker)?;
        let (mut partitions, mut known) = (Vec::with_capacity(starts.len()), BTreeSet::new());
        for (at, (name, how)) in starts.into_iter().enumerate() {
            let mut state = self.sim.lock();
            let partition = state.model.partition(&name);
            partitions.push(partition);
            state.tell(self.sim.now(), || format!("{name} is read: {how:?}"));
            state.model.assigned(self.run, partition, how);
            if how.found.is_some_and(|found| found.same_topic) {
                known.insert(at);
            }
        }
        let mut looked = self.looked();
        if !looked.reads
            && let Some(holder) = looked.holder.as_ref().filter(|holder| !holder.released)
        {
            // Whoever it is, it is no process of this machine that could be looked up.
            let mut state = self.sim.lock();
            state.tell(self.sim.now(), || format!("  the lease is held: {holder}"));
            state.model.run(self.run).held_until = Some(self.sim.now() + 2 * self.interval);
            let owner = holder.process as usize;
            state.model.beside(self.run, Some(owner), self.take_over);
            state.model.run(self.run).watches_since = Some(self.sim.now());
        }
        looked.reads = true;
        let initial = looked.committed.clone();
        drop(looked);
        let (partitions, known): (Arc<[usize]>, _) = (partitions.into(), Arc::new(Mutex::new(known)));
        Ok(Reader {
            source: Box::new(Source {
                sim: self.sim.clone(),
                run: self.run,
                partitions: partitions.clone(),
                known: known.clone(),
                source: reader.source,
            }),
            offsets: Box::new(Offsets {
                sim: self.sim.clone(),
                run: self.run,
                stop: self.stop.clone(),
                partitions,
                known,
                offsets: reader.offsets,
                initial,
                in_flight: None,
            }),
        })
    }

    fn writer(
        &self,
        outputs: &[OutputSettings],
        room: usize,
        waker: Waker,
    ) -> Result<Box<dyn TopicSink>, KafkaError> {
        let sink = self.client.writer(outputs, room, waker)?;
        let topics = outputs.iter().map(|output| output.topic.clone()).collect();
        self.sim.lock().model.writes(self.run);
        Ok(Box::new(Sink { sim: self.sim.clone(), run: self.run, topics, sink }))
    }
}

struct Source {
    sim: Arc<Sim>,
    run: usize,
    /// The model's numbers for the reader's partitions.
    partitions: Arc<[usize]>,
    /// The partitions that the group is known to have an offset for, by the reader's numbers.
    known: Arc<Mutex<BTreeSet<usize>>>,
    source: Box<dyn PartitionSource>,
}

impl PartitionSource for Source {
    fn take(&mut self, partition: PartitionId, budget: Budget, out: &mut BatchBuilder) -> Taken {
        let before = out.len();
        let taken = self.source.take(partition, budget, out);
        let index = self.partitions[partition.index()];
        let mut state = self.sim.lock();
        for row in before..out.len() {
            state.model.taken(self.run, index, out.offset(row).0);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(&partition.index());
        if taken.rows > 0 && !known {
            let name = state.model.name(index).clone();
            state.model.breaks(|| format!("{name} gave records out before its start was committed"));
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

    fn seek(
        &mut self,
        partition: PartitionId,
        to: CommitOffset,
        leader_epoch: Option<i32>,
    ) -> Result<(), KafkaError> {
        let index = self.partitions[partition.index()];
        let mut state = self.sim.lock();
        let name = state.model.name(index).clone();
        state.tell(self.sim.now(), || format!("  {name} is sought to {to}"));
        state.model.sought(self.run, index, to.0);
        drop(state);
        self.source.seek(partition, to, leader_epoch)
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.source.client_errors(out);
    }
}

/// How long one step of a worker may take, at most.
const A_STEP: Duration = Duration::from_secs(10);

struct Offsets {
    sim: Arc<Sim>,
    run: usize,
    stop: Stop,
    partitions: Arc<[usize]>,
    known: Arc<Mutex<BTreeSet<usize>>>,
    offsets: Box<dyn OffsetStore>,
    /// What the group had when the process looked.
    initial: BTreeMap<TopicPartition, Option<Committed>>,
    /// The request that has no answer, and when it was sent.
    in_flight: Option<(RequestId, Moment)>,
}

impl Offsets {
    /// What somebody who is no host has set of these, since the process looked.
    fn set_by_tools(&self, entries: &[CommitEntry]) -> Vec<(TopicPartition, Committed)> {
        if self.sim.broker.view(|view| view.has_late_commits(super::GROUP)) {
            // One that was sent before may arrive now.
            return Vec::new();
        }
        let state = self.sim.lock();
        let names = entries.iter().map(|entry| state.model.name(self.partitions[entry.partition.index()]));
        let found =
            names.filter_map(|name| Some((name.clone(), self.sim.broker.committed(super::GROUP, name)?)));
        let by_a_tool = |(name, found): &(TopicPartition, Committed)| {
            let initial = self.initial.get(name).and_then(Option::as_ref);
            Mark::parse(&found.metadata).is_none() && initial != Some(found)
        };
        found.filter(by_a_tool).collect()
    }
}

impl OffsetStore for Offsets {
    fn commit(&mut self, entries: &[CommitEntry]) -> Result<RequestId, KafkaError> {
        // What was written in this step counts: the model has to have seen it.
        let mut state = self.sim.lock();
        self.sim.look(&mut state);
        state.model.run(self.run).stopping |= self.stop.is_requested();
        for entry in entries {
            let index = self.partitions[entry.partition.index()];
            let name = state.model.name(index).clone();
            state.tell(self.sim.now(), || format!("  commit {name} at {}", entry.offset));
            state.model.commit(self.run, index, entry.offset.0, self.sim.now());
        }
        // The worker counts from the moment of its step, whose calls take their time before the request is sent.
        if self.in_flight.is_some_and(|(_, sent)| self.sim.now().since(sent) + A_STEP < ANSWER_WITHIN) {
            state.model.breaks(|| "a commit was sent while another had no answer".to_owned());
        }
        drop(state);
        let set = self.set_by_tools(entries);
        let request = self.offsets.commit(entries)?;
        for (name, found) in set {
            if self.sim.broker.committed(super::GROUP, &name).as_ref() != Some(&found) {
                let mut state = self.sim.lock();
                state.model.breaks(|| format!("{name}: {found:?} was set from outside, and is overwritten"));
            }
        }
        self.in_flight = Some((request, self.sim.now()));
        Ok(request)
    }

    fn answers(&mut self, out: &mut Vec<CommitAnswer>) {
        let before = out.len();
        self.offsets.answers(out);
        for answer in &out[before..] {
            self.in_flight.take_if(|(request, _)| *request == answer.request);
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known
                .extend(answer.results.iter().filter(|(_, result)| result.is_ok()).map(|(id, _)| id.index()));
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
    run: usize,
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
                Ack::Refused(_) => "refused",
                Ack::Unknown => {
                    state.model.run(self.run).excuse(Excuse::Unknown);
                    "unknown"
                }
            };
            state.tell(self.sim.now(), || format!("  {} answers {told}", self.topics[output.0]));
        }
    }

    fn flush(&mut self) {
        self.sink.flush();
    }

    fn in_flight(&self) -> usize {
        self.sink.in_flight()
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token)) {
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
        self.sink.close(timeout);
    }
}
