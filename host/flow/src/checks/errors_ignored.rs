//! `ERRORS_IGNORED`: what fails inside an error route is not routed again, so `errors` there has no effect.

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::nodes;

pub(crate) const ENTRY: Entry = Entry {
    title: "`errors` inside an error route has no effect",
    severity: Severity::Warning,
    meaning: "What fails inside an error route is not routed again: it is treated as if its first kind had no \
              route. So a node of a route cannot have routes of its own.",
    why: "A route that could fail into a route could go round for ever. Whoever reads the flow should not \
              believe that there is a second net.",
    fails: flow!(
        "\
process: [ { into_topic: orders.copy, key: payload.id } ]
errors:
  default:
    - map: payload.reason
      errors: { task: [ { into_topic: orders.lost } ] }
    - into_topic: orders.failed
"
    ),
    repaired: flow!(
        "\
process: [ { into_topic: orders.copy, key: payload.id } ]
errors:
  default:
    - map: payload.reason
    - into_topic: orders.failed
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, in_route) in nodes(&checks.processes) {
        if let (Some(errors), true) = (&node.errors, in_route) {
            let message = "`errors` has no effect inside an error route: what fails here is not routed again";
            checks
                .report
                .push(&errors.place, Problem::warning(Code::ErrorsIgnored, message).hint("remove it"));
        }
    }
}
