//! `ordered: false` on a node whose calls are made one after the other, so that its records are in order anyway.

use super::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::{Kind, nodes};

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, _) in nodes(&checks.processes) {
        let (Kind::Call { plugin: Some(plugin), options, .. }
        | Kind::ExpandRoutes { plugin: Some(plugin), options, .. }) = &node.kind
        else {
            continue;
        };
        let Some(ordered) = options.ordered.as_ref().filter(|at| !at.value) else { continue };
        let Some(spec) = checks.plugin(&plugin.value) else { continue };
        if options.concurrency.is_none() && !spec.allow.network() {
            let message =
                "`ordered: false` has no effect: this node calls its plugin for one record after the other";
            let problem = Problem::warning(Code::ValueInvalid, message)
                .hint("several calls at a time need `concurrency` beside it");
            checks.report.push(&ordered.place, problem);
        }
    }
}
