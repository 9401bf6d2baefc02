//! `DUPLICATE_BRANCH`: a branch of `when` with a condition that an earlier branch has never gets a record.

use super::Checks;
use super::node_unreachable::constant;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{Branches, Choice, Kind, nodes};

pub(crate) const ENTRY: Entry = Entry {
    title: "A branch has the condition of an earlier one",
    severity: Severity::Warning,
    meaning: "The first branch of `when` whose condition holds takes the record. Two branches of this `fork` or \
              `router` have the same condition, so the later one never gets a record. Labels that are given twice \
              are `DUPLICATE_KEY`.",
    why: "Most often a line was copied and its condition not changed.",
    fails: flow!(
        "\
process:
  - fork:
      when:
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.big } ]
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.huge } ]
      default: [ drain ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - fork:
      when:
        - if: payload.total > 1000000.0
          process: [ { into_topic: orders.huge } ]
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.big } ]
      default: [ drain ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, _) in nodes(&checks.processes) {
        let (Kind::Fork(switch) | Kind::Router(switch)) = &node.kind else { continue };
        let Branches::When(branches) = &switch.branches else { continue };
        for (index, (condition, process)) in branches.iter().enumerate() {
            // What always or never holds is said of the branch alone.
            if constant(condition).is_some() {
                continue;
            }
            let earlier = branches[..index].iter().find(|(earlier, _)| same(earlier, condition));
            let (Some((_, Some(earlier))), Some(process)) = (earlier, process) else { continue };
            let message = format!(
                "this branch never gets a record: `{}` has the same condition",
                earlier.place.path.trim_end_matches(".process")
            );
            let problem = Problem::warning(Code::DuplicateBranch, message)
                .related(earlier.place.span, "the branch that takes them")
                .hint("change its condition, or remove it");
            checks.report.push(&process.place, problem);
        }
    }
}

/// Whether two conditions are one: the same text, or the same plugin.
fn same(one: &Choice, other: &Choice) -> bool {
    match (one, other) {
        (Choice::Expr(one), Choice::Expr(other)) => match (&one.expr, &other.expr) {
            (Some(one), Some(other)) => one.source().trim() == other.source().trim(),
            _ => false,
        },
        (Choice::Plugin(one), Choice::Plugin(other)) => one.value == other.value && !one.open,
        _ => false,
    }
}
