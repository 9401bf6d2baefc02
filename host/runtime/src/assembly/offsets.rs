//! The group's offsets from outside of a run: shown, and moved on purpose.
//!
//! Nothing here runs beside a flow of the group: moving is refused while another consumer is in it or an owner's lease
//! moves. What is written carries the topic's id, as the flow's own commits do, and no run.

use std::time::{Duration, Instant};

use loom_delivery::Mark;
use loom_delivery::lease::{Holder, Lease, Step, Stop as LeaseStop};
use loom_flow::Plan;
use loom_kafka::{Bounds, Broker, Committed, Group, GroupEntry, Kind};
use loom_types::{CommitOffset, TopicId, TopicPartition};

use super::ownership::{no_members, place_of};
use super::questions;
use super::topics::{self, Patience, partitions_of};
use crate::clock::SystemClock;
use crate::failure::{AssemblyError, Status};
use crate::identity::{Identity, is_gone};
use crate::keeper::{describe, look};
use crate::stop::Stop;

/// A partition with what the group has for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// Which.
    pub partition: TopicPartition,
    /// The topic's id, where the broker says.
    pub topic: Option<TopicId>,
    /// What is committed.
    pub committed: Option<Committed>,
    /// The first offset and the one after the last.
    pub bounds: Bounds,
}

impl GroupOffset {
    /// The end less the committed offset; none where nothing is committed.
    #[must_use]
    pub fn lag(&self) -> Option<i64> {
        self.committed.as_ref().map(|committed| (self.bounds.high.0 - committed.offset.0).max(0))
    }

    /// Of the lag, what is still there to be read: retention may have removed records that were not processed.
    #[must_use]
    pub fn there(&self) -> Option<i64> {
        let committed = self.committed.as_ref()?.offset.0;
        Some((self.bounds.high.0 - committed.max(self.bounds.low.0)).max(0))
    }

    /// What was written beside the offset, if a flow of ours wrote it.
    #[must_use]
    pub fn mark(&self) -> Option<Mark> {
        Mark::parse(&self.committed.as_ref()?.metadata)
    }

    /// How far a replay below the committed offset has come, where one is not over: the committed offset is its floor.
    #[must_use]
    pub fn replay(&self) -> Option<CommitOffset> {
        let floor = self.committed.as_ref()?.offset;
        self.mark()?.replay.filter(|replay| *replay < floor)
    }

    /// The offset belongs to a topic of this name that was deleted: another id is in its mark.
    #[must_use]
    pub fn is_of_another_topic(&self) -> bool {
        let marked = self.mark().and_then(|mark| mark.topic);
        marked.is_some() && self.topic.is_some() && marked != self.topic
    }
}

/// Where offsets are moved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveTo {
    /// Each partition's first record.
    Beginning,
    /// After each partition's last record.
    End,
    /// This offset.
    Offset(CommitOffset),
    /// The first record of this time or a later one, in milliseconds since 1970-01-01 UTC; the end where there is none.
    Time(i64),
}

/// A partition's offset before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// Where it stands.
    pub from: GroupOffset,
    /// Where it is moved to.
    pub to: CommitOffset,
}

/// What the group has for each partition of the flow's topics.
pub fn read(plan: &Plan, broker: &dyn Broker, stop: &Stop) -> Result<Vec<GroupOffset>, Vec<AssemblyError>> {
    let mut patience = patience(plan, stop);
    let one = |error| vec![error];
    let topics = topics::inputs(plan, broker, &mut patience)?;
    let partitions = partitions_of(plan, &topics);
    let names: Vec<TopicPartition> = partitions.iter().map(|(_, partition)| partition.clone()).collect();
    let committed =
        questions::committed(&plan.consumer.group_id, broker, &names, &mut patience).map_err(one)?;
    let mut offsets = Vec::new();
    for ((topic, partition), committed) in partitions.into_iter().zip(committed) {
        let bounds = questions::bounds(broker, &partition, &mut patience).map_err(one)?;
        offsets.push(GroupOffset { partition, topic: topics[usize::from(topic)].id, committed, bounds });
    }
    Ok(offsets)
}

