//! `EXPLODE_WITHOUT_ROUTER`: the rows of a typed expander have types that only a `router` at once after it can see.

use super::Checks;
use super::shapes::name;
use crate::ask::Role;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{Kind, Seat};

pub(crate) const ENTRY: Entry = Entry {
    title: "An `explode` is not followed at once by a `router`",
    severity: Severity::Error,
    meaning: "`explode` calls a typed expander, whose rows each have a type. The very next node must be a \
              `router`, whose `by: msg.type` sees that type and treats each kind of row in its own way; after it \
              the rows are records like others. Where each type has a terminal of its own, `expand_routes` does \
              both.",
    why: "The types would be lost, and rows of different kinds would be treated alike.",
    fails: flow!(
        "\
plugins:
  lines: { component: plugins/lines.wasm }
process:
  - explode: lines
  - into_topic: orders.lines
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  lines: { component: plugins/lines.wasm }
process:
  - explode: lines
  - router:
      by: msg.type
      branches:
        refund: [ { map: \"{'refund': payload}\" } ]
      default: pass
  - into_topic: orders.lines
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    // Inside a router's branch it is refused altogether.
    for seated in checks.processes.iter().filter(|seated| seated.seat != Seat::RouterBranch) {
        let nodes = &seated.process.nodes;
        for (index, node) in nodes.iter().enumerate() {
            if !matches!(node.kind, Kind::Call { role: Role::TypedExpander, .. }) {
                continue;
            }
            let next = nodes.get(index + 1);
            let came = match next.map(|next| (next, &next.kind)) {
                Some((_, Kind::Router(_) | Kind::Unknown)) => continue,
                Some((_, kind)) => format!("`{}`", name(kind)),
                None => "nothing".to_owned(),
            };
            let message = format!("`explode` must be followed at once by a `router`, and {came} follows it");
            let mut problem = Problem::error(Code::ExplodeWithoutRouter, message)
                .hint("put `- router: { by: msg.type, branches: { TYPE: [ … ] }, default: pass }` after it");
            if let Some(next) = next {
                problem = problem.related(next.place.span, "follows it");
            }
            checks.report.push(&node.place, problem);
        }
    }
}
