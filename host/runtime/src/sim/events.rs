//! What happens to the world from outside: records come, brokers fail, time passes.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use loom_kafka::memory::{Call, CommitFault, Record, RowFault, When};
use loom_kafka::{KafkaError, Kind};
use loom_types::{CommitOffset, Moment, RecordOffset};

use super::flow::{Input, Payload};
use super::model::Row;
use super::scenario::{Act, At, CommitTrouble, Event, Question};
use super::world::{Sim, State};

/// What only the executor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Kill,
    Stop,
}

impl Sim {
    /// Does what is due, as far as it is up to the world; what is up to the executor it gives back, one at a time.
    pub(super) fn happen(self: &Arc<Self>) -> Option<Order> {
        loop {
            let now = self.now().0;
            let mut state = self.lock();
            let steps = state.steps;
            let due = state.events.iter().position(|event| match event.at {
                At::Time(time) => time <= now,
                At::Step(step) => step <= steps,
            })?;
            let act = state.events.remove(due).act;
            state.tell(self.now(), || format!("{act:?}"));
            match act {
                Act::Kill => return Some(Order::Kill),
                Act::Stop => return Some(Order::Stop),
                act => self.act(&mut state, act),
            }
        }
    }

    /// Lets time pass to a moment, with all that happens on the way but kills and stops.
    pub(super) fn pass(self: &Arc<Self>, until: Moment) {
        loop {
            let next = self.next_event().map_or(until, |next| next.min(until));
            self.advance(next);
            if self.happen().is_some() {
                // It comes to a process that has not started: nothing is lost by leaving it out.
                continue;
            }
            if next >= until {
                return;
            }
        }
    }

    /// When something happens next by itself.
    pub(super) fn next_event(&self) -> Option<Moment> {
        let state = self.lock();
        let times = state.events.iter().filter_map(|event| match event.at {
            At::Time(time) => Some(Moment(time)),
            At::Step(_) => None,
        });
        times.chain(state.wakes.iter().map(|(at, _)| *at)).min()
    }

    /// Nothing is left to step: what waits for steps happens now. Whether there was something.
    pub(super) fn hurry(&self) -> bool {
        let mut state = self.lock();
        let steps = state.events.iter().filter_map(|event| match event.at {
            At::Step(step) => Some(step),
            At::Time(_) => None,
        });
        match steps.min() {
            Some(step) => {
                state.steps = state.steps.max(step);
                true
            }
            None => false,
        }
    }

