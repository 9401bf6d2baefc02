//! The harness of the end-to-end tests: a real Kafka, the guests, and the host as a child process.
//!
//! Invariants: names that a test uses on a broker carry a random prefix and are removed with it, so that tests run side
//! by side and on anyone's broker; nothing sleeps where it can wait for an event, and every wait has a deadline.

pub mod drill;
pub mod guests;
pub mod host;
pub mod kafka;
pub mod tls;

use std::time::Duration;

/// How long a test waits for something that normally takes a moment: longer than any pause of a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);
