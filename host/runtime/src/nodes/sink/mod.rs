//! The protocol between the host and a sink component: which rows it holds, and what becomes of them when it fails.
//!
//! The host keeps the row behind every open token. So whatever the sink does, a row ends in exactly one of: completed,
//! a business or delivery error, or given up at a stop. Completed rows are never sent again.
//!
//! - A `write` or `flush` that fails gives uncompleted rows back: of a `write` those of the call, and all others too when
//!   the instance is lost with it; of a `flush` all. They are written again one by one, each with a flush of its own, so
//!   that a row that fails is found and its neighbours go on.
//! - `retry` of a `write` parks its rows, each partition's in order; other partitions go on. `retry` of a `flush` has the
//!   whole sink wait, since what it holds stays there.
//! - A `flush` that succeeds and leaves tokens open has their rows sent once more, to a new instance; then they are
//!   delivery errors.
//! - While rows are written one by one, and while the sink cannot be started, new rows wait in the queue.
//!
//! What is called when is decided here; `calls.rs` makes the calls and books their outcome, `waiting.rs` keeps what waits.

mod calls;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::VecDeque;

use loom_delivery::{Backoff, Mutation, TokenTable, mutated};
use loom_flow::plan::FlushBounds;
use loom_plugin::{CallFailure, Cause, Verdict};
use loom_types::{Batch, Moment, PartitionId};

use crate::late::{Lanes, retry_backoff};
use crate::rows::{FailedRow, Row, RowSet};

/// Rows of one `write`, at most.
const WRITE_ROWS: usize = 512;

/// Rows that are written one by one in one step of the worker, at most: others have work too.
const ALONE_ROWS: usize = 64;

/// The calls on a sink's instance.
pub(crate) trait SinkCalls: Send {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure>;
    fn flush(&mut self) -> Result<(), CallFailure>;
    fn close(&mut self) -> Result<(), CallFailure>;
    /// What the sink said of its tokens, in order.
    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>);
    /// False after a trap or time-out, and when the sink let go of its tracker: it can complete nothing any more.
    fn is_usable(&self) -> bool;
    fn wants_recycling(&self) -> bool;
}

/// What became of a row.
#[derive(Debug)]
pub(crate) enum SinkEvent {
    Completed(Row),
    Failed(FailedRow),
}

/// When the host flushes, and how much it writes in one call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SinkBounds {
    pub flush: FlushBounds,
    /// Bytes of one `write`, at most; a larger row goes alone.
    pub write_bytes: u64,
    /// Whether the component completes tokens; without, a written row is done (at most once only).
    pub tracked: bool,
    /// Writes after the first that a row answered `retry` gets, and calls of `flush` likewise; none = without limit.
    pub retries: Option<u32>,
}

/// A row that the sink has.
#[derive(Debug)]
struct Open {
    row: Row,
    /// Rows are given back in the order in which they were written.
    order: u64,
    /// It was written with no other row in the sink: what fails is its own failure.
    alone: bool,
}

/// What was written and not flushed.
#[derive(Debug, Default)]
struct Unflushed {
    rows: usize,
    bytes: u64,
    /// When the first row of it was written.
    oldest: Option<Moment>,
}

/// Starts another instance.
pub(crate) type Make = Box<dyn FnMut() -> Result<Box<dyn SinkCalls>, String> + Send>;

/// See the module's description.
pub(crate) struct Sink {
    make: Make,
    calls: Option<Box<dyn SinkCalls>>,
    bounds: SinkBounds,
    table: TokenTable<Open>,
    order: u64,
    unflushed: Unflushed,
    flush_asked: bool,
    /// Nothing is called before this moment, after a `retry` of flush or a start that failed.
    wait: Option<Moment>,
    /// Why it waits.
    answer: Option<std::sync::Arc<str>>,
    wait_backoff: Backoff,
    /// Calls of `flush` in a row that were answered `retry`.
    flush_tries: u32,
    queue: VecDeque<Row>,
    lanes: Lanes,
    alone: VecDeque<Open>,
    verdicts: Vec<(u32, Verdict)>,
    random: f64,
    closed: bool,
    /// Tokens completed or failed that were not open.
    pub violations: u64,
    /// How many of them were logged, and when last.
    told_violations: (u64, Moment),
    /// Calls of `flush` that succeeded.
    pub flushes: u64,
    /// Rows that the sink asked to be tried again with, each as often as it did.
    pub retries: u64,
}

