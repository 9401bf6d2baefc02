//! The rules that compare one part of a flow with another: one code, one file, with the rule, its message and what is
//! documented of it.
//!
//! Every rule goes over the list of all places (`spec::processes`) and adds to the report; none depends on another
//! having passed. What one part alone gets wrong (a type, a number, an expression) was reported when it was read; the
//! documentation of those codes is under `read`.

pub(crate) mod at_broker;
pub(crate) mod at_start;
pub(crate) mod broadcast_not_last;
pub(crate) mod delivery_conflict;
pub(crate) mod delivery_unset;
mod drop_bound_idle;
pub(crate) mod duplicate_branch;
pub(crate) mod error_kind_unrouted;
pub(crate) mod errors_ignored;
pub(crate) mod explode_without_router;
pub(crate) mod fork_branch_no_terminal;
pub(crate) mod fork_not_last;
pub(crate) mod fork_unmatched_unrouted;
pub(crate) mod group_id_unstable;
pub(crate) mod kafka_config_invalid;
pub(crate) mod missing_terminal_output;
mod node_names;
pub(crate) mod node_unreachable;
mod ordered_idle;
mod own_dead_letter;
pub(crate) mod plugin_incompatible;
pub(crate) mod plugin_load_failed;
pub(crate) mod plugin_role_missing;
pub(crate) mod plugin_unknown;
pub(crate) mod plugin_unused;
pub(crate) mod read;
pub(crate) mod router_branch_fanout_unsupported;
pub(crate) mod router_branch_shape_divergence;
pub(crate) mod router_branch_unsafe_node;
pub(crate) mod shape_mismatch;
mod shapes;
pub(crate) mod sink_untracked;
pub(crate) mod terminal_not_last;
pub(crate) mod topic_loop;
pub(crate) mod unterminated_branch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use crate::CompileOptions;
use crate::ask::{ComponentFacts, Components, KafkaKeys};
use crate::plan::Delivery;
use crate::report::{Place, Report};
use crate::secrets::Secrets;
use crate::spec::{
    ComponentSpec, FlowSpec, Kind, NodeSpec, PluginSpec, ProcessSpec, ProducerSpec, Seat, Seated, nodes,
    plugin_refs, processes,
};

/// What a rule sees.
pub(crate) struct Checks<'a> {
    flow: &'a FlowSpec,
    processes: Vec<Seated<'a>>,
    /// By name: flows may have thousands of either, and as many places that name them.
    plugins: HashMap<&'a str, &'a PluginSpec>,
    producers: HashMap<&'a str, &'a ProducerSpec>,
    report: &'a mut Report,
    /// Values that no issue shows.
    outside: &'a Secrets,
    /// The mode of the consumer that the flow reads; none if there is no such consumer.
    delivery: Option<Delivery>,
    /// What the used components tell, by file; empty if nobody was to ask.
    facts: BTreeMap<PathBuf, Result<ComponentFacts, Unknown>>,
}

/// Why a component's facts are not known.
struct Unknown {
    why: String,
    hint: Option<String>,
    /// It is a component, made for another host.
    foreign: bool,
}

impl<'a> Checks<'a> {
    fn plugin(&self, name: &str) -> Option<&'a PluginSpec> {
        self.plugins.get(name).copied()
    }

    /// The producer that serves an output, its own or the default.
    fn producer(&self, output: &str) -> Option<&'a ProducerSpec> {
        let default = || self.flow.kafka.as_ref()?.producer.as_ref();
        self.producers.get(output).copied().or_else(default)
    }

    /// What a plugin's component tells; none if it is not known.
    fn facts_of(&self, plugin: &PluginSpec) -> Option<&ComponentFacts> {
        self.facts.get(&plugin.component.as_ref()?.path)?.as_ref().ok()
    }
}

