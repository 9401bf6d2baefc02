//! Scripted sinks: they complete at once, at a flush, late, twice, or not at all; they fail, hang and trap.
//!
//! A row counts as durable when the sink says `complete` of it. What an instance held and did not complete is lost with
//! the instance.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use loom_plugin::{CallFailure, Cause, Verdict};
use loom_types::{Batch, ErrorKind};

use super::excuse::Excuse;
use super::model::Row;
use super::world::{Sim, State};
use crate::nodes::SinkCalls;

/// How long a call takes that hangs.
const HANGS: Duration = Duration::from_millis(250);

/// The manner of one sink: chances out of 1, of a call or of a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct SinkManner {
    /// A row is completed in the call that brought it.
    early: f64,
    /// A row is not completed by the flush, but later or never.
    left: f64,
    write_fails: f64,
    flush_fails: f64,
    close_fails: f64,
    /// Rows of a call that fails are completed before it does.
    half: f64,
    /// A row is failed through the tracker.
    refuses: f64,
    /// It speaks of tokens that are spent or nobody's.
    babbles: f64,
    lets_go: f64,
    pub start_fails: f64,
    recycled: f64,
    /// What it writes to is away: it asks to be called again.
    away: Option<(Duration, Duration)>,
}

impl SinkManner {
    pub(super) fn draw(dice: &mut Rng, horizon: Duration) -> SinkManner {
        let early = [0.0, 0.0, 0.5, 1.0][dice.usize(..4)];
        let away = (dice.f64() < 0.25).then(|| {
            let from = horizon.mul_f64(dice.f64());
            (from, from + Duration::from_millis(dice.u64(1..60_000)))
        });
        let mut some = |chance: f64, most: f64| if dice.f64() < chance { dice.f64() * most } else { 0.0 };
        SinkManner {
            early,
            left: some(0.2, 0.2),
            write_fails: some(0.4, 0.4),
            flush_fails: some(0.4, 0.4),
            close_fails: some(0.4, 1.0),
            half: some(0.5, 1.0),
            refuses: some(0.2, 0.1),
            babbles: some(0.2, 0.3),
            lets_go: some(0.1, 0.05),
            start_fails: some(0.3, 0.7),
            recycled: some(0.2, 0.5),
            away,
        }
    }
}

struct Held {
    handle: u32,
    row: Row,
    /// A flush that succeeded left it open.
    left: bool,
}

/// One instance.
pub(super) struct ScriptedSink {
    sim: Arc<Sim>,
    run: usize,
    sink: usize,
    held: Vec<Held>,
    said: Vec<(u32, Verdict)>,
    spent: Option<u32>,
    usable: bool,
}

impl ScriptedSink {
    pub(super) fn new(sim: Arc<Sim>, run: usize, sink: usize) -> ScriptedSink {
        ScriptedSink { sim, run, sink, held: Vec::new(), said: Vec::new(), spent: None, usable: true }
    }

    /// Completes what it holds where this says so.
    fn complete(&mut self, state: &mut State, mut which: impl FnMut(&mut State, &Held) -> bool) {
        let mut kept = Vec::new();
        let babbles = state.sinks[self.sink].babbles;
        for held in std::mem::take(&mut self.held) {
            if !which(state, &held) {
                kept.push(held);
                continue;
            }
            state.tell(self.sim.now(), || {
                format!("  k{} completes {} {}", self.sink, held.row.number, held.row.label)
            });
            state.model.sunk(self.run, self.sink, &held.row);
            self.said.push((held.handle, Verdict::Complete));
            if state.strikes(babbles) {
                self.said.push((held.handle, Verdict::Complete));
                self.said.push((self.spent.unwrap_or(0xdead_beef), Verdict::Complete));
                self.said.push((0xdead_beef, Verdict::Fail(Cause::Fail, "babble".to_owned())));
            }
            self.spent = Some(held.handle);
        }
        self.held = kept;
    }

    /// A failure, if this call is to have one; `own`: the rows that it would be blamed on.
    fn failure(
        &mut self,
        state: &mut State,
        chance: f64,
        what: &str,
        alone: Option<&Row>,
    ) -> Option<CallFailure> {
        let now = self.sim.now().0;
        if state.sinks[self.sink].away.is_some_and(|(from, to)| now >= from && now < to) {
            return Some(CallFailure { cause: Cause::Retry, reason: "away".to_owned() });
        }
        if !state.strikes(chance) {
            return None;
        }
        let causes = [
            Cause::Retry,
            Cause::Retry,
            Cause::Reject,
            Cause::Fail,
            Cause::Trap,
            Cause::Timeout,
            Cause::Protocol,
        ];
        let mut cause = causes[state.dice.usize(..causes.len())];
        if let Some(row) = alone {
            let kind = if cause == Cause::Reject { ErrorKind::Business } else { ErrorKind::Delivery };
            // What stops the flow is rare, else hardly anything else would happen.
            let stops = cause != Cause::Retry && state.model.is_final(self.sink, row, kind);
            if stops && state.dice.f64() < 0.95 {
                cause = Cause::Retry;
            }
            if cause != Cause::Retry {
                state.model.sink_failed(self.run, self.sink, row, kind);
                if stops {
                    state.model.run(self.run).excuse(Excuse::SinkFailed);
                }
            }
        }
        if cause == Cause::Timeout {
            self.sim.clock.advance(HANGS);
        }
        self.usable &= !cause.is_trap();
        state.tell(self.sim.now(), || format!("  k{} {what} fails: {cause:?}", self.sink));
        Some(CallFailure { cause, reason: "scripted".to_owned() })
    }

    /// The only row that it holds.
    fn alone(&self) -> Option<Row> {
        match &self.held[..] {
            [held] => Some(held.row.clone()),
            _ => None,
        }
    }

