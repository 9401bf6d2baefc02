//! The deterministic simulation: production workers on the memory broker, with time, chance, faults and plugins given.
//!
//! One seed decides everything: the flow, topics and bounds, which worker steps when, what fails, when processes are
//! killed. The same seed gives the same history. What runs is what runs in production, from assembly over the workers'
//! steps to commits and stops; in place of threads there is an executor that takes turns, in place of components there
//! are scripted plugins, in place of Kafka the broker in memory. After every step the [`model`] is asked whether all that
//! is promised still holds.
//!
//! What is drawn: `draw.rs` a flow, `fates.rs` what its plugins do with each record, `acts.rs` what happens from outside,
//! `scenario.rs` the rest. What must be: `needs.rs` says what a record comes to in a flow; `inputs.rs` knows what the
//! topics hold, `run.rs` and `rows.rs` what one process did, `model.rs` all of them; `excuse.rs` says which failures are
//! none. What happens: `executor.rs` takes turns with processes (`process.rs`), `events.rs` and `logs.rs` do what happens
//! from outside. `many.rs` runs many seeds; `cases.rs` keeps what they have found, `proofs.rs` shows what needs hours.

mod acts;
mod cases;
mod compiled;
mod draw;
mod events;
mod excuse;
mod executor;
mod fates;
mod flow;
mod inputs;
mod logs;
mod many;
mod model;
mod needs;
mod plugins;
mod process;
mod proofs;
mod rows;
mod run;
mod scenario;
mod sinks;
mod waits;
mod watched;
mod world;

use std::time::Duration;

pub use cases::{Case, case};
pub use loom_delivery::Mutation;
pub use many::{Failed, Seeds, Tally, many};
pub use proofs::{STUCK, stuck};

/// The group of every simulated flow.
const GROUP: &str = "g";

/// The topic of an output.
fn output(number: usize) -> String {
    format!("out{number}")
}

/// What is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// Whatever can happen.
    #[default]
    Anything,
    /// Bounds that hold next to nothing, and sinks that flush late.
    TightBounds,
    /// Nodes that make rows of rows, with small bounds.
    Expanders,
    /// Flows of nodes that part rows and bring them together again.
    Routers,
}

/// The most that an input partition held unresolved, and was behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauge {
    /// Records and their bytes, in the first five minutes.
    pub early: (usize, u64),
    /// The same at any time, while faults lasted.
    pub ever: (usize, u64),
    /// Offsets between the watermark and the partition's end, while records came.
    pub behind: i64,
}

/// One simulation.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it was made from.
    pub seed: u64,
    /// The first thing that did not hold; none when all did.
    pub failure: Option<String>,
    /// The flow's file.
    pub flow: String,
    /// Steps of workers.
    pub steps: u64,
    /// Records produced.
    pub records: usize,
    /// Processes started.
    pub runs: u32,
    /// How long it took, in its own time.
    pub simulated: Duration,
    /// Of each input partition, in the order of their numbers.
    pub gauges: Vec<Gauge>,
    /// Every event, where it was asked for.
    pub history: Vec<String>,
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, focus: Focus) -> Report {
    executor::simulate(seed, focus, false)
}

/// Runs one seed and keeps its history.
#[must_use]
pub fn replay(seed: u64, focus: Focus) -> Report {
    executor::simulate(seed, focus, true)
}
