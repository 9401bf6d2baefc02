//! Nodes of sink components: the protocol of [`super::sink`] on a real instance, and what becomes of its verdicts.

use loom_flow::plan::FlushBounds;
use loom_plugin::{CallFailure, NodeContext, Plugin, SinkInstance, StartError, Verdict};
use loom_types::{Batch, Ending, Moment};

use super::lower::span;
use super::sink::{Sink, SinkBounds, SinkCalls, SinkEvent};
use super::{Flow, NodeId, Op};
use crate::rows::{RowSet, ending};

/// Bytes of one `write`, at most, where a sixteenth of the plugin's memory is not less.
const WRITE_BYTES: u64 = 1 << 20;

/// A sink component at a node.
pub(crate) struct SinkNode {
    plugin: Plugin,
    /// Names the node in log lines.
    span: tracing::Span,
    pub sink: Sink,
}

struct Instance(SinkInstance);

impl SinkCalls for Instance {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure> {
        self.0.write(batch, rows, handles)
    }

    fn flush(&mut self) -> Result<(), CallFailure> {
        self.0.flush()
    }

    fn close(&mut self) -> Result<(), CallFailure> {
        self.0.close()
    }

    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>) {
        self.0.verdicts(out);
    }

    fn is_usable(&self) -> bool {
        self.0.is_usable() && !self.0.tracker_dropped()
    }

    fn wants_recycling(&self) -> bool {
        self.0.wants_recycling()
    }
}

impl SinkNode {
    /// Starts the sink; its errors refuse the plugin.
    pub(crate) fn new(
        plugin: &Plugin,
        context: NodeContext,
        bounds: FlushBounds,
    ) -> Result<SinkNode, StartError> {
        let span = span(&context);
        let first = Instance(SinkInstance::new(plugin, context.clone())?);
        let bounds = SinkBounds {
            flush: bounds,
            write_bytes: WRITE_BYTES.min(plugin.limits().memory / 16),
            tracked: plugin.facts().roles.tracked,
        };
        let again = plugin.clone();
        let make = move || -> Result<Box<dyn SinkCalls>, String> {
            let instance = SinkInstance::new(&again, context.clone()).map_err(|error| error.to_string())?;
            Ok(Box::new(Instance(instance)))
        };
        let sink = Sink::new(Box::new(first), Box::new(make), bounds);
        Ok(SinkNode { plugin: plugin.clone(), span, sink })
    }

    /// The plugin's name and digest.
    pub(crate) fn name(&self) -> (&str, &str) {
        (self.plugin.name(), self.plugin.digest())
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.sink.next_due()
    }
}

impl Flow {
    fn with_sink(&mut self, id: NodeId, act: impl FnOnce(&mut Sink, Moment, f64, &mut Vec<SinkEvent>)) {
        let (now, random) = (self.shared.now, self.shared.random);
        let Op::Sink(node) = &mut self.nodes[id.0].op else { unreachable!("only sink nodes are asked") };
        let mut events = Vec::new();
        node.span.in_scope(|| act(&mut node.sink, now, random, &mut events));
        let mut failed = Vec::new();
        for event in events {
            match event {
                SinkEvent::Completed(row) => {
                    self.shared.accounts.redeem(row.token, ending(row.route, Ending::Sink));
                }
                SinkEvent::Failed(row) => failed.push(row),
            }
        }
        self.failed(id, failed);
    }

    pub(super) fn sink_arrive(&mut self, id: NodeId, rows: RowSet) {
        self.with_sink(id, |sink, now, random, events| sink.arrive(rows, now, random, events));
    }

    /// Does what is due at a sink.
    pub(crate) fn progress_sink(&mut self, id: NodeId) {
        self.with_sink(id, Sink::progress);
    }

    /// Closes a sink at the end of a run; what went wrong.
    pub(crate) fn close_sink(&mut self, id: NodeId) -> Option<String> {
        let mut failure = None;
        self.with_sink(id, |sink, _, _, events| failure = sink.close(events).err());
        let node = &self.nodes[id.0];
        failure.map(|failure| format!("closing the sink at {} failed: {}", node.path, failure.reason))
    }
}
