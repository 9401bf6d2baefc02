//! `FORK_BRANCH_NO_TERMINAL`: every branch of a `fork`, `default` too, says where its records end.

use super::{Checks, END_IT, open_ends};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::Seat;

pub(crate) const ENTRY: Entry = Entry {
    title: "A branch of a `fork` ends without a terminal",
    severity: Severity::Error,
    meaning: "A `fork` is a terminal: nothing comes after it that a branch could go on to. So each branch, `default` \
              too, ends in `into_topic`, `into_sink`, `drain`, or another node whose processes do. This holds in every \
              mode of delivery and wherever the `fork` stands.",
    why: "A record that runs out of a branch would be lost without a trace. Where the branches should come together \
          again, `router` is meant.",
    fails: flow!(
        "\
process:
  - fork:
      when:
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.big } ]
      default: [ { filter: payload.paid } ]
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
      default: [ { filter: payload.paid }, { into_topic: orders.paid } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for place in open_ends(&checks.processes, |seat| seat == Seat::ForkBranch) {
        let message = format!("the branch `{}` ends without a terminal", place.path);
        checks.report.push(&place, Problem::error(Code::ForkBranchNoTerminal, message).hint(END_IT));
    }
}
