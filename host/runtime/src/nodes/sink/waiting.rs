//! Rows that wait at a sink: to be written again, for time that it asked for, and what becomes of them at a stop.

use std::cmp::Ordering;
use std::sync::Arc;

use loom_delivery::Backoff;
use loom_types::{Moment, Moves, compare_rows};

use super::{Open, Sink, SinkEvent};
use crate::holdings::Seen;
use crate::late::retries_used_up;
use crate::rows::Row;
use crate::status::Release;

impl Sink {
    /// Why the sink waits, where it does: what its last call was answered.
    pub(crate) fn answer(&self) -> Option<&str> {
        self.wait.and(self.answer.as_deref())
    }

    /// Every row that is here, with the attempt that it is at, and what would release it.
    pub(crate) fn each_row(&self, now: Moment, mut each: impl FnMut(&Row, u32, Release)) {
        let until = |moment: Moment| u64::try_from(moment.since(now).as_millis()).unwrap_or(u64::MAX);
        let wait = self.wait.map(|wait| Release::Sink { in_ms: until(wait) });
        let held = wait.clone().unwrap_or(Release::Completion { flush_in_ms: self.flush_due().map(until) });
        for open in self.table.iter() {
            // What is written is tried by flushing it.
            each(&open.row, open.row.attempts.max(self.flush_tries), held.clone());
        }
        for lane in self.lanes.iter() {
            let in_ms = until(lane.due);
            for (index, row) in lane.rows.iter().enumerate() {
                let release = if index == 0 { Release::Retry { in_ms } } else { Release::Turn { in_ms } };
                each(row, row.attempts, release);
            }
        }
        let turn = wait.unwrap_or(Release::Turn { in_ms: 0 });
        for row in self.queue.iter().chain(self.alone.iter().map(|open| &open.row)) {
            each(row, row.attempts, turn.clone());
        }
    }

    /// Shows every row that is here, to whoever counts what they keep.
    pub(crate) fn show(&self, seen: &mut Seen) {
        let open = self.table.iter().chain(&self.alone).map(|open| &open.row);
        open.chain(self.lanes.rows()).chain(&self.queue).for_each(|row| seen.waits(row, false));
    }

    /// Rows that were copied go on as their copies.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        let open = self.table.iter_mut().chain(&mut self.alone).map(|open| &mut open.row);
        open.chain(self.lanes.rows_mut()).chain(&mut self.queue).for_each(|row| row.follow(moves));
    }

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

    /// A stop ended a call, and the instance with it: no row that is here is written any more.
    pub(super) fn end_early(&mut self, call: &str) {
        let rows = self.table.len() + self.waiting();
        tracing::warn!(
            rows,
            call,
            "a call of a sink did not come back in time for the stop; the records that it holds stay uncommitted and are \
             delivered again"
        );
        self.closed = true;
        self.calls = None;
        self.table.drain().for_each(|open| open.row.token.give_up());
        self.abandon_waiting();
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
        let answer: Arc<str> = reason.into();
        self.alone.extend(rows.into_iter().map(|open| Open { row: open.row.after(answer.clone()), ..open }));
        self.alone.make_contiguous().sort_by_key(|open| open.order);
    }

    /// Has rows wait, each partition's in its order: a row that the sink had is before those that it was not given yet.
    /// Those whose retries are used up fail.
    pub(super) fn park(
        &mut self,
        rows: Vec<Open>,
        reason: &str,
        backoff: Backoff,
        now: Moment,
        events: &mut Vec<SinkEvent>,
    ) {
        let answer: Arc<str> = reason.into();
        for open in rows {
            if self.has_used_up(&open.row) {
                events.push(SinkEvent::Failed(retries_used_up(open.row, reason)));
                continue;
            }
            self.retries += 1;
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
            let rows = &mut self.lanes.open(partition, due, backoff).rows;
            let place = rows.partition_point(|row| in_order(row, &open.row).is_le());
            rows.insert(place, open.row.after(answer.clone()));
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
        self.answer = Some(reason.into());
    }
}

/// The order of two rows of one partition: that of their records, and among rows of one record that in which they were made.
fn in_order(one: &Row, other: &Row) -> Ordering {
    let (one, other) = (one.batch.source(one.id), other.batch.source(other.id));
    one.offset.cmp(&other.offset).then_with(|| compare_rows(one.row, other.row))
}