    /// Lets go of its tracker, so that it can complete nothing any more: what it holds alone fails with that.
    fn let_go(&mut self, state: &mut State, chance: f64) {
        let alone = self.alone();
        let stops =
            alone.as_ref().is_some_and(|row| state.model.is_final(self.sink, row, ErrorKind::Delivery));
        if stops || !state.strikes(chance) {
            return;
        }
        if let Some(row) = alone {
            state.model.sink_failed(self.run, self.sink, &row, ErrorKind::Delivery);
        }
        self.usable = false;
    }

    /// These rows are to be given to it again: the host may not go past them.
    fn wait(&self, state: &mut State, rows: &[Held]) {
        rows.iter().for_each(|held| state.model.sink_waits(self.run, self.sink, &held.row));
    }

    /// Fails rows through the tracker.
    fn refuse(&mut self, state: &mut State) {
        let chance = state.sinks[self.sink].refuses;
        let mut kept = Vec::new();
        for held in std::mem::take(&mut self.held) {
            if !state.strikes(chance) {
                kept.push(held);
                continue;
            }
            let goes_on = |kind| !state.model.is_final(self.sink, &held.row, kind);
            let (reject, fail) = (goes_on(ErrorKind::Business), goes_on(ErrorKind::Delivery));
            let cause = match state.dice.usize(..3) {
                0 if reject => Cause::Reject,
                1 if fail => Cause::Fail,
                _ => Cause::Retry,
            };
            if cause != Cause::Retry {
                let kind = if cause == Cause::Reject { ErrorKind::Business } else { ErrorKind::Delivery };
                state.model.sink_failed(self.run, self.sink, &held.row, kind);
            } else {
                state.model.sink_waits(self.run, self.sink, &held.row);
            }
            state.tell(self.sim.now(), || {
                format!("  k{} fails {} {}: {cause:?}", self.sink, held.row.number, held.row.label)
            });
            self.said.push((held.handle, Verdict::Fail(cause, "scripted".to_owned())));
        }
        self.held = kept;
    }
}

impl SinkCalls for ScriptedSink {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure> {
        assert!(self.usable, "an instance that trapped is never called again");
        let sim = self.sim.clone();
        let mut state = sim.lock();
        let state = &mut *state;
        let manner = state.sinks[self.sink];
        for (row, handle) in rows.iter().zip(handles) {
            let row = Row::of_batch(batch, *row);
            state.tell(sim.now(), || format!("  k{} is given {} {}", self.sink, row.number, row.label));
            state.model.sink_given(self.run, self.sink, &row);
            self.held.push(Held { handle: *handle, row, left: false });
        }
        let alone = if self.held.len() == 1 { self.alone() } else { None };
        if let Some(failure) = self.failure(state, manner.write_fails, "write", alone.as_ref()) {
            if alone.is_none() {
                self.complete(state, |state, _| state.strikes(manner.half * 0.5));
            }
            // After an error it forgets what this call brought and it did not complete.
            let (back, kept) = std::mem::take(&mut self.held)
                .into_iter()
                .partition(|held| handles.contains(&held.handle) || !self.usable);
            self.held = kept;
            if failure.cause == Cause::Retry {
                self.wait(state, &back);
            }
            return Err(failure);
        }
        self.refuse(state);
        self.complete(state, |state, held| {
            let chance = if held.left { 0.3 } else { manner.early };
            state.dice.f64() < chance
        });
        self.let_go(state, manner.lets_go);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CallFailure> {
        assert!(self.usable, "an instance that trapped is never called again");
        let sim = self.sim.clone();
        let mut state = sim.lock();
        let state = &mut *state;
        let manner = state.sinks[self.sink];
        let alone = self.alone();
        if let Some(failure) = self.failure(state, manner.flush_fails, "flush", alone.as_ref()) {
            if alone.is_none() {
                self.complete(state, |state, _| state.strikes(manner.half * 0.5));
            }
            return Err(failure);
        }
        self.refuse(state);
        let mut open = Vec::new();
        self.complete(state, |state, held| {
            let left = state.strikes(manner.left);
            if left {
                open.push(held.row.clone());
            }
            !left
        });
        for row in open {
            // Left open twice is a failure for good.
            if state.model.is_final(self.sink, &row, ErrorKind::Delivery) {
                state.model.run(self.run).excuse(Excuse::SinkFailed);
            }
            state.model.sink_failed(self.run, self.sink, &row, ErrorKind::Delivery);
        }
        self.held.iter_mut().for_each(|held| held.left = true);
        self.let_go(state, manner.lets_go);
        Ok(())
    }

    fn close(&mut self) -> Result<(), CallFailure> {
        let sim = self.sim.clone();
        let mut state = sim.lock();
        let state = &mut *state;
        let manner = state.sinks[self.sink];
        let now = self.sim.now().0;
        if manner.away.is_some_and(|(from, to)| now >= from && now < to) {
            // It takes no more, and says nothing: what it holds is written again by the next process.
            return Ok(());
        }
        if state.strikes(manner.close_fails) {
            state.model.run(self.run).excuse(Excuse::SinkClose);
            return Err(CallFailure { cause: Cause::Fail, reason: "scripted".to_owned() });
        }
        // What it leaves open now is written again by the next process.
        self.complete(state, |state, _| !state.strikes(manner.close_fails));
        Ok(())
    }

    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>) {
        out.append(&mut self.said);
    }

    fn is_usable(&self) -> bool {
        self.usable
    }

    fn wants_recycling(&self) -> bool {
        let mut state = self.sim.lock();
        let chance = state.sinks[self.sink].recycled;
        state.strikes(chance)
    }
}
