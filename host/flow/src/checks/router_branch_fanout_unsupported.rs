//! `ROUTER_BRANCH_FANOUT_UNSUPPORTED`: a `router` works in place, one row for one; nothing in it makes several of one.

use super::Checks;
use super::shapes::name;
use crate::ask::Role;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{Kind, Seat};

pub(crate) const ENTRY: Entry = Entry {
    title: "A node inside a `router` makes several rows of one",
    severity: Severity::Error,
    meaning: "A `router` treats each record in one of its branches and gives it on, one for one and in place. \
              `expand`, `batch_expand`, `explode` and `expand_routes` make any number of rows of one, so they \
              cannot stand in a branch, at any depth of routers.",
    why: "Rows come out of a router in the order in which they went in; with a fan-out inside there is no such \
              order. A `fork`, where records do not come together again, may expand in its branches; for rows of \
              different types `expand_routes` is meant.",
    fails: flow!(
        "\
plugins:
  split: { component: plugins/split.wasm }
process:
  - router:
      when:
        - if: size(payload.lines) > 1
          process: [ { expand: split } ]
      default: pass
  - into_topic: orders.lines
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  split: { component: plugins/split.wasm }
process:
  - fork:
      when:
        - if: size(payload.lines) > 1
          process: [ { expand: split }, { into_topic: orders.lines } ]
      default: [ { into_topic: orders.lines } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for seated in checks.processes.iter().filter(|seated| seated.seat == Seat::RouterBranch) {
        for node in seated.process.nodes.iter().filter(|node| expands(&node.kind)) {
            let name = name(&node.kind);
            let message = format!(
                "`{name}` makes any number of rows of one, and a `router` works in place, one row for one"
            );
            let problem = Problem::error(Code::RouterBranchFanoutUnsupported, message)
                .hint(format!("put `{name}` before or after the router, or use `fork`"));
            checks.report.push(&node.place, problem);
        }
    }
}

fn expands(kind: &Kind) -> bool {
    match kind {
        Kind::Call { role, .. } => {
            matches!(role, Role::Expand | Role::BatchExpand | Role::TypedExpander)
        }
        Kind::ExpandRoutes { .. } => true,
        _ => false,
    }
}
