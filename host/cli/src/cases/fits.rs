//! Whether a case is about the flow that it is for: names of topics, outputs, sinks, plugins and nodes, and places of
//! records, which only the flow can tell.

use std::collections::BTreeSet;

use loom_flow::cases::{Case, CaseFile, Fault, FaultKind, Placed, ReadCases};
use loom_flow::plan::{By, NodeKind, Switch};
use loom_flow::{Code, Issue, Plan, Stretch, nearest};

use super::stage::{partitions, placed};

/// What is wrong with the cases of a file, in their order.
pub fn issues(read: &ReadCases, file: &CaseFile, plan: &Plan) -> Vec<Issue> {
    let known = Known::of(plan);
    let mut fits = Fits { read, issues: Vec::new() };
    for case in &file.cases {
        fits.case(case, plan, &known);
    }
    fits.issues
}

/// What the flow has, by name.
struct Known {
    inputs: Vec<String>,
    /// Logical names.
    outputs: Vec<String>,
    /// Topics that are written to.
    topics: Vec<String>,
    /// Plugins that are sinks.
    sinks: Vec<String>,
    /// Plugins and nodes of plugins.
    callees: Vec<String>,
    /// Nodes that call none.
    without_plugin: BTreeSet<String>,
}

/// Whether a node calls a plugin itself.
fn calls_plugin(kind: &NodeKind) -> bool {
    let by = |by: &By| matches!(by, By::Plugin(_));
    match kind {
        NodeKind::Step(_)
        | NodeKind::Expand(_)
        | NodeKind::Explode(_)
        | NodeKind::BatchStep(_)
        | NodeKind::BatchExpand(_)
        | NodeKind::ExpandRoutes { .. }
        | NodeKind::IntoSink { .. } => true,
        NodeKind::Filter(what) => by(what),
        NodeKind::CollectBatch(collect) => collect.key.as_ref().is_some_and(by),
        NodeKind::Router(switch) | NodeKind::Fork(switch) => match switch {
            Switch::When { branches, .. } => branches.iter().any(|(condition, _)| by(condition)),
            Switch::By { selector, .. } => by(selector),
        },
        NodeKind::IntoTopic { key, partitioner, .. } => key.as_ref().is_some_and(by) || partitioner.is_some(),
        NodeKind::Map(_) | NodeKind::ForEach | NodeKind::Broadcast(_) | NodeKind::Drain => false,
    }
}

impl Known {
    fn of(plan: &Plan) -> Known {
        let mut sinks = BTreeSet::new();
        let mut without_plugin = BTreeSet::new();
        let mut callees: BTreeSet<String> =
            plan.plugins.iter().map(|plugin| plugin.name.to_string()).collect();
        let routes = plan.routes.iter().map(|route| &route.process);
        for process in std::iter::once(&plan.process).chain(routes) {
            process.visit(&mut |node| {
                if let NodeKind::IntoSink { plugin, .. } = &node.kind {
                    sinks.insert(plan.plugins[plugin.0].name.to_string());
                }
                let names =
                    std::iter::once(node.path.to_string()).chain(node.name.as_ref().map(ToString::to_string));
                if calls_plugin(&node.kind) {
                    callees.extend(names);
                } else {
                    without_plugin.extend(names);
                }
            });
        }
        let topics: BTreeSet<String> = plan.outputs.iter().map(|output| output.topic.to_string()).collect();
        Known {
            inputs: plan.consumer.topics.iter().map(ToString::to_string).collect(),
            outputs: plan.outputs.iter().map(|output| output.name.clone()).collect(),
            topics: topics.into_iter().collect(),
            sinks: sinks.into_iter().collect(),
            callees: callees.into_iter().collect(),
            without_plugin,
        }
    }
}

struct Fits<'r> {
    read: &'r ReadCases,
    issues: Vec<Issue>,
}

