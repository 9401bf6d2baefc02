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
        let (code, message) = match self {
            Right::Read(topic) => ("TOPIC_AUTHORIZATION_FAILED", format!("topic `{topic}` may not be read")),
            Right::Write(topic) => {
                ("TOPIC_AUTHORIZATION_FAILED", format!("topic `{topic}` may not be written to"))
            }
            Right::DescribeConfigs(topic) => (
                "TOPIC_AUTHORIZATION_FAILED",
                format!("the configuration of topic `{topic}` may not be read"),
            ),
            Right::Group(group) => ("GROUP_AUTHORIZATION_FAILED", format!("group `{group}` may not be used")),
            Right::IdempotentWrite => {
                ("CLUSTER_AUTHORIZATION_FAILED", "idempotent producers are not allowed".to_owned())
            }
        };
        KafkaError { kind: Kind::Authorization, code, message }
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
