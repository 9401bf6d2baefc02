//! Settings of clients, as the runtime gives them; which librdkafka keys they become is decided in this crate alone.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::facts::Group;

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sensitive(pub String);

impl fmt::Debug for Sensitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to reach brokers safely; what is unset is not sent to the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CredentialSettings {
    /// `security.protocol`.
    pub protocol: Option<String>,
    /// `sasl.mechanism`.
    pub sasl_mechanism: Option<String>,
    /// `sasl.username`.
    pub sasl_username: Option<String>,
    /// `sasl.password`.
    pub sasl_password: Option<Sensitive>,
}

/// The consumer of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerSettings {
    /// Bootstrap addresses.
    pub brokers: Vec<String>,
    /// The group that stores the offsets.
    pub group_id: String,
    /// Protocol and SASL.
    pub credentials: CredentialSettings,
    /// Records without payload are passed on; otherwise they are skipped and counted.
    pub forward_tombstones: bool,
    /// Bytes that may be read ahead of the flow, for all partitions of the process.
    pub prefetch: u64,
    /// The longest wait of a fetch, and the longest sleep that a lost wake-up costs.
    pub poll_backoff: Duration,
    /// Other librdkafka keys.
    pub extra: BTreeMap<String, Sensitive>,
}

impl ConsumerSettings {
    /// A group's name.
    #[must_use]
    pub fn group(&self, group: Group) -> String {
        match group {
            Group::Input => self.group_id.clone(),
            Group::Owner => format!("{}.owner", self.group_id),
        }
    }
}

/// A producer of a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerSettings {
    /// Bootstrap addresses.
    pub brokers: Vec<String>,
    /// Protocol and SASL.
    pub credentials: CredentialSettings,
    /// `compression.type`.
    pub compression: Option<String>,
    /// Idempotent, unless the brokers refuse it.
    pub idempotence: bool,
    /// The smallest `max.message.bytes` of its topics: batches stay below it, whatever `extra` says of their size. None
    /// while it is not known.
    pub largest_batch: Option<usize>,
    /// Other librdkafka keys.
    pub extra: BTreeMap<String, Sensitive>,
}