impl Sink {
    pub(crate) fn new(first: Box<dyn SinkCalls>, make: Make, bounds: SinkBounds) -> Self {
        Sink {
            make,
            calls: Some(first),
            bounds,
            table: TokenTable::default(),
            order: 0,
            unflushed: Unflushed::default(),
            flush_asked: false,
            wait: None,
            answer: None,
            wait_backoff: retry_backoff(),
            flush_tries: 0,
            queue: VecDeque::new(),
            lanes: Lanes::default(),
            alone: VecDeque::new(),
            verdicts: Vec::new(),
            random: 0.5,
            closed: false,
            violations: 0,
            told_violations: (0, Moment::START),
            flushes: 0,
            retries: 0,
        }
    }

    /// Rows come to the sink; they are written now unless something waits.
    pub(crate) fn arrive(&mut self, rows: RowSet, now: Moment, random: f64, events: &mut Vec<SinkEvent>) {
        if self.closed {
            // The run is over for this sink: the rows stay uncommitted.
            rows.tokens.into_iter().for_each(|token| token.give_up());
            return;
        }
        self.queue.extend(rows.into_rows(0));
        self.progress(now, random, events);
    }

    /// Does what is due.
    pub(crate) fn progress(&mut self, now: Moment, random: f64, events: &mut Vec<SinkEvent>) {
        self.random = random;
        if self.closed || self.wait.is_some_and(|until| now < until) {
            return;
        }
        self.wait = None;
        self.write_alone(now, events);
        while self.is_free()
            && let Some((partition, lane)) = self.lanes.take_due(now)
        {
            let mut rows = lane.rows;
            self.write_rows(&mut rows, Some((partition, lane.backoff)), now, events);
            if !rows.is_empty() {
                let lane = self.lanes.open(partition, now, retry_backoff());
                lane.rows.extend(rows);
            }
        }
        let mut queue = std::mem::take(&mut self.queue);
        self.write_rows(&mut queue, None, now, events);
        self.queue = queue;
        self.flush_if_due(now, events);
    }

    /// Whether new rows may be written: nothing is written one by one, nothing waits, and no stop ended a call.
    fn is_free(&self) -> bool {
        !self.closed && self.wait.is_none() && self.alone.is_empty()
    }

