//! `BROADCAST_NOT_LAST`: nothing may follow a `broadcast`, in whose branches records end.

use super::{Checks, followed};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::Kind;

pub(crate) const ENTRY: Entry = Entry {
    title: "A `broadcast` is followed by another node",
    severity: Severity::Error,
    meaning: "A `broadcast` gives every record to each of its branches, and each branch ends in a terminal of its own. \
              Nothing comes out of it, so a node after it would never get a record.",
    why: "A step that is never called looks like one that works. What was meant is either a node before the \
          `broadcast`, for all branches, or a last part of one branch.",
    fails: flow!(
        "\
process:
  - broadcast:
      - [ { into_topic: orders.copy } ]
      - [ { into_topic: orders.audit } ]
  - filter: payload.total > 10
  - into_topic: orders.big
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - broadcast:
      - [ { into_topic: orders.copy } ]
      - [ { into_topic: orders.audit } ]
      - [ { filter: payload.total > 10 }, { into_topic: orders.big } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, next) in followed(&checks.processes, |kind| matches!(kind, Kind::Broadcast(_))) {
        let message = "records end in this broadcast, and another node follows it";
        let problem = Problem::error(Code::BroadcastNotLast, message)
            .related(next.place.span, "this node gets no records")
            .hint("move what follows into the branches");
        checks.report.push(&node.place, problem);
    }
}
