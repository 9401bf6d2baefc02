//! The deterministic simulation: production workers on the memory broker, with time, chance, faults and plugins given.
//!
//! One seed decides everything: the flow, topics and bounds, which worker steps when, what fails, when processes are
//! killed. The same seed gives the same history. What runs is what runs in production, from assembly over the workers'
//! steps to commits and stops; in place of threads there is an executor that takes turns, in place of components there
//! are scripted plugins, in place of Kafka the broker in memory. After every step the [`model`] is asked whether all that
//! is promised still holds.
//!
//! `flow.rs` and `fates.rs` draw a flow and say, record by record, what it must come to; `scenario.rs` draws the rest;
//! `events.rs` has it happen; `executor.rs` steps workers; `many.rs` runs many seeds.

mod events;
mod executor;
mod fates;
mod flow;
mod many;
mod model;
mod plugins;
mod scenario;
mod sinks;
mod waits;
mod watched;
mod world;

use std::time::Duration;

pub use loom_delivery::Mutation;
pub use many::{Failed, Seeds, Tally, many};

/// The group of every simulated flow.
const GROUP: &str = "g";

/// The topic of an output.
fn output(number: usize) -> String {
    format!("out{number}")
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
    /// Every event, where it was asked for.
    pub history: Vec<String>,
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64) -> Report {
    executor::simulate(seed, false)
}

/// Runs one seed and keeps its history.
#[must_use]
pub fn replay(seed: u64) -> Report {
    executor::simulate(seed, true)
}
