//! What nodes ask of plugins: to be started, and to be called for rows. The runtime's own implementation, on components,
//! is in `components.rs`.

use std::sync::Arc;

use loom_flow::plan::{OnTrap, PluginId};
use loom_plugin::{Interrupt, NodeContext, RowFailure, StartError};
use loom_types::{Batch, Changes};

use super::sink::{Make, SinkCalls};
use super::waiting::WaitingCalls;

/// A plugin as errors and logs name it.
#[derive(Clone, Debug)]
pub(crate) struct Label {
    pub name: Arc<str>,
    /// Of its component, `sha256:` and hex.
    pub digest: Arc<str>,
}

/// The calls on a step's or a predicate's instance.
pub(crate) trait RowCalls: Send {
    /// Calls it for these rows of a batch, in this order; ends early when `allowance` rows in a row ended in a trap or
    /// time-out, or when a stop will not wait.
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers;
}

/// What a call answered.
#[derive(Debug)]
pub(crate) struct RowAnswers {
    /// How many of the rows have an answer.
    pub answered: usize,
    /// A step's: columns with a row for each row of the call.
    pub changes: Changes,
    /// A predicate's, by position.
    pub yes: Option<Vec<bool>>,
    /// Ascending by position.
    pub failures: Vec<RowFailure>,
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

/// What a waiting node asks its plugin for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitingRole {
    Step,
    Predicate,
}

/// Starts plugins at nodes. A start that is refused says why.
pub(crate) trait Plugins {
    fn label(&self, plugin: PluginId) -> Label;

    fn step(
        &self,
        plugin: PluginId,
        context: NodeContext,
        on_trap: OnTrap,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn RowCalls>, StartError>;

    fn predicate(
        &self,
        plugin: PluginId,
        context: NodeContext,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn RowCalls>, StartError>;

    /// Starts a step or predicate that waits, with up to `calls` calls at a time: calls that answer later.
    fn waiting(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: WaitingRole,
        calls: usize,
    ) -> Result<Box<dyn WaitingCalls>, StartError>;

    fn sink(&self, plugin: PluginId, context: NodeContext) -> Result<SinkStart, StartError>;
}
