//! Errors of a broker, with what they mean for the flow.
//!
//! Whether something is worth trying again is decided by explicit lists of codes: librdkafka's own flag of that name
//! answers another question.

use std::fmt;

use loom_delivery::readback::Guard;
use loom_types::{CommitOffset, TopicPartition};

/// What an error means for the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The group's coordinator moves or loads, or did not answer in time: try again with backoff.
    Coordinator,
    /// The broker or the network is away: wait.
    Transient,
    /// The topic or partition is not there.
    UnknownTopic,
    /// The right is missing.
    Authorization,
    /// The credentials or certificates are refused.
    Authentication,
    /// An output refused a record, or the batch that it was in, for good: too large, or not valid there. See
    /// [`KafkaError::is_too_large`].
    Refused,
    /// An output calls a batch corrupt. Brokers say so of a keyless record for a compacted topic, and clients try it
    /// again for ever.
    Corrupt,
    /// The group has live members, and refuses commits from outside.
    GroupInUse,
    /// Somebody else set the group's offset: it is not overwritten.
    Moved,
    /// The client can not go on; a new one may.
    Fatal,
    /// A setting is wrong.
    Configuration,
    /// Anything else: not tried again.
    Other,
}

/// An error of a broker or of its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaError {
    /// What it means.
    pub kind: Kind,
    /// Kafka's or librdkafka's name of the code, such as `NOT_COORDINATOR`.
    pub code: &'static str,
    /// What was being done and what came back, for people.
    pub message: String,
}

impl KafkaError {
    /// Whether an output refused a record, or the batch that it was in, for its size.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.kind == Kind::Refused && TOO_LARGE.contains(&self.code)
    }

    /// The same with the right that is missing, where it says that one is and not which: a broker tells no more than what
    /// it refuses. `operation` is what was tried with the topic, `group` the group that it was tried for.
    #[must_use]
    pub fn naming_right(mut self, operation: &str, topic: &str, group: &str) -> KafkaError {
        if self.kind == Kind::Authorization && !self.message.contains(MISSING) {
            let right = match self.code {
                "GROUP_AUTHORIZATION_FAILED" => format!("`Read` on group `{group}`"),
                "CLUSTER_AUTHORIZATION_FAILED" => "`IdempotentWrite` on the cluster".to_owned(),
                _ => format!("`{operation}` on `{topic}`"),
            };
            self.message = format!("{}: {MISSING} {right}", self.message);
        }
        self
    }
}

/// What stands before a right that is missing, in the words of Kafka's access control lists.
const MISSING: &str = "missing right:";

/// Kafka's and librdkafka's names of the codes that speak of size.
const TOO_LARGE: [&str; 3] = ["MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "INVALID_MSG_SIZE"];

/// The error of a partition whose offset somebody else set to this.
pub(crate) fn moved(partition: &TopicPartition, guard: &Guard, seen: CommitOffset) -> KafkaError {
    let message = format!("{partition} {}", guard.expected.told(seen));
    KafkaError { kind: Kind::Moved, code: "SET_FROM_OUTSIDE", message }
}

impl fmt::Display for KafkaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for KafkaError {}
