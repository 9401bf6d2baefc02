//! The calls on a sink's instance, and what their outcome means for the rows that it holds.
//!
//! Invariant: without an instance no token is open. Whoever throws an instance away takes its rows back first.

use std::time::Duration;

use loom_delivery::{Mutation, mutated};
use loom_plugin::{CallFailure, Cause, Verdict};
use loom_types::Moment;

use super::{Open, Sink, SinkEvent, Unflushed, failed};
use crate::late::{retries_used_up, retry_backoff};
use crate::rows::Row;

/// Tokens that were not open are logged no more often.
const VIOLATIONS_AGAIN: Duration = Duration::from_secs(10);

impl Sink {
    /// Whether there is an instance to call. When a new one cannot be started the sink waits.
    pub(super) fn is_started(&mut self, now: Moment) -> bool {
        if self.calls.is_none() {
            match (self.make)() {
                Ok(calls) => self.calls = Some(calls),
                Err(reason) => self.wait_for(&reason, now),
            }
        }
        self.calls.is_some()
    }

    /// One call of `write`, on an instance that is started. After an error: the call's rows that the sink did not
    /// complete; all others that it held are written again one by one if the instance is lost.
    pub(super) fn call_write(
        &mut self,
        rows: Vec<Open>,
        now: Moment,
        events: &mut Vec<SinkEvent>,
    ) -> Result<(), (CallFailure, Vec<Open>)> {
        let batch = rows[0].row.batch.clone();
        let ids: Vec<u32> = rows.iter().map(|open| open.row.id).collect();
        let bytes: u64 = rows.iter().map(|open| open.row.bytes()).sum();
        let mut handles = Vec::with_capacity(rows.len());
        let mut rows = rows.into_iter();
        while let Some(open) = rows.next() {
            match self.table.insert(open) {
                Ok(handle) => handles.push(handle),
                Err(open) => {
                    // Cannot happen while a flush is due before the table is full; and if it does, the rows wait.
                    let mut back = self.take_back(&handles);
                    back.push(open);
                    back.extend(rows);
                    let reason = "the sink holds too many records that it has not completed".to_owned();
                    return Err((CallFailure { cause: Cause::Retry, reason }, back));
                }
            }
        }
        let calls = self.calls.as_mut().expect("it was started before the write");
        let mut result = calls.write(&batch, &ids, &handles);
        let lost = !calls.is_usable();
        self.collect(now, events);
        if lost && result.is_ok() {
            let reason = "the sink let go of its commit tracker, and can complete no record".to_owned();
            result = Err(CallFailure { cause: Cause::Protocol, reason });
        }
        match result {
            Ok(()) => {
                if !self.bounds.tracked {
                    // Nothing confirms these rows, and at most once needs nothing more.
                    let written = self.take_back(&handles);
                    events.extend(written.into_iter().map(|open| SinkEvent::Completed(open.row)));
                }
                if !self.bounds.tracked || !self.table.is_empty() {
                    self.unflushed.oldest.get_or_insert(now);
                    self.unflushed.bytes += bytes;
                    self.unflushed.rows = if self.bounds.tracked {
                        self.table.len()
                    } else {
                        self.unflushed.rows + handles.len()
                    };
                }
                Ok(())
            }
            Err(failure) if failure.cause == Cause::Stopped => {
                self.end_early("write");
                Ok(())
            }
            Err(failure) => {
                let mut back = self.take_back(&handles);
                if mutated(Mutation::FailedWriteCounts) {
                    events.extend(back.drain(..).map(|open| SinkEvent::Completed(open.row)));
                }
                if lost {
                    let others = self.lose_instance();
                    if !others.is_empty() {
                        self.again_alone(others, "write", &failure.reason);
                    }
                }
                Err((failure, back))
            }
        }
    }

    /// One call of `flush`, and all that follows from it.
    pub(super) fn flush(&mut self, now: Moment, events: &mut Vec<SinkEvent>) {
        self.flush_asked = false;
        let Some(calls) = self.calls.as_mut() else { return };
        let mut result = calls.flush();
        let lost = !calls.is_usable();
        self.collect(now, events);
        if lost && result.is_ok() && !self.table.is_empty() {
            let reason = "the sink let go of its commit tracker with records open".to_owned();
            result = Err(CallFailure { cause: Cause::Protocol, reason });
        }
        match result {
            Ok(()) => {
                self.flushes += 1;
                self.flush_tries = 0;
                self.wait_backoff.reset();
                self.unflushed = Unflushed::default();
                if self.table.is_empty() {
                    self.recycle_if_worn(lost);
                } else if mutated(Mutation::FlushCompletes) {
                    events.extend(self.table.drain().map(|open| SinkEvent::Completed(open.row)));
                } else {
                    let left = self.lose_instance();
                    self.left_open(left, events);
                }
            }
            Err(failure) if failure.cause == Cause::Retry && !lost => {
                self.flush_asked = true;
                self.flush_tries += 1;
                self.retries += self.table.len() as u64;
                if self.bounds.retries.is_some_and(|retries| self.flush_tries > retries) {
                    self.give_up_flushing(&failure.reason, events);
                } else {
                    self.wait_for(&failure.reason, now);
                }
            }
            Err(failure) if failure.cause == Cause::Stopped => self.end_early("flush"),
            Err(failure) => {
                // What the instance still holds of these rows must not be written beside what is written again.
                let mut back = self.lose_instance();
                if let [Open { alone: true, .. }] = &back[..] {
                    events.extend(back.pop().map(|open| failed(open, failure)));
                } else if !back.is_empty() {
                    self.again_alone(back, "flush", &failure.reason);
                }
            }
        }
    }

