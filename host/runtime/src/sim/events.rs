//! What happens to the world from outside: records come, brokers fail, time passes.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use loom_kafka::memory::{Call, CommitFault, Record, RowFault, When};
use loom_kafka::{KafkaError, Kind, Member};
use loom_types::Moment;

use super::acts::{Act, At, CommitTrouble, Question};
use super::excuse::Excuse;
use super::flow::{Input, Payload};
use super::model::Row;
use super::world::{Sim, State};

/// What only the executor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Kill,
    Stop,
    /// A second host starts.
    Rival {
        take_over: bool,
    },
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
                Act::Rival { take_over } => return Some(Order::Rival { take_over }),
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
        let ours = times.chain(state.wakes.iter().map(|(at, _)| *at)).min();
        drop(state);
        // What is overdue waits for something else than time.
        let brokers = self.broker.next_event().filter(|at| *at > self.now());
        ours.into_iter().chain(brokers).min()
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
            Act::Feed { records, until } => {
                for partition in 0..state.model.partitions() {
                    self.produce(state, partition, vec![Payload::Json(String::new()); records]);
                }
                if self.now().0 < until {
                    self.later(state, Duration::from_secs(1), act);
                }
            }
            Act::Commits { fault, times } => {
                self.commits_fail(state, fault, times);
            }
            Act::CommitFailsIn { partition, times, for_good } => {
                let name = state.model.name(partition).clone();
                let failure = if for_good {
                    state.stands(Excuse::CommitRefused);
                    error(Kind::Authorization, "GROUP_AUTHORIZATION_FAILED")
                } else {
                    error(Kind::Transient, "_TIMED_OUT")
                };
                faults.fail_partition(Call::Commit, name, When::next(times), failure);
            }
            Act::Members { lasts } => {
                let member = Member { client_id: "else".into(), host: "elsewhere".into() };
                self.broker.join_group(super::GROUP, member);
                state.stands(Excuse::Members);
                self.later(state, lasts, Act::MembersLeave);
            }
            Act::MembersLeave => {
                self.broker.leave_group(super::GROUP);
                state.stands_no_more(Excuse::Members);
            }
            Act::QueueFull { times } => {
                faults.fail(Call::Send, When::next(times), error(Kind::Transient, "_QUEUE_FULL"));
            }
            Act::TakeFails { times } => {
                faults.fail(Call::Take, When::next(times), error(Kind::Transient, "_TRANSPORT"));
            }
            Act::BoundsFail { times } => {
                faults.fail(Call::Bounds, When::next(times), error(Kind::Transient, "_TRANSPORT"));
            }
            Act::LoseWakes { partition, times } => faults.lose_wakes(state.model.name(partition), times),
            Act::SlowAcks { output, by } => faults.delay_acks(&super::output(output), by),
            Act::NoAcks { output, lasts } => {
                faults.hold_acks(&super::output(output));
                self.later(state, lasts, Act::AcksBack { output });
            }
            Act::AcksBack { output } => faults.release_all_acks(&super::output(output)),
            Act::Hide { output, lasts } => {
                faults.hide_topic(&super::output(output), lasts);
                state.stands(Excuse::Hidden);
                self.later(state, lasts, Act::Seen);
            }
            Act::Seen => state.stands_no_more(Excuse::Hidden),
            Act::Down { lasts } => {
                faults.go_down();
                state.down = true;
                state.stands(Excuse::Away);
                self.later(state, lasts, Act::Up);
            }
            Act::Up => {
                faults.come_up();
                state.down = false;
                state.stands_no_more(Excuse::Away);
            }
            Act::Refuse { output, times } => self.refuse(output, 1, times, RowFault::Refused),
            Act::RefuseBatches { output, every, times } => {
                self.refuse(output, every, times, RowFault::RefusedBatch);
            }
            Act::Lose { output, written } => {
                let fault = if written { RowFault::AckLost } else { RowFault::Lost };
                faults.rows(&super::output(output), When::next(1), fault);
            }
            Act::Fence => {
                state.model.excuse_all(Excuse::Fenced);
                faults.fail_writers(error(Kind::Fatal, "INVALID_PRODUCER_EPOCH"));
            }
            Act::ClientErrors => {
                faults.reader_error(error(Kind::Transient, "_ALL_BROKERS_DOWN"));
                faults.writer_error(error(Kind::Transient, "_ALL_BROKERS_DOWN"));
            }
            Act::StartFails { question, times } => self.start_fails(state, question, times),
            Act::Calm => self.calm(state),
            Act::Kill | Act::Stop | Act::Rival { .. } => unreachable!("the executor's"),
            of_the_log => self.log_changes(state, of_the_log),
        }
    }

    /// No new faults any more, and the old ones end.
    fn calm(&self, state: &mut State) {
        let faults = self.broker.faults();
        state.calm = true;
        state.down = false;
        state.standing.clear();
        let goes_on =
            |act: &Act| matches!(act, Act::Produce { .. } | Act::Feed { .. } | Act::Kill | Act::Stop);
        state.events.retain(|event| goes_on(&event.act));
        faults.clear();
        faults.come_up();
        self.broker.leave_group(super::GROUP);
        for (partition, transaction, _) in std::mem::take(&mut state.transactions) {
            let name = state.model.name(partition).clone();
            self.broker.end(&transaction, true);
            state.model.ends_at(partition, self.end_of(&name));
        }
        for output in 0..state.outputs {
            faults.hide_topic(&super::output(output), Duration::ZERO);
            faults.delay_acks(&super::output(output), Duration::ZERO);
            faults.release_all_acks(&super::output(output));
        }
    }

    fn commits_fail(&self, state: &mut State, fault: CommitTrouble, times: u64) {
        let error = error(Kind::Coordinator, "NOT_COORDINATOR");
        let fault = match fault {
            CommitTrouble::Local => CommitFault::Local(error),
            CommitTrouble::Refused => CommitFault::Refused(error),
            CommitTrouble::AppliedThenFailed => CommitFault::AppliedThenFailed(error),
            CommitTrouble::Unanswered => CommitFault::Unanswered,
            CommitTrouble::Lost(answered) => CommitFault::Lost { answered },
            CommitTrouble::Late(arrives, after) => CommitFault::Late { arrives, answered: arrives + after },
        };
        // It may be the last one that a process sends.
        state.stands(Excuse::SlowCommits);
        self.broker.faults().commit(When::next(times), fault);
    }

    fn start_fails(&self, state: &State, question: Question, times: u64) {
        let (faults, when) = (self.broker.faults(), When::next(times));
        let error = error(Kind::Coordinator, "COORDINATOR_LOAD_IN_PROGRESS");
        match question {
            Question::Topics => faults.fail(Call::Topics, when, error),
            Question::OutputTopics => faults.fail(Call::OutputTopics, when, error),
            Question::Committed => faults.fail(Call::Committed, when, error),
            Question::Bounds => faults.fail(Call::Bounds, when, error),
            Question::CommittedPartition(partition) => {
                let name = state.model.name(partition).clone();
                faults.fail_partition(Call::Committed, name, when, error);
            }
        }
    }

    fn produce(&self, state: &mut State, partition: usize, payloads: Vec<Payload>) {
        let name = state.model.name(partition).clone();
        for payload in payloads {
            let number = state.model.next_number();
            let offset = self.broker.produce(&name.topic, name.partition, record(number, &payload)).0;
            state.model.produced(partition, Input { number, offset, payload });
        }
    }

    /// Has an output refuse rows of each `every`th record, so often.
    fn refuse(
        self: &Arc<Self>,
        output: usize,
        every: usize,
        times: u64,
        fault: impl Fn(KafkaError) -> RowFault + Send + 'static,
    ) {
        let (mut left, refused) = (times, self.refused.clone());
        self.broker.faults().rows_where(&super::output(output), move |record| {
            let row = Row::of_record(record);
            if !row.number.is_multiple_of(every) {
                return None;
            }
            left = left.checked_sub(1)?;
            refused.lock().unwrap_or_else(PoisonError::into_inner).push((output, row));
            Some(fault(error(Kind::Refused, "INVALID_RECORD")))
        });
    }
}

/// A record as it is produced.
pub(super) fn record(number: u64, payload: &Payload) -> Record {
    let text = match payload {
        Payload::Tombstone => None,
        payload => Some(payload.label(number).into_bytes()),
    };
    Record { payload: text, ..Record::default() }
        .keyed(format!("k{}", number % 7))
        .header("n", Some(number.to_string().as_bytes()))
        .at(number as i64)
}

fn error(kind: Kind, code: &'static str) -> KafkaError {
    KafkaError { kind, code, message: "scripted".to_owned() }
}
