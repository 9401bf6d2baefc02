//! `TERMINAL_NOT_LAST`: nothing may follow a node where records end.

use super::{Checks, followed};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::Kind;

pub(crate) const ENTRY: Entry = Entry {
    title: "A terminal is followed by another node",
    severity: Severity::Error,
    meaning: "`into_topic`, `into_sink`, `expand_routes` and `drain` complete a record: it is acknowledged there, and \
              does not go on. A node after one would never get a record.",
    why: "To write a record and go on with it is a common wish, and has a node of its own: `broadcast`, whose branches \
          are all waited for before the record is complete.",
    fails: flow!(
        "\
process:
  - into_topic: orders.all
  - filter: payload.total > 1000.0
  - into_topic: orders.big
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
    let ends = |kind: &Kind| kind.is_terminal() && !matches!(kind, Kind::Fork(_) | Kind::Broadcast(_));
    for (node, next) in followed(&checks.processes, ends) {
        let message = "records end in this terminal, and another node follows it";
        let problem = Problem::error(Code::TerminalNotLast, message)
            .related(next.place.span, "this node gets no records")
            .hint("to write and go on, use `broadcast` with a branch for each");
        checks.report.push(&node.place, problem);
    }
}
