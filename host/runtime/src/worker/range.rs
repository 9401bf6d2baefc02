//! A partition whose position is no longer inside it, or is said not to be: retention passed the position, the log was cut,
//! or the client has lost its way.
//!
//! The worker does not wait for the broker's answer: the keeper gets it, other partitions go on, and nothing is read from
//! this one meanwhile. Where the log was cut, reading goes on only when what was read from the old one is resolved: else
//! records of the two would stand for the same offsets. What a client says of its position is not believed where the
//! broker's answer says otherwise: it is sent back to ours, with the epoch of the record before that, so that a log that was
//! cut shows.

use std::time::Duration;

use loom_delivery::start::{Onward, OutOfRange, Why, onward};
use loom_kafka::Bounds;
use loom_types::{CommitOffset, Moment, PartitionId, TopicId};

use super::{Trouble, Worker};
use crate::keeper::{Note, another_topic};

/// How a partition stands whose reader said that its position is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outside {
    /// It is inside.
    No,
    /// The keeper asks the broker.
    Asked,
    /// The log was cut: on here, when nothing of the partition is outstanding.
    Cut(CommitOffset),
    /// It is inside, and its client is sent back to the position then.
    Later(Moment),
}

/// A client that is sent back to the position again and again is sent no sooner than after so long.
const SEND_BACK_AGAIN: Duration = Duration::from_secs(1);

impl Worker {
    /// Takes what the keeper says.
    pub(super) fn told(&mut self) {
        for note in self.desk.told() {
            match note {
                Note::CommitAgain { partition } => self.commits.forget(partition),
                Note::Bounds { partition, bounds, log_end, topic } => {
                    self.out_of_range(partition, bounds, log_end, topic);
                }
                Note::Broken { partition, first, last } => self.ends_at(partition.index(), first, last),
            }
        }
    }

    /// The log was cut below the position, and other records stand there now.
    pub(super) fn was_cut(&mut self, index: usize, at: CommitOffset) {
        self.partitions[index].cut_at = Some(at);
        self.ask_where(index);
    }

    pub(super) fn ask_where(&mut self, index: usize) {
        let now = self.flow.shared.now;
        let partition = &mut self.partitions[index];
        partition.outside = Outside::Asked;
        let text = "the position is outside the partition, and the broker did not say yet where that lies"
            .to_owned();
        partition.trouble = Some(Trouble { text, last: now });
        self.desk.ask(PartitionId(index as u32));
    }

    /// Whether the partition is read on when all that was read of it is resolved, and not before.
    pub(super) fn waits_to_be_empty(&self, index: usize) -> bool {
        let outstanding = || self.flow.shared.accounts.tracker(PartitionId(index as u32)).outstanding();
        matches!(self.partitions[index].outside, Outside::Cut(_)) && outstanding().records > 0
    }

    /// Whether the partition can be read; where its log was cut, reading goes on as soon as it can.
    pub(super) fn is_inside(&mut self, index: usize) -> bool {
        let id = PartitionId(index as u32);
        match self.partitions[index].outside {
            Outside::No => true,
            Outside::Asked => false,
            Outside::Later(at) if self.flow.shared.now < at => false,
            Outside::Later(_) => {
                let position = self.flow.shared.accounts.tracker(id).position();
                let epoch = self.partitions[index].epochs.before(position);
                self.go_on(id, position, epoch)
            }
            Outside::Cut(_) if self.flow.shared.accounts.tracker(id).outstanding().records > 0 => false,
            Outside::Cut(end) => {
                let epoch = self.partitions[index].epochs.before(end);
                if self.go_on(id, end, epoch) {
                    self.flow.shared.accounts.cut(id, end);
                    self.partitions[index].epochs.cut(end);
                }
                true
            }
        }
    }

