//! Each partition gets its start, from the group's offsets and the partition's bounds.

use std::collections::BTreeSet;

use loom_delivery::readback::Stored;
use loom_delivery::start::{Asked, Facts, GroupOffset, Reset, Start, Warning, choose as choose_start};
use loom_delivery::{Mark, Stand};
use loom_flow::Plan;
use loom_flow::plan::{OffsetReset, OutOfRange};
use loom_kafka::{Broker, Committed, TopicInfo};
use loom_types::{CommitOffset, TopicId, TopicPartition};

use super::questions;
use super::topics::{Patience, partitions_of};
use crate::StartFrom;
use crate::failure::AssemblyError;
use crate::status;

/// A partition and where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub partition: TopicPartition,
    /// Index into the plan's topics.
    pub topic: u16,
    /// The topic's id, where the broker says.
    pub topic_id: Option<TopicId>,
    /// What the group has for it.
    pub committed: Option<Committed>,
    pub start: Start,
}

impl Position {
    /// What the broker has for it, as the schedule of commits counts it: none where the start does not stand on that, so
    /// that a commit is due at once.
    pub(super) fn standing(&self) -> Option<Stand> {
        let committed = self.committed.as_ref().filter(|_| !self.start.commit_first)?;
        Some(Stand { offset: committed.offset, replay: group_offset(committed).replay })
    }

    /// What the group has, as it is compared with later.
    pub(super) fn stored(&self) -> Option<Stored> {
        let committed = self.committed.as_ref()?;
        Some(Stored { offset: committed.offset, metadata: committed.metadata.clone() })
    }

    /// Where its worker begins, for whoever looks before that said anything.
    pub(super) fn as_start(&self) -> status::Start {
        status::Start {
            name: self.partition.clone(),
            position: self.start.position,
            committed: self.standing().map(|stand| stand.offset),
            floor: self.start.floor,
        }
    }

    /// The leader's epoch that was committed with the floor; none where that was lowered.
    pub(super) fn floor_epoch(&self) -> Option<i32> {
        let committed = self.committed.as_ref()?;
        committed.leader_epoch.filter(|_| self.start.floor == Some(committed.offset))
    }

    /// The leader's epoch that was committed with the start; none for a start that was chosen otherwise.
    pub(super) fn leader_epoch(&self) -> Option<i32> {
        let committed =
            self.committed.as_ref().filter(|committed| committed.offset == self.start.position)?;
        committed.leader_epoch
    }
}

/// Decides for every partition; what must be told is logged. `topics`: facts about the plan's topics, in its order.
pub(super) fn choose(
    plan: &Plan,
    broker: &dyn Broker,
    topics: &[TopicInfo],
    from: StartFrom,
    patience: &mut Patience,
) -> Result<Vec<Position>, Vec<AssemblyError>> {
    let partitions = partitions_of(plan, topics);
    let names: Vec<TopicPartition> = partitions.iter().map(|(_, partition)| partition.clone()).collect();
    let one = |error| vec![error];
    let committed = questions::committed(&plan.consumer.group_id, broker, &names, patience).map_err(one)?;
    let mut times = Vec::new();
    if let StartFrom::Time(at) = from {
        times = questions::offsets_at(broker, &names, at, patience).map_err(one)?;
    }
    let known: BTreeSet<u16> = partitions
        .iter()
        .zip(&committed)
        .filter(|(_, committed)| committed.is_some())
        .map(|((topic, _), _)| *topic)
        .collect();

    let mut positions = Vec::new();
    let mut errors = Vec::new();
    for (at, ((topic, partition), committed)) in partitions.into_iter().zip(committed).enumerate() {
        let bounds = questions::bounds(broker, &partition, patience).map_err(one)?;
        let topic_id = topics[usize::from(topic)].id;
        let has = committed.as_ref().map(|committed| committed.offset);
        let log_end = questions::log_end(broker, &partition, bounds, has, patience).map_err(one)?;
        let end = questions::end(bounds, log_end, has);
        let facts = Facts {
            asked: asked(from, bounds.low, end, times.get(at).copied().flatten()),
            resume: None,
            committed: committed.as_ref().map(group_offset),
            siblings_committed: known.contains(&topic),
            topic: topic_id,
            low: bounds.low,
            high: bounds.high,
            log_end,
            reset: match plan.consumer.auto_offset_reset {
                OffsetReset::Earliest => Reset::Earliest,
                OffsetReset::Latest => Reset::Latest,
            },
            refuse_out_of_range: plan.consumer.offset_out_of_range == OutOfRange::Fail,
        };
        match choose_start(&facts) {
            Ok(start) => {
                start.warnings.iter().for_each(|warning| warn(&partition, *warning));
                positions.push(Position { partition, topic, topic_id, committed, start });
            }
            Err(refused) => errors.push(AssemblyError::failed(format!("{partition}: {refused}"))),
        }
    }
    if errors.is_empty() { Ok(positions) } else { Err(errors) }
}

fn asked(
    from: StartFrom,
    beginning: CommitOffset,
    end: CommitOffset,
    at_time: Option<CommitOffset>,
) -> Option<Asked> {
    match from {
        StartFrom::GoOn => None,
        StartFrom::Committed => Some(Asked::Committed),
        StartFrom::Beginning => Some(Asked::At(beginning)),
        StartFrom::End => Some(Asked::At(end)),
        StartFrom::Time(_) => Some(Asked::At(at_time.unwrap_or(end))),
    }
}

fn group_offset(committed: &Committed) -> GroupOffset {
    let mark = Mark::parse(&committed.metadata).unwrap_or_default();
    GroupOffset { offset: committed.offset, topic: mark.topic, replay: mark.replay }
}

fn warn(partition: &TopicPartition, warning: Warning) {
    let (topic, number) = (&*partition.topic, partition.partition);
    match warning {
        Warning::Replay { from, committed, asked } => tracing::warn!(
            topic,
            partition = number,
            from = from.0,
            committed = committed.0,
            again = committed.0 - from.0,
            "{}: records are processed again, and nothing below the committed offset is committed",
            if asked {
                "reading starts behind the committed offset, as asked"
            } else {
                "the restored position lies behind the committed offset"
            }
        ),
        Warning::ReplayGoesOn { at, committed } => tracing::warn!(
            topic,
            partition = number,
            at = at.0,
            committed = committed.0,
            left = committed.0 - at.0,
            "a replay was cut here; it goes on (`run --from committed` leaves it)"
        ),
        Warning::Skip { committed, to } => tracing::warn!(
            topic,
            partition = number,
            committed = committed.0,
            to = to.0,
            left_out = to.0 - committed.0,
            "reading starts ahead of the committed offset, as asked: what lies between is never processed"
        ),
        Warning::Expired { committed, low } => tracing::warn!(
            topic,
            partition = number,
            committed = committed.0,
            beginning = low.0,
            gone = low.0 - committed.0,
            "retention removed records that were not processed; going on from the beginning"
        ),
        Warning::MadeAgain { committed, log_end } => tracing::warn!(
            topic,
            partition = number,
            committed = committed.0,
            end = log_end.0,
            "the topic is another one than the committed offset belongs to: it was deleted and made again; reading it from \
             its beginning"
        ),
        Warning::Cut { committed, log_end } => tracing::warn!(
            topic,
            partition = number,
            committed = committed.0,
            end = log_end.0,
            "the partition's log was cut: the offset lies beyond its end; going on at the new end"
        ),
        Warning::Added => tracing::warn!(
            topic,
            partition = number,
            "the group knows the topic and not this partition: it was added, and is read from its beginning"
        ),
    }
}
