//! Running a flow, and beginning it anew in place.
//!
//! A producer that cannot go on (its id expired while it was idle, its epoch was fenced) leaves rows of which nobody
//! knows whether they were written; a client whose certificate has run out is refused, though its file holds a new one.
//! As after a crash everything is read again from the committed offsets, by clients of its own, but for that the process
//! need not end. What happens again and again is no accident, and stops the flow.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::{Assembled, assemble_with, ownership};
use crate::clock::{Clock, SystemClock};
use crate::engine;
use crate::failure::Failure;
use crate::status::{Board, Watcher};
use crate::summary::{Counters, Outcome};

/// Times within [`WITHIN`]; the last of them stops the flow.
const LIMIT: usize = 3;

/// See [`LIMIT`].
const WITHIN: Duration = Duration::from_secs(600);

impl Assembled {
    /// Runs until the flow is stopped, fails, or ends with its input. Every client and plugin is closed when it returns.
    ///
    /// Where a client cannot go on, the flow begins anew in place, from the committed offsets: the outcome's ledger and
    /// partitions are the last round's, its counters those of all rounds.
    #[must_use]
    pub fn run(self) -> Outcome {
        match self.options.board.clone() {
            None => self.run_rounds(),
            Some(board) => {
                let broker = self.broker.clone();
                watched(Watcher::new(board.clone(), broker), board, || self.run_rounds())
            }
        }
    }

    fn run_rounds(self) -> Outcome {
        let (plan, broker, components) = (self.plan.clone(), self.broker.clone(), self.components.clone());
        let (options, stop) = (self.options.clone().anew(), self.stop.clone());
        let keeper = self.keeper.clone();
        let mut round = self;
        let mut lately = VecDeque::new();
        let mut before = Counters::default();
        loop {
            let mut outcome = round.run_round();
            outcome.summary.counters.add(&before);
            let Some(reason) = outcome.restart.take() else { return outcome };
            // The round that has ended held on to the lease for the next one.
            let over = |outcome: Outcome| {
                ownership::release(&plan, &*broker, &options);
                outcome
            };
            if !outcome.failures.is_empty() || stop.is_requested() {
                tracing::warn!(
                    flow = &*plan.name,
                    reason = &*reason,
                    "the flow was to begin anew, and stops instead; what is not committed is delivered again at the next start"
                );
                return over(outcome);
            }
            let Some(components) =
                components.as_ref().filter(|_| may_begin_anew(&mut lately, Instant::now()))
            else {
                outcome.failures.push(Failure::new(format!(
                    "{reason}; the flow had to begin anew {LIMIT} times in ten minutes, and stops"
                )));
                return over(outcome);
            };
            outcome.summary.counters.restarts += 1;
            tracing::error!(
                flow = &*plan.name,
                reason = &*reason,
                "the flow begins anew from the committed offsets, as after a crash"
            );
            if let Some(board) = &options.board {
                board.restarting();
            }
            let clock = Box::new(SystemClock::since(Instant::now()));
            let plugins: &dyn crate::nodes::Plugins = &**components;
            match assemble_with(plan.clone(), broker.clone(), plugins, options.clone(), &stop, clock) {
                Ok(next) => round = Assembled { keeper: keeper.clone(), ..next },
                // Told to stop while it was starting: that is no failure.
                Err(_) if stop.is_requested() => return over(outcome),
                Err(errors) => {
                    outcome.failures.extend(errors.into_iter().map(Failure::from));
                    return over(outcome);
                }
            }
            before = outcome.summary.counters;
        }
    }

    fn run_round(self) -> Outcome {
        tracing::info!(
            flow = &*self.plan.name,
            workers = self.graphs.len(),
            partitions = self.positions.len(),
            topics = self.plan.consumer.topics.join(", "),
            group = self.plan.consumer.group_id,
            "running"
        );
        let (name, stop) = (self.plan.name.clone(), self.round.clone());
        let start = Instant::now();
        let clock = || -> Box<dyn Clock> { Box::new(SystemClock::since(start)) };
        let mut outcome = engine::run(self.crew(clock), clock(), &stop);
        outcome.summary.flow = name;
        outcome
    }
}

/// Runs with a watcher beside.
fn watched(watcher: Watcher, board: Board, run: impl FnOnce() -> Outcome) -> Outcome {
    std::thread::scope(|scope| {
        let watching = std::thread::Builder::new().name("watcher".to_owned());
        if let Err(error) = watching.spawn_scoped(scope, || watcher.run()) {
            tracing::warn!(%error, "no thread to watch for partitions that stall: they are not told");
        }
        let outcome = run();
        board.stopped();
        outcome
    })
}

/// Counts a new beginning; whether it is not one too many.
fn may_begin_anew(lately: &mut VecDeque<Instant>, now: Instant) -> bool {
    lately.retain(|at| now.saturating_duration_since(*at) < WITHIN);
    lately.push_back(now);
    lately.len() < LIMIT
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::time::{Duration, Instant};

    use super::may_begin_anew;

    #[test]
    fn the_third_time_in_ten_minutes_is_one_too_many() {
        let start = Instant::now();
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let mut lately = VecDeque::new();
        assert!(may_begin_anew(&mut lately, at(0)) && may_begin_anew(&mut lately, at(9)));
        assert!(may_begin_anew(&mut lately, at(11)), "the first is more than ten minutes ago");
        assert!(!may_begin_anew(&mut lately, at(12)));
    }
}
