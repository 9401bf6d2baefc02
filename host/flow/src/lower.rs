//! From a flow without errors to its plan: names become indices, defaults and nearest routes are filled in.
//!
//! Every step answers none where the flow lacks something; a flow whose report has no error lacks nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use loom_types::ErrorKind;

use crate::ask::Role;
use crate::plan::{
    By, CallPlan, CollectPlan, ConsumerPlan, NodeKind, NodePlan, OnTrap, OutputId, OutputPlan, Partitioner,
    Plan, PluginId, PluginPlan, ProcessPlan, RouteId, RoutePlan, Switch,
};
use crate::spec::{
    Branches, CallOptions, Choice, ConsumerSpec, ErrorsSpec, ExprSpec, FlowSpec, IntoTopic, KafkaSpec, Kind,
    NodeSpec, PluginSpec, ProcessSpec, ProducerSpec, SwitchDefault, SwitchSpec, Text, extra_map, unrouted,
};

/// Which route takes each kind of error.
type Routes = [Option<RouteId>; ErrorKind::ALL.len()];

/// The plan of a flow; none if the flow has an error.
pub(crate) fn lower(flow: &FlowSpec, env: BTreeMap<String, String>) -> Option<Plan> {
    let kafka = flow.kafka.as_ref()?;
    let consumer = consumer(flow.consumer()?)?;
    let mut lower = Lower {
        plugin_specs: flow.plugins.iter().map(|plugin| (plugin.name.as_str(), plugin)).collect(),
        producer_specs: kafka.producers.iter().map(|producer| (producer.name.as_str(), producer)).collect(),
        kafka,
        output_ids: HashMap::new(),
        plugin_ids: HashMap::new(),
        outputs: Vec::new(),
        plugins: Vec::new(),
        routes: Vec::new(),
    };
    let around = lower.errors(flow.errors.as_ref(), Some([None; ErrorKind::ALL.len()]))?;
    let process = lower.process(flow.process.as_ref()?, Some(around))?;
    let unrouted = unrouted(flow.errors.as_ref(), consumer.delivery);
    Some(Plan {
        name: Arc::from(flow.name.as_ref()?.value.as_str()),
        consumer,
        outputs: lower.outputs,
        plugins: lower.plugins,
        runtime: flow.runtime.clone(),
        process,
        routes: lower.routes,
        unrouted,
        max_dropped: flow.errors.as_ref().and_then(|errors| errors.max_dropped.as_ref()).map(|at| at.value),
        env: Arc::new(env),
    })
}

fn consumer(spec: &ConsumerSpec) -> Option<ConsumerPlan> {
    Some(ConsumerPlan {
        name: spec.place.path.strip_prefix("kafka.").unwrap_or(&spec.place.path).to_owned(),
        brokers: spec.brokers.clone(),
        group_id: spec.group_id.as_ref()?.value.clone(),
        topics: spec.topics.as_ref()?.value.iter().map(|topic| Arc::from(topic.value.as_str())).collect(),
        delivery: spec.delivery(),
        auto_offset_reset: spec.auto_offset_reset,
        offset_out_of_range: spec.offset_out_of_range,
        tombstones: spec.tombstones,
        batch_size: spec.batch_size,
        poll_backoff: spec.poll_backoff,
        commit_keepalive: spec.commit_keepalive,
        security: spec.security.clone(),
        extra: extra_map(&spec.extra),
    })
}

struct Lower<'f> {
    kafka: &'f KafkaSpec,
    plugin_specs: HashMap<&'f str, &'f PluginSpec>,
    producer_specs: HashMap<&'f str, &'f ProducerSpec>,
    output_ids: HashMap<String, OutputId>,
    plugin_ids: HashMap<&'f str, PluginId>,
    outputs: Vec<OutputPlan>,
    plugins: Vec<PluginPlan>,
    routes: Vec<RoutePlan>,
}

