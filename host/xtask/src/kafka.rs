//! A real Apache Kafka on this machine: fetched once, started on free ports, gone when its owner is gone.
//!
//! Java and Maven are all that it needs. The jars lie in the user's cache, by version, outside every target folder.

pub mod jars;
mod options;
mod properties;
mod server;
mod watchdog;

pub use options::{Listener, Options, User};
pub use server::{Kafka, tool};
