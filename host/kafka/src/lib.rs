//! What a broker is to the host, twice: librdkafka for Kafka, and an exact broker in memory for `dev`, tests and the
//! simulation.
//!
//! The runtime sees a broker only through the traits of [`contract`]: [`Broker`] is asked outside of workers and may block;
//! [`PartitionSource`], [`OffsetStore`] and [`TopicSink`] belong to one worker, never block, and are dispatched once a
//! batch. Plugins and dataflow are not known here.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod contract;
pub mod error;
pub mod facts;
pub mod librdkafka;
pub mod memory;
mod queue;
pub mod settings;

pub use contract::{
    Ack, Broker, Budget, CommitAnswer, CommitEntry, Notice, OffsetStore, OutputIndex, PartitionSource,
    Reader, Refusal, RequestId, Stamp, Taken, TopicSink, Waker,
};
pub use error::{KafkaError, Kind};
pub use facts::{
    Assigned, Bounds, Committed, DEFAULT_MAX_MESSAGE_BYTES, Group, GroupEntry, Member, OutputInfo,
    OutputSettings, Rights, TopicInfo,
};
pub use queue::QUEUED_ROW;
pub use settings::{ConsumerSettings, CredentialSettings, ProducerSettings, Sensitive};
