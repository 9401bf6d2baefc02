//! The broker as one consumer's settings see it: what is asked at assembly, and the making of readers and writers.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use loom_types::{CommitOffset, TopicPartition};

use super::faults::{Call, CommitFault, brokers_down, unknown_partition, unknown_topic};
use super::offsets::MemoryOffsets;
use super::offsets::not_answered;
use super::reader::{ReaderHandle, ReaderState};
use super::rights::Right;
use super::sink::MemorySink;
use super::source::MemorySource;
use super::state::{Shared, State, TopicConfig};
use crate::contract::{Broker, Reader, TopicSink, Waker};
use crate::error::{KafkaError, Kind};
use crate::facts::{
    Assigned, Bounds, Committed, Group, GroupEntry, Member, OutputInfo, OutputSettings, Rights, TopicInfo,
};
use crate::settings::ConsumerSettings;

/// The memory broker seen through a consumer's settings. Nothing here waits: time-outs are the script's business.
pub struct MemoryClient {
    pub(super) shared: Arc<Shared>,
    pub(super) consumer: ConsumerSettings,
}

impl MemoryClient {
    fn state(&self, call: Call) -> Result<std::sync::MutexGuard<'_, State>, KafkaError> {
        let mut state = self.shared.lock();
        let scripted = state.enter(call);
        state.run_late_commits();
        self.shared.changed.notify_all();
        scripted?;
        if state.down { Err(brokers_down()) } else { Ok(state) }
    }
}

impl Broker for MemoryClient {
    fn topics(&self, names: &[&str], _: Duration) -> Result<Vec<Result<TopicInfo, KafkaError>>, KafkaError> {
        let mut state = self.state(Call::Topics)?;
        Ok(names.iter().map(|name| state.topic_info(Call::Topics, name)).collect())
    }

    fn output_topics(
        &self,
        outputs: &[OutputSettings],
        _: Duration,
    ) -> Result<Vec<Result<OutputInfo, KafkaError>>, KafkaError> {
        let mut state = self.state(Call::OutputTopics)?;
        Ok(outputs.iter().map(|output| state.output_info(&output.topic)).collect())
    }

    fn topic_names(&self, _: Duration) -> Result<Vec<String>, KafkaError> {
        let state = self.state(Call::TopicNames)?;
        Ok(state.names.keys().map(|name| name.to_string()).collect())
    }

    fn committed(
        &self,
        group: Group,
        partitions: &[TopicPartition],
        _: Duration,
    ) -> Result<Vec<Result<Option<Committed>, KafkaError>>, KafkaError> {
        let call = if group == Group::Owner { Call::Lease } else { Call::Committed };
        let mut state = self.state(call)?;
        let name = self.consumer.group(group);
        state.demand(&Right::Group(name.clone()))?;
        let mut found = Vec::with_capacity(partitions.len());
        for place in partitions {
            let scripted = state.faults.place(call, &place.topic, Some(place.partition));
            let group = state.groups.get(&name);
            let mut committed = group.and_then(|group| group.committed.get(place)).cloned();
            if let (Some(committed), true) = (&mut committed, state.silent) {
                committed.leader_epoch = None;
            }
            found.push(scripted.map_or(Ok(committed), Err));
        }
        Ok(found)
    }

    fn commit_now(
        &self,
        group: Group,
        entries: &[GroupEntry],
        _: Duration,
    ) -> Result<Vec<Result<(), KafkaError>>, KafkaError> {
        let call = if group == Group::Owner { Call::Lease } else { Call::CommitNow };
        let mut state = self.state(call)?;
        let fault = state.commit_fault(group)?;
        let name = self.consumer.group(group);
        if let Some(fault @ (CommitFault::Late { .. } | CommitFault::Lost { .. })) = &fault {
            state.send_late(call, &name, entries.to_vec(), None, fault);
            state.run_late_commits();
            return Err(not_answered());
        }
        let results = state.set_offsets(call, &name, entries, fault.as_ref());
        self.shared.changed.notify_all();
        match fault {
            Some(CommitFault::Unanswered) => Err(not_answered()),
            _ => Ok(results),
        }
    }

    fn members(&self, _: Duration) -> Result<Vec<Member>, KafkaError> {
        let state = self.state(Call::Members)?;
        let group = self.consumer.group(Group::Input);
        state.demand(&Right::Group(group.clone()))?;
        Ok(state.groups.get(&group).map_or_else(Vec::new, |group| group.members.clone()))
    }

