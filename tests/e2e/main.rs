//! End-to-end tests: the real host, real components, a real Apache Kafka.
//!
//! A test that needs a broker asks for it with `kafka::shared()` and returns where there is none.

mod admin;
mod cluster;
mod conformance;
mod drills;
mod flows;
mod harness;
mod memory;
mod passing;
mod refusals;
mod security;
mod starts;
