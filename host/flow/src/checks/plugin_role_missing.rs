//! `PLUGIN_ROLE_MISSING`: the component of each used plugin has the exports that each of its places needs.

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{nodes, plugin_refs};

pub(crate) const ENTRY: Entry = Entry {
    title: "A plugin's component does not export what its place needs",
    severity: Severity::Error,
    meaning: "The host looks at what a component exports and uses it in that role: a `step`, a predicate for \
              `filter` and `if`, a selector for `by`, a sink for `into_sink`, and so on. This one has no export \
              for the place that names it; `loom-host plugin inspect FILE` shows what it has.",
    why: "Calling it would fail for every record. Most often two plugins were mixed up, or a component was \
              built from another source than was meant.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm }
process:
  - filter: { plugin: enrich }
  - into_topic: orders.vip
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  vip: { component: plugins/vip.wasm }
process:
  - filter: { plugin: vip }
  - into_topic: orders.vip
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, _) in nodes(&checks.processes) {
        for (text, role) in plugin_refs(node) {
            let Some(plugin) = checks.plugin(&text.value) else { continue };
            let (Some(component), Some(facts)) = (&plugin.component, checks.facts_of(plugin)) else {
                continue;
            };
            if facts.roles.contains(&role) {
                continue;
            }
            let has: Vec<&str> = facts.roles.iter().map(|role| role.name()).collect();
            let has = if has.is_empty() { "no role at all".to_owned() } else { has.join(", ") };
            let message = format!(
                "the plugin `{}` is no {role}: its component `{}` exports {has}",
                plugin.name, component.text.shown
            );
            let problem = Problem::error(Code::PluginRoleMissing, message)
                .related(component.text.place.span, "the component");
            checks.report.push(&text.place, problem);
        }
    }
}
