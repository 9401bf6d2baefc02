//! The rules that compare one part of a flow with another, one rule a file.
//!
//! Every rule goes over the list of all places (`spec::processes`) and adds to the report; none depends on another
//! having passed. What one part alone gets wrong (a type, a number, an expression) was reported when it was read.

mod components;
mod consumers;
mod delivery_conflict;
mod error_kinds;
mod errors_ignored;
mod extra_keys;
mod fork_unmatched;
mod ordered_idle;
mod outputs;
mod plugin_unknown;
mod positions;
mod sink_untracked;
mod terminals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::CompileOptions;
use crate::ask::{ComponentFacts, Components, KafkaKeys};
use crate::interpolate::Secrets;
use crate::plan::Delivery;
use crate::report::Report;
use crate::spec::{FlowSpec, PluginSpec, Seated, nodes, plugin_refs, processes};

/// What a rule sees.
pub(crate) struct Checks<'a> {
    flow: &'a FlowSpec,
    processes: Vec<Seated<'a>>,
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
    /// It is a component, made for another host.
    foreign: bool,
}

impl<'a> Checks<'a> {
    fn plugin(&self, name: &str) -> Option<&'a PluginSpec> {
        self.flow.plugins.iter().find(|plugin| plugin.name == name)
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
    let facts = if options.plugins { ask(flow, &processes, components) } else { BTreeMap::new() };
    let delivery = flow.consumer().map(|consumer| consumer.delivery());
    let mut checks = Checks { flow, processes, report, outside, delivery, facts };
    consumers::check(&mut checks);
    delivery_conflict::check(&mut checks);
    extra_keys::check(&mut checks, keys);
    outputs::check(&mut checks);
    positions::check(&mut checks);
    terminals::check(&mut checks);
    fork_unmatched::check(&mut checks);
    ordered_idle::check(&mut checks);
    plugin_unknown::check(&mut checks);
    components::check(&mut checks);
    sink_untracked::check(&mut checks);
    error_kinds::check(&mut checks);
    errors_ignored::check(&mut checks);
}

/// Asks about each file that a used plugin names, once.
fn ask(
    flow: &FlowSpec,
    processes: &[Seated<'_>],
    components: &dyn Components,
) -> BTreeMap<PathBuf, Result<ComponentFacts, Unknown>> {
    let mut facts = BTreeMap::new();
    for (node, _) in nodes(processes) {
        for (name, _) in plugin_refs(node) {
            let plugin = flow.plugins.iter().find(|plugin| plugin.name == name.value);
            let component = plugin.and_then(|plugin| plugin.component.as_ref());
            let Some(component) = component.filter(|component| !component.text.open) else { continue };
            let path: &Path = &component.path;
            if !facts.contains_key(path) {
                let unknown = |why| Unknown { why, foreign: components.is_foreign(path) };
                facts.insert(path.to_owned(), components.facts(path).map_err(unknown));
            }
        }
    }
    facts
}
