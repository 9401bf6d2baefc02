//! The protocol between the host and a sink component: which rows it holds, and what becomes of them when it fails.
//!
//! The host keeps the row behind every open token. So whatever the sink does, a row ends in exactly one of: completed,
//! a business or delivery error, or given up at a stop. Completed rows are never sent again.
//!
//! - A `write` that fails gives its uncompleted rows back; `retry` parks them, anything else has them written again one
//!   by one, so that the row that fails is found and its neighbours go on.
//! - A trap or time-out loses the instance, and with it all that the sink had not completed: those rows too.
//! - A `flush` that succeeds and leaves tokens open has them sent once more, to a new instance; then they are delivery
//!   errors.
//! - While rows are written one by one, and while the sink cannot be started, new rows wait in the queue.

use std::collections::VecDeque;

use loom_delivery::{Backoff, TokenTable};
use loom_flow::plan::FlushBounds;
use loom_plugin::{CallFailure, Cause, Verdict};
use loom_types::{Batch, ErrorKind, Moment, PartitionId};

use crate::late::{Lanes, Late, retry_backoff};
use crate::rows::{FailedRow, Row, RowSet, join};

/// Rows of one `write`, at most.
const WRITE_ROWS: usize = 512;

/// Bytes of one `write`, at most; a larger row goes alone.
const WRITE_BYTES: u64 = 1 << 20;

/// Rows that are written one by one in one step of the worker, at most: others have work too.
const ALONE_ROWS: usize = 64;

/// The calls on a sink's instance.
pub(crate) trait SinkCalls: Send {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure>;
    fn flush(&mut self) -> Result<(), CallFailure>;
    fn close(&mut self) -> Result<(), CallFailure>;
    /// What the sink said of its tokens, in order.
    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>);
    /// False after a trap or time-out.
    fn is_usable(&self) -> bool;
    fn wants_recycling(&self) -> bool;
}

/// What became of a row.
#[derive(Debug)]
pub(crate) enum SinkEvent {
    Completed(Row),
    Failed(FailedRow),
}

#[derive(Debug)]
struct Open {
    row: Row,
    /// Rows are given back in the order in which they were written.
    order: u64,
    /// It was sent a second time, after a flush that left it open.
    resent: bool,
}

type Make = Box<dyn FnMut() -> Result<Box<dyn SinkCalls>, String> + Send>;

/// See the module's description.
pub(crate) struct Sink {
    make: Make,
    calls: Option<Box<dyn SinkCalls>>,
    /// Whether the component completes tokens; without, a written row is done (at most once only).
    tracked: bool,
    bounds: FlushBounds,
    table: TokenTable<Open>,
    order: u64,
    unflushed: u64,
    oldest: Option<Moment>,
    flush_asked: bool,
    /// Nothing is called before this moment, after a `retry` of flush or a start that failed.
    wait: Option<Moment>,
    wait_backoff: Backoff,
    queue: VecDeque<Row>,
    lanes: Lanes,
    alone: VecDeque<Open>,
    verdicts: Vec<(u32, Verdict)>,
    random: f64,
    /// Tokens completed or failed that were not open.
    pub violations: u64,
    /// Calls of `flush` that succeeded.
    pub flushes: u64,
}

impl Sink {
    pub(crate) fn new(first: Box<dyn SinkCalls>, make: Make, tracked: bool, bounds: FlushBounds) -> Self {
        Sink {
            make,
            calls: Some(first),
            tracked,
            bounds,
            table: TokenTable::default(),
            order: 0,
            unflushed: 0,
            oldest: None,
            flush_asked: false,
            wait: None,
            wait_backoff: retry_backoff(),
            queue: VecDeque::new(),
            lanes: Lanes::default(),
            alone: VecDeque::new(),
            verdicts: Vec::new(),
            random: 0.5,
            violations: 0,
            flushes: 0,
        }
    }

    /// Rows come to the sink; they are written now unless something waits.
    pub(crate) fn arrive(&mut self, rows: RowSet, now: Moment, random: f64, events: &mut Vec<SinkEvent>) {
        self.queue.extend(rows.into_rows(0));
        self.progress(now, random, events);
    }

    /// Does what is due.
    pub(crate) fn progress(&mut self, now: Moment, random: f64, events: &mut Vec<SinkEvent>) {
        self.random = random;
        if self.wait.is_some_and(|until| now < until) {
            return;
        }
        self.wait = None;
        self.write_alone(now, events);
        while self.is_free()
            && let Some((partition, lane)) = self.lanes.take_due(now)
        {
            self.write_lane(partition, lane.rows, lane.backoff, now, events);
        }
        loop {
            if self.is_free() && self.flush_due().is_some_and(|due| due <= now) {
                self.flush(now, events);
            }
            if !self.is_free() || self.queue.is_empty() {
                return;
            }
            self.write_queue(now, events);
        }
    }

