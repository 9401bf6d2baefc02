//! What a test of a flow lets become of calls: a plugin that traps on one record, a sink whose flush fails.
//!
//! A call that a script ends is not made. All else is as if it had been and had ended so: rows are run again one by one
//! to find the one to blame, an instance that trapped is thrown away, the breaker counts.

use loom_types::Batch;

use crate::answers::CallFailure;
use crate::fault::Fault;
use crate::node::NodeContext;
use crate::plugin::Plugin;

/// Asked before every call of a plugin that has one. Called from workers and from threads beside them.
pub trait Script: Send + Sync {
    /// How a call for these rows of a batch ends instead of being made; none lets it be made.
    fn call(&self, node: &NodeContext, batch: &Batch, rows: &[u32]) -> Option<CallFailure>;

    /// The same of a sink's flush.
    fn flush(&self, node: &NodeContext) -> Option<CallFailure>;
}

impl Plugin {
    /// How the script ends this call, if it does.
    pub(crate) fn scripted(&self, node: &NodeContext, batch: &Batch, rows: &[u32]) -> Option<Fault> {
        let CallFailure { cause, reason } = self.script()?.call(node, batch, rows)?;
        Some(Fault { cause, reason, worn: false, waited: false })
    }
}
