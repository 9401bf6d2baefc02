//! `SINK_UNTRACKED`: under `at_least_once` a sink must be able to say which records it has written, or offsets could
//! be committed over records that are lost. The flow is right, its pairing with this component is not: a runtime
//! configuration error, once for each place.

use super::Checks;
use crate::ask::Role;
use crate::issue::Code;
use crate::plan::Delivery;
use crate::report::Problem;
use crate::spec::{Kind, nodes};

pub(super) fn check(checks: &mut Checks<'_>) {
    if checks.delivery != Some(Delivery::AtLeastOnce) {
        return;
    }
    for (node, _) in nodes(&checks.processes) {
        let Kind::IntoSink { plugin: Some(text), .. } = &node.kind else { continue };
        let Some(plugin) = checks.plugin(&text.value) else { continue };
        let (Some(facts), Some(component)) = (checks.facts_of(plugin), &plugin.component) else { continue };
        if facts.tracked || !facts.roles.contains(&Role::Sink) {
            continue;
        }
        let message = format!(
            "under `at_least_once` the sink `{}` must complete its records: its component `{}` does not export `bind-commit-tracker`",
            plugin.name, component.text.shown
        );
        let problem = Problem::error(Code::SinkUntracked, message)
            .hint("export `bind-commit-tracker`, or read with `delivery: at_most_once`, where a crash loses records");
        checks.report.push(&node.place, problem);
    }
}
