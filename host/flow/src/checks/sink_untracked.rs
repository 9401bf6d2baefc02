//! `SINK_UNTRACKED`: under `at_least_once` a sink must be able to say which records it has written, or offsets could
//! be committed over records that are lost. The flow is right, its pairing with this component is not: a runtime
//! configuration error, once for each place.

use super::Checks;
use crate::ask::Role;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::plan::Delivery;
use crate::report::Problem;
use crate::spec::{Kind, nodes};

pub(crate) const ENTRY: Entry = Entry {
    title: "A sink under `at_least_once` cannot say what it has written",
    severity: Severity::Error,
    meaning: "A sink completes each record after its durable write, through the tracker that its export \
              `bind-commit-tracker` is given. This component has no such export. It is named once for each place \
              where the sink stands, with the file.",
    why: "An offset would be committed when the sink was called, not when its write was durable, and a crash \
              in between would lose the record. Under `at_most_once` such a sink may run.",
    fails: flow!(
        "\
plugins:
  printer: { component: plugins/printer.wasm }
process:
  - into_sink: printer
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  warehouse: { component: plugins/warehouse.wasm }
process:
  - into_sink: warehouse
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

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
