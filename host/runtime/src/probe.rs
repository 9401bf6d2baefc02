//! What a test of a flow, or a dry run, sees of a run and decides in it: how calls of plugins end, what sinks write, which
//! failures no route took.
//!
//! Everything is asked and told on the thread where it happens, so an answer comes at once and calls nothing of the run.
//! A run without a probe pays for none of it.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use loom_plugin::{CallFailure, NodeContext, Script, Verdict};
use loom_types::{Batch, ErrorKind, Source};

use crate::nodes::{SinkCalls, SinkStart};

/// A failure that no error route took.
#[derive(Clone, Copy, Debug)]
pub struct Unrouted<'a> {
    /// The node's path.
    pub node: &'a str,
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The record.
    pub source: Source<'a>,
    /// Why.
    pub reason: &'a str,
    /// It stops the flow; else the record is dropped.
    pub stops: bool,
}

/// Sees and decides; see the module's description.
pub trait Watch: Script {
    /// Whether sinks' components are not even started: what they would get counts as written.
    fn captures_sinks(&self) -> bool;

    /// A sink has written a row: it said so, or, where it does not say, its call came back.
    fn sunk(&self, node: &NodeContext, batch: &Batch, row: u32);

    /// A failure was not routed.
    fn unrouted(&self, error: &Unrouted<'_>);
}

/// A handle to who watches.
#[derive(Clone)]
pub struct Probe(Arc<dyn Watch>);

impl Probe {
    /// Watches a run through this.
    pub fn new(watch: Arc<dyn Watch>) -> Self {
        Probe(watch)
    }

    pub(crate) fn as_script(&self) -> Arc<dyn Script> {
        self.0.clone()
    }

    /// A sink whose writes are seen.
    pub(crate) fn watched_sink(self, node: NodeContext, start: SinkStart) -> SinkStart {
        let SinkStart { first, mut make, write_bytes, tracked } = start;
        let watched = move |calls| -> Box<dyn SinkCalls> {
            Box::new(WatchedSink {
                calls,
                probe: self.clone(),
                node: node.clone(),
                tracked,
                open: BTreeMap::new(),
            })
        };
        SinkStart {
            first: watched(first),
            make: Box::new(move || make().map(&watched)),
            write_bytes,
            tracked,
        }
    }

    /// A sink that writes nothing, and completes what it would write.
    pub(crate) fn captured_sink(&self, node: NodeContext) -> SinkStart {
        let script = self.clone();
        let context = node.clone();
        let make = move || -> Result<Box<dyn SinkCalls>, String> {
            Ok(Box::new(CapturedSink {
                probe: script.clone(),
                node: context.clone(),
                said: Vec::new(),
                usable: true,
            }))
        };
        let first = CapturedSink { probe: self.clone(), node: node.clone(), said: Vec::new(), usable: true };
        let start = SinkStart {
            first: Box::new(first),
            make: Box::new(make),
            write_bytes: CAPTURED_BYTES,
            tracked: true,
        };
        self.clone().watched_sink(node, start)
    }
}

/// Bytes of one write into nothing.
const CAPTURED_BYTES: u64 = 1 << 20;

impl Deref for Probe {
    type Target = dyn Watch;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Probe")
    }
}

/// A sink's calls, with what was written told when the sink says so.
struct WatchedSink {
    calls: Box<dyn SinkCalls>,
    probe: Probe,
    node: NodeContext,
    tracked: bool,
    /// What was written and not completed, by handle.
    open: BTreeMap<u32, (Batch, u32)>,
}

impl SinkCalls for WatchedSink {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure> {
        if self.tracked {
            let open = handles.iter().zip(rows);
            self.open.extend(open.map(|(handle, row)| (*handle, (batch.clone(), *row))));
        }
        let written = self.calls.write(batch, rows, handles);
        if !self.tracked && written.is_ok() {
            rows.iter().for_each(|row| self.probe.sunk(&self.node, batch, *row));
        }
        written
    }

    fn flush(&mut self) -> Result<(), CallFailure> {
        self.calls.flush()
    }

    fn close(&mut self) -> Result<(), CallFailure> {
        self.calls.close()
    }

    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>) {
        let before = out.len();
        self.calls.verdicts(out);
        for (handle, verdict) in &out[before..] {
            // A handle that is not open is foreign or spent, and the runtime says so.
            if let Some((batch, row)) = self.open.remove(handle)
                && matches!(verdict, Verdict::Complete)
            {
                self.probe.sunk(&self.node, &batch, row);
            }
        }
    }

    fn is_usable(&self) -> bool {
        self.calls.is_usable()
    }

    fn wants_recycling(&self) -> bool {
        self.calls.wants_recycling()
    }
}

/// Completes what it is given, unless a script says otherwise.
struct CapturedSink {
    probe: Probe,
    node: NodeContext,
    said: Vec<(u32, Verdict)>,
    usable: bool,
}

impl CapturedSink {
    fn scripted(&mut self, failure: Option<CallFailure>) -> Result<(), CallFailure> {
        match failure {
            Some(failure) => {
                self.usable &= !failure.cause.is_trap();
                Err(failure)
            }
            None => Ok(()),
        }
    }
}

impl SinkCalls for CapturedSink {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure> {
        let failure = self.probe.call(&self.node, batch, rows);
        self.scripted(failure)?;
        self.said.extend(handles.iter().map(|handle| (*handle, Verdict::Complete)));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), CallFailure> {
        let failure = self.probe.flush(&self.node);
        self.scripted(failure)
    }

    fn close(&mut self) -> Result<(), CallFailure> {
        Ok(())
    }

    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>) {
        out.append(&mut self.said);
    }

    fn is_usable(&self) -> bool {
        self.usable
    }

    fn wants_recycling(&self) -> bool {
        false
    }
}