    fn offsets_at(
        &self,
        partitions: &[TopicPartition],
        timestamp_ms: i64,
        _: Duration,
    ) -> Result<Vec<Result<Option<CommitOffset>, KafkaError>>, KafkaError> {
        let mut state = self.state(Call::OffsetsAt)?;
        let mut found = Vec::with_capacity(partitions.len());
        for place in partitions {
            found.push(
                state
                    .place_result(Call::OffsetsAt, place)
                    .map(|()| state.log(place).and_then(|log| log.first_at(timestamp_ms)).map(CommitOffset)),
            );
        }
        Ok(found)
    }

    fn rights(&self, _: Duration) -> Result<Rights, KafkaError> {
        let state = self.state(Call::Rights)?;
        Ok(Rights {
            idempotent_write: state.told(&Right::IdempotentWrite),
            owner_group: state.told(&Right::Group(self.consumer.group(Group::Owner))),
        })
    }

    fn bounds(&self, partition: &TopicPartition, _: Duration) -> Result<Bounds, KafkaError> {
        let mut state = self.state(Call::Bounds)?;
        state.place_result(Call::Bounds, partition)?;
        let log = state.log(partition).ok_or_else(|| unknown_partition(partition))?;
        Ok(Bounds { low: CommitOffset(log.low()), high: CommitOffset(log.stable()) })
    }

    fn log_end(&self, partition: &TopicPartition, _: Duration) -> Result<CommitOffset, KafkaError> {
        let mut state = self.state(Call::Bounds)?;
        state.place_result(Call::Bounds, partition)?;
        let log = state.log(partition).ok_or_else(|| unknown_partition(partition))?;
        Ok(CommitOffset(log.high()))
    }

    fn reader(&self, assigned: Vec<Assigned>, _: usize, waker: Waker) -> Result<Reader, KafkaError> {
        let mut state = self.state(Call::Reader)?;
        let reader = ReaderState::new(&state, &self.consumer, assigned, waker.clone())?;
        let id = state.readers.len();
        state.readers.push(Some(reader));
        self.shared.stream_wakers.lock().unwrap_or_else(PoisonError::into_inner).push((id, waker));
        drop(state);
        let handle = Arc::new(ReaderHandle { shared: self.shared.clone(), id });
        Ok(Reader {
            source: Box::new(MemorySource { reader: handle.clone() }),
            offsets: Box::new(MemoryOffsets { reader: handle }),
        })
    }

    fn writer(
        &self,
        outputs: &[OutputSettings],
        room: usize,
        waker: Waker,
    ) -> Result<Box<dyn TopicSink>, KafkaError> {
        drop(self.state(Call::Writer)?);
        Ok(Box::new(MemorySink::new(self.shared.clone(), outputs, room, waker)?))
    }
}

impl State {
    fn topic_info(&mut self, call: Call, name: &str) -> Result<TopicInfo, KafkaError> {
        if let Some(error) = self.faults.place(call, name, None) {
            return Err(error);
        }
        let slot = self.seen(name).ok_or_else(|| unknown_topic(name))?;
        let topic = &self.topics[slot];
        Ok(TopicInfo { partitions: topic.logs.len() as i32, id: (!self.silent).then_some(topic.id) })
    }

    fn output_info(&mut self, name: &str) -> Result<OutputInfo, KafkaError> {
        let TopicInfo { partitions, id } = self.topic_info(Call::OutputTopics, name)?;
        let config = self.topics[self.slot(name)?].config;
        let scripted = self.faults.place(Call::Configurations, name, None);
        let described = scripted.map_or_else(|| self.demand(&Right::DescribeConfigs(name.into())), Err);
        let config = match &described {
            Ok(()) => config,
            Err(error) if matches!(error.kind, Kind::Transient | Kind::Coordinator) => {
                return Err(error.clone());
            }
            Err(_) => TopicConfig::default(),
        };
        Ok(OutputInfo {
            partitions,
            id,
            max_message_bytes: config.max_message_bytes,
            compacted: config.compacted,
            keeps: config.keeps(),
            described,
            may_write: self.told(&Right::Write(name.into())),
        })
    }
}
