//! End-to-end tests: the real host, real components, a real Apache Kafka.
//!
//! A test that needs a broker asks for it with `kafka::shared()` and returns where there is none.

mod admin;
mod certificates;
mod changes;
mod cluster;
mod conformance;
mod dead_letters;
mod drills;
mod flows;
mod harness;
mod memory;
mod nodes;
mod passing;
mod producers;
mod refusals;
mod routers;
mod security;
mod services;
mod starts;
