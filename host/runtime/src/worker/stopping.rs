//! The end of a worker: intake stops, what is in flight is written, sinks close, the last offsets are committed.
//!
//! Everything is bounded by the shutdown's time-out, of which the last part belongs to the final commit. What did not
//! get through stays uncommitted and is delivered again.
//!
//! Where the flow is to begin anew afterwards, the end is short, and what it does not bring about is no failure: the
//! clients may be what is broken.

use std::time::Duration;

use loom_delivery::{Entry, Mutation, mutated};
use loom_kafka::{CommitAnswer, Kind};
use loom_types::Moment;

use super::Worker;
use crate::keeper::Commits;
use crate::nodes::{Collect, Op};
use crate::stop::{Interrupts, Stop};

/// The part of the shutdown's time-out that belongs to the final commit.
const COMMIT_SHARE: Duration = Duration::from_secs(3);

/// The part that belongs to the release of clients whose broker does not answer.
const RELEASE_SHARE: Duration = Duration::from_secs(2);

/// How a shutdown's time-out is divided; each counts from the request.
struct Times {
    /// When calls of plugins that are still under way are ended.
    interrupted: Duration,
    /// When what is not written is given up.
    drained: Duration,
    /// When calls of sinks that are still under way are ended: a sink gets a little of the commit's part to close.
    closed: Duration,
    /// When the final commit is given up.
    committed: Duration,
}

impl Times {
    fn of(timeout: Duration) -> Times {
        let committed = timeout - RELEASE_SHARE.min(timeout / 4);
        let drained = committed - COMMIT_SHARE.min(committed / 2);
        let closed = drained + (committed - drained) / 2;
        Times { interrupted: drained / 2, drained, closed, committed }
    }

    /// Of a round that the flow begins anew after.
    fn anew(timeout: Duration) -> Times {
        let times = Times::of(timeout);
        let drained = times.drained.min(COMMIT_SHARE);
        Times { drained, committed: times.committed.min(drained + COMMIT_SHARE), ..times }
    }
}

/// What this request to stop ends when it will wait no longer.
pub(crate) fn interrupts(stop: &Stop, shutdown_timeout: Duration) -> Interrupts {
    let times = Times::of(shutdown_timeout);
    Interrupts { calls: stop.interrupt(times.interrupted), sinks: stop.interrupt(times.closed) }
}

/// Between two attempts of a final commit that could not be sent or was refused for a passing reason.
const COMMIT_RETRY: Duration = Duration::from_millis(100);

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Reading, processing, writing.
    Running,
    /// Nothing is read any more; what is in flight is written.
    Draining { until: Moment, deadline: Moment },
    /// The last commit is to be sent, not before `next`.
    Committing { next: Moment, deadline: Moment },
    /// The last commit waits for its answer.
    Awaiting { deadline: Moment },
    /// Over.
    Closed,
}

impl Phase {
    /// When the phase has something to do, whether or not anything comes. `in_flight`: a commit waits for its answer, and
    /// the last one waits for that.
    pub(super) fn due(&self, in_flight: bool) -> Option<Moment> {
        match self {
            Phase::Running | Phase::Closed => None,
            Phase::Draining { until, .. } => Some(*until),
            Phase::Committing { next, deadline } if !in_flight => Some((*next).min(*deadline)),
            Phase::Committing { deadline, .. } | Phase::Awaiting { deadline } => Some(*deadline),
        }
    }

    /// Whether offsets are committed as they come; the last commit is sent by itself.
    pub(super) fn commits_as_it_runs(&self) -> bool {
        matches!(self, Phase::Running | Phase::Draining { .. })
    }
}

impl Worker {
    /// Does the phase's own work, and goes on to the next when it is done. Whether records were taken.
    pub(super) fn advance_phase(&mut self, now: Moment) -> bool {
        match self.phase {
            Phase::Running => {
                let shared = &self.flow.shared;
                let stopped =
                    self.stop.is_requested() || !shared.failures.is_empty() || shared.restart.is_some();
                if !stopped && !self.input_is_done(now) {
                    return self.intake(now);
                }
                self.begin_draining(now);
                true
            }
            Phase::Draining { until, deadline } => {
                self.drain(now, until, deadline);
                false
            }
            Phase::Committing { next, deadline } => {
                self.commit_last(now, next, deadline);
                false
            }
            Phase::Awaiting { deadline } => {
                if now >= deadline {
                    self.without_last_commit("was not answered in time");
                }
                false
            }
            Phase::Closed => false,
        }
    }

