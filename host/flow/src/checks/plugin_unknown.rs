//! `PLUGIN_UNKNOWN`: a node names a plugin that `plugins` does not have.

use super::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::{nearest, nodes, plugin_refs};

pub(super) fn check(checks: &mut Checks<'_>) {
    let names: Vec<&str> = checks.flow.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    for (node, _) in nodes(&checks.processes) {
        for (text, _) in plugin_refs(node) {
            if text.open || names.contains(&text.value.as_str()) {
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
