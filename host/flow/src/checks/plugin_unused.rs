//! `PLUGIN_UNUSED`: a plugin that no node names is not loaded, and its file is not looked at.

use std::collections::BTreeSet;

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{Kind, nearest, nodes, plugin_refs};

pub(crate) const ENTRY: Entry = Entry {
    title: "A plugin that no node names",
    severity: Severity::Warning,
    meaning: "`plugins` declares a plugin, and no node, condition, selector, partitioner or sink of the flow names \
              it. It is not loaded, and its file, limits and grants are not looked at.",
    why: "It is left over from an earlier flow, or a node that should use it names another one.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm }
  vip: { component: plugins/vip.wasm }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm }
  vip: { component: plugins/vip.wasm }
process:
  - filter: { plugin: vip }
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    let names: Vec<&str> = checks.flow.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    let mut used = BTreeSet::new();
    for (node, _) in nodes(&checks.processes) {
        let refs = plugin_refs(node);
        // A node that was not understood, or a name that is not known yet, may be the one that uses it.
        if matches!(node.kind, Kind::Unknown) || refs.iter().any(|(text, _)| text.open) {
            return;
        }
        for (text, _) in refs {
            // A mistyped name is an issue of its own, and not a second one of the plugin that is meant.
            let meant = checks.plugin(&text.value).map(|plugin| plugin.name.as_str());
            used.extend(meant.or_else(|| nearest(&text.value, &names)));
        }
    }
    if checks.flow.process.is_none() {
        return;
    }
    for plugin in checks.flow.plugins.iter().filter(|plugin| !used.contains(plugin.name.as_str())) {
        let message = format!("no node uses the plugin `{}`", plugin.name);
        let problem = Problem::warning(Code::PluginUnused, message).hint("use it, or remove it");
        checks.report.push(&plugin.place, problem);
    }
}