impl Fits<'_> {
    fn case(&mut self, case: &Case, plan: &Plan, known: &Known) {
        let count = partitions(case);
        for record in &case.records {
            if let Some(topic) = &record.topic {
                self.name("the flow reads no topic", topic, &known.inputs);
            }
            if let Some(Placed { value, at }) = &record.partition
                && *value >= count
            {
                let message = format!("there is no partition {value}: the case has {count} (`partitions`)");
                self.push(*at, message, None);
            }
        }
        for fault in &case.faults {
            self.fault(fault, case, plan, known);
        }
        for (topic, records) in case.expect.topics.iter().flatten() {
            let topic = Placed { value: topic.clone(), at: records.at };
            self.name("the flow writes to no topic", &topic, &known.topics);
        }
        for (sink, records) in case.expect.sinks.iter().flatten() {
            let sink = Placed { value: sink.clone(), at: records.at };
            self.name("the flow has no sink", &sink, &known.sinks);
        }
        for ((topic, partition), offset) in &case.expect.offsets {
            let topic = Placed { value: topic.clone(), at: offset.at };
            if self.name("the flow reads no topic", &topic, &known.inputs) && *partition >= count {
                let message =
                    format!("there is no partition {partition}: the case has {count} (`partitions`)");
                self.push(offset.at, message, None);
            }
        }
    }

    fn fault(&mut self, fault: &Fault, case: &Case, plan: &Plan, known: &Known) {
        match &fault.what {
            FaultKind::Call { whom, .. } | FaultKind::Flush { whom, .. }
                if known.without_plugin.contains(&whom.value) =>
            {
                let message = format!("{} calls no plugin: no call of it can end so", whom.value);
                let hint = "name a plugin, or a node that calls one; an output refuses a record with `refuse: OUTPUT`";
                self.push(whom.at, message, Some(hint.to_owned()));
            }
            FaultKind::Call { whom, .. } => {
                self.name("the flow has no plugin and no node", whom, &known.callees);
            }
            FaultKind::Flush { whom, .. } => {
                let names = super::named::paths(plan);
                let is_node = known.callees.contains(&whom.value)
                    && (whom.value.contains('[') || names.contains_key(&whom.value));
                if !is_node {
                    self.name("the flow has no sink", whom, &known.sinks);
                }
            }
            FaultKind::Refuse { output } => {
                self.name("the flow has no output", output, &known.outputs);
            }
            FaultKind::Kill(_) => {}
        }
        let Some(Placed { value: record, at }) = &fault.record else { return };
        let first = known.inputs.first().cloned().unwrap_or_default();
        let topic = record.topic.clone().unwrap_or(first);
        if !self.name("the flow reads no topic", &Placed { value: topic.clone(), at: *at }, &known.inputs) {
            return;
        }
        let there = placed(case, plan);
        let there =
            there.iter().filter(|(_, other, partition)| *other == topic && *partition == record.partition);
        let there = i64::try_from(there.count()).unwrap_or(i64::MAX);
        if record.offset >= there {
            let message = format!(
                "there is no record {topic}/{} at {}: the case has {there} in that partition",
                record.partition, record.offset
            );
            self.push(*at, message, None);
        }
    }

    /// Whether the name is among those that the flow has.
    fn name(&mut self, without: &str, name: &Placed<String>, known: &[String]) -> bool {
        if known.contains(&name.value) {
            return true;
        }
        let names: Vec<&str> = known.iter().map(String::as_str).collect();
        let hint = match (nearest(&name.value, &names), &names[..]) {
            (Some(near), _) => Some(format!("did you mean `{near}`?")),
            (None, []) => None,
            (None, some) => Some(format!("it has {}", some.join(", "))),
        };
        self.push(name.at, format!("{without} `{}`", name.value), hint);
        false
    }

    fn push(&mut self, at: Stretch, message: String, hint: Option<String>) {
        self.issues.push(self.read.issue(Code::ValueInvalid, at, message, hint));
    }
}
