//! `UNTERMINATED_BRANCH`: a branch of a `broadcast`, an expand route or an error route may leave open where its records
//! end; they drain, which is worth a warning.

use super::{Checks, END_IT, open_ends};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::Seat;

pub(crate) const ENTRY: Entry = Entry {
    title: "A branch or route ends without a terminal, so its records drain",
    severity: Severity::Warning,
    meaning: "A branch of a `broadcast`, a route of `expand_routes` and an error route may end without a terminal. What \
              comes out of such a process is completed and discarded, as by `drain`.",
    why: "A step that is run for its effects alone is a reason to leave it so. A forgotten `into_topic` looks the same, \
          and `drain` at the end says which it is.",
    fails: flow!(
        "\
process:
  - broadcast:
      - [ { into_topic: orders.all } ]
      - [ { filter: payload.total > 1000.0 } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - broadcast:
      - [ { into_topic: orders.all } ]
      - [ { filter: payload.total > 1000.0 }, { into_topic: orders.big } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    let drains = |seat| matches!(seat, Seat::BroadcastBranch | Seat::ExpandRoute | Seat::ErrorRoute);
    for place in open_ends(&checks.processes, drains) {
        let message = format!("`{}` ends without a terminal, so its records drain", place.path);
        checks.report.push(&place, Problem::warning(Code::UnterminatedBranch, message).hint(END_IT));
    }
}
