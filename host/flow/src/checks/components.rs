//! `PLUGIN_LOAD_FAILED`, `PLUGIN_INCOMPATIBLE` and `PLUGIN_ROLE_MISSING`: the file of each used plugin is a component,
//! made for this host, and has the exports that each of its places needs.

use std::collections::BTreeSet;

use super::{Checks, Unknown};
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::{nodes, plugin_refs};

pub(super) fn check(checks: &mut Checks<'_>) {
    let mut failed = BTreeSet::new();
    for (node, _) in nodes(&checks.processes) {
        for (text, role) in plugin_refs(node) {
            let Some(plugin) = checks.plugin(&text.value) else { continue };
            let Some(component) = &plugin.component else { continue };
            match checks.facts.get(&component.path) {
                None => {}
                Some(Err(Unknown { why, foreign })) if failed.insert(plugin.name.as_str()) => {
                    let why = checks.outside.redact(why);
                    let message = format!("the plugin `{}` cannot be loaded: {why}", plugin.name);
                    let code = if *foreign { Code::PluginIncompatible } else { Code::PluginLoadFailed };
                    checks.report.push(&component.text.place, Problem::error(code, message));
                }
                Some(Ok(facts)) if !facts.roles.contains(&role) => {
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
                Some(_) => {}
            }
        }
    }
}