    fn out_of_range(
        &mut self,
        id: PartitionId,
        bounds: Bounds,
        log_end: CommitOffset,
        topic_now: Option<TopicId>,
    ) {
        let partition = &mut self.partitions[id.index()];
        let (name, topic_then) = (partition.name.clone(), partition.topic_id);
        let position = self.flow.shared.accounts.tracker(id).position();
        let refuse = self.flow.shared.plan.consumer.offset_out_of_range == loom_flow::plan::OutOfRange::Fail;
        let low = bounds.low;
        let cut_at = partition.cut_at.take();
        match onward(&OutOfRange { position, low, log_end, cut_at, topic_then, topic_now, refuse }) {
            Onward::There => self.send_back(id, low, log_end),
            Onward::Beginning { low } => {
                tracing::warn!(
                    topic = &*name.topic,
                    partition = name.partition,
                    position = position.0,
                    beginning = low.0,
                    gone = low.0 - position.0,
                    "retention removed records that were not read; going on at the beginning"
                );
                // Of the record before the beginning no epoch is known.
                if self.go_on(id, low, None) {
                    self.flow.shared.accounts.advance(id, low, 0);
                }
            }
            Onward::Cut { at } => {
                tracing::warn!(
                    topic = &*name.topic,
                    partition = name.partition,
                    position = position.0,
                    end = log_end.0,
                    cut_at = at.0,
                    "the partition's log was cut below the position: going on where it was cut, and commits may fall back to it"
                );
                partition.outside = Outside::Cut(at);
            }
            Onward::Stop(Why::AnotherTopic) if topic_then.is_some() && topic_now.is_some() => {
                self.flow.shared.fail(another_topic(&name.topic));
            }
            Onward::Stop(why) => {
                let cause = if why == Why::Refused {
                    "`offset_out_of_range: fail`"
                } else {
                    "the topic may be another one"
                };
                self.flow.shared.fail(format!(
                    "{name}: position {position} is outside the partition, which holds {low} to {log_end} ({cause}); the flow stops"
                ));
            }
        }
    }

    /// The client says that the position is outside, and it is not.
    fn send_back(&mut self, id: PartitionId, low: CommitOffset, log_end: CommitOffset) {
        let now = self.flow.shared.now;
        let position = self.flow.shared.accounts.tracker(id).position();
        let partition = &mut self.partitions[id.index()];
        let at = now.max(partition.back_from);
        partition.outside = Outside::Later(at);
        partition.back_from = at + SEND_BACK_AGAIN;
        let known = partition.epochs.before(position).is_some();
        if partition.may_tell("POSITION_IS_INSIDE", now) {
            let name = &partition.name;
            tracing::warn!(
                topic = &*name.topic,
                partition = name.partition,
                position = position.0,
                beginning = low.0,
                end = log_end.0,
                "the client says that the position is outside of the partition, and it lies inside: going on there{}",
                if known {
                    ""
                } else {
                    "; a log that was cut below it and has grown past it since would not show, as no leader's epoch is known"
                }
            );
        }
    }

    /// Records from `position` on were read in this epoch. Below the floor none can be of a later one than was committed with
    /// it, unless the log was cut there and has grown again: what stands there now was never read.
    pub(super) fn look_below_floor(&mut self, index: usize, position: CommitOffset, epoch: i32) {
        let id = PartitionId(index as u32);
        let floor = self.flow.shared.accounts.tracker(id).floor();
        let partition = &mut self.partitions[index];
        let later = partition.floor_epoch.is_some_and(|known| epoch > known);
        if !later || floor.is_none_or(|floor| position >= floor) {
            return;
        }
        partition.floor_epoch = None;
        if let Some(floor) = self.flow.shared.accounts.lose_floor(id) {
            self.tell_floor_fell(index, floor, position);
        }
    }

    /// `end`: where the log ended when it was cut, as far as it is known.
    pub(super) fn tell_floor_fell(&self, index: usize, floor: CommitOffset, end: CommitOffset) {
        let name = &self.partitions[index].name;
        tracing::warn!(
            topic = &*name.topic,
            partition = name.partition,
            committed = floor.0,
            end = end.0,
            "the partition's log was cut below the committed offset, while records below that were processed again: commits \
             fall back to what was"
        );
    }

    /// Reads on at an offset; whether that could be. `epoch`: that of the record before it, where it is known.
    fn go_on(&mut self, id: PartitionId, to: CommitOffset, epoch: Option<i32>) -> bool {
        let partition = &mut self.partitions[id.index()];
        (partition.outside, partition.ready, partition.at_end) = (Outside::No, true, false);
        if partition.broken.is_none() {
            partition.trouble = None;
        }
        let Err(error) = self.source.seek(id, to, epoch) else { return true };
        let name = partition.name.clone();
        self.flow.shared.fail(format!("{name}: going on at {to} failed: {error}; the flow stops"));
        false
    }
}
