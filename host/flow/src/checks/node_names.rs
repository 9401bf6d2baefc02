//! Names of nodes: what status, metrics and tests can tell apart, and tell from a path.

use std::collections::HashMap;

use super::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::{Text, nodes};

pub(super) fn check(checks: &mut Checks<'_>) {
    let mut seen: HashMap<&str, &Text> = HashMap::new();
    for (node, _) in nodes(&checks.processes) {
        // What depends on a variable that is not set is judged when it is.
        let Some(name) = node.name.as_ref().filter(|name| !name.open) else { continue };
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !name.value.chars().all(plain) {
            let message = format!(
                "a node's name has letters, digits, `_`, `-` and `.`, and `{}` has others",
                name.shown
            );
            checks.report.push(&name.place, Problem::error(Code::ValueInvalid, message));
        } else if let Some(first) = seen.insert(&name.value, name) {
            let message = format!("two nodes are called `{}`", name.shown);
            let problem = Problem::error(Code::ValueInvalid, message)
                .related(first.place.span, "the first")
                .hint("give each a name of its own");
            checks.report.push(&name.place, problem);
        }
    }
}