    fn begin_draining(&mut self, now: Moment) {
        // Half a flow is not a flow: the other workers stop too, while this one drains.
        if !self.flow.shared.failures.is_empty() {
            self.stop.request();
        } else if self.flow.shared.restart.is_some() {
            self.stop.request_anew();
        }
        let timeout = self.flow.shared.plan.runtime.shutdown_timeout;
        let times = if self.stop.begins_anew() { Times::anew(timeout) } else { Times::of(timeout) };
        // The time runs from the request, also while a call of a plugin kept the worker from seeing it.
        let late = self.stop.requested_for();
        // A producer that cannot go on writes nothing more, and what it has is read again.
        let drained = if self.flow.shared.restart.is_some() { Duration::ZERO } else { times.drained };
        self.phase = Phase::Draining {
            until: now + drained.saturating_sub(late),
            deadline: now + times.committed.saturating_sub(late),
        };
        self.held = self.flow.waiting();
        self.give_up_waits(false);
        for id in self.each_sink() {
            if let Op::Sink(node) = &mut self.flow.nodes[id.0].op {
                node.sink.hurry();
            }
        }
    }

    /// Gives up rows that wait for another attempt, and what waits behind them; with `all` also those whose calls are
    /// under way. How many calls that were.
    fn give_up_waits(&mut self, all: bool) -> usize {
        for at in 0..self.busy.len() {
            if let Op::Join(_) = self.flow.nodes[self.busy[at].0].op {
                self.flow.give_up_behind(self.busy[at], all);
            }
        }
        let mut hung = 0;
        for at in 0..self.busy.len() {
            match &mut self.flow.nodes[self.busy[at].0].op {
                Op::Plugin(node) => node.abandon(),
                Op::Waiting(node) if all => hung += node.abandon(),
                Op::Waiting(node) => node.give_up_retries(),
                Op::Batch(node) if all => hung += node.abandon(),
                Op::Batch(node) => node.give_up_retries(),
                _ => {}
            }
        }
        hung
    }

    fn drain(&mut self, now: Moment, until: Moment, deadline: Moment) {
        let in_time = now < until && !self.flow.shared.interrupt.is_set();
        self.send_batches(in_time);
        for id in self.each_sink() {
            if let Op::Sink(node) = &mut self.flow.nodes[id.0].op {
                node.sink.ask_flush();
            }
            self.flow.progress_sink(id);
            if let Op::Sink(node) = &mut self.flow.nodes[id.0].op {
                node.sink.abandon_back_offs();
            }
        }
        self.flow.outputs.abandon_waits();
        // An error route may lead through a step that asks to be tried again.
        let hung = self.give_up_waits(!in_time);
        if hung > 0 {
            tracing::warn!(
                calls = hung,
                "calls of plugins did not come back in time for the stop; their records stay uncommitted and are \
                 delivered again"
            );
        }
        let waiting = self.each_sink().iter().any(|id| match &self.flow.nodes[id.0].op {
            Op::Sink(node) => node.next_due().is_some_and(|due| due <= now),
            _ => false,
        });
        let called = self.busy.iter().any(|id| match &self.flow.nodes[id.0].op {
            Op::Waiting(node) => !node.is_empty(),
            Op::Join(node) => !node.is_empty(),
            Op::Batch(node) => !node.is_empty(),
            // A sink's failures may have come to a batch of their route; it is sent on in the next step.
            Op::Collect(node) => !node.is_empty(),
            _ => false,
        });
        self.ask_for_batches(Collect::ask);
        let quiet = !waiting && !called && self.flow.outputs.is_quiet();
        if !quiet && now < until {
            return;
        }
        if !quiet {
            let rows: usize = self.flow.waiting().iter().map(|(_, rows)| rows).sum();
            tracing::warn!(
                rows,
                "not all rows could be written in time; they stay uncommitted and are delivered again"
            );
        }
        for id in self.each_sink() {
            if let Some(failure) = self.flow.close_sink(id) {
                self.flow.shared.fail(failure);
            }
        }
        self.send_batches(quiet);
        self.flow.send_outputs();
        self.give_up_waits(true);
        self.send_batches(false);
        self.flow.outputs.close(if quiet { until.since(now) } else { Duration::ZERO });
        self.acknowledgements(now);
        self.phase = Phase::Committing { next: now, deadline };
    }

