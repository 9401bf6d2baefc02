//! What the keeper asks brokers between two beats: one thing a step.
//!
//! What workers ask and what the keeper itself wants to know take turns, so that neither keeps the other waiting, however
//! many partitions ask.

use std::collections::VecDeque;
use std::time::Duration;

use loom_flow::plan::OutputId;
use loom_kafka::{KafkaError, Kind};
use loom_types::{CommitOffset, Moment, PartitionId};

use super::desk::{Commits, Note};
use super::{Keeper, Kept, occupied};

/// After a question that could not be answered.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// One thing to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// A worker asks where its partition lies.
    Place { worker: usize, partition: PartitionId },
    /// A worker asks where the batch ends that begins at `first` and cannot be read.
    BatchEnd { worker: usize, partition: PartitionId, first: CommitOffset },
    /// A worker asks what an output's topic takes.
    Output { worker: usize, output: OutputId },
    /// A worker's commits are refused, since somebody is in the group.
    Who,
    /// The group's offsets are read back.
    ReadBack {
        /// The topics were looked at since an offset was found to have vanished.
        topics_are_known: bool,
    },
    /// The input topics are looked at.
    Topics,
    /// The output topics are looked at.
    Outputs,
    /// The end of the lease's partition is looked up, where its entries lie.
    End,
}

/// What waits to be asked.
#[derive(Debug, Default)]
pub(super) struct Errands {
    /// Of workers, in the order asked, none before its moment.
    asked: VecDeque<(Moment, Errand)>,
    own: VecDeque<Errand>,
    /// A worker's was the last.
    own_turn: bool,
}

impl Errands {
    /// Of the keeper itself; what waits already is asked once.
    pub(super) fn add(&mut self, errand: Errand) {
        if !self.own.contains(&errand) {
            self.own.push_back(errand);
        }
    }

    /// Before all others of the keeper itself, in this order.
    pub(super) fn add_first(&mut self, errands: &[Errand]) {
        self.own.retain(|errand| !errands.contains(errand));
        errands.iter().rev().for_each(|errand| self.own.push_front(*errand));
    }

    /// Of a worker.
    fn ask(&mut self, errand: Errand, not_before: Moment) {
        if !self.asked.iter().any(|(_, other)| *other == errand) {
            self.asked.push_back((not_before, errand));
        }
    }

    /// The next one.
    pub(super) fn next(&mut self, now: Moment) -> Option<Errand> {
        let asked = self.asked.iter().position(|(not_before, _)| *not_before <= now);
        self.own_turn = !self.own_turn && !self.own.is_empty() || asked.is_none();
        if self.own_turn { self.own.pop_front() } else { Some(self.asked.remove(asked?)?.1) }
    }

    /// When the next one is due.
    pub(super) fn due(&self) -> Option<Moment> {
        let asked = self.asked.iter().map(|(not_before, _)| *not_before);
        asked.chain((!self.own.is_empty()).then_some(Moment::START)).min()
    }
}

impl Keeper {
    /// Takes what workers ask.
    pub(super) fn take_questions(&mut self, now: Moment) {
        for (worker, desk) in self.parts.desks.iter().enumerate() {
            for partition in desk.asked() {
                self.errands.ask(Errand::Place { worker, partition }, now);
            }
            for (partition, first) in desk.asked_where_ends() {
                self.errands.ask(Errand::BatchEnd { worker, partition, first }, now);
            }
            for output in desk.asked_about() {
                self.errands.ask(Errand::Output { worker, output }, now);
            }
            // One line answers all workers.
            if desk.asked_who() {
                self.errands.ask(Errand::Who, now);
            }
        }
    }

    pub(super) fn run(&mut self, errand: Errand, now: Moment) {
        let timeout = self.time_for_errand(now);
        match errand {
            Errand::Place { worker, partition } => self.answer_place(worker, partition, now, timeout),
            Errand::BatchEnd { worker, partition, first } => {
                self.answer_where_ends(worker, partition, first, timeout);
            }
            Errand::Output { worker, output } => self.answer_about_output(worker, output, timeout),
            Errand::Who => self.tell_who(timeout),
            // What is somebody else's now is not looked at.
            _ if self.parts.gate.get() == Commits::Shut => {}
            Errand::ReadBack { topics_are_known } => self.read_back(topics_are_known, timeout),
            Errand::Topics => self.look_at_topics(now, timeout),
            Errand::Outputs => self.look_at_outputs(timeout),
            Errand::End => self.parts.lease.look_at_end(&*self.parts.broker, timeout),
        }
    }

