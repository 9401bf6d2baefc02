//! `ROUTER_BRANCH_UNSAFE_NODE`: nothing inside a `router` batches, ends or routes records.

use super::Checks;
use super::shapes::name;
use crate::ask::Role;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{Kind, Seat};

pub(crate) const ENTRY: Entry = Entry {
    title: "A node inside a `router` batches, ends or routes records",
    severity: Severity::Error,
    meaning: "In a branch of a `router` stand nodes that give one record for one: `step`, `map` and `filter`. \
              Batching (`collect_batch`, `batch_step`, `for_each`), terminals (`into_topic`, `into_sink`, `drain`, \
              `fork`, `broadcast`) and further routers do not belong there.",
    why: "Records come out of a router in the order in which they went in, and all of them do. A batch in one \
              branch, or an end, would break that, and would be found only when records come. For branches with \
              terminals of their own there is `fork`.",
    fails: flow!(
        "\
process:
  - router:
      when:
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.big } ]
      default: pass
  - into_topic: orders.small
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - fork:
      when:
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.big } ]
      default: [ { into_topic: orders.small } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for seated in checks.processes.iter().filter(|seated| seated.seat == Seat::RouterBranch) {
        for node in &seated.process.nodes {
            let Some((why, hint)) = unsafe_for(&node.kind) else { continue };
            let message =
                format!("`{}` {why}, which no node in a branch of a `router` may do", name(&node.kind));
            checks.report.push(&node.place, Problem::error(Code::RouterBranchUnsafeNode, message).hint(hint));
        }
    }
}

/// What a node does that a router's branch must not, and what to do instead.
fn unsafe_for(kind: &Kind) -> Option<(&'static str, &'static str)> {
    match kind {
        Kind::CollectBatch { .. } | Kind::ForEach | Kind::Call { role: Role::BatchStep, .. } => {
            Some(("works on batches", "form and use batches before or after the router"))
        }
        Kind::Router(_) => {
            Some(("routes again", "put both conditions into one router, or one router after the other"))
        }
        Kind::Fork(_) | Kind::Broadcast(_) | Kind::IntoTopic(_) | Kind::IntoSink { .. } | Kind::Drain => {
            Some(("ends records", "use `fork`, whose branches have terminals of their own"))
        }
        Kind::Call { .. } | Kind::Map(_) | Kind::Filter(_) | Kind::ExpandRoutes { .. } | Kind::Unknown => {
            None
        }
    }
}
