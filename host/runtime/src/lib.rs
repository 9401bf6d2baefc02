//! A plan as running stages on timely workers.
//!
//! [`assemble`] pairs a checked plan with this runtime: it loads plugins and instantiates them, asks the broker about
//! topics and offsets, and refuses what cannot run before a record is read. [`Assembled::run`] then gives each worker
//! thread its own partitions, plugin instances, consumer and producer, and runs until the flow is stopped, fails, or has
//! read all its input.
//!
//! Where to find what: `assembly/` is all that may block, before the first record; `keeper/` is what may block after it,
//! on a thread of its own; `worker/` is one worker, written as `step(now) -> deadline`; `nodes/` is what happens to rows
//! at each node; `engine.rs` drives workers on timely's threads. Brokers are seen through the traits of `loom-kafka` alone.

mod assembly;
mod clock;
mod engine;
mod envelope;
mod failure;
mod holdings;
mod identity;
mod keeper;
mod late;
mod nodes;
mod outputs;
mod probe;
mod rows;
mod settings;
#[cfg(feature = "simulation")]
pub mod sim;
pub mod status;
mod stop;
mod summary;
mod worker;

pub use assembly::{Assembled, assemble, check_workers, offsets, preflight};
pub use clock::{Clock, SystemClock};
pub use failure::{AssemblyError, Failure, Status};
pub use identity::Identity;
pub use keeper::{KeeperBoard, KeeperStatus, LeaseStatus};
pub use probe::{Probe, Unrouted, Watch};
pub use settings::consumer_settings;
pub use status::{Board, Status as FlowStatus};
pub use stop::Stop;
pub use summary::{Counters, Outcome, PartitionSummary, Summary, Unresolved};

use std::time::Duration;

/// How to run a plan.
#[derive(Clone, Debug)]
pub struct Options {
    /// Worker threads, at least one.
    pub workers: usize,
    /// When the run ends by itself.
    pub end: End,
    /// Where the run can be looked at; with one, it is also watched for partitions that stall.
    pub board: Option<Board>,
    /// Where reading starts.
    pub from: StartFrom,
    /// The group's partitions are taken over from a host that owns them.
    pub take_over: bool,
    /// Who runs it.
    pub identity: Identity,
    /// What a test, or a dry run, sees of it and decides in it.
    pub probe: Option<Probe>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            workers: 1,
            end: End::Never,
            board: None,
            from: StartFrom::GoOn,
            take_over: false,
            identity: Identity::of_this_process(),
            probe: None,
        }
    }
}

impl Options {
    /// A run that ends with its input is nobody's rival.
    pub(crate) fn keeps_lease(&self) -> bool {
        self.end == End::Never
    }

    /// How the same run begins anew in place: where it stands, whatever was asked for at its start.
    #[must_use]
    pub fn anew(self) -> Self {
        Options { from: StartFrom::GoOn, ..self }
    }
}

/// Where reading starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// Where the group stands; a replay that was cut goes on.
    #[default]
    GoOn,
    /// At the committed offsets, whatever replay was under way.
    Committed,
    /// At the beginning of each partition. Nothing below the committed offsets is committed.
    Beginning,
    /// At the end of each partition.
    End,
    /// At the first record of this time or later, in milliseconds since 1970-01-01 UTC; at the end where there is none.
    Time(i64),
}

/// When a run ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Only when it is stopped, or fails.
    Never,
    /// When every partition was read to its end and every record of it is resolved; what is unresolved this long after
    /// the end was reached is a failure.
    AtEndOfInput {
        /// How long after the end of the input records may take.
        timeout: Duration,
    },
}