    fn act(self: &Arc<Self>, state: &mut State, act: Act) {
        let faults = self.broker.faults();
        match act {
            Act::Produce { partition, payloads } => self.produce(state, partition, payloads),
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
                if let Some(offset) = state.model.untaken(partition) {
                    self.broker.compact(&name.topic, name.partition, RecordOffset(offset));
                    state.model.compacted(partition, offset);
                }
            }
            Act::Retain { partition, part } => {
                let name = state.model.name(partition).clone();
                let low = (state.model.end(partition) as f64 * part) as i64;
                self.broker.delete_before(&name.topic, name.partition, CommitOffset(low));
                state.model.retained(partition, low);
            }
            Act::CommitFails { fault, times } => {
                let error = error(Kind::Coordinator, "NOT_COORDINATOR");
                let fault = match fault {
                    CommitTrouble::Local => CommitFault::Local(error),
                    CommitTrouble::Refused => CommitFault::Refused(error),
                    CommitTrouble::AppliedThenFailed => CommitFault::AppliedThenFailed(error),
                };
                faults.commit(When::next(times), fault);
            }
            Act::CommitFailsIn { partition, times } => {
                let name = state.model.name(partition).clone();
                faults.fail_partition(
                    Call::Commit,
                    name,
                    When::next(times),
                    error(Kind::Transient, "_TIMED_OUT"),
                );
            }
            Act::SlowCommits { by } => {
                state.slow_commits = by;
                state.excuse("answers to commits are slow");
            }
            Act::QueueFull { times } => {
                faults.fail(Call::Send, When::next(times), error(Kind::Transient, "_QUEUE_FULL"));
            }
            Act::TakeFails { times } => {
                faults.fail(Call::Take, When::next(times), error(Kind::Transient, "_TRANSPORT"));
            }
            Act::SlowAcks { output, by } => faults.delay_acks(&super::output(output), by),
            Act::NoAcks { output, lasts } => {
                faults.hold_acks(&super::output(output));
                self.later(state, lasts, Act::AcksBack { output });
            }
            Act::AcksBack { output } => faults.release_all_acks(&super::output(output)),
            Act::Down { lasts } => {
                faults.go_down();
                state.down = true;
                state.excuse("brokers were away");
                self.later(state, lasts, Act::Up);
            }
            Act::Up => {
                faults.come_up();
                state.down = false;
            }
            Act::Refuse { output, times } => self.refuse(output, times),
            Act::Lose { output, written } => {
                let fault = if written { RowFault::AckLost } else { RowFault::Lost };
                faults.rows(&super::output(output), When::next(1), fault);
            }
            Act::ClientErrors => {
                faults.reader_error(error(Kind::Transient, "_ALL_BROKERS_DOWN"));
                faults.writer_error(error(Kind::Transient, "_ALL_BROKERS_DOWN"));
            }
            Act::StartFails { question, times } => {
                let (when, error) =
                    (When::next(times), error(Kind::Coordinator, "COORDINATOR_LOAD_IN_PROGRESS"));
                match question {
                    Question::Topics => faults.fail(Call::Topics, when, error),
                    Question::OutputTopics => faults.fail(Call::OutputTopics, when, error),
                    Question::Committed => faults.fail(Call::Committed, when, error),
                    Question::CommittedPartition(partition) => {
                        let name = state.model.name(partition).clone();
                        faults.fail_partition(Call::Committed, name, when, error);
                    }
                }
            }
            Act::Calm => {
                state.calm = true;
                state.slow_commits = Duration::ZERO;
                state.down = false;
                faults.clear();
                faults.come_up();
                for output in 0..state.outputs {
                    faults.delay_acks(&super::output(output), Duration::ZERO);
                    faults.release_all_acks(&super::output(output));
                }
            }
            Act::Kill | Act::Stop => unreachable!("the executor's"),
        }
    }

    fn later(&self, state: &mut State, wait: Duration, act: Act) {
        state.events.push(Event { at: At::Time(self.now().0 + wait), act });
    }

    fn produce(&self, state: &mut State, partition: usize, payloads: Vec<Payload>) {
        let name = state.model.name(partition).clone();
        for payload in payloads {
            let number = state.model.next_number();
            let text = match &payload {
                Payload::Tombstone => None,
                payload => Some(payload.label(number).into_bytes()),
            };
            let record = Record { payload: text, ..Record::default() }
                .keyed(format!("k{}", number % 7))
                .header("n", Some(number.to_string().as_bytes()))
                .at(number as i64);
            let offset = self.broker.produce(&name.topic, name.partition, record).0;
            state.model.produced(partition, Input { number, offset, payload });
        }
    }

    /// Has an output refuse its next rows for good.
    fn refuse(self: &Arc<Self>, output: usize, times: u64) {
        let (mut left, refused) = (times, self.refused.clone());
        self.broker.faults().rows_where(&super::output(output), move |record| {
            left = left.checked_sub(1)?;
            let row = Row::of_record(record);
            refused.lock().unwrap_or_else(PoisonError::into_inner).push((output, row));
            Some(RowFault::Refused(error(Kind::Refused, "INVALID_RECORD")))
        });
    }
}

fn error(kind: Kind, code: &'static str) -> KafkaError {
    KafkaError { kind, code, message: "scripted".to_owned() }
}