    /// Whoever asked for another flush asked too often: what the sink holds is not written. Its instance goes too, so that
    /// nothing of these rows is written later.
    fn give_up_flushing(&mut self, reason: &str, events: &mut Vec<SinkEvent>) {
        self.wait_backoff.reset();
        self.flush_asked = false;
        let tries = self.flush_tries;
        let rows = self
            .lose_instance()
            .into_iter()
            .map(|open| retries_used_up(Row { attempts: open.row.attempts.max(tries), ..open.row }, reason));
        events.extend(rows.map(SinkEvent::Failed));
    }

    /// Rows that a flush which succeeded left open: once more, on a new instance; then they are delivery errors.
    fn left_open(&mut self, left: Vec<Open>, events: &mut Vec<SinkEvent>) {
        let (twice, once): (Vec<Open>, Vec<Open>) = left.into_iter().partition(|open| open.row.resent);
        events.extend(twice.into_iter().map(|open| {
            let reason = "the sink's flush succeeded twice without completing this record".to_owned();
            failed(open, CallFailure { cause: Cause::Protocol, reason })
        }));
        if !once.is_empty() {
            let again = once.into_iter();
            let again = again.map(|open| Open { row: Row { resent: true, ..open.row }, ..open }).collect();
            self.again_alone(again, "flush", "it succeeded without completing these records");
        }
    }

    fn recycle_if_worn(&mut self, lost: bool) {
        let Some(calls) = self.calls.as_mut() else { return };
        if lost {
            self.calls = None;
        } else if calls.wants_recycling() {
            if let Err(failure) = calls.close() {
                tracing::warn!(reason = &*failure.reason, "closing a sink that is recycled failed");
            }
            self.calls = None;
        }
    }

    /// Throws the instance away; the rows that it held, in their order.
    fn lose_instance(&mut self) -> Vec<Open> {
        self.calls = None;
        self.flush_tries = 0;
        self.unflushed = Unflushed::default();
        let mut open: Vec<Open> = self.table.drain().collect();
        open.sort_by_key(|open| open.order);
        open
    }

    /// Takes those of these rows back that are still open.
    fn take_back(&mut self, handles: &[u32]) -> Vec<Open> {
        handles.iter().filter_map(|handle| self.table.take(*handle)).collect()
    }

    /// Logs that a token was not open, with how many were not since the last line: a sink that is wrong is so for every
    /// record.
    fn tell_violation(&mut self, handle: u32, now: Moment) {
        let (told, last) = self.told_violations;
        if told > 0 && now.since(last) < VIOLATIONS_AGAIN {
            return;
        }
        tracing::warn!(
            handle,
            count = self.violations - told,
            total = self.violations,
            "a sink spoke of a token that is foreign or spent; it changes nothing"
        );
        self.told_violations = (self.violations, now);
    }

    /// Books what the sink said of its tokens.
    pub(super) fn collect(&mut self, now: Moment, events: &mut Vec<SinkEvent>) {
        let Some(calls) = self.calls.as_mut() else { return };
        let mut verdicts = std::mem::take(&mut self.verdicts);
        calls.verdicts(&mut verdicts);
        for (handle, said) in verdicts.drain(..) {
            let Some(open) = self.table.take(handle) else {
                self.violations += 1;
                self.tell_violation(handle, now);
                continue;
            };
            match said {
                Verdict::Complete => events.push(SinkEvent::Completed(open.row)),
                Verdict::Fail(Cause::Retry, reason) => {
                    self.park(vec![open], &reason, retry_backoff(), now, events);
                }
                Verdict::Fail(cause, reason) => events.push(failed(open, CallFailure { cause, reason })),
            }
        }
        self.verdicts = verdicts;
        if self.bounds.tracked && self.table.is_empty() {
            self.unflushed = Unflushed::default();
        }
    }
}
