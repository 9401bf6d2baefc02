//! `FORK_NOT_LAST`: nothing may follow a `fork`, in whose branches records end.

use super::{Checks, followed};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::Kind;

pub(crate) const ENTRY: Entry = Entry {
    title: "A `fork` is followed by another node",
    severity: Severity::Error,
    meaning: "A `fork` gives each record to one of its branches, and each branch ends in a terminal of its own. Nothing \
              comes out of it, so a node after it would never get a record. A `router` is the node whose branches come \
              together again.",
    why: "A step that is never called looks like one that works.",
    fails: flow!(
        "\
process:
  - fork:
      when:
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.big } ]
      default: [ drain ]
  - into_topic: orders.all
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - fork:
      when:
        - if: payload.total > 1000.0
          process: [ { broadcast: [ [ { into_topic: orders.big } ], [ { into_topic: orders.all } ] ] } ]
      default: [ { into_topic: orders.all } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, next) in followed(&checks.processes, |kind| matches!(kind, Kind::Fork(_))) {
        let message = "records end in this fork, and another node follows it";
        let problem = Problem::error(Code::ForkNotLast, message)
            .related(next.place.span, "this node gets no records")
            .hint("move what follows into the branches");
        checks.report.push(&node.place, problem);
    }
}
