//! What developer tasks and the test harness share: where things lie in the repository, the guests, and a real Kafka.
//!
//! Invariants: nothing here depends on another crate of the workspace, nor on a Kafka client; it compiles in seconds,
//! because `cargo xtask demo` is the first thing that a newcomer runs.

pub mod guests;
pub mod kafka;
pub mod libraries;
pub mod phases;
pub mod programs;

use std::path::{Path, PathBuf};

/// The repository's root.
pub fn root() -> PathBuf {
    // host/xtask is two levels below it, and the tasks are compiled where they run.
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or_else(|| Path::new(".")).to_owned()
}
