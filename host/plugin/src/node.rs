//! A plugin at a node, on one worker: who calls, as the plugin's `context` and its log lines name it, and the calls that
//! all roles share.

use std::sync::Arc;
use std::time::Duration;

/// One node on one worker. Each has its own instance of its plugin.
#[derive(Clone, Debug)]
pub struct NodeContext {
    /// The flow's name.
    pub flow: Arc<str>,
    /// The node's path, such as `process[1].fork.default[0]`.
    pub node: Arc<str>,
    /// The plugin's name in the flow.
    pub plugin: Arc<str>,
    /// The worker that owns the instance, from 0.
    pub worker: u32,
    /// The node's own time-out of a call, in place of the plugin's.
    pub timeout: Option<Duration>,
}

/// Asked between two calls of a guest, and while one is under way; once it says yes, a run of calls ends early, the call
/// under way is ended, and rows without an answer stay so. So a stop is not held by slow rows.
#[derive(Clone)]
pub struct Interrupt(Arc<dyn Fn() -> bool + Send + Sync>);

impl Interrupt {
    /// Of a question that is cheap and never blocks.
    pub fn new(asked: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Interrupt(Arc::new(asked))
    }

    /// Whether to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        (self.0)()
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Interrupt").field(&self.is_set()).finish()
    }
}

/// The public type of a plugin in a role at one node, on one worker, and what its calls answer.
macro_rules! node {
    ($(#[$doc:meta])* $node:ident, $role:ty, $answers:ty) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $node {
            slot: crate::calls::Slot<$role>,
        }

        impl $node {
            /// Instantiates the plugin and configures it.
            pub fn new(
                plugin: &crate::plugin::Plugin,
                context: crate::node::NodeContext,
            ) -> Result<Self, crate::plugin::StartError> {
                Ok(Self { slot: crate::calls::Slot::new(plugin, context)? })
            }

            /// The same, for a plugin whose effects must not be repeated: when a call on several rows traps or times out,
            /// all of them fail, and none is run again to find the one to blame.
            #[must_use]
            pub fn failing_batches(mut self) -> Self {
                self.slot.fails_batches = true;
                self
            }

            /// The same, ending a run of calls early when this is set: the rows from `answered` on were not tried then.
            #[must_use]
            pub fn interrupted_by(mut self, interrupt: crate::node::Interrupt) -> Self {
                self.slot.interrupt = Some(interrupt);
                self
            }

            /// Calls the plugin on these rows of a batch, in this order.
            ///
            /// A poison row costs its own time-out, and that of the call it was in with others; its neighbours get their
            /// answers.
            pub fn call(
                &mut self,
                batch: &loom_types::Batch,
                rows: &[u32],
            ) -> $answers {
                self.call_until(batch, rows, u32::MAX)
            }

            /// The same, ending early when `allowance` rows in a row ended in a trap or time-out: see
            /// [`Breaker`](crate::Breaker). The rows from `answered` on were not tried.
            pub fn call_until(
                &mut self,
                batch: &loom_types::Batch,
                rows: &[u32],
                allowance: u32,
            ) -> $answers {
                self.slot.call(batch, rows, allowance)
            }
        }
    };
}
pub(crate) use node;
