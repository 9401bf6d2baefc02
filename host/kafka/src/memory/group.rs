//! A consumer group as an offset store: committed offsets with metadata, live members that refuse commits from outside,
//! and the history of requests.

use std::collections::BTreeMap;

use loom_types::{CommitOffset, Moment, TopicPartition};

use super::faults::{Call, CommitFault, unknown_partition};
use super::rights::Right;
use super::state::State;
use crate::error::{KafkaError, Kind};
use crate::facts::{Committed, GroupEntry, Member};

/// One commit request as the broker saw it.
#[derive(Clone, Debug)]
pub struct CommitRecord {
    /// When it came.
    pub at: Moment,
    /// What it asked for, in its order.
    pub entries: Vec<CommitRecordEntry>,
}

/// One partition of a commit request.
#[derive(Clone, Debug)]
pub struct CommitRecordEntry {
    /// The partition.
    pub partition: TopicPartition,
    /// The offset asked for.
    pub offset: CommitOffset,
    /// The metadata asked for.
    pub metadata: String,
    /// The leader's epoch asked for.
    pub leader_epoch: Option<i32>,
    /// Whether the group's offset was set.
    pub applied: bool,
    /// What was answered; none when nothing was.
    pub answer: Option<Result<(), KafkaError>>,
}

#[derive(Debug, Default)]
pub(super) struct Group {
    pub committed: BTreeMap<TopicPartition, Committed>,
    pub members: Vec<Member>,
    pub history: Vec<CommitRecord>,
}

impl Group {
    pub fn set(&mut self, entry: &GroupEntry) {
        let committed = Committed {
            offset: entry.offset,
            metadata: entry.metadata.clone(),
            leader_epoch: entry.leader_epoch,
        };
        self.committed.insert(entry.partition.clone(), committed);
    }
}

impl State {
    /// Does what a request of this group asks for, as the fault lets it; one result for each entry.
    pub fn set_offsets(
        &mut self,
        call: Call,
        group_name: &str,
        entries: &[GroupEntry],
        fault: Option<&CommitFault>,
    ) -> Vec<Result<(), KafkaError>> {
        let at = self.now();
        let refused = self.may_commit(group_name).err();
        let mut record = Vec::with_capacity(entries.len());
        let mut results = Vec::with_capacity(entries.len());
        for entry in entries {
            let (applied, result) = match (fault, &refused) {
                (Some(CommitFault::Refused(error) | CommitFault::Local(error)), _) => {
                    (false, Err(error.clone()))
                }
                (Some(CommitFault::Unanswered), _) => (false, Ok(())),
                (_, Some(error)) => (false, Err(error.clone())),
                (Some(CommitFault::AppliedThenFailed(error)), None) => (true, Err(error.clone())),
                // What arrives late arrives without a fault.
                (None | Some(CommitFault::Lost { .. } | CommitFault::Late { .. }), None) => {
                    let result = self.place_result(call, &entry.partition);
                    (result.is_ok(), result)
                }
            };
            if applied {
                self.groups.entry(group_name.to_owned()).or_default().set(entry);
            }
            if self.keep_history {
                let answer = (!matches!(fault, Some(CommitFault::Unanswered))).then(|| result.clone());
                record.push(CommitRecordEntry {
                    partition: entry.partition.clone(),
                    offset: entry.offset,
                    metadata: entry.metadata.clone(),
                    leader_epoch: entry.leader_epoch,
                    applied,
                    answer,
                });
            }
            results.push(result);
        }
        if self.keep_history {
            let group = self.groups.entry(group_name.to_owned()).or_default();
            group.history.push(CommitRecord { at, entries: record });
        }
        results
    }

    /// Whether the broker takes offsets for a group from somebody who is no member of it.
    pub fn may_commit(&self, group: &str) -> Result<(), KafkaError> {
        self.demand(&Right::Group(group.to_owned()))?;
        match self.groups.get(group) {
            Some(known) if !known.members.is_empty() => Err(in_use(group)),
            _ => Ok(()),
        }
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

fn in_use(group: &str) -> KafkaError {
    KafkaError {
        kind: Kind::GroupInUse,
        code: "UNKNOWN_MEMBER_ID",
        message: format!("group `{group}` has live members, and takes no offsets from others"),
    }
}
