//! What a broker is to the host, twice: librdkafka for Kafka, and an exact broker in memory for `dev`, tests and the
//! simulation.
//!
//! The runtime sees a broker only through the traits of [`contract`]: [`Broker`] is asked at assembly and may block;
//! [`PartitionSource`], [`OffsetStore`] and [`TopicSink`] belong to one worker, never block, and are dispatched once a
//! batch. Plugins and dataflow are not known here.

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
pub mod contract;
pub mod error;
pub mod librdkafka;
pub mod memory;
pub mod settings;

pub use contract::{
    Ack, Assigned, Bounds, Broker, Budget, CommitAnswer, CommitEntry, Committed, Notice, OffsetStore,
    OutputIndex, OutputSettings, PartitionSource, Reader, RequestId, Stamp, Taken, TopicInfo, TopicSink,
    Waker,
};
pub use error::{KafkaError, Kind};
pub use settings::{ConsumerSettings, CredentialSettings, ProducerSettings, Sensitive};
