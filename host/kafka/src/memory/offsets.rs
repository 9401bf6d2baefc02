//! The committing half of a client: one answer for each request, with a result for each partition.

use std::sync::Arc;

use loom_types::TopicPartition;

use super::faults::{Call, CommitFault, unknown_partition};
use super::group::{CommitRecord, CommitRecordEntry};
use super::reader::ReaderHandle;
use super::state::State;
use crate::contract::{CommitAnswer, CommitEntry, OffsetStore, RequestId};
use crate::error::{KafkaError, Kind};

pub(super) struct MemoryOffsets {
    pub reader: Arc<ReaderHandle>,
}

impl OffsetStore for MemoryOffsets {
    fn commit(&mut self, entries: &[CommitEntry]) -> Result<RequestId, KafkaError> {
        let mut state = self.reader.shared.lock();
        state.enter(Call::Commit)?;
        let fault = match state.faults.commit() {
            Some(CommitFault::Local(error)) => return Err(error),
            _ if state.down => Some(CommitFault::Refused(no_coordinator())),
            fault => fault,
        };
        let request = state.commit(self.reader.id, entries, fault);
        self.reader.shared.changed.notify_all();
        Ok(request)
    }

    fn answers(&mut self, out: &mut Vec<CommitAnswer>) {
        let mut state = self.reader.shared.lock();
        out.append(&mut state.reader(self.reader.id).answers);
    }
}

impl State {
    fn commit(&mut self, id: usize, entries: &[CommitEntry], fault: Option<CommitFault>) -> RequestId {
        let at = self.now();
        let reader = self.readers[id].as_mut().expect("a reader lives as long as its halves");
        let request = RequestId(reader.requests);
        reader.requests += 1;
        let group_name = reader.group.clone();
        let names: Vec<TopicPartition> =
            entries.iter().map(|entry| reader.partitions[entry.partition.index()].name.clone()).collect();
        let mut record = Vec::with_capacity(entries.len());
        let mut results = Vec::with_capacity(entries.len());
        for (entry, name) in entries.iter().zip(names) {
            let (applied, result) = match &fault {
                Some(CommitFault::Refused(error) | CommitFault::Local(error)) => (false, Err(error.clone())),
                Some(CommitFault::Unanswered) => (false, Ok(())),
                Some(CommitFault::AppliedThenFailed(error)) => (true, Err(error.clone())),
                None => {
                    let result = self.place_result(Call::Commit, &name);
                    (result.is_ok(), result)
                }
            };
            if applied {
                let group = self.groups.entry(group_name.clone()).or_default();
                group.set(&name, entry.offset, &entry.metadata);
            }
            if self.keep_history {
                let answer = (!matches!(fault, Some(CommitFault::Unanswered))).then(|| result.clone());
                record.push(CommitRecordEntry {
                    partition: name,
                    offset: entry.offset,
                    metadata: entry.metadata.clone(),
                    applied,
                    answer,
                });
            }
            results.push((entry.partition, result));
        }
        if self.keep_history {
            let group = self.groups.entry(group_name).or_default();
            group.history.push(CommitRecord { at, automatic: false, entries: record });
        }
        if !matches!(fault, Some(CommitFault::Unanswered)) {
            let reader = self.reader(id);
            reader.answers.push(CommitAnswer { request, results });
            (reader.waker)();
        }
        request
    }

    /// What the script, or the lack of the partition, makes of one place in a call.
    pub fn place_result(&mut self, call: Call, place: &TopicPartition) -> Result<(), KafkaError> {
        if let Some(error) = self.faults.place(call, &place.topic, Some(place.partition)) {
            return Err(error);
        }
        if self.log(place).is_none() {
            return Err(unknown_partition(place));
        }
        Ok(())
    }
}

fn no_coordinator() -> KafkaError {
    KafkaError {
        kind: Kind::Coordinator,
        code: "_WAIT_COORD",
        message: "the group's coordinator cannot be reached".into(),
    }
}
