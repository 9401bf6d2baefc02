//! Rows that wait because a verdict is late.
//!
//! - At a node of a step or predicate each source partition has a [`Window`] while a row of it is late: the row asks to be
//!   tried again, its call is still under way, or the node's breaker holds it. One mechanism for all three, and so one
//!   order: later rows of the partition wait behind, rows of other partitions go on. An ordinary node answers at once, so
//!   its windows come and go with what is late; a node that waits has one for as long as it has calls.
//! - At a sink rows wait to be *written*: it holds what it was given, in no order that the host could keep, so a
//!   partition's rows only line up for their next attempt, in a [`Lane`].
//!
//! A partition whose rows wait is not polled (at a node that waits, not beyond what it can call), so what waits never
//! grows beyond what was in flight.

mod window;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use loom_delivery::Backoff;
use loom_plugin::Cause;
use loom_types::{ErrorKind, Moment, PartitionId};

use crate::rows::{FailedRow, Row};

pub(crate) use window::{Leaving, Stand, Window};

/// The first wait of a row that is tried again.
const FIRST_WAIT: Duration = Duration::from_millis(100);

/// The longest one.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The wait between attempts of a row, of a sink's flush, and of whatever else a plugin asks to be tried again.
pub(crate) fn retry_backoff() -> Backoff {
    Backoff::new(FIRST_WAIT, LONGEST_WAIT)
}

/// How long a row waits after so many attempts.
fn wait_after(attempts: u32, random: f64) -> Duration {
    let mut backoff = retry_backoff();
    // Far enough for the longest wait.
    let attempts = attempts.clamp(1, 16);
    (0..attempts).fold(FIRST_WAIT, |_, _| backoff.failed(random))
}

/// What a failed call comes to.
pub(crate) enum Judged {
    /// The row is tried again, after so long.
    Again(Row, Duration),
    /// The row is through with the node.
    Leaves(FailedRow),
}

/// Judges a row whose call failed: `again` where the failure may pass, in which case it has `retries` further calls; none =
/// without limit.
pub(crate) fn judge(
    row: Row,
    cause: Cause,
    reason: String,
    again: bool,
    retries: Option<u32>,
    random: f64,
) -> Judged {
    if !again {
        return Judged::Leaves(FailedRow { row, kind: kind(cause), reason });
    }
    if retries.is_some_and(|retries| row.attempts > retries) {
        return Judged::Leaves(retries_used_up(row, &reason));
    }
    let wait = wait_after(row.attempts, random);
    Judged::Again(row.after(reason), wait)
}

/// What a failure of a call is to the record.
fn kind(cause: Cause) -> ErrorKind {
    match cause {
        Cause::Reject => ErrorKind::Business,
        // Rows of a call that a stop ended are given up, and come to no kind.
        Cause::Retry | Cause::Fail | Cause::Trap | Cause::Timeout | Cause::Protocol | Cause::Stopped => {
            ErrorKind::Task
        }
    }
}

/// A row whose node has tried it as often as the flow says.
pub(crate) fn retries_used_up(row: Row, reason: &str) -> FailedRow {
    let reason = format!("{reason} (attempt {}, and `retries` are used up)", row.attempts);
    FailedRow { row, kind: ErrorKind::Delivery, reason }
}

/// The rows of one source partition that wait to be written by a sink, in order.
#[derive(Debug)]
pub(crate) struct Lane {
    pub rows: VecDeque<Row>,
    pub due: Moment,
    pub backoff: Backoff,
}

/// The lanes of one sink.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: BTreeMap<PartitionId, Lane>,
}

impl Lanes {
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    pub(crate) fn holds(&self, partition: PartitionId) -> bool {
        self.lanes.contains_key(&partition)
    }

    /// A partition's lane, to append to. Where there is none it is opened, to be tried at `due`; one that is open stays
    /// as it is.
    pub(crate) fn open(&mut self, partition: PartitionId, due: Moment, backoff: Backoff) -> &mut Lane {
        self.lanes.entry(partition).or_insert_with(|| Lane { rows: VecDeque::new(), due, backoff })
    }

    /// Takes a lane out that is due.
    pub(crate) fn take_due(&mut self, now: Moment) -> Option<(PartitionId, Lane)> {
        let partition =
            self.lanes.iter().find(|(_, lane)| lane.due <= now).map(|(partition, _)| *partition)?;
        self.lanes.remove_entry(&partition)
    }

    /// When the next lane is due.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.lanes.values().map(|lane| lane.due).min()
    }

    /// The partitions that have a lane.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = PartitionId> {
        self.lanes.keys().copied()
    }

    /// Every lane.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane> {
        self.lanes.values()
    }

    /// Every row that waits, lane by lane.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lanes.values().flat_map(|lane| &lane.rows)
    }

    /// The same, to be changed.
    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut Row> {
        self.lanes.values_mut().flat_map(|lane| &mut lane.rows)
    }

    /// Takes every row out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Row> {
        std::mem::take(&mut self.lanes).into_values().flat_map(|lane| lane.rows)
    }
}
