//! The broker as one consumer's settings see it: what is asked at assembly, and the making of readers and writers.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use loom_types::{CommitOffset, TopicPartition};

use super::faults::{Call, brokers_down, unknown_partition};
use super::offsets::MemoryOffsets;
use super::reader::{ReaderHandle, ReaderState};
use super::sink::MemorySink;
use super::source::MemorySource;
use super::state::{Shared, State};
use crate::contract::{
    Assigned, Bounds, Broker, Committed, OutputSettings, Reader, TopicInfo, TopicSink, Waker,
};
use crate::error::KafkaError;
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
    ) -> Result<Vec<Result<TopicInfo, KafkaError>>, KafkaError> {
        let mut state = self.state(Call::OutputTopics)?;
        Ok(outputs.iter().map(|output| state.topic_info(Call::OutputTopics, &output.topic)).collect())
    }

    fn topic_names(&self, _: Duration) -> Result<Vec<String>, KafkaError> {
        let state = self.state(Call::TopicNames)?;
        Ok(state.names.keys().map(|name| name.to_string()).collect())
    }

    fn committed(
        &self,
        partitions: &[TopicPartition],
        _: Duration,
    ) -> Result<Vec<Result<Option<Committed>, KafkaError>>, KafkaError> {
        let mut state = self.state(Call::Committed)?;
        let mut found = Vec::with_capacity(partitions.len());
        for place in partitions {
            let scripted = state.faults.place(Call::Committed, &place.topic, Some(place.partition));
            let group = state.groups.get(&self.consumer.group_id);
            let committed = group.and_then(|group| group.committed.get(place)).cloned();
            found.push(scripted.map_or(Ok(committed), Err));
        }
        Ok(found)
    }

    fn bounds(&self, partition: &TopicPartition, _: Duration) -> Result<Bounds, KafkaError> {
        let mut state = self.state(Call::Bounds)?;
        state.place_result(Call::Bounds, partition)?;
        let log = state.log(partition).ok_or_else(|| unknown_partition(partition))?;
        Ok(Bounds { low: CommitOffset(log.low()), high: CommitOffset(log.high()) })
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

    fn writer(&self, outputs: &[OutputSettings], waker: Waker) -> Result<Box<dyn TopicSink>, KafkaError> {
        drop(self.state(Call::Writer)?);
        Ok(Box::new(MemorySink::new(self.shared.clone(), outputs, waker)?))
    }
}

impl State {
    fn topic_info(&mut self, call: Call, name: &str) -> Result<TopicInfo, KafkaError> {
        if let Some(error) = self.faults.place(call, name, None) {
            return Err(error);
        }
        let slot = self.slot(name)?;
        Ok(TopicInfo { partitions: self.topics[slot].logs.len() as i32 })
    }
}
