//! Rows that wait at a sink: to be written again, for time that it asked for, and what becomes of them at a stop.

use loom_delivery::Backoff;
use loom_types::Moment;

use super::{Open, Sink};
use crate::late::Late;

impl Sink {
    /// At a stop: rows that wait for another attempt are given up, a flush that waits is tried once more.
    pub(crate) fn hurry(&mut self) {
        self.lanes.drain().for_each(|row| row.token.give_up());
        self.wait = None;
        self.ask_flush();
    }

    /// While stopping: what asks to be tried again is not waited for.
    pub(crate) fn abandon_back_offs(&mut self) {
        self.lanes.drain().for_each(|row| row.token.give_up());
        if self.wait.is_some() {
            self.abandon_waiting();
        }
    }

    pub(super) fn abandon_waiting(&mut self) {
        self.lanes.drain().for_each(|row| row.token.give_up());
        self.queue.drain(..).for_each(|row| row.token.give_up());
        self.alone.drain(..).for_each(|open| open.row.token.give_up());
    }

    /// Has rows written again one by one, in their order.
    pub(super) fn again_alone(&mut self, rows: Vec<Open>, call: &str, reason: &str) {
        tracing::warn!(
            rows = rows.len(),
            call,
            reason,
            "a sink failed, its rows are written again one by one"
        );
        self.alone.extend(rows);
        self.alone.make_contiguous().sort_by_key(|open| open.order);
    }

    /// Has rows wait, each partition's in order behind the first of them.
    pub(super) fn park(&mut self, rows: Vec<Open>, reason: &str, backoff: Backoff, now: Moment) {
        for open in rows {
            let partition = open.row.partition();
            let mut backoff = backoff.clone();
            let mut due = now;
            if !self.lanes.holds(partition) {
                let wait = backoff.failed(self.random);
                due = now + wait;
                let source = open.row.batch.source(open.row.id);
                tracing::warn!(
                    topic = &**source.topic,
                    partition = source.partition,
                    offset = source.offset.0,
                    attempt = open.row.attempts,
                    wait_ms = wait.as_millis() as u64,
                    reason,
                    "the sink asks to be tried again, the partition waits"
                );
            }
            self.lanes.open(partition, due, backoff).rows.push_back(Late::Again(open.row));
        }
    }

    pub(super) fn wait_for(&mut self, reason: &str, now: Moment) {
        let wait = self.wait_backoff.failed(self.random);
        tracing::warn!(
            wait_ms = wait.as_millis() as u64,
            reason,
            "the sink asks to be tried again, it waits"
        );
        self.wait = Some(now + wait);
    }
}
