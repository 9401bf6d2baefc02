//! Names of nodes in a case: each stands for the node's path, which is what a run speaks of.

use std::collections::BTreeMap;

use loom_flow::Plan;
use loom_flow::cases::{Case, FaultKind};

/// The paths of the nodes that have names.
pub fn paths(plan: &Plan) -> BTreeMap<String, String> {
    let mut paths = BTreeMap::new();
    let routes = plan.routes.iter().map(|route| &route.process);
    for process in std::iter::once(&plan.process).chain(routes) {
        process.visit(&mut |node| {
            if let Some(name) = &node.name {
                paths.insert(name.to_string(), node.path.to_string());
            }
        });
    }
    paths
}

/// The case with paths in place of names. What is a plugin's name too stays: it stands for all calls of the plugin.
pub fn with_paths(case: &Case, plan: &Plan) -> Case {
    let paths = paths(plan);
    let is_plugin = |name: &str| plan.plugins.iter().any(|plugin| *plugin.name == *name);
    let mut case = case.clone();
    for fault in &mut case.faults {
        if let FaultKind::Call { whom, .. } | FaultKind::Flush { whom, .. } = &mut fault.what
            && let Some(path) = paths.get(&whom.value).filter(|_| !is_plugin(&whom.value))
        {
            whom.value.clone_from(path);
        }
    }
    for error in &mut case.expect.errors {
        if let Some(path) = error.node.as_ref().and_then(|node| paths.get(node)) {
            error.node = Some(path.clone());
        }
    }
    case
}