    /// When `progress` has something to do.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        if self.closed {
            return None;
        }
        if let Some(wait) = self.wait {
            return Some(wait);
        }
        if !self.alone.is_empty() || !self.queue.is_empty() {
            return Some(Moment::START);
        }
        self.lanes.next_due().into_iter().chain(self.flush_due()).min()
    }

    fn flush_due(&self) -> Option<Moment> {
        let oldest = self.unflushed.oldest?;
        let full =
            self.unflushed.rows >= self.flush_rows() || self.unflushed.bytes >= self.bounds.flush.bytes;
        Some(if full || self.flush_asked { Moment::START } else { oldest + self.bounds.flush.interval })
    }

    /// Rows that are flushed at the latest: a write always finds room in the table.
    fn flush_rows(&self) -> usize {
        self.bounds.flush.records.min(TokenTable::<Open>::CAPACITY - WRITE_ROWS)
    }

    fn flush_if_due(&mut self, now: Moment, events: &mut Vec<SinkEvent>) {
        if self.is_free() && self.flush_due().is_some_and(|due| due <= now) {
            self.flush(now, events);
        }
    }

    /// Flushes as soon as possible, whatever the bounds.
    pub(crate) fn ask_flush(&mut self) {
        self.flush_asked = self.unflushed.oldest.is_some();
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

    /// Rows that wait to be written, for the first time or again.
    pub(crate) fn waiting(&self) -> usize {
        self.lanes.rows().count() + self.alone.len() + self.queue.len()
    }

    /// When it is called again, where it asked to wait or cannot be started.
    pub(crate) fn waits_until(&self) -> Option<Moment> {
        self.wait
    }

    /// Rows that the sink holds and has not completed.
    pub(crate) fn open(&self) -> usize {
        self.table.len()
    }

    /// Closes the instance; open rows are completed as far as `close` completes them, the others given up.
    pub(crate) fn close(&mut self, events: &mut Vec<SinkEvent>) -> Result<(), CallFailure> {
        self.closed = true;
        self.abandon_waiting();
        let result = self.calls.as_mut().map_or(Ok(()), |calls| calls.close());
        self.collect(Moment::START, events);
        self.abandon_waiting();
        if mutated(Mutation::CloseCompletes) {
            events.extend(self.table.drain().map(|open| SinkEvent::Completed(open.row)));
        }
        self.table.drain().for_each(|open| open.row.token.give_up());
        self.calls = None;
        result
    }

    /// Writes rows from the front on, and flushes where that becomes due, until something has to wait; what was not
    /// written stays. Rows of a lane come with their partition and its backoff.
    fn write_rows(
        &mut self,
        rows: &mut VecDeque<Row>,
        lane: Option<(PartitionId, Backoff)>,
        now: Moment,
        events: &mut Vec<SinkEvent>,
    ) {
        let (own, mut backoff) = lane.unzip();
        loop {
            self.flush_if_due(now, events);
            if rows.is_empty() || !self.is_free() || own.is_some_and(|own| self.lanes.holds(own)) {
                return;
            }
            if !self.is_started(now) {
                return;
            }
            let chunk = self.take_chunk(rows);
            if !chunk.is_empty() {
                self.write(chunk, backoff.take().unwrap_or_else(retry_backoff), now, events);
            }
        }
    }

    /// The rows of the next write, from the front on. Rows whose partition waits join their lane.
    fn take_chunk(&mut self, rows: &mut VecDeque<Row>) -> Vec<Row> {
        let room = self.flush_rows().saturating_sub(self.unflushed.rows).clamp(1, WRITE_ROWS);
        let mut chunk: Vec<Row> = Vec::new();
        let mut bytes = 0;
        while chunk.len() < room
            && let Some(row) = rows.front()
        {
            let waits = self.lanes.holds(row.partition()) && !mutated(Mutation::ParkedIsOvertaken);
            if !waits
                && !chunk.is_empty()
                && (bytes + row.bytes() > self.bounds.write_bytes || !alike(&chunk[0], row))
            {
                break;
            }
            let row = rows.pop_front().expect("the front was just seen");
            if waits {
                self.lanes.open(row.partition(), Moment::START, retry_backoff()).rows.push_back(row);
            } else {
                bytes += row.bytes();
                chunk.push(row);
            }
        }
        chunk
    }

    /// Writes rows of one batch in one call.
    fn write(&mut self, rows: Vec<Row>, backoff: Backoff, now: Moment, events: &mut Vec<SinkEvent>) {
        let open = rows.into_iter().map(|row| {
            self.order += 1;
            Open { order: self.order, alone: false, row: Row { attempts: row.attempts + 1, ..row } }
        });
        let open = open.collect();
        let Err((failure, back)) = self.call_write(open, now, events) else { return };
        // One row of a call may have its retries used up for another's sake: alone it shows whose they were.
        let blamed = back.len() > 1 && back.iter().any(|open| self.has_used_up(&open.row));
        if failure.cause == Cause::Retry && !blamed {
            self.park(back, &failure.reason, backoff, now, events);
        } else {
            self.again_alone(back, "write", &failure.reason);
        }
    }

    /// Whether a row that is answered `retry` now was tried as often as the flow says.
    fn has_used_up(&self, row: &Row) -> bool {
        self.bounds.retries.is_some_and(|retries| row.attempts > retries)
    }

    /// Writes and flushes rows one by one: each that fails, fails alone.
    fn write_alone(&mut self, now: Moment, events: &mut Vec<SinkEvent>) {
        for _ in 0..ALONE_ROWS {
            if self.wait.is_some() || self.alone.is_empty() {
                return;
            }
            if !self.table.is_empty() {
                // Beside other rows it would not be alone.
                self.flush(now, events);
                continue;
            }
            if !self.is_started(now) {
                return;
            }
            let Some(open) = self.alone.pop_front() else { return };
            let partition = open.row.partition();
            if self.lanes.holds(partition) {
                self.lanes.open(partition, now, retry_backoff()).rows.push_back(open.row);
                continue;
            }
            let row = Row { attempts: open.row.attempts + 1, ..open.row };
            let open = Open { row, alone: true, ..open };
            match self.call_write(vec![open], now, events) {
                Ok(()) if self.table.is_empty() => {}
                Ok(()) => self.flush(now, events),
                Err((failure, back)) if failure.cause == Cause::Retry => {
                    self.park(back, &failure.reason, retry_backoff(), now, events);
                }
                Err((failure, back)) => {
                    events.extend(back.into_iter().map(|open| failed(open, failure.clone())));
                }
            }
        }
    }
}

fn alike(one: &Row, other: &Row) -> bool {
    std::sync::Arc::ptr_eq(&one.batch, &other.batch) && one.route == other.route
}

/// A row that failed alone: a rejection is a business error, all else means that the sink could not take it.
fn failed(open: Open, failure: CallFailure) -> SinkEvent {
    use loom_types::ErrorKind::{Business, Delivery};
    let kind = if failure.cause == Cause::Reject { Business } else { Delivery };
    SinkEvent::Failed(FailedRow { row: open.row, kind, reason: failure.reason })
}
