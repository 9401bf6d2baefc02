//! What happens to rows at each node.
//!
//! A plan's node trees are lowered to a flat list: each node knows where its rows go next, so a row that waited can go
//! on from where it was. [`Flow`] walks a batch depth first through it; nothing here talks to Kafka, or reads a
//! clock but to say how long calls took.

mod batch;
mod call;
mod components;
mod drops;
mod errors;
mod exits;
mod expressions;
mod growth;
mod keys;
mod lower;
mod plugins;
mod router;
mod sink;
mod sink_node;
mod timing;
mod waiting;
mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use loom_delivery::{Accounts, Token};
use loom_flow::Plan;
use loom_flow::expr::{Expr, PayloadCache};
use loom_flow::plan::{OutputId, RouteId};
use loom_plugin::Interrupt;
use loom_types::{Ending, ErrorKind, Moment, WorkerIndex};

use crate::failure::Failure;
use crate::holdings::{Holdings, Seen};
use crate::outputs::OutputTable;
use crate::probe::Probe;
use crate::status::Calling;
use crate::summary::Counters;
use crate::worker::Bounds;

#[cfg(feature = "simulation")]
pub(crate) use batch::{BatchCalls, BatchRole};
pub(crate) use batch::{BatchNode, Collect};
pub(crate) use call::PluginNode;
pub(crate) use components::Components;
pub(crate) use drops::Drops;
pub(crate) use growth::Room;
pub(crate) use lower::{Refusal, lower};
#[cfg(feature = "simulation")]
pub(crate) use plugins::{Label, Made, Role, RowAnswers, RowCalls, Said};
pub(crate) use plugins::{Plugins, SinkStart};
pub(crate) use router::JoinNode;
pub(crate) use sink::SinkCalls;
pub(crate) use sink_node::SinkNode;
pub(crate) use timing::CallTimes;
pub(crate) use waiting::WaitingNode;
#[cfg(feature = "simulation")]
pub(crate) use waiting::{Answered, Fault as CallFault, RowAnswer, WaitingCalls};

/// Index into the lowered nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub usize);

/// Where rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// To a node.
    Node(NodeId),
    /// Nowhere: they end so.
    End(Ending),
    /// Nowhere: no branch took them.
    Unmatched,
    /// Nowhere: no route takes rows of their types.
    NoRoute,
}

/// A lowered node.
pub(crate) struct Node {
    /// Its path in the flow.
    pub path: Arc<str>,
    /// What the flow calls it, if it does.
    pub name: Option<Arc<str>>,
    /// Which route takes each kind of error, by [`ErrorKind::index`].
    pub errors: [Option<RouteId>; ErrorKind::ALL.len()],
    pub op: Op,
    /// How long calls of its plugins took; none where it has none.
    pub calls: Option<CallTimes>,
    /// Rows that came to it.
    pub rows: u64,
    /// Rows that were answered `retry`, each time.
    pub retries: u64,
    /// Rows that it made of those.
    pub made: u64,
    /// Of these, rows whose type has no route of its own, so that they went to `default`.
    pub defaulted: u64,
}

impl Node {
    /// What people are told of it: its name with its path, or its path.
    pub(crate) fn label(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} ({})", self.path),
            None => self.path.to_string(),
        }
    }
}

/// What a node does.
pub(crate) enum Op {
    /// A plugin that is called for rows.
    Plugin(Box<PluginNode>),
    /// The same, of a plugin that waits: called beside the worker.
    Waiting(Box<WaitingNode>),
    /// The value of the expression becomes the payload.
    Map { expr: Arc<Expr>, next: Target },
    /// A condition in CEL.
    Test { expr: Arc<Expr>, yes: Target, no: Target },
    /// The value of the expression becomes the key.
    Key { expr: Arc<Expr>, next: Target },
    /// A selector in CEL; labels are matched as text.
    Select { expr: Arc<Expr>, branches: HashMap<String, Target>, default: Target },
    /// Gathers batches.
    Collect(Box<Collect>),
    /// A batch step or batch expander, called at once or beside the worker.
    Batch(Box<BatchNode>),
    /// Where rows come to a router.
    Router { entry: Target, join: NodeId },
    /// Where they come out of it again.
    Join(Box<JoinNode>),
    /// Every row to every branch.
    Broadcast(Vec<Target>),
    /// A Kafka output.
    Topic {
        output: OutputId,
        /// Where rows go that the output refuses for good.
        dlq: Option<OutputId>,
    },
    /// A sink component.
    Sink(Box<SinkNode>),
}

impl Op {
    /// The name and digest of its plugin.
    pub(crate) fn plugin(&self) -> Option<(&str, &str)> {
        match self {
            Op::Plugin(node) => Some(node.name()),
            Op::Waiting(node) => Some(node.name()),
            Op::Batch(node) => Some(node.name()),
            Op::Sink(node) => Some(node.name()),
            _ => None,
        }
    }
}

