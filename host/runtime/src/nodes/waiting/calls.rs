//! What a waiting node calls: rows out, answers back later, with a ring of the worker's bell.
//!
//! The seam for tests and the simulation: they answer from a script, in their own time; production answers from
//! a pool of instances that are called beside the worker.

use std::sync::Arc;

use loom_kafka::Waker;
use loom_plugin::Cause;
use loom_types::{Batch, BytesColumn, Changes};

use crate::nodes::plugins::TypeNames;

/// One call's answer.
#[derive(Debug)]
pub(crate) struct Answered {
    /// The call, as it was named when it was started.
    pub call: u64,
    pub verdict: Result<RowAnswer, Fault>,
}

/// What a plugin says of one row.
#[derive(Debug)]
pub(crate) enum RowAnswer {
    /// A step's: what changed, with one row; nothing at all when it is empty.
    Changed(Box<Changes>),
    /// A predicate's.
    Is(bool),
    /// A selector's: a label, with one row.
    Chose(BytesColumn),
    /// A partitioner's: the new key, with one row; none where the row keeps its own.
    Keyed(Option<BytesColumn>),
    /// An expander's: every row of the batch was made of the row.
    Made(Arc<Batch>),
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) struct Fault {
    pub cause: Cause,
    pub reason: String,
    /// The call ran out of time while it waited for something outside; not while it computed.
    pub waited: bool,
}

/// See the module's description. Calls are named by whoever starts them; names are not used twice.
pub(crate) trait WaitingCalls: Send {
    fn types(&self) -> TypeNames {
        Arc::default()
    }

    /// Rings this whenever an answer came.
    fn ring(&mut self, bell: Waker);

    /// Begins a call for one row. Never blocks. The caller keeps within the number of calls that the node may have.
    fn start(&mut self, call: u64, batch: &Arc<Batch>, row: u32);

    /// Appends the answers that came since this was last asked. Every call that was started answers once, within its
    /// time, unless it was abandoned.
    fn answers(&mut self, out: &mut Vec<Answered>);

    /// Ends a call; it answers no more.
    fn abandon(&mut self, call: u64);
}
