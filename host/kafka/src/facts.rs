//! What a broker is asked, and what it answers: plain data.

use std::sync::Arc;
use std::time::Duration;

use loom_types::{CommitOffset, PartitionId, TopicId, TopicPartition};

use crate::error::KafkaError;
use crate::settings::ProducerSettings;

/// One output of a writer.
#[derive(Clone, Debug)]
pub struct OutputSettings {
    /// The topic.
    pub topic: Arc<str>,
    /// The producer; outputs with equal settings share a client.
    pub producer: Arc<ProducerSettings>,
}

/// Facts about a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicInfo {
    /// How many partitions it has.
    pub partitions: i32,
    /// Its id; none where the broker does not say.
    pub id: Option<TopicId>,
}

/// The limit of a topic whose own cannot be read: `max.message.bytes` as brokers have it by default.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 1_048_588;

/// Facts about a topic that is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputInfo {
    /// How many partitions it has.
    pub partitions: i32,
    /// Its id; none where the broker does not say.
    pub id: Option<TopicId>,
    /// `max.message.bytes`: the largest batch that it takes, compressed and with all that is around the records.
    /// [`DEFAULT_MAX_MESSAGE_BYTES`] where it could not be read.
    pub max_message_bytes: usize,
    /// `cleanup.policy` names `compact`: a record without a key is refused. False where it could not be read.
    pub compacted: bool,
    /// `retention.ms`, where it counts for the time that a record carries; none where such a time does not count (a topic
    /// that is only compacted, that keeps records for ever, or that sets their time itself), or where it could not be read.
    pub keeps: Option<Duration>,
    /// Why the topic's configuration will not be told: mostly a missing right to describe it. An error that may pass stands
    /// in the topic's place instead.
    pub described: Result<(), KafkaError>,
    /// Whether this producer may write there; none where the broker does not say.
    pub may_write: Option<bool>,
}

/// Rights that belong to no topic; none where the broker does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Whether idempotent producers are allowed. It is what producers found that were asked about their topics before
    /// ([`Broker::output_topics`](crate::Broker::output_topics)).
    pub idempotent_write: Option<bool>,
    /// Whether offsets of the owner group may be read and written.
    pub owner_group: Option<bool>,
}

/// A group whose offsets are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// The flow's own: `group_id`.
    Input,
    /// That of the lease: `<group_id>.owner`.
    Owner,
}

/// A live member of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Member {
    /// Its `client.id`.
    pub client_id: String,
    /// Where it is connected from.
    pub host: String,
}

/// An offset that a group has for a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The next offset to read.
    pub offset: CommitOffset,
    /// What was written beside it; empty if nothing.
    pub metadata: String,
    /// The epoch of the partition's leader when the record before it was read; none if it was not written.
    pub leader_epoch: Option<i32>,
}

/// One offset to commit from outside of a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// The partition.
    pub partition: TopicPartition,
    /// The next offset to read.
    pub offset: CommitOffset,
    /// What to write beside it.
    pub metadata: String,
    /// The epoch of the leader that the record before it was read from, if known.
    pub leader_epoch: Option<i32>,
}

/// A partition's first offset and the one after its last, as far as it can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The first offset that can be read.
    pub low: CommitOffset,
    /// The offset after the last that can be read now: while a transaction is open, the one where that begins. The log goes
    /// on behind it; see [`Broker::log_end`](crate::Broker::log_end).
    pub high: CommitOffset,
}

/// A partition given to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// The worker's number for it; numbers are dense from 0.
    pub id: PartitionId,
    /// Its name.
    pub partition: TopicPartition,
    /// Index of its topic in the batches that are built: an index into the builder's topics.
    pub topic: u16,
    /// The first offset to read.
    pub start: CommitOffset,
    /// The epoch that was committed with this start. Where the log was cut below the start since, by an election that
    /// lost records, reading begins with [`Notice::Cut`](crate::Notice::Cut) and not in the middle of
    /// other records; none asks for no such look.
    pub leader_epoch: Option<i32>,
}
