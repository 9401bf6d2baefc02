//! `PLUGIN_UNKNOWN`: a node names a plugin that `plugins` does not have.

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{nearest, nodes, plugin_refs};

pub(crate) const ENTRY: Entry = Entry {
    title: "A node names a plugin that `plugins` does not have",
    severity: Severity::Error,
    meaning: "Every place that takes a plugin (a `step`, `{ plugin: NAME }` in a condition, `into_sink`, …) takes \
              a name of the section `plugins`, not a file.",
    why: "The name in `plugins` is where a component gets its configuration, limits and grants.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm }
process:
  - step: enrihc
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    let names: Vec<&str> = checks.flow.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    for (node, _) in nodes(&checks.processes) {
        for (text, _) in plugin_refs(node) {
            if text.open || checks.plugin(&text.value).is_some() {
                continue;
            }
            let hint = match nearest(&text.value, &names).filter(|_| !text.sealed) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("declare it: `plugins: {{ {}: {{ component: FILE.wasm }} }}`", text.shown),
            };
            let message = format!("`plugins` has no `{}`", text.shown);
            checks.report.push(&text.place, Problem::error(Code::PluginUnknown, message).hint(hint));
        }
    }
}
