//! Rights that a script takes away, and what a broker answers without them.

use std::sync::Arc;

use super::state::State;
use crate::error::{KafkaError, Kind};

/// What a broker may forbid; everything is allowed at first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Reading a topic's records.
    Read(Arc<str>),
    /// Writing to a topic.
    Write(Arc<str>),
    /// Reading a topic's configuration.
    DescribeConfigs(Arc<str>),
    /// Reading and writing the offsets of the group with this name.
    Group(String),
    /// Idempotent producers.
    IdempotentWrite,
}

impl Right {
    /// What the broker answers without it.
    pub(super) fn refusal(&self) -> KafkaError {
        const TOPIC: &str = "TOPIC_AUTHORIZATION_FAILED";
        let (code, operation, topic, group) = match self {
            Right::Read(topic) => (TOPIC, "Read", &**topic, ""),
            Right::Write(topic) => (TOPIC, "Write", &**topic, ""),
            Right::DescribeConfigs(topic) => (TOPIC, "DescribeConfigs", &**topic, ""),
            Right::Group(group) => ("GROUP_AUTHORIZATION_FAILED", "", "", &**group),
            Right::IdempotentWrite => ("CLUSTER_AUTHORIZATION_FAILED", "", "", ""),
        };
        let refusal = KafkaError { kind: Kind::Authorization, code, message: "refused".to_owned() };
        refusal.naming_right(operation, topic, group)
    }
}

impl State {
    /// Refused where a right was taken away.
    pub fn demand(&self, right: &Right) -> Result<(), KafkaError> {
        if self.denied.contains(right) { Err(right.refusal()) } else { Ok(()) }
    }

    /// The same as an answer to a question; none where the broker does not say.
    pub fn told(&self, right: &Right) -> Option<bool> {
        (!self.silent).then(|| !self.denied.contains(right))
    }
}
