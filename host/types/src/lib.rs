//! What every crate of loom-host shares: newtypes for the nouns of Kafka and of the flow, column batches in Apache
//! Arrow's layout, and the closed lists that name errors and endings in logs, metrics and tests.
//!
//! Nothing here does I/O, reads a clock or knows a client library.

mod address;
mod batch;
mod column;
mod headers;
mod histogram;
mod ids;
mod moment;
mod names;
mod printable;
mod source;

pub use address::AddressClass;
pub use batch::{Batch, BatchBuilder, Changes, Move, Moves, Place, RecordRef, Rows};
pub use column::{BytesBuilder, BytesColumn, Column, ColumnError, ColumnFull};
pub use headers::{HeaderBuilder, HeaderColumn, HeaderIter};
pub use histogram::Histogram;
pub use ids::{
    CommitOffset, Epoch, NotATopicId, PartitionId, RecordOffset, TopicId, TopicPartition, WorkerIndex,
};
pub use moment::Moment;
pub use names::{Ending, ErrorKind};
pub use printable::{is_acting, printable, printable_in_place, printable_lines};
pub use source::{Source, SourceBuilder, SourceColumn, compare_rows};
