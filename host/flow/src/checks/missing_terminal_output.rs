//! `MISSING_TERMINAL_OUTPUT`: the flow's own process says where its records end.

use super::{Checks, END_IT, open_ends};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::Seat;

pub(crate) const ENTRY: Entry = Entry {
    title: "The process ends without a terminal",
    severity: Severity::Error,
    meaning: "Records come out of the last node and go nowhere. Every path through the flow's process must end in a \
              terminal: `into_topic`, `into_sink`, `drain`, or a `fork`, `broadcast` or `expand_routes` whose \
              processes end in one. Branches that end without one have codes of their own: `FORK_BRANCH_NO_TERMINAL` \
              is an error, `UNTERMINATED_BRANCH` a warning.",
    why: "Work whose results nobody gets is a mistake in all but a few flows, and those say so with `drain`.",
    fails: flow!(
        "\
process:
  - filter: payload.total > 10
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - filter: payload.total > 10
  - into_topic: orders.big
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for place in open_ends(&checks.processes, |seat| seat == Seat::Top) {
        let message = "the process ends without a terminal: its results go nowhere";
        checks.report.push(&place, Problem::error(Code::MissingTerminalOutput, message).hint(END_IT));
    }
}
