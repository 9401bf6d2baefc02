//! The committing half of a client: one answer for each request, with a result for each partition.

use std::sync::Arc;

use loom_delivery::readback::Stored;
use loom_types::PartitionId;

use super::faults::{Call, CommitFault};
use super::late::Asker;
use super::reader::ReaderHandle;
use super::state::State;
use crate::contract::{CommitAnswer, CommitEntry, OffsetStore, RequestId};
use crate::error::{KafkaError, Kind, moved};
use crate::facts::{Group, GroupEntry};

pub(super) struct MemoryOffsets {
    pub reader: Arc<ReaderHandle>,
}

impl OffsetStore for MemoryOffsets {
    fn commit(&mut self, entries: &[CommitEntry]) -> Result<RequestId, KafkaError> {
        let mut state = self.reader.shared.lock();
        state.enter(Call::Commit)?;
        let fault = state.commit_fault(Group::Input)?;
        let request = state.commit(self.reader.id, entries, fault.as_ref());
        self.reader.shared.changed.notify_all();
        Ok(request)
    }

    fn answers(&mut self, out: &mut Vec<CommitAnswer>) {
        let mut state = self.reader.shared.lock();
        state.run_late_commits();
        out.append(&mut state.reader(self.reader.id).answers);
    }
}

impl State {
    /// What the script makes of a commit request of a group; an error is the client's own.
    pub fn commit_fault(&mut self, group: Group) -> Result<Option<CommitFault>, KafkaError> {
        match self.faults.commit(group) {
            Some(CommitFault::Local(error)) => Err(error),
            _ if self.down => Ok(Some(CommitFault::Refused(no_coordinator()))),
            fault => Ok(fault),
        }
    }

    fn commit(&mut self, id: usize, entries: &[CommitEntry], fault: Option<&CommitFault>) -> RequestId {
        let reader = self.readers[id].as_mut().expect("a reader lives as long as its halves");
        let request = RequestId(reader.requests);
        reader.requests += 1;
        let group = reader.group.clone();
        let named: Vec<GroupEntry> = entries
            .iter()
            .map(|entry| GroupEntry {
                partition: reader.partitions[entry.partition.index()].name.clone(),
                offset: entry.offset,
                metadata: entry.metadata.clone(),
                leader_epoch: entry.leader_epoch,
            })
            .collect();
        let partitions: Vec<PartitionId> = entries.iter().map(|entry| entry.partition).collect();
        let looks = !matches!(fault, Some(CommitFault::Refused(_) | CommitFault::Unanswered));
        let refused = if looks { self.moved(&group, &named, entries) } else { Vec::new() };
        if !refused.is_empty() {
            return self.commit_around(id, request, &group, named, &partitions, refused);
        }
        if let Some(fault @ (CommitFault::Late { .. } | CommitFault::Lost { .. })) = fault {
            let asker = Asker { reader: id, request, partitions };
            self.send_late(Call::Commit, &group, named, Some(asker), fault);
            self.run_late_commits();
            return request;
        }
        let results = self.set_offsets(Call::Commit, &group, &named, fault);
        if !matches!(fault, Some(CommitFault::Unanswered)) {
            let results = partitions.into_iter().zip(results).collect();
            let reader = self.reader(id);
            reader.answers.push(CommitAnswer { request, results });
            (reader.waker)();
        }
        request
    }

    /// The places of a request whose guard does not let it go over what the group has.
    fn moved(&self, group: &str, named: &[GroupEntry], entries: &[CommitEntry]) -> Vec<(usize, KafkaError)> {
        let committed = |partition| self.groups.get(group).and_then(|group| group.committed.get(partition));
        let places = named.iter().zip(entries).enumerate().filter_map(|(place, (named, entry))| {
            let (guard, found) = (entry.guard.as_ref()?, committed(&named.partition)?);
            let seen = Stored { offset: found.offset, metadata: found.metadata.clone() };
            (!guard.lets(Some(&seen))).then(|| (place, moved(&named.partition, guard, seen.offset)))
        });
        places.collect()
    }

    /// A request that leaves these places as they are.
    fn commit_around(
        &mut self,
        id: usize,
        request: RequestId,
        group: &str,
        named: Vec<GroupEntry>,
        partitions: &[PartitionId],
        refused: Vec<(usize, KafkaError)>,
    ) -> RequestId {
        let is_open = |place: &usize| refused.iter().all(|(other, _)| other != place);
        let open: Vec<usize> = (0..named.len()).filter(is_open).collect();
        let named: Vec<GroupEntry> = open.iter().map(|place| named[*place].clone()).collect();
        let mut results = vec![Ok(()); partitions.len()];
        for (place, result) in open.into_iter().zip(self.set_offsets(Call::Commit, group, &named, None)) {
            results[place] = result;
        }
        for (place, error) in refused {
            results[place] = Err(error);
        }
        let results = partitions.iter().copied().zip(results).collect();
        let reader = self.reader(id);
        reader.answers.push(CommitAnswer { request, results });
        (reader.waker)();
        request
    }
}

fn no_coordinator() -> KafkaError {
    KafkaError {
        kind: Kind::Coordinator,
        code: "_WAIT_COORD",
        message: "the group's coordinator cannot be reached".into(),
    }
}

/// A request that was lost.
pub(super) fn not_answered() -> KafkaError {
    KafkaError {
        kind: Kind::Coordinator,
        code: "_TIMED_OUT",
        message: "the group's coordinator did not answer in time".into(),
    }
}
