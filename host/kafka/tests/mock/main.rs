//! The librdkafka half against librdkafka's own mock cluster, which can refuse and break what a real broker seldom does.
//! What a broker promises is held against a real Kafka by the end-to-end tests.

mod exit;
mod group;
mod questions;
mod reading;
mod security;
mod support;
mod writing;
