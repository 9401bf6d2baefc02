//! Rows that wait at a node because a verdict is late.
//!
//! A row that was answered `retry` waits for its next attempt, and every later row of its source partition waits behind
//! it, so that the partition's order is kept; rows of other partitions go on. Rows behind it that were answered already,
//! in the same call, keep their answers and are not called again. Rows that wait for something of the node's own (its
//! breaker) wait in the same lanes, so that there is one order of a partition's rows and not two.
//!
//! A partition with rows in a lane is not polled, so a lane never grows beyond what was in flight.
//!
//! Where calls overlap, at nodes that wait, a partition's rows lie in a [`Window`] instead: the same order, with more
//! than one of them being called.

mod window;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use loom_delivery::Backoff;
use loom_types::{Moment, PartitionId};

use crate::nodes::Target;
use crate::rows::Row;

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
pub(crate) fn wait_after(attempts: u32, random: f64) -> Duration {
    let mut backoff = retry_backoff();
    // Far enough for the longest wait.
    let attempts = attempts.clamp(1, 16);
    (0..attempts).fold(FIRST_WAIT, |_, _| backoff.failed(random))
}

/// A row in a lane.
#[derive(Debug)]
pub(crate) enum Late {
    /// It is to be called again, or for the first time.
    Again(Row),
    /// It was answered, and goes on once those before it did.
    Done { row: Row, to: Target },
}

impl Late {
    pub(crate) fn into_row(self) -> Row {
        match self {
            Late::Again(row) | Late::Done { row, .. } => row,
        }
    }

    pub(crate) fn row(&self) -> &Row {
        match self {
            Late::Again(row) | Late::Done { row, .. } => row,
        }
    }
}

/// The rows of one source partition that wait at a node, in order.
#[derive(Debug)]
pub(crate) struct Lane {
    pub rows: VecDeque<Late>,
    pub due: Moment,
    pub backoff: Backoff,
}

/// The lanes of one node.
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
        self.lanes.values().flat_map(|lane| lane.rows.iter().map(Late::row))
    }

    /// Takes every row out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Row> {
        std::mem::take(&mut self.lanes)
            .into_values()
            .flat_map(|lane| lane.rows.into_iter().map(Late::into_row))
    }
}