    /// Whether new rows may be written: nothing is written one by one, and nothing waits.
    fn is_free(&self) -> bool {
        self.wait.is_none() && self.alone.is_empty()
    }

    /// When `progress` has something to do.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        if let Some(wait) = self.wait {
            return Some(wait);
        }
        if !self.alone.is_empty() || !self.queue.is_empty() {
            return Some(Moment::START);
        }
        self.lanes.next_due().into_iter().chain(self.flush_due()).min()
    }

    fn flush_due(&self) -> Option<Moment> {
        let oldest = self.oldest?;
        let rows = self.bounds.records.min(TokenTable::<Open>::CAPACITY - WRITE_ROWS);
        let full = self.table.len() >= rows || self.unflushed >= self.bounds.bytes;
        Some(if full || self.flush_asked { Moment::START } else { oldest + self.bounds.interval })
    }

    /// Flushes as soon as possible, whatever the bounds.
    pub(crate) fn ask_flush(&mut self) {
        self.flush_asked = self.oldest.is_some();
    }

    /// Whether the sink holds no row.
    pub(crate) fn is_quiet(&self) -> bool {
        self.table.is_empty() && self.queue.is_empty() && self.alone.is_empty() && self.lanes.is_empty()
    }

    /// The partitions whose rows wait to be written, with repetitions.
    pub(crate) fn holding(&self) -> impl Iterator<Item = PartitionId> {
        self.lanes
            .partitions()
            .chain(self.queue.iter().map(Row::partition))
            .chain(self.alone.iter().map(|open| open.row.partition()))
    }

    /// Rows that wait for another attempt.
    pub(crate) fn parked(&self) -> usize {
        self.lanes.rows().count() + self.alone.len() + self.queue.len()
    }

    /// Rows that the sink holds and has not completed.
    pub(crate) fn open(&self) -> usize {
        self.table.len()
    }

    /// Gives every row up that waits for another attempt, at a stop.
    pub(crate) fn abandon_waiting(&mut self) {
        self.lanes.drain().for_each(|row| row.token.give_up());
        self.queue.drain(..).for_each(|row| row.token.give_up());
        self.alone.drain(..).for_each(|open| open.row.token.give_up());
    }

    /// Closes the instance; open rows are completed as far as `close` completes them, the others given up.
    pub(crate) fn close(&mut self, events: &mut Vec<SinkEvent>) -> Result<(), CallFailure> {
        self.abandon_waiting();
        let result = self.calls.as_mut().map_or(Ok(()), |calls| calls.close());
        self.collect(Moment::START, events);
        self.abandon_waiting();
        self.table.drain().for_each(|open| open.row.token.give_up());
        self.calls = None;
        result
    }

    fn write_queue(&mut self, now: Moment, events: &mut Vec<SinkEvent>) {
        let mut chunk: Vec<Row> = Vec::new();
        let mut bytes = 0;
        while chunk.len() < WRITE_ROWS
            && let Some(row) = self.queue.front()
        {
            if !chunk.is_empty() && (bytes + row.bytes() > WRITE_BYTES || !alike(&chunk[0], row)) {
                break;
            }
            bytes += row.bytes();
            let row = self.queue.pop_front().expect("the front was just seen");
            if self.lanes.holds(row.partition()) {
                self.lanes.push(row.partition(), Late::Again(row));
            } else {
                chunk.push(row);
            }
        }
        if !chunk.is_empty() {
            self.write(chunk, retry_backoff(), now, events);
        }
    }

    /// Tries the rows of a lane again, in order; where the sink answers `retry` once more, the rest waits behind it.
    fn write_lane(
        &mut self,
        partition: PartitionId,
        rows: VecDeque<Late>,
        backoff: Backoff,
        now: Moment,
        events: &mut Vec<SinkEvent>,
    ) {
        let mut sets = VecDeque::new();
        let attempts = rows.front().map_or(0, |late| late.row().attempts);
        join(rows.into_iter().map(Late::into_row), |set| sets.push_back(set));
        let mut backoff = Some(backoff);
        while let Some(set) = sets.pop_front() {
            if self.is_free() && !self.lanes.holds(partition) {
                let rows = set.into_rows(attempts).collect();
                self.write(rows, backoff.take().unwrap_or_else(retry_backoff), now, events);
            } else {
                self.lanes.open(partition, now, retry_backoff());
                set.into_rows(0).for_each(|row| self.lanes.push(partition, Late::Again(row)));
            }
        }
    }

    /// Writes rows of one batch in one call.
    fn write(&mut self, rows: Vec<Row>, backoff: Backoff, now: Moment, events: &mut Vec<SinkEvent>) {
        let attempts = rows.iter().map(|row| row.attempts).max().unwrap_or(0) + 1;
        let open = rows.into_iter().map(|row| {
            self.order += 1;
            Open { row: Row { attempts, ..row }, order: self.order, resent: false }
        });
        let open: Vec<Open> = open.collect();
        let single = open.len() == 1;
        let Err((failure, mut back)) = self.call_write(open, now, events) else { return };
        match failure.cause {
            Cause::Retry => self.park(back, &failure.reason, backoff, now),
            _ if single && back.len() == 1 => {
                let open = back.pop().expect("one row");
                events.push(SinkEvent::Failed(verdict(open.row, failure)));
            }
            _ => self.again_alone(back),
        }
    }

    /// One call of `write`. After an error: the call's rows that the sink did not complete.
    fn call_write(
        &mut self,
        rows: Vec<Open>,
        now: Moment,
        events: &mut Vec<SinkEvent>,
    ) -> Result<(), (CallFailure, Vec<Open>)> {
        if let Err(reason) = self.start() {
            return Err((CallFailure { cause: Cause::Retry, reason }, rows));
        }
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
                    let mut back: Vec<Open> =
                        handles.iter().filter_map(|handle| self.table.take(*handle)).collect();
                    back.push(open);
                    back.extend(rows);
                    let reason = "the sink holds too many records that it has not completed".to_owned();
                    return Err((CallFailure { cause: Cause::Retry, reason }, back));
                }
            }
        }
        let calls = self.calls.as_mut().expect("it was just started");
        let result = calls.write(&batch, &ids, &handles);
        self.collect(now, events);
        match result {
            Ok(()) if self.tracked => {
                if !self.table.is_empty() {
                    self.oldest.get_or_insert(now);
                    self.unflushed += bytes;
                }
                Ok(())
            }
            Ok(()) => {
                // Nothing confirms these rows, and at most once needs nothing more.
                let written = handles.iter().filter_map(|handle| self.table.take(*handle));
                events.extend(written.map(|open| SinkEvent::Completed(open.row)));
                self.oldest.get_or_insert(now);
                Ok(())
            }
            Err(failure) => {
                let back = handles.iter().filter_map(|handle| self.table.take(*handle)).collect();
                self.drop_instance_if_lost();
                Err((failure, back))
            }
        }
    }

    /// After a trap or a time-out, what the sink had not completed is lost with it, and written again.
    fn drop_instance_if_lost(&mut self) {
        if self.calls.as_ref().is_some_and(|calls| !calls.is_usable()) {
            self.calls = None;
            self.take_back_open();
        }
    }

    fn take_back_open(&mut self) {
        let open: Vec<Open> = self.table.drain().collect();
        self.again_alone(open);
        self.oldest = None;
        self.unflushed = 0;
    }

    fn again_alone(&mut self, rows: Vec<Open>) {
        self.alone.extend(rows);
        self.alone.make_contiguous().sort_by_key(|open| open.order);
    }

    fn park(&mut self, rows: Vec<Open>, reason: &str, backoff: Backoff, now: Moment) {
        for open in rows {
            let partition = open.row.partition();
            if !self.lanes.holds(partition) {
                let mut backoff = backoff.clone();
                let wait = backoff.failed(self.random);
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
                self.lanes.open(partition, now + wait, backoff);
            }
            self.lanes.push(partition, Late::Again(open.row));
        }
    }

    /// Writes and flushes rows one by one: each that fails, fails alone.
    fn write_alone(&mut self, now: Moment, events: &mut Vec<SinkEvent>) {
        for _ in 0..ALONE_ROWS {
            let Some(mut open) = self.alone.pop_front() else { return };
            open.row.attempts += 1;
            let order = open.order;
            let result = match self.call_write(vec![open], now, events) {
                Ok(()) if self.tracked => self.flush_alone(order, now, events),
                Ok(()) => Ok(()),
                Err((failure, back)) => Err((failure, back.into_iter().next())),
            };
            match result {
                Ok(()) => self.wait_backoff.reset(),
                Err((failure, open)) if failure.cause == Cause::Retry => {
                    self.alone.extend(open);
                    self.alone.make_contiguous().sort_by_key(|open| open.order);
                    self.wait_for(&failure.reason, now);
                    return;
                }
                Err((failure, Some(open))) => events.push(SinkEvent::Failed(verdict(open.row, failure))),
                Err((_, None)) => {}
            }
        }
    }

    /// The flush behind one row. After an error: the row, if the sink has not completed it.
    fn flush_alone(
        &mut self,
        order: u64,
        now: Moment,
        events: &mut Vec<SinkEvent>,
    ) -> Result<(), (CallFailure, Option<Open>)> {
        let result = self.call_flush(now, events);
        let all: Vec<Open> = self.table.drain().collect();
        self.oldest = None;
        self.unflushed = 0;
        let (mine, others): (Vec<Open>, Vec<Open>) = all.into_iter().partition(|open| open.order == order);
        match result {
            Ok(()) => {
                mine.into_iter().chain(others).for_each(|open| self.left_open(open, events));
                Ok(())
            }
            Err(failure) => {
                let mine = mine.into_iter().next();
                self.again_alone(others);
                if matches!(failure.cause, Cause::Fail) {
                    self.calls = None;
                }
                Err((failure, mine))
            }
        }
    }

    fn flush(&mut self, now: Moment, events: &mut Vec<SinkEvent>) {
        self.flush_asked = false;
        match self.call_flush(now, events) {
            Ok(()) => {
                self.wait_backoff.reset();
                self.flushes += 1;
                self.oldest = None;
                self.unflushed = 0;
                let mut left: Vec<Open> = self.table.drain().collect();
                left.sort_by_key(|open| open.order);
                for open in left {
                    self.left_open(open, events);
                }
                if self.alone.is_empty() && self.calls.as_ref().is_some_and(|calls| calls.wants_recycling()) {
                    if let Some(Err(failure)) = self.calls.as_mut().map(|calls| calls.close()) {
                        tracing::warn!(reason = &*failure.reason, "closing a sink that is recycled failed");
                    }
                    self.calls = None;
                }
            }
            Err(failure) if failure.cause == Cause::Retry => {
                self.flush_asked = true;
                self.wait_for(&failure.reason, now);
            }
            Err(failure) => {
                tracing::warn!(
                    reason = &*failure.reason,
                    "flush of a sink failed, its rows are written again one by one"
                );
                if failure.cause == Cause::Fail {
                    self.calls = None;
                }
                self.take_back_open();
            }
        }
    }

    /// A row that a flush which succeeded left open: once more, on a new instance; then it is a delivery error.
    fn left_open(&mut self, open: Open, events: &mut Vec<SinkEvent>) {
        if open.resent {
            let failure = CallFailure {
                cause: Cause::Protocol,
                reason: "the sink's flush succeeded twice without completing this record".to_owned(),
            };
            events.push(SinkEvent::Failed(verdict(open.row, failure)));
        } else {
            self.calls = None;
            self.again_alone(vec![Open { resent: true, ..open }]);
        }
    }

    fn call_flush(&mut self, now: Moment, events: &mut Vec<SinkEvent>) -> Result<(), CallFailure> {
        let Some(calls) = self.calls.as_mut() else { return Ok(()) };
        let result = calls.flush();
        let lost = !calls.is_usable();
        self.collect(now, events);
        if lost {
            self.calls = None;
        }
        result
    }

    fn wait_for(&mut self, reason: &str, now: Moment) {
        let wait = self.wait_backoff.failed(self.random);
        tracing::warn!(
            wait_ms = wait.as_millis() as u64,
            reason,
            "the sink asks to be tried again, it waits"
        );
        self.wait = Some(now + wait);
    }

    fn start(&mut self) -> Result<(), String> {
        if self.calls.is_none() {
            self.calls = Some((self.make)()?);
        }
        Ok(())
    }

    /// Books what the sink said of its tokens.
    fn collect(&mut self, now: Moment, events: &mut Vec<SinkEvent>) {
        let Some(calls) = self.calls.as_mut() else { return };
        let mut verdicts = std::mem::take(&mut self.verdicts);
        calls.verdicts(&mut verdicts);
        for (handle, said) in verdicts.drain(..) {
            let Some(open) = self.table.take(handle) else {
                self.violations += 1;
                tracing::warn!(
                    handle,
                    "a sink spoke of a token that is foreign or spent; it changes nothing"
                );
                continue;
            };
            match said {
                Verdict::Complete => events.push(SinkEvent::Completed(open.row)),
                Verdict::Fail(Cause::Retry, reason) => {
                    self.park(vec![open], &reason, retry_backoff(), now);
                }
                Verdict::Fail(cause, reason) => {
                    events.push(SinkEvent::Failed(verdict(open.row, CallFailure { cause, reason })));
                }
            }
        }
        self.verdicts = verdicts;
        if self.table.is_empty() {
            self.oldest = None;
            self.unflushed = 0;
        }
    }
}

fn alike(one: &Row, other: &Row) -> bool {
    std::sync::Arc::ptr_eq(&one.batch, &other.batch) && one.route == other.route
}

/// A row that failed alone: a rejection is a business error, all else means that the sink could not take it.
fn verdict(row: Row, failure: CallFailure) -> FailedRow {
    let kind = if failure.cause == Cause::Reject { ErrorKind::Business } else { ErrorKind::Delivery };
    FailedRow { row, kind, reason: failure.reason }
}
