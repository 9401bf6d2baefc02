//! What a running flow says of itself: positions, what holds a watermark and why, counts, and whether it is ready.
//!
//! `document.rs` is what is said; `board.rs` where workers put it when they are asked; `part.rs` and `places.rs` a
//! worker's own half, and `calling.rs` what can be known of one that is in a call; `merge.rs` and `ready.rs` make one document of it; `watch.rs` decides what only time shows, and
//! `watcher.rs` looks.

mod board;
mod calling;
mod document;
mod earlier;
mod merge;
mod part;
mod places;
mod ready;
mod watch;
mod watcher;

pub use board::Board;
pub use document::{
    AddedPartition, BreakerStatus, Bucket, Call, ClientError, CommitStatus, DroppedStatus, ExpanderStatus,
    HistogramStatus, Intake, LedgerStatus, NodeStatus, Oldest, OutputStatus, PartitionStatus, Place,
    PluginRef, PluginStatus, RateStatus, Reason, Release, RunPhase, SinkStatus, Stalled, Status, VERSION,
    WorkerInfo, label,
};
pub use ready::{WORKER_SILENT_MS, long};

pub(crate) use board::{Detail, Seat};
pub(crate) use calling::Calling;
pub(crate) use part::{Start, berth};
pub(crate) use watcher::Watcher;
