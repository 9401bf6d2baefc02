//! A plan as running stages on timely workers.
//!
//! [`assemble`] pairs a checked plan with this runtime: it loads plugins and instantiates them, asks the broker about
//! topics and offsets, and refuses what cannot run before a record is read. [`Assembled::run`] then gives each worker
//! thread its own partitions, plugin instances, consumer and producer, and runs until the flow is stopped, fails, or has
//! read all its input.
//!
//! Where to find what: `assembly/` is all that may block, before the first record; `worker/` is one worker, written as
//! `step(now) -> deadline`; `nodes/` is what happens to rows at each node; `engine.rs` drives workers on timely's
//! threads. Brokers are seen through the traits of `loom-kafka` alone.

mod assembly;
mod clock;
mod engine;
mod envelope;
mod failure;
mod late;
mod nodes;
mod outputs;
mod rows;
mod settings;
pub mod status;
mod stop;
mod summary;
mod worker;

pub use assembly::{Assembled, assemble};
pub use clock::{Clock, SystemClock};
pub use failure::{AssemblyError, Failure, Status};
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
}

impl Default for Options {
    fn default() -> Self {
        Options { workers: 1, end: End::Never, board: None }
    }
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