    /// Sends on the batches that are being gathered, full or not; gives them up where there is no time left for them.
    fn send_batches(&mut self, in_time: bool) {
        // What comes out of one may come to the next: upstream ones first, which were lowered last.
        for at in (0..self.busy.len()).rev() {
            let id = self.busy[at];
            let Op::Collect(node) = &mut self.flow.nodes[id.0].op else { continue };
            if in_time {
                node.ask();
                self.flow.progress_collect(id);
            } else {
                node.abandon();
            }
        }
    }

    fn commit_last(&mut self, now: Moment, next: Moment, deadline: Moment) {
        // What is there is somebody else's, and is not overwritten.
        if self.partitions.is_empty() || self.gate.get() == Commits::Shut {
            self.phase = Phase::Closed;
            return;
        }
        if now >= deadline {
            return self.without_last_commit("did not succeed in time");
        }
        if self.commits.is_in_flight() || now < next {
            return;
        }
        let entries = self.last_entries();
        if entries.is_empty() {
            if self.gate.get() == Commits::Held {
                tracing::info!("another host's lease is watched: nothing is committed at this stop");
            }
            self.phase = Phase::Closed;
            return;
        }
        self.send_commit(now, entries);
        self.phase = if self.commits.is_in_flight() {
            Phase::Awaiting { deadline }
        } else {
            Phase::Committing { next: now + COMMIT_RETRY, deadline }
        };
    }

    /// What the answer to the last commit means for the stop; a failure, where it cannot be tried again.
    pub(super) fn final_answer(&mut self, now: Moment, answer: &CommitAnswer) -> Option<String> {
        let Phase::Awaiting { deadline } = self.phase else { return None };
        let errors = answer.results.iter().filter_map(|(id, result)| Some((*id, result.as_ref().err()?)));
        // What somebody else set is told by itself.
        let errors: Vec<_> = errors.filter(|(_, error)| error.kind != Kind::Moved).collect();
        if errors.is_empty() {
            self.phase = Phase::Closed;
            return None;
        }
        if errors.iter().all(|(_, error)| matches!(error.kind, Kind::Coordinator | Kind::Transient)) {
            self.phase = Phase::Committing { next: now + COMMIT_RETRY, deadline };
            return None;
        }
        self.phase = Phase::Closed;
        let list: Vec<String> = errors
            .iter()
            .map(|(id, error)| {
                let offset = self.flow.shared.accounts.tracker(*id).commit_offset();
                let offset = offset.map_or_else(String::new, |offset| format!(" at {offset}"));
                format!("{}{offset}: {error}", self.partitions[id.index()].name)
            })
            .collect();
        Some(format!("the final commit failed: {}; these records may be delivered again", list.join("; ")))
    }

    /// The end without the last commit.
    fn without_last_commit(&mut self, why: &str) {
        let offsets = self.last_offsets();
        self.not_committed(format!(
            "the final commit {why} ({offsets}); these records may be delivered again"
        ));
        self.phase = Phase::Closed;
    }

    /// What the last commit did not bring about is a failure of a stop, and none of a round that another one follows.
    pub(super) fn not_committed(&mut self, why: String) {
        if self.stop.begins_anew() {
            tracing::warn!("{why}");
        } else {
            self.flow.shared.fail(why);
        }
    }

    /// What the last commit is of. Who watches another's lease is not the owner, and what it commits the owner would take
    /// for set from outside, whatever its stop began with.
    fn last_entries(&self) -> Vec<Entry> {
        let gate = self.gate.get();
        self.commits.last(&self.flow.shared.accounts, |id| {
            self.may_commit(id, gate) || mutated(Mutation::WatcherCommitsLast)
        })
    }

    fn last_offsets(&self) -> String {
        let list: Vec<String> = self
            .last_entries()
            .iter()
            .map(|entry| {
                let name = &self.partitions[entry.partition.index()].name;
                format!("{name} at {}", entry.stand.offset)
            })
            .collect();
        list.join(", ")
    }
}