/// Applies every rule.
pub(crate) fn check(
    flow: &FlowSpec,
    report: &mut Report,
    outside: &Secrets,
    components: &dyn Components,
    keys: &dyn KafkaKeys,
    options: CompileOptions,
) {
    let processes = processes(flow);
    let plugins = flow.plugins.iter().map(|plugin| (plugin.name.as_str(), plugin)).collect();
    let producers = flow.kafka.iter().flat_map(|kafka| &kafka.producers);
    let producers = producers.map(|producer| (producer.name.as_str(), producer)).collect();
    let facts = if options.plugins { ask(&plugins, &processes, components) } else { BTreeMap::new() };
    let delivery = flow.consumer().map(|consumer| consumer.delivery());
    let mut checks = Checks { flow, processes, plugins, producers, report, outside, delivery, facts };
    kafka_config_invalid::check(&mut checks, keys, options.mode);
    delivery_conflict::check(&mut checks);
    delivery_unset::check(&mut checks);
    group_id_unstable::check(&mut checks);
    topic_loop::check(&mut checks);
    own_dead_letter::check(&mut checks);
    terminal_not_last::check(&mut checks);
    fork_not_last::check(&mut checks);
    broadcast_not_last::check(&mut checks);
    missing_terminal_output::check(&mut checks);
    fork_branch_no_terminal::check(&mut checks);
    unterminated_branch::check(&mut checks);
    fork_unmatched_unrouted::check(&mut checks);
    node_names::check(&mut checks);
    node_unreachable::check(&mut checks);
    duplicate_branch::check(&mut checks);
    shape_mismatch::check(&mut checks);
    explode_without_router::check(&mut checks);
    router_branch_fanout_unsupported::check(&mut checks);
    router_branch_unsafe_node::check(&mut checks);
    router_branch_shape_divergence::check(&mut checks);
    ordered_idle::check(&mut checks);
    plugin_unknown::check(&mut checks);
    plugin_unused::check(&mut checks);
    plugin_load_failed::check(&mut checks);
    plugin_incompatible::check(&mut checks);
    plugin_role_missing::check(&mut checks);
    sink_untracked::check(&mut checks);
    error_kind_unrouted::check(&mut checks);
    drop_bound_idle::check(&mut checks);
    errors_ignored::check(&mut checks);
}

/// Asks about each file that a used plugin names, once.
fn ask(
    plugins: &HashMap<&str, &PluginSpec>,
    processes: &[Seated<'_>],
    components: &dyn Components,
) -> BTreeMap<PathBuf, Result<ComponentFacts, Unknown>> {
    let mut facts = BTreeMap::new();
    for (node, _) in nodes(processes) {
        for (name, _) in plugin_refs(node) {
            let component = plugins.get(name.value.as_str()).and_then(|plugin| plugin.component.as_ref());
            let Some(component) = component.filter(|component| !component.text.open) else { continue };
            let path: &Path = &component.path;
            if !facts.contains_key(path) {
                let unknown =
                    |why| Unknown { why, hint: components.hint(path), foreign: components.is_foreign(path) };
                facts.insert(path.to_owned(), components.facts(path).map_err(unknown));
            }
        }
    }
    facts
}

/// What to do with a process that ends without a terminal.
const END_IT: &str = "end it with `into_topic`, `into_sink` or `drain`";

/// The nodes of some kinds that another node follows, each with that one.
fn followed<'f>(processes: &[Seated<'f>], of: impl Fn(&Kind) -> bool) -> Vec<(&'f NodeSpec, &'f NodeSpec)> {
    let pairs = processes.iter().flat_map(|seated| {
        let nodes = &seated.process.nodes;
        nodes.iter().zip(nodes.iter().skip(1))
    });
    pairs.filter(|(node, _)| of(&node.kind)).collect()
}

/// The processes in some seats that end without a terminal, each with the place of its last node under its own path. A
/// node that was not understood may have been a terminal.
fn open_ends(processes: &[Seated<'_>], of: impl Fn(Seat) -> bool) -> Vec<Place> {
    let ends = |process: &ProcessSpec| {
        process.nodes.iter().any(|node| node.kind.is_terminal() || matches!(node.kind, Kind::Unknown))
    };
    let open = processes.iter().filter(|seated| of(seated.seat) && !ends(seated.process));
    open.map(|seated| {
        let process = seated.process;
        let last = process.nodes.last().map_or(&process.place, |node| &node.place);
        Place { span: last.span, path: process.place.path.clone() }
    })
    .collect()
}

/// A plugin whose component cannot be used.
struct Unusable<'f> {
    component: &'f ComponentSpec,
    message: String,
    hint: Option<String>,
}

/// The used plugins whose components cannot be used, each once: those made for another host, or all others.
fn unusable<'f>(checks: &Checks<'f>, foreign: bool) -> Vec<Unusable<'f>> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (node, _) in nodes(&checks.processes) {
        for (text, _) in plugin_refs(node) {
            let Some(plugin) = checks.plugin(&text.value).filter(|plugin| seen.insert(plugin.name.as_str()))
            else {
                continue;
            };
            let Some(component) = &plugin.component else { continue };
            if let Some(Err(unknown)) = checks.facts.get(&component.path)
                && unknown.foreign == foreign
            {
                let why = checks.outside.redact(&unknown.why);
                found.push(Unusable {
                    component,
                    message: format!("the plugin `{}` cannot be loaded: {why}", plugin.name),
                    hint: unknown.hint.as_deref().map(|hint| checks.outside.redact(hint)),
                });
            }
        }
    }
    found
}
