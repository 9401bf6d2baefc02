//! What nodes ask of plugins: to be started, and to be called for rows. The runtime's own implementation, on components,
//! is in `components.rs`.

use std::ops::Range;
use std::sync::Arc;

use loom_flow::plan::{OnTrap, PluginId};
use loom_plugin::{Interrupt, NodeContext, RowFailure, StartError};
use loom_types::{Batch, BytesColumn, Changes};

use super::batch::{BatchCalls, BatchRole};
use super::keys::Keys;
use super::sink::{Make, SinkCalls};
use super::waiting::WaitingCalls;

/// A plugin as errors and logs name it.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub name: Arc<str>,
    /// Of its component, `sha256:` and hex.
    pub digest: Arc<str>,
}

/// What a node asks its plugin for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Step,
    Expand,
    TypedExpand,
    Predicate,
    Select,
    Key(Keys),
}

/// The names of the types that a typed expander's rows may have; of another role's plugin, none.
pub(crate) type TypeNames = Arc<[Arc<str>]>;

/// The calls on a plugin's instance that are about rows.
pub(crate) trait RowCalls: Send {
    fn types(&self) -> TypeNames {
        Arc::default()
    }

    /// Calls it for these rows of a batch, in this order; ends early when `allowance` rows in a row ended in a trap or
    /// time-out, or when a stop will not wait.
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers;
}

/// What a call answered.
#[derive(Debug)]
pub(crate) struct RowAnswers {
    /// How many of the rows have an answer.
    pub answered: usize,
    /// What was said of those that have no failure.
    pub said: Said,
    /// Ascending by position.
    pub failures: Vec<RowFailure>,
}

/// What a plugin said of the rows of a call, by their positions.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one a call: to move it costs less than a box")]
pub(crate) enum Said {
    /// A step: columns with a row for each row of the call; nothing at all where they are empty.
    Changed(Changes),
    /// A predicate.
    Is(Vec<bool>),
    /// A selector: labels.
    Chose(BytesColumn),
    /// A partitioner: the new keys, with a row for each row of the call; none where each row keeps its own.
    Keyed(Option<BytesColumn>),
    /// An expander.
    Made(Made),
}

/// Rows that were made of the rows of a call; those of a typed expander have their types.
#[derive(Debug)]
pub(crate) struct Made {
    pub batch: Arc<Batch>,
    /// Where the rows of each row of the call end, those before them having come before.
    pub ends: Vec<u32>,
}

impl Said {
    /// The bytes that were made with it.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Said::Changed(changes) => changes.memory(),
            Said::Is(_) => 0,
            Said::Chose(values) | Said::Keyed(Some(values)) => values.memory(),
            Said::Keyed(None) => 0,
            Said::Made(made) => made_memory(&made.batch),
        }
    }
}

/// The bytes of rows that were made, without what they have from their records.
pub(crate) fn made_memory(rows: &Batch) -> usize {
    rows.payload_column().data().memory() + 4 * rows.len()
}

impl Made {
    /// The rows that were made of the row at a position.
    pub(crate) fn of(&self, position: usize) -> Range<u32> {
        let start = position.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[position]
    }
}

/// A sink that was started, and how to start it again.
pub(crate) struct SinkStart {
    pub first: Box<dyn SinkCalls>,
    pub make: Make,
    /// Bytes of one `write`, at most.
    pub write_bytes: u64,
    /// Whether it completes tokens.
    pub tracked: bool,
}

/// Starts plugins at nodes. A start that is refused says why.
pub(crate) trait Plugins {
    fn label(&self, plugin: PluginId) -> Label;

    /// Starts a plugin in a role that is about rows.
    fn rows(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: Role,
        on_trap: OnTrap,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn RowCalls>, StartError>;

    /// The same with a plugin that waits, with up to `calls` calls at a time: calls that answer later.
    fn waiting(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: Role,
        calls: usize,
    ) -> Result<Box<dyn WaitingCalls>, StartError>;

    /// Starts a batch step or batch expander. `calls`: how many there may be at a time, beside the worker; none where it is
    /// called on the worker's thread.
    fn batch(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: BatchRole,
        on_trap: OnTrap,
        calls: Option<usize>,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn BatchCalls>, StartError>;

    /// `interrupt` ends its calls, `close` too, once a stop waits no longer for sinks.
    fn sink(
        &self,
        plugin: PluginId,
        context: NodeContext,
        interrupt: &Interrupt,
    ) -> Result<SinkStart, StartError>;
}