/// A lowered plan with its plugin instances: what one worker runs.
///
/// A worker takes the nodes out of it. One that is dropped with them is of a start that failed: its sinks are open, and are
/// closed.
pub(crate) struct Graph {
    pub nodes: Vec<Node>,
    pub entry: Target,
    /// Where each error route begins, by [`RouteId`].
    pub routes: Vec<Target>,
    pub outputs: OutputTable,
}

impl Drop for Graph {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            if let Op::Sink(sink) = &mut node.op {
                sink.close_unused();
            }
        }
    }
}

/// What nodes share while a worker runs.
pub(crate) struct Shared {
    pub plan: Arc<Plan>,
    pub worker: WorkerIndex,
    pub accounts: Accounts,
    /// Of each partition.
    pub bounds: Bounds,
    /// What rows that wait keep in memory.
    pub holdings: Holdings,
    pub cache: PayloadCache,
    pub counters: Counters,
    /// What is told of rows that are dropped.
    pub drops: Drops,
    /// The moment of this step.
    pub now: Moment,
    /// Milliseconds since 1970-01-01 UTC, at this step.
    pub wall_ms: i64,
    /// A seed for this step's jitter, in 0..1.
    pub random: f64,
    /// Where a call of a plugin is noted while it is under way.
    pub calling: Arc<Calling>,
    /// Set when a stop must not wait for more calls of plugins.
    pub interrupt: Interrupt,
    /// What stops the flow; the first is what happened first.
    pub failures: Vec<Failure>,
    /// A record that stops the flow was named: of those behind it, most fail for the same reason.
    pub named: bool,
    /// Why the flow is to begin anew from the committed offsets: what happened first.
    pub restart: Option<String>,
    pub env: Arc<BTreeMap<String, String>>,
    /// Who wants to see what becomes of records.
    pub probe: Option<Probe>,
}

/// The running nodes of one worker.
pub(crate) struct Flow {
    pub nodes: Vec<Node>,
    pub entry: Target,
    pub routes: Vec<Target>,
    pub shared: Shared,
    pub outputs: crate::outputs::Outputs,
}

impl Flow {
    /// Counts what rows that wait keep in memory, and lets go of what they do not need.
    pub(crate) fn look(&mut self) {
        let mut seen = Seen::new(self.shared.accounts.partitions().count());
        for node in &self.nodes {
            match &node.op {
                Op::Plugin(node) => node.show(&mut seen),
                Op::Waiting(node) => node.show(&mut seen),
                Op::Collect(node) => node.show(&mut seen),
                Op::Batch(node) => node.show(&mut seen),
                Op::Join(node) => node.show(&mut seen),
                Op::Sink(node) => node.sink.show(&mut seen),
                _ => {}
            }
        }
        self.outputs.show(&mut seen);
        let moves = self.shared.holdings.saw(&seen, self.shared.now);
        drop(seen);
        if moves.is_empty() {
            return;
        }
        for node in &mut self.nodes {
            match &mut node.op {
                Op::Plugin(node) => node.follow(&moves),
                Op::Waiting(node) => node.follow(&moves),
                Op::Batch(node) => node.follow(&moves),
                Op::Join(node) => node.follow(&moves),
                Op::Sink(node) => node.sink.follow(&moves),
                _ => {}
            }
        }
        self.outputs.follow(&moves);
    }
}

impl Shared {
    /// What nodes may make of records now.
    pub(crate) fn room(&self) -> Room<'_> {
        Room { accounts: &self.accounts, bounds: self.bounds }
    }

    /// Completes a row that no route takes.
    pub(crate) fn drop_row(&mut self, token: Token, kind: ErrorKind) {
        self.counters.dropped += 1;
        self.drops.count(self.now);
        self.accounts.redeem(token, Ending::Dropped(kind));
    }

    /// Says how many rows failed whose lines were left out.
    pub(crate) fn tell_left_out(&self, over: Vec<((Arc<str>, ErrorKind), u64)>) {
        for ((node, kind), left_out) in over {
            tracing::warn!(
                flow = &*self.plan.name,
                worker = self.worker.0,
                node = &*node,
                kind = kind.name(),
                left_out,
                "more rows failed alike; their lines were left out"
            );
        }
    }

    /// Stops the flow, with the reason.
    pub(crate) fn fail(&mut self, message: impl Into<String>) {
        let failure = Failure::new(message);
        // What stops several partitions at once is told once.
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    /// Has the flow begin anew from the committed offsets, as after a crash.
    pub(crate) fn restart(&mut self, reason: impl FnOnce() -> String) {
        self.restart.get_or_insert_with(reason);
    }

    /// Stops the flow because of a record; the first one is named, all are logged.
    pub(crate) fn refuse(&mut self, message: impl FnOnce() -> String) {
        if !std::mem::replace(&mut self.named, true) {
            self.fail(message());
        }
    }
}