impl Lower<'_> {
    /// The routes that hold under an `errors`. Inside a route (`around` is none) there are none, whatever is written.
    fn errors(&mut self, errors: Option<&ErrorsSpec>, around: Option<Routes>) -> Option<Routes> {
        let (Some(errors), Some(mut routes)) = (errors, around) else {
            return Some(around.unwrap_or_default());
        };
        if let Some(default) = &errors.default {
            routes = [Some(self.route(default)?); ErrorKind::ALL.len()];
        }
        for (taken, process) in routes.iter_mut().zip(&errors.kinds) {
            if let Some(process) = process {
                *taken = Some(self.route(process)?);
            }
        }
        Some(routes)
    }

    fn route(&mut self, spec: &ProcessSpec) -> Option<RouteId> {
        let process = self.process(spec, None)?;
        self.routes.push(RoutePlan { path: spec.place.path.clone(), process });
        Some(RouteId(self.routes.len() - 1))
    }

    fn process(&mut self, spec: &ProcessSpec, around: Option<Routes>) -> Option<ProcessPlan> {
        let nodes = spec.nodes.iter().map(|node| self.node(node, around)).collect::<Option<_>>()?;
        Some(ProcessPlan { nodes })
    }

    fn node(&mut self, spec: &NodeSpec, around: Option<Routes>) -> Option<NodePlan> {
        let errors = self.errors(spec.errors.as_ref(), around)?;
        let inside = around.map(|_| errors);
        let kind = match &spec.kind {
            Kind::Call { role, plugin, options, .. } => {
                let kind = match role {
                    Role::Step => NodeKind::Step,
                    Role::Expand => NodeKind::Expand,
                    Role::BatchStep => NodeKind::BatchStep,
                    Role::BatchExpand => NodeKind::BatchExpand,
                    Role::TypedExpander => NodeKind::Explode,
                    _ => return None,
                };
                kind(self.call(plugin.as_ref(), options)?)
            }
            Kind::Map(expr) => NodeKind::Map(expr.expr.clone()?),
            Kind::Filter(choice) => NodeKind::Filter(self.by(choice)?),
            Kind::CollectBatch { max_records, max_bytes, timeout, key } => {
                NodeKind::CollectBatch(CollectPlan {
                    max_records: *max_records,
                    max_bytes: *max_bytes,
                    timeout: *timeout,
                    key: self.key(key.as_ref())?,
                })
            }
            Kind::ForEach => NodeKind::ForEach,
            Kind::Router(switch) => NodeKind::Router(self.switch(switch, inside)?),
            Kind::Fork(switch) => NodeKind::Fork(self.switch(switch, inside)?),
            Kind::Broadcast(branches) => NodeKind::Broadcast(
                branches.iter().map(|branch| self.process(branch, inside)).collect::<Option<_>>()?,
            ),
            Kind::ExpandRoutes { plugin, options, routes, default } => {
                let call = self.call(plugin.as_ref(), options)?;
                let mut lowered = Vec::with_capacity(routes.len());
                for (label, process) in routes {
                    lowered.push((label.clone(), self.process(process, inside)?));
                }
                let default = match default {
                    Some(process) => Some(self.process(process, inside)?),
                    None => None,
                };
                NodeKind::ExpandRoutes { call, routes: lowered, default }
            }
            Kind::IntoTopic(topic) => self.topic(topic)?,
            Kind::IntoSink { plugin, timeout, retries, flush } => {
                let plugin = self.plugin(&plugin.as_ref()?.value)?;
                NodeKind::IntoSink { plugin, timeout: *timeout, retries: *retries, flush: *flush }
            }
            Kind::Drain => NodeKind::Drain,
            Kind::Unknown => return None,
        };
        let name = spec.name.as_ref().map(|name| Arc::from(name.value.as_str()));
        Some(NodePlan { path: spec.place.path.clone(), name, kind, errors })
    }

    /// Effects of rows that ran before a trap may happen again when the batch is run row by row; a plugin that can
    /// write files or use the network has effects.
    fn call(&mut self, plugin: Option<&Text>, options: &CallOptions) -> Option<CallPlan> {
        let plugin = self.plugin(&plugin?.value)?;
        let allow = &self.plugins[plugin.0].allow;
        let effects = allow.network() || allow.dirs.iter().any(|dir| dir.writable);
        let default = if effects { OnTrap::FailBatch } else { OnTrap::Rerun };
        Some(CallPlan {
            plugin,
            timeout: options.timeout,
            retries: options.retries,
            on_trap: options.on_trap.unwrap_or(default),
            concurrency: options.concurrency,
            ordered: options.ordered.as_ref().is_none_or(|at| at.value),
        })
    }

    fn by(&mut self, choice: &Choice) -> Option<By> {
        match choice {
            Choice::Expr(ExprSpec { expr }) => expr.clone().map(By::Expr),
            Choice::Plugin(name) => self.plugin(&name.value).map(By::Plugin),
            Choice::Invalid => None,
        }
    }

    /// The outer option is whether it could be lowered, the inner whether it is there.
    fn key(&mut self, key: Option<&Choice>) -> Option<Option<By>> {
        match key {
            None => Some(None),
            Some(key) => self.by(key).map(Some),
        }
    }

    fn switch(&mut self, switch: &SwitchSpec, around: Option<Routes>) -> Option<Switch> {
        let lowered = match &switch.branches {
            Branches::When(branches) => {
                let mut lowered = Vec::with_capacity(branches.len());
                for (condition, process) in branches {
                    let condition = self.by(condition)?;
                    lowered.push((condition, self.process(process.as_ref()?, around)?));
                }
                Switch::When { branches: lowered, default: self.default(switch, around)? }
            }
            Branches::By(selector, branches) => {
                let selector = self.by(selector)?;
                let mut lowered = Vec::with_capacity(branches.len());
                for (label, process) in branches {
                    lowered.push((label.clone(), self.process(process, around)?));
                }
                Switch::By { selector, branches: lowered, default: self.default(switch, around)? }
            }
            Branches::Invalid => return None,
        };
        Some(lowered)
    }

    /// The outer option is whether it could be lowered, the inner whether it is there.
    fn default(&mut self, switch: &SwitchSpec, around: Option<Routes>) -> Option<Option<ProcessPlan>> {
        match &switch.default {
            SwitchDefault::None => Some(None),
            SwitchDefault::Process(process) => self.process(process, around).map(Some),
            SwitchDefault::Pass => Some(Some(ProcessPlan::default())),
            SwitchDefault::Invalid => None,
        }
    }

    fn topic(&mut self, topic: &IntoTopic) -> Option<NodeKind> {
        let key = self.key(topic.key.as_ref())?;
        let partitioner = match &topic.partitioner {
            None => None,
            Some(name) => {
                let plugin = self.plugin(&name.value)?;
                Some(Partitioner { plugin, repartition: topic.allow_repartition })
            }
        };
        let output = self.output(&topic.output.as_ref()?.value)?;
        let dlq = match &topic.dlq {
            Some(name) => Some(self.output(&name.value)?),
            None => None,
        };
        Some(NodeKind::IntoTopic { output, key, partitioner, dlq, timestamp: topic.timestamp })
    }

    fn output(&mut self, name: &str) -> Option<OutputId> {
        if let Some(id) = self.output_ids.get(name) {
            return Some(*id);
        }
        let own = self.producer_specs.get(name).copied();
        let producer = own.or(self.kafka.producer.as_ref())?;
        let topic = producer.topic.as_ref().map_or(name, |topic| &topic.value);
        self.outputs.push(OutputPlan {
            name: name.to_owned(),
            topic: Arc::from(topic),
            producer: producer.place.path.strip_prefix("kafka.").unwrap_or(&producer.place.path).to_owned(),
            brokers: producer.brokers.clone(),
            security: producer.security.clone(),
            compression: producer.compression.clone(),
            idempotence: producer.idempotence,
            extra: extra_map(&producer.extra),
        });
        let id = OutputId(self.outputs.len() - 1);
        self.output_ids.insert(name.to_owned(), id);
        Some(id)
    }

    fn plugin(&mut self, name: &str) -> Option<PluginId> {
        if let Some(id) = self.plugin_ids.get(name) {
            return Some(*id);
        }
        let spec = *self.plugin_specs.get(name)?;
        self.plugins.push(PluginPlan {
            name: Arc::from(name),
            component: spec.component.as_ref()?.path.clone(),
            digest: spec.digest.clone(),
            config: spec.config.clone(),
            config_written: spec.config_written.clone(),
            limits: spec.limits.clone(),
            breaker: spec.breaker,
            allow: spec.allow.clone(),
        });
        let id = PluginId(self.plugins.len() - 1);
        self.plugin_ids.insert(&spec.name, id);
        Some(id)
    }
}
