//! A partition whose position is no longer inside it: retention passed the position, or the log was cut.
//!
//! The worker does not wait for the broker's answer: the keeper gets it, other partitions go on, and nothing is read from
//! this one meanwhile. Where the log was cut, reading goes on only when what was read from the old one is resolved: else
//! records of the two would stand for the same offsets.

use loom_delivery::start::{Onward, OutOfRange, Why, onward};
use loom_kafka::Bounds;
use loom_types::{CommitOffset, PartitionId, TopicId};

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
}

impl Worker {
    /// Takes what the keeper says.
    pub(super) fn told(&mut self) {
        for note in self.desk.told() {
            match note {
                Note::CommitAgain { partition } => self.commits.forget(partition),
                Note::Bounds { partition, bounds, topic } => self.out_of_range(partition, bounds, topic),
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
        partition.trouble = Some(Trouble { text, last: now, told: now });
        self.desk.ask(PartitionId(index as u32));
    }

    /// Whether the partition can be read; where its log was cut, reading goes on as soon as it can.
    pub(super) fn is_inside(&mut self, index: usize) -> bool {
        let id = PartitionId(index as u32);
        match self.partitions[index].outside {
            Outside::No => true,
            Outside::Asked => false,
            Outside::Cut(_) if self.flow.shared.accounts.tracker(id).outstanding().records > 0 => false,
            Outside::Cut(end) => {
                if self.go_on(id, end) {
                    self.flow.shared.accounts.cut(id, end);
                    self.partitions[index].epochs.cut(end);
                }
                true
            }
        }
    }

    fn out_of_range(&mut self, id: PartitionId, bounds: Bounds, topic_now: Option<TopicId>) {
        let partition = &mut self.partitions[id.index()];
        let (name, topic_then) = (partition.name.clone(), partition.topic_id);
        let position = self.flow.shared.accounts.tracker(id).position();
        let refuse = self.flow.shared.plan.consumer.offset_out_of_range == loom_flow::plan::OutOfRange::Fail;
        let Bounds { low, high } = bounds;
        let cut_at = partition.cut_at.take();
        match onward(&OutOfRange { position, low, high, cut_at, topic_then, topic_now, refuse }) {
            Onward::There => {
                tracing::warn!(
                    topic = &*name.topic,
                    partition = name.partition,
                    position = position.0,
                    beginning = low.0,
                    end = high.0,
                    "the partition's log was cut below the position and has grown past it again; going on at the position: what was \
                     written below it since is left out"
                );
                self.go_on(id, position);
            }
            Onward::Beginning { low } => {
                tracing::warn!(
                    topic = &*name.topic,
                    partition = name.partition,
                    position = position.0,
                    beginning = low.0,
                    gone = low.0 - position.0,
                    "retention removed records that were not read; going on at the beginning"
                );
                if self.go_on(id, low) {
                    self.flow.shared.accounts.advance(id, low, 0);
                }
            }
            Onward::Cut { at } => {
                tracing::warn!(
                    topic = &*name.topic,
                    partition = name.partition,
                    position = position.0,
                    end = high.0,
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
                    "{name}: position {position} is outside the partition, which holds {low} to {high} ({cause}); the flow stops"
                ));
            }
        }
    }

    /// Reads on at an offset; whether that could be.
    fn go_on(&mut self, id: PartitionId, to: CommitOffset) -> bool {
        let partition = &mut self.partitions[id.index()];
        (partition.outside, partition.ready, partition.at_end) = (Outside::No, true, false);
        partition.trouble = None;
        let Err(error) = self.source.seek(id, to) else { return true };
        let name = partition.name.clone();
        self.flow.shared.fail(format!("{name}: going on at {to} failed: {error}; the flow stops"));
        false
    }
}
