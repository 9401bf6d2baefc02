//! From a plan to the nodes of one worker: names become targets, plugins become instances.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use loom_flow::Plan;
use loom_flow::plan::{
    By, CallPlan, NodeKind, NodePlan, OnTrap, Partitioner, PluginId, ProcessPlan, RouteId, Switch, Timestamp,
};
use loom_kafka::Stamp;
use loom_plugin::{Breaker, Limits, NodeContext, StartError};
use loom_types::{Ending, ErrorKind, WorkerIndex};

use super::batch::{BatchNode, BatchRole, Batching, Collect, CollectBounds, Gather};
use super::call::PluginNode;
use super::exits::Exits;
use super::growth::Pace;
use super::keys::Keys;
use super::plugins::{Plugins, Role, TypeNames};
use super::timing::Timed;
use super::waiting::{Waiting, WaitingNode};
use super::{Graph, JoinNode, Node, NodeId, Op, SinkNode, Target};
use crate::outputs::OutputTable;
use crate::stop::Interrupts;

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
    interrupts: &Interrupts,
) -> Result<Graph, Vec<Refusal>> {
    let plugins = Timed::new(plugins);
    let mut lowering = Lowering {
        plan,
        plugins: &plugins,
        worker,
        interrupts,
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
    let graph = Graph { nodes, entry, routes, outputs };
    if refusals.is_empty() { Ok(graph) } else { Err(refusals) }
}

struct Lowering<'a> {
    plan: &'a Plan,
    plugins: &'a Timed<'a>,
    worker: WorkerIndex,
    interrupts: &'a Interrupts,
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
            NodeKind::Step(call) => self.call(node, call, Role::Step, |_| Exits::Next(next)),
            NodeKind::Expand(call) => self.call(node, call, Role::Expand, |_| Exits::Next(next)),
            NodeKind::Explode(call) => self.call(node, call, Role::TypedExpand, |_| Exits::Next(next)),
            NodeKind::Map(expr) => self.push(node, Op::Map { expr: expr.clone(), next }),
            NodeKind::Filter(predicate) => self.test(node, predicate, next, Target::End(Ending::Filtered)),
            NodeKind::BatchStep(call) => self.batch(node, call, BatchRole::Step, next),
            NodeKind::BatchExpand(call) => self.batch(node, call, BatchRole::Expand, next),
            NodeKind::CollectBatch(bounds) => {
                let limits = CollectBounds {
                    records: bounds.max_records.unwrap_or(usize::MAX),
                    bytes: bounds.max_bytes.unwrap_or(u64::MAX),
                    timeout: bounds.timeout,
                };
                let runtime = &self.plan.runtime;
                let most = (runtime.max_outstanding_records, runtime.max_outstanding_bytes);
                let gather = if bounds.key.is_some() { Gather::Key } else { Gather::Partition };
                let collect = Collect::new(gather, limits, most, next);
                let collect = self.push(node, Op::Collect(Box::new(collect)));
                self.keys(node, bounds.key.as_ref(), None, collect)
            }
            // A batch goes where its rows go: see the module of batches.
            NodeKind::ForEach => next,
            NodeKind::Router(switch) => self.router(node, switch, next),
            NodeKind::Fork(switch) => self.switch(node, switch, Target::End(Ending::Drained)),
            NodeKind::Broadcast(branches) => {
                let branches = branches.iter().map(|process| self.process(process)).collect();
                self.push(node, Op::Broadcast(branches))
            }
            NodeKind::ExpandRoutes { call, routes, default } => {
                let default = default.as_ref().map(|process| self.process(process));
                let routes: HashMap<&str, Target> =
                    routes.iter().map(|(name, process)| (name.as_str(), self.process(process))).collect();
                let plan = self.plan;
                let plugin = &plan.plugins[call.plugin.0].name;
                self.call(node, call, Role::TypedExpand, |types| {
                    tell_unknown(&node.path, plugin, types, &routes);
                    Exits::by_type(types, &routes, default)
                })
            }
            NodeKind::IntoTopic { output, key, partitioner, dlq, timestamp } => {
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
                let topic = self.push(node, Op::Topic { output: *output, dlq: *dlq });
                self.keys(node, key.as_ref(), *partitioner, topic)
            }
            NodeKind::IntoSink { plugin, timeout, retries, flush } => {
                let context = self.context(node, *plugin, *timeout);
                let span = span(&context);
                match self.plugins.sink(*plugin, context, &self.interrupts.sinks) {
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
                match selector {
                    By::Expr(expr) => self.push(node, Op::Select { expr: expr.clone(), branches, default }),
                    By::Plugin(plugin) => self
                        .call(node, &asked(*plugin), Role::Select, |_| Exits::Labels { branches, default }),
                }
            }
        }
    }

    fn default(&mut self, default: Option<&ProcessPlan>, behind: Target) -> Target {
        default.map_or(Target::Unmatched, |process| self.process_before(process, behind))
    }

    fn batch(&mut self, node: &NodePlan, call: &CallPlan, role: BatchRole, next: Target) -> Target {
        let CallPlan { plugin, timeout, retries, on_trap, concurrency, ordered } = *call;
        let context = self.context(node, plugin, timeout);
        let span = span(&context);
        let settings = &self.plan.plugins[plugin.0];
        let network = settings.allow.network();
        let at_a_time = concurrency.or(network.then_some(1));
        let limit = timeout.or(settings.limits.timeout).unwrap_or_else(|| Limits::default().timeout);
        match self.plugins.batch(plugin, context, role, on_trap, at_a_time, &self.interrupts.calls) {
            Ok(calls) => {
                let parts = Batching {
                    plugin: self.plugins.label(plugin),
                    span,
                    next,
                    breaker: Breaker::new(settings.breaker),
                    calls,
                    concurrency: at_a_time.unwrap_or(1),
                    limit,
                    ordered,
                    retries,
                    network,
                    fails_batches: on_trap == OnTrap::FailBatch,
                    grows: role == BatchRole::Expand,
                };
                self.push(node, Op::Batch(Box::new(BatchNode::new(parts))))
            }
            Err(error) => self.refuse(node, error),
        }
    }

    fn test(&mut self, node: &NodePlan, predicate: &By, yes: Target, no: Target) -> Target {
        match predicate {
            By::Expr(expr) => self.push(node, Op::Test { expr: expr.clone(), yes, no }),
            By::Plugin(plugin) => {
                self.call(node, &asked(*plugin), Role::Predicate, |_| Exits::Either { yes, no })
            }
        }
    }

    /// What makes the keys of a node's rows before they come to it: first what `key` says, then the partitioner.
    fn keys(
        &mut self,
        node: &NodePlan,
        key: Option<&By>,
        partitioner: Option<Partitioner>,
        mut next: Target,
    ) -> Target {
        if let Some(Partitioner { plugin, repartition }) = partitioner {
            let keys = if repartition { Keys::All } else { Keys::Missing };
            next = self.call(node, &asked(plugin), Role::Key(keys), |_| Exits::Next(next));
        }
        match key {
            None => next,
            Some(By::Expr(expr)) => self.push(node, Op::Key { expr: expr.clone(), next }),
            Some(By::Plugin(plugin)) => {
                self.call(node, &asked(*plugin), Role::Key(Keys::All), |_| Exits::Next(next))
            }
        }
    }

    /// Starts a plugin at a node. `exits`: by the types that its rows may have.
    fn call(
        &mut self,
        node: &NodePlan,
        call: &CallPlan,
        role: Role,
        exits: impl FnOnce(&TypeNames) -> Exits,
    ) -> Target {
        match self.start(node, call, role, exits) {
            Ok(op) => self.push(node, op),
            Err(error) => self.refuse(node, error),
        }
    }

    fn start(
        &self,
        node: &NodePlan,
        call: &CallPlan,
        role: Role,
        exits: impl FnOnce(&TypeNames) -> Exits,
    ) -> Result<Op, StartError> {
        let CallPlan { plugin, timeout, retries, on_trap, concurrency, ordered } = *call;
        let of_plugin = &self.plan.plugins[plugin.0];
        let network = of_plugin.allow.network();
        let context = self.context(node, plugin, timeout);
        let span = span(&context);
        let (label, breaker) = (self.plugins.label(plugin), Breaker::new(of_plugin.breaker));
        let grows = matches!(role, Role::Expand | Role::TypedExpand);
        if concurrency.is_none() && !network {
            let calls = self.plugins.rows(plugin, context, role, on_trap, &self.interrupts.calls)?;
            return Ok(Op::Plugin(Box::new(PluginNode {
                plugin: label,
                span,
                exits: Arc::new(exits(&calls.types())),
                pace: grows.then(Pace::new),
                calls,
                windows: BTreeMap::new(),
                breaker,
                retries,
            })));
        }
        let concurrency = concurrency.unwrap_or(1);
        let limit = timeout.or(of_plugin.limits.timeout).unwrap_or_else(|| Limits::default().timeout);
        let calls = self.plugins.waiting(plugin, context, role, concurrency)?;
        Ok(Op::Waiting(Box::new(WaitingNode::new(Waiting {
            plugin: label,
            span,
            exits: Arc::new(exits(&calls.types())),
            grows,
            breaker,
            calls,
            concurrency,
            limit,
            ordered,
            retries,
            network,
        }))))
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
        self.nodes.push(Node {
            path: node.path.clone(),
            name: node.name.clone(),
            errors: node.errors,
            op,
            calls: self.plugins.of(&node.path),
            rows: 0,
            retries: 0,
            made: 0,
            defaulted: 0,
        });
        Target::Node(NodeId(self.nodes.len() - 1))
    }

    fn refuse(&mut self, node: &NodePlan, error: StartError) -> Target {
        let label = crate::status::label(&node.path, node.name.as_deref());
        self.refusals.push(Refusal { node: label.into(), error });
        Target::End(Ending::Drained)
    }
}

/// A route for a type that its plugin does not make is most likely misspelt; rows of it come never.
fn tell_unknown(node: &str, plugin: &str, types: &TypeNames, routes: &HashMap<&str, Target>) {
    let mut unknown: Vec<&str> =
        routes.keys().copied().filter(|name| types.iter().all(|known| **known != **name)).collect();
    unknown.sort_unstable();
    for name in unknown {
        let known = types.join(", ");
        tracing::warn!(
            node,
            plugin,
            row_type = name,
            "the plugin makes no rows of this route's type; its types are {known}"
        );
    }
}

/// The call of a plugin at a place that says nothing more of it.
fn asked(plugin: PluginId) -> CallPlan {
    CallPlan {
        plugin,
        timeout: None,
        retries: None,
        on_trap: OnTrap::Rerun,
        concurrency: None,
        ordered: true,
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
