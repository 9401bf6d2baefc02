//! Nodes of sink components: the protocol of [`super::sink`] on a real instance, and what becomes of its verdicts.

use loom_flow::plan::FlushBounds;
use loom_types::{Ending, Moment};

use super::plugins::{Label, SinkStart};
use super::sink::{Sink, SinkBounds, SinkEvent};
use super::{Flow, NodeId, Op};
use crate::rows::{RowSet, ending};

/// A sink component at a node.
pub(crate) struct SinkNode {
    plugin: Label,
    /// Names the node in log lines.
    span: tracing::Span,
    pub sink: Sink,
}

impl SinkNode {
    pub(crate) fn new(
        plugin: Label,
        span: tracing::Span,
        start: SinkStart,
        flush: FlushBounds,
        retries: Option<u32>,
    ) -> SinkNode {
        let SinkStart { first, make, write_bytes, tracked } = start;
        let sink = Sink::new(first, make, SinkBounds { flush, write_bytes, tracked, retries });
        SinkNode { plugin, span, sink }
    }

    /// The plugin's name and digest.
    pub(crate) fn name(&self) -> (&str, &str) {
        (&self.plugin.name, &self.plugin.digest)
    }

    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.sink.next_due()
    }

    /// Closes a sink that was opened, and is not used after all: nothing was written to it.
    pub(crate) fn close_unused(&mut self) {
        self.span.in_scope(|| {
            if let Err(failure) = self.sink.close(&mut Vec::new()) {
                tracing::error!(
                    reason = &*failure.reason,
                    "closing a sink of a flow that did not start failed"
                );
            }
        });
    }
}

impl Flow {
    fn with_sink(&mut self, id: NodeId, act: impl FnOnce(&mut Sink, Moment, f64, &mut Vec<SinkEvent>)) {
        let (now, random) = (self.shared.now, self.shared.random);
        let Op::Sink(node) = &mut self.nodes[id.0].op else { unreachable!("only sink nodes are asked") };
        let mut events = Vec::new();
        let before = node.sink.retries;
        self.shared.calling.begins(id.0);
        node.span.in_scope(|| act(&mut node.sink, now, random, &mut events));
        self.shared.calling.ends();
        let retried = node.sink.retries - before;
        self.count_retries(id, retried);
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
        failure.map(|failure| format!("closing the sink at {} failed: {}", node.label(), failure.reason))
    }
}