    fn answer_place(&mut self, worker: usize, partition: PartitionId, now: Moment, timeout: Duration) {
        let kept = self.parts.partitions.iter().find(|kept| kept.worker == worker && kept.id == partition);
        let Some(kept) = kept else { return };
        match self.place(kept, timeout) {
            Ok(note) => self.parts.desks[worker].tell(note),
            Err(error) => {
                tracing::warn!(
                    topic = &*kept.name.topic,
                    partition = kept.name.partition,
                    reason = %error,
                    "the position is outside the partition, and the broker does not say where it begins; asking again"
                );
                self.errands.ask(Errand::Place { worker, partition }, now + ASK_AGAIN);
            }
        }
    }

    fn place(&self, kept: &Kept, timeout: Duration) -> Result<Note, KafkaError> {
        // Three questions share the time.
        let (broker, timeout) = (&*self.parts.broker, timeout / 3);
        let topic = broker.topics(&[&*kept.name.topic], timeout)?.pop().transpose()?.and_then(|info| info.id);
        let bounds = broker.bounds(&kept.name, timeout)?;
        let log_end = broker.log_end(&kept.name, timeout)?;
        Ok(Note::Bounds { partition: kept.id, bounds, log_end, topic })
    }

    fn answer_about_output(&self, worker: usize, output: OutputId, timeout: Duration) {
        let settings = std::slice::from_ref(&self.parts.outputs[output.0]);
        let answer = self.parts.broker.output_topics(settings, timeout);
        let answer = answer.and_then(|mut infos| infos.pop().unwrap_or_else(|| Err(no_answer())));
        self.parts.desks[worker].tell_about(output, answer);
    }

    /// Says who is in the group, and keeps the flow from committing.
    fn tell_who(&self, timeout: Duration) {
        match self.parts.broker.members(timeout) {
            Ok(members) if members.is_empty() => {}
            Ok(members) => {
                tracing::warn!(
                    "{}; what is not committed is delivered again",
                    occupied(&self.parts.group, &members)
                );
            }
            Err(error) => tracing::debug!(reason = %error, "the broker does not say who is in the group"),
        }
    }
}

fn no_answer() -> KafkaError {
    let message = "asking about an output topic brought no answer".to_owned();
    KafkaError { kind: Kind::Transient, code: "_NOENT", message }
}

#[cfg(test)]
mod tests {
    use loom_types::{Moment, PartitionId};

    use super::{Errand, Errands};

    #[test]
    fn what_workers_ask_and_what_the_keeper_wants_to_know_take_turns() {
        let mut errands = Errands::default();
        let place = |partition| Errand::Place { worker: 0, partition: PartitionId(partition) };
        for partition in [0, 1, 2, 0] {
            errands.ask(place(partition), Moment::START);
        }
        for errand in [Errand::Topics, Errand::Outputs, Errand::Topics] {
            errands.add(errand);
        }
        let read_back = Errand::ReadBack { topics_are_known: true };
        errands.add_first(&[Errand::Outputs, read_back]);
        let order: Vec<Errand> = std::iter::from_fn(|| errands.next(Moment::START)).collect();
        assert_eq!(order, [Errand::Outputs, place(0), read_back, place(1), Errand::Topics, place(2)]);
        assert_eq!(errands.due(), None);
    }

    #[test]
    fn none_is_asked_before_its_moment() {
        let mut errands = Errands::default();
        let later = Moment::START + std::time::Duration::from_secs(1);
        errands.ask(Errand::Who, later);
        assert_eq!((errands.next(Moment::START), errands.due()), (None, Some(later)));
        assert_eq!((errands.next(later), errands.due()), (Some(Errand::Who), None));
    }
}