/// Where these offsets would be moved.
pub fn moves(
    plan: &Plan,
    broker: &dyn Broker,
    offsets: Vec<GroupOffset>,
    to: MoveTo,
    stop: &Stop,
) -> Result<Vec<Move>, Vec<AssemblyError>> {
    let names: Vec<TopicPartition> = offsets.iter().map(|offset| offset.partition.clone()).collect();
    let mut patience = patience(plan, stop);
    let one = |error| vec![error];
    let at = match to {
        MoveTo::Time(time) => questions::offsets_at(broker, &names, time, &mut patience).map_err(one)?,
        _ => vec![None; names.len()],
    };
    let mut moves = Vec::new();
    let mut errors = Vec::new();
    for (from, at) in offsets.into_iter().zip(at) {
        let low = from.bounds.low;
        let committed = from.committed.as_ref().map(|committed| committed.offset);
        let furthest = if let MoveTo::Offset(to) = to { Some(to) } else { committed };
        let log_end =
            questions::log_end(broker, &from.partition, from.bounds, furthest, &mut patience).map_err(one)?;
        let end = questions::end(from.bounds, log_end, committed);
        let to = match to {
            MoveTo::Beginning => low,
            MoveTo::End => end,
            MoveTo::Time(_) => at.unwrap_or(end),
            MoveTo::Offset(to) if to < low || to > log_end => {
                errors.push(AssemblyError::failed(outside(&from.partition, low, log_end, to)));
                continue;
            }
            MoveTo::Offset(to) => to,
        };
        moves.push(Move { from, to });
    }
    if errors.is_empty() { Ok(moves) } else { Err(errors) }
}

/// From here on a number that is no offset most probably is a time: milliseconds since 1970, from 1973 on.
const FIRST_TIME: i64 = 100_000_000_000;

/// An offset that is none of a partition's records, nor the one after the last.
fn outside(partition: &TopicPartition, low: CommitOffset, high: CommitOffset, to: CommitOffset) -> String {
    if low >= high {
        return format!(
            "{partition} holds no record, and can be moved to {high} only: {to} is outside of it"
        );
    }
    let last = CommitOffset(high.0 - 1);
    let holds = if last == low { format!("offset {low}") } else { format!("offsets {low} to {last}") };
    let time = if to.0 >= FIRST_TIME {
        "; a number is an offset here, a time is written as 2026-03-01T12:00:00Z"
    } else {
        ""
    };
    format!("{partition} holds {holds}, and its end is {high}: {to} is outside of it{time}")
}

/// Makes sure that nobody works for the group: no consumer is in it, and the lease, if somebody holds it, does not move
/// for two intervals. `sleep` waits that long.
pub fn unowned(
    plan: &Plan,
    broker: &dyn Broker,
    stop: &Stop,
    mut sleep: impl FnMut(Duration),
) -> Result<(), AssemblyError> {
    let mut patience = patience(plan, stop);
    no_members(&plan.consumer.group_id, broker, &mut patience)?;
    let me = Identity::of_this_process().holder(false);
    let place = place_of(plan);
    let mut lease = Lease::new(me.clone());
    loop {
        let what = format!("reading the lease of group {}.owner", plan.consumer.group_id);
        let seen = patience.ask(&what, |timeout| match look(broker, &place, timeout) {
            // Who may not read the lease cannot see an owner; the members' list is all there is.
            Err(error) if error.kind == Kind::Authorization => Ok(None),
            other => other,
        })?;
        match lease.read(seen, |other| is_gone(&me, other)) {
            Step::Write(_) => return Ok(()),
            Step::Watch => sleep(plan.runtime.lease_interval),
            Step::Stop(LeaseStop::Live(holder) | LeaseStop::Deposed(holder)) => {
                return Err(in_use(plan, &holder));
            }
        }
        if stop.is_requested() {
            return Err(AssemblyError::failed("stopped while the lease was watched: nothing was moved"));
        }
    }
}

/// Commits the moves.
pub fn commit(
    plan: &Plan,
    broker: &dyn Broker,
    moves: &[Move],
    stop: &Stop,
) -> Result<(), Vec<AssemblyError>> {
    let entries: Vec<GroupEntry> = moves
        .iter()
        .map(|one| GroupEntry {
            partition: one.from.partition.clone(),
            offset: one.to,
            metadata: Mark { topic: one.from.topic, ..Mark::default() }.to_string(),
            leader_epoch: None,
        })
        .collect();
    let answers = patience(plan, stop)
        .ask("committing the offsets", |timeout| broker.commit_now(Group::Input, &entries, timeout))
        .map_err(|error| vec![error])?;
    let errors: Vec<AssemblyError> = entries
        .iter()
        .zip(answers)
        .filter_map(|(entry, answer)| {
            let error = answer.err()?;
            Some(AssemblyError::failed(format!("{} was not moved: {error}", entry.partition)))
        })
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// How long brokers may leave questions unanswered.
fn patience(plan: &Plan, stop: &Stop) -> Patience {
    Patience::new(plan.runtime.startup_timeout, stop.clone(), Box::new(SystemClock::since(Instant::now())))
}

fn in_use(plan: &Plan, holder: &Holder) -> AssemblyError {
    AssemblyError {
        status: Status::Runtime,
        code: None,
        hint: None,
        about: None,
        message: format!(
            "group {} is in use: {} holds its lease. Stop that host first: it would overwrite what is moved, or stop because of it",
            plan.consumer.group_id,
            describe(holder)
        ),
    }
}
