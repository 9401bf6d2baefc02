//! From a plan to the nodes of one worker: names become targets, plugins become instances.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use loom_flow::Plan;
use loom_flow::plan::{
    CallPlan, NodeKind, NodePlan, PluginId, Predicate, ProcessPlan, RouteId, Switch, Timestamp,
};
use loom_kafka::Stamp;
use loom_plugin::{Breaker, Interrupt, Limits, NodeContext, StartError};
use loom_types::{Ending, ErrorKind, WorkerIndex};

use super::call::PluginNode;
use super::plugins::{Plugins, RowCalls, WaitingRole};
use super::waiting::{Waiting, WaitingNode};
use super::{Graph, JoinNode, Node, NodeId, Op, SinkNode, Target};
use crate::outputs::OutputTable;

/// What a node could not be started for.
pub(crate) struct Refusal {
    pub node: Arc<str>,
    pub error: StartError,
}

/// Builds one worker's nodes; every refusal is reported.
pub(crate) fn lower(
    plan: &Plan,
    plugins: &dyn Plugins,
    worker: WorkerIndex,
    interrupt: &Interrupt,
) -> Result<Graph, Vec<Refusal>> {
    let mut lowering = Lowering {
        plan,
        plugins,
        worker,
        interrupt,
        nodes: Vec::new(),
        outputs: OutputTable::default(),
        endings: vec![Ending::Topic],
        refusals: Vec::new(),
    };
    let entry = lowering.process(&plan.process);
    let mut routes = Vec::new();
    for (index, route) in plan.routes.iter().enumerate() {
        lowering.endings = kinds_of(plan, RouteId(index)).into_iter().map(Ending::ErrorRoute).collect();
        routes.push(lowering.process(&route.process));
    }
    let Lowering { nodes, outputs, refusals, .. } = lowering;
    if refusals.is_empty() { Ok(Graph { nodes, entry, routes, outputs }) } else { Err(refusals) }
}

/// What a flow says of a node whose calls may overlap.
#[derive(Clone, Copy)]
struct Waits {
    concurrency: Option<usize>,
    ordered: bool,
    retries: Option<u32>,
}

struct Lowering<'a> {
    plan: &'a Plan,
    plugins: &'a dyn Plugins,
    worker: WorkerIndex,
    interrupt: &'a Interrupt,
    nodes: Vec<Node>,
    outputs: OutputTable,
    /// How rows of the process under way end at a topic.
    endings: Vec<Ending>,
    refusals: Vec<Refusal>,
}

