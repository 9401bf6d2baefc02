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
