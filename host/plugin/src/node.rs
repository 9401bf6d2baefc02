//! Who calls: the node that an instance serves, as the plugin's `context` and its log lines name it.

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

/// Asked between two calls of a guest; once it says yes, a run of calls ends early, and rows that were not tried stay
/// unanswered. So a stop is not held by a batch of slow rows.
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