impl Lowering<'_> {
    /// A process whose rows end behind it.
    fn process(&mut self, process: &ProcessPlan) -> Target {
        self.process_before(process, Target::End(Ending::Drained))
    }

    /// Lowers from the last node to the first, so that each knows where its rows go.
    fn process_before(&mut self, process: &ProcessPlan, mut next: Target) -> Target {
        for node in process.nodes.iter().rev() {
            next = self.node(node, next);
        }
        next
    }

    fn node(&mut self, node: &NodePlan, next: Target) -> Target {
        match &node.kind {
            NodeKind::Step(call) => self.step(node, call, next),
            NodeKind::Map(expr) => self.push(node, Op::Map { expr: expr.clone(), next }),
            NodeKind::Filter(predicate) => self.test(node, predicate, next, Target::End(Ending::Filtered)),
            NodeKind::Router(switch) => self.router(node, switch, next),
            NodeKind::Fork(switch) => self.switch(node, switch, Target::End(Ending::Drained)),
            NodeKind::Broadcast(branches) => {
                let branches = branches.iter().map(|process| self.process(process)).collect();
                self.push(node, Op::Broadcast(branches))
            }
            NodeKind::IntoTopic { output, key, dlq, timestamp } => {
                let stamp = match timestamp {
                    Timestamp::Source => Stamp::Source,
                    Timestamp::Now => Stamp::Now,
                };
                let id = NodeId(self.nodes.len());
                for ending in &self.endings {
                    self.outputs.add(*output, id, *ending, stamp);
                    if let Some(dlq) = dlq {
                        let ending = if *ending == Ending::Topic { Ending::DeadLetter } else { *ending };
                        self.outputs.add_dead_letters(*dlq, id, ending);
                    }
                }
                self.push(node, Op::Topic { output: *output, dlq: *dlq, key: key.clone() })
            }
            NodeKind::IntoSink { plugin, timeout, retries, flush } => {
                let context = self.context(node, *plugin, *timeout);
                let span = span(&context);
                match self.plugins.sink(*plugin, context) {
                    Ok(start) => {
                        let label = self.plugins.label(*plugin);
                        let sink = SinkNode::new(label, span, start, *flush, *retries);
                        self.push(node, Op::Sink(Box::new(sink)))
                    }
                    Err(error) => self.refuse(node, error),
                }
            }
            NodeKind::Drain => Target::End(Ending::Drained),
        }
    }

    /// The branches come together again at a join, and what lies between is between their numbers.
    fn router(&mut self, node: &NodePlan, switch: &Switch, next: Target) -> Target {
        let join = NodeId(self.nodes.len());
        self.push(node, Op::Join(Box::new(JoinNode::new(next))));
        let entry = self.switch(node, switch, Target::Node(join));
        let inside = join.0 + 1..self.nodes.len();
        if let Op::Join(node) = &mut self.nodes[join.0].op {
            node.surround(inside);
        }
        self.push(node, Op::Router { entry, join })
    }

    /// The conditions or the selector of a node, and its branches, whose rows go `behind` it.
    fn switch(&mut self, node: &NodePlan, switch: &Switch, behind: Target) -> Target {
        match switch {
            Switch::When { branches, default } => {
                let mut otherwise = self.default(default.as_ref(), behind);
                for (predicate, process) in branches.iter().rev() {
                    let yes = self.process_before(process, behind);
                    otherwise = self.test(node, predicate, yes, otherwise);
                }
                otherwise
            }
            Switch::By { selector, branches, default } => {
                let default = self.default(default.as_ref(), behind);
                let branch = |(label, process): &(String, ProcessPlan)| {
                    (label.clone(), self.process_before(process, behind))
                };
                let branches: HashMap<String, Target> = branches.iter().map(branch).collect();
                self.push(node, Op::Select { expr: selector.clone(), branches, default })
            }
        }
    }

    fn default(&mut self, default: Option<&ProcessPlan>, behind: Target) -> Target {
        default.map_or(Target::Unmatched, |process| self.process_before(process, behind))
    }

    fn step(&mut self, node: &NodePlan, call: &CallPlan, next: Target) -> Target {
        let CallPlan { plugin, timeout, retries, on_trap, concurrency, ordered } = *call;
        let context = self.context(node, plugin, timeout);
        if concurrency.is_some() || self.network(plugin) {
            let waits = Waits { concurrency, ordered, retries };
            return self.waiting(node, plugin, context, WaitingRole::Step, waits, next, next);
        }
        let span = span(&context);
        match self.plugins.step(plugin, context, on_trap, self.interrupt) {
            Ok(step) => {
                let op = self.plugin(plugin, step, span, retries, (next, next));
                self.push(node, op)
            }
            Err(error) => self.refuse(node, error),
        }
    }

    fn test(&mut self, node: &NodePlan, predicate: &Predicate, yes: Target, no: Target) -> Target {
        match predicate {
            Predicate::Expr(expr) => self.push(node, Op::Test { expr: expr.clone(), yes, no }),
            Predicate::Plugin(plugin) => {
                let context = self.context(node, *plugin, None);
                if self.network(*plugin) {
                    let waits = Waits { concurrency: None, ordered: true, retries: None };
                    return self.waiting(node, *plugin, context, WaitingRole::Predicate, waits, yes, no);
                }
                let span = span(&context);
                match self.plugins.predicate(*plugin, context, self.interrupt) {
                    Ok(predicate) => {
                        let op = self.plugin(*plugin, predicate, span, None, (yes, no));
                        self.push(node, op)
                    }
                    Err(error) => self.refuse(node, error),
                }
            }
        }
    }

    /// Whether a plugin may use the network.
    fn network(&self, id: PluginId) -> bool {
        self.plan.plugins[id.0].allow.network()
    }

    #[expect(clippy::too_many_arguments, reason = "all of what a waiting node is made of, in one place")]
    fn waiting(
        &mut self,
        node: &NodePlan,
        id: PluginId,
        context: NodeContext,
        role: WaitingRole,
        waits: Waits,
        yes: Target,
        no: Target,
    ) -> Target {
        let span = span(&context);
        let limit = context.timeout.or(self.plan.plugins[id.0].limits.timeout);
        let concurrency = waits.concurrency.unwrap_or(1);
        let calls = match self.plugins.waiting(id, context, role, concurrency) {
            Ok(calls) => calls,
            Err(error) => return self.refuse(node, error),
        };
        let parts = Waiting {
            plugin: self.plugins.label(id),
            span,
            yes,
            no,
            breaker: Breaker::new(self.plan.plugins[id.0].breaker),
            calls,
            concurrency,
            limit: limit.unwrap_or_else(|| Limits::default().timeout),
            ordered: waits.ordered,
            retries: waits.retries,
            network: self.network(id),
        };
        self.push(node, Op::Waiting(Box::new(WaitingNode::new(parts))))
    }

    fn plugin(
        &self,
        id: PluginId,
        calls: Box<dyn RowCalls>,
        span: tracing::Span,
        retries: Option<u32>,
        (yes, no): (Target, Target),
    ) -> Op {
        let breaker = Breaker::new(self.plan.plugins[id.0].breaker);
        let plugin = self.plugins.label(id);
        let windows = BTreeMap::new();
        Op::Plugin(Box::new(PluginNode { plugin, calls, span, yes, no, windows, breaker, retries }))
    }

    fn context(&self, node: &NodePlan, plugin: PluginId, timeout: Option<Duration>) -> NodeContext {
        NodeContext {
            flow: self.plan.name.clone(),
            node: node.path.clone(),
            plugin: self.plan.plugins[plugin.0].name.clone(),
            worker: self.worker.0,
            timeout,
        }
    }

    fn push(&mut self, node: &NodePlan, op: Op) -> Target {
        self.nodes.push(Node { path: node.path.clone(), errors: node.errors, op, rows: 0, retries: 0 });
        Target::Node(NodeId(self.nodes.len() - 1))
    }

    fn refuse(&mut self, node: &NodePlan, error: StartError) -> Target {
        self.refusals.push(Refusal { node: node.path.clone(), error });
        Target::End(Ending::Drained)
    }
}

/// What log lines of a plugin's node say of where they come from.
pub(super) fn span(context: &NodeContext) -> tracing::Span {
    tracing::error_span!(
        "node",
        flow = &*context.flow,
        worker = context.worker,
        node = &*context.node,
        plugin = &*context.plugin
    )
}

/// The kinds of errors that may enter a route.
fn kinds_of(plan: &Plan, route: RouteId) -> Vec<ErrorKind> {
    let mut found = [false; ErrorKind::ALL.len()];
    plan.process.visit(&mut |node| {
        for kind in ErrorKind::ALL {
            found[kind.index()] |= node.errors[kind.index()] == Some(route);
        }
    });
    ErrorKind::ALL.into_iter().filter(|kind| found[kind.index()]).collect()
}
