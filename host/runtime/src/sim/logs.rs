//! What happens to the input topics and to the group's offsets from outside.

use std::time::Duration;

use loom_types::{CommitOffset, RecordOffset, TopicPartition};

use super::acts::{Act, At, Event};
use super::events::record;
use super::excuse::Excuse;
use super::flow::{Input, Payload};
use super::world::{Sim, State};

impl Sim {
    pub(super) fn log_changes(&self, state: &mut State, act: Act) {
        match act {
            Act::Control { partition } => {
                let name = state.model.name(partition).clone();
                let at = self.broker.produce_control(&name.topic, name.partition);
                state.model.ends_at(partition, at.0 + 1);
            }
            Act::Gap { partition, offsets } => {
                let name = state.model.name(partition).clone();
                self.broker.leave_gap(&name.topic, name.partition, offsets);
                state.model.ends_at(partition, state.model.end(partition) + offsets);
            }
            Act::Compact { partition } => {
                let name = state.model.name(partition).clone();
                let offset = state.model.untaken(partition);
                if let Some(offset) = offset.filter(|_| !is_open(state, partition)) {
                    self.broker.compact(&name.topic, name.partition, RecordOffset(offset));
                    state.model.compacted(partition, offset);
                }
            }
            Act::Retain { partition, part } => {
                let name = state.model.name(partition).clone();
                if !is_open(state, partition) {
                    let low = (state.model.end(partition) as f64 * part) as i64;
                    self.broker.delete_before(&name.topic, name.partition, CommitOffset(low));
                    state.model.retained(partition, low);
                }
            }
            Act::Transaction { partition, payloads, lasts, commit } => {
                if !is_open(state, partition) {
                    self.begin(state, partition, payloads);
                    self.later(state, lasts, Act::TransactionEnds { partition, commit });
                }
            }
            Act::TransactionEnds { partition, commit } => self.end_transaction(state, partition, commit),
            Act::Elect { partition, part } => self.elect(state, partition, part),
            Act::Remake { partition } => self.remake(state, partition),
            Act::Grow { partition } => self.grow(state, partition),
            Act::Vanish { partition } => {
                self.broker.forget_committed(super::GROUP, state.model.name(partition));
            }
            Act::Expire => self.broker.expire_group(super::GROUP),
            Act::SetOffset { partition, part } => {
                let offset = (state.model.end(partition) as f64 * part) as i64;
                let name = state.model.name(partition).clone();
                self.broker.set_committed(super::GROUP, &name, CommitOffset(offset), "");
                state.model.excuse_all(Excuse::SetFromOutside);
            }
            other => unreachable!("{other:?} is no change of a log"),
        }
    }

    /// Where a partition ends at the broker.
    pub(super) fn end_of(&self, name: &TopicPartition) -> i64 {
        self.broker.view(|view| view.end(name)).map_or(0, |end| end.0)
    }

    fn begin(&self, state: &mut State, partition: usize, payloads: Vec<Payload>) {
        let name = state.model.name(partition).clone();
        let transaction = self.broker.begin(&name.topic, name.partition);
        let mut offsets = Vec::new();
        for payload in payloads {
            let number = state.model.next_number();
            let offset = self.broker.produce_in(&transaction, record(number, &payload)).0;
            state.model.produced(partition, Input { number, offset, payload });
            offsets.push(offset);
        }
        state.transactions.push((partition, transaction, offsets));
    }

    fn end_transaction(&self, state: &mut State, partition: usize, commit: bool) {
        let Some(at) = state.transactions.iter().position(|(other, ..)| *other == partition) else { return };
        let (_, transaction, offsets) = state.transactions.remove(at);
        self.broker.end(&transaction, commit);
        let name = state.model.name(partition).clone();
        state.model.ends_at(partition, self.end_of(&name));
        if !commit {
            offsets.into_iter().for_each(|offset| state.model.compacted(partition, offset));
        }
    }

    /// Another leader has what lies below this part of the log.
    fn elect(&self, state: &mut State, partition: usize, part: f64) {
        if is_open(state, partition) {
            return;
        }
        let name = state.model.name(partition).clone();
        let end = state.model.end(partition);
        let keep = (end as f64 * part).ceil() as i64;
        self.broker.elect_leader(&name.topic, name.partition, CommitOffset(keep));
        let now = self.end_of(&name);
        if now < end {
            state.model.cut(partition, now);
        }
    }

    fn remake(&self, state: &mut State, partition: usize) {
        let topic = state.model.name(partition).topic.clone();
        let partitions = state.model.of_topic(&topic);
        if partitions.iter().any(|partition| is_open(state, *partition)) {
            return;
        }
        self.broker.delete_topic(&topic);
        self.broker.create_topic(&topic, partitions.len() as i32);
        partitions.into_iter().for_each(|partition| state.model.remade(partition));
        state.model.excuse_all(Excuse::AnotherTopic);
    }

    fn grow(&self, state: &mut State, partition: usize) {
        let topic = state.model.name(partition).topic.clone();
        let count = state.model.of_topic(&topic).len() as i32;
        self.broker.add_partitions(&topic, count + 1);
        state.model.grown(TopicPartition::new(topic, count));
    }

    pub(super) fn later(&self, state: &mut State, wait: Duration, act: Act) {
        state.events.push(Event { at: At::Time(self.now().0 + wait), act });
    }
}

/// Whether a transaction is open on a partition.
fn is_open(state: &State, partition: usize) -> bool {
    state.transactions.iter().any(|(other, ..)| *other == partition)
}
