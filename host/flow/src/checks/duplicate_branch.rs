//! `DUPLICATE_BRANCH`: a branch of `when` with a condition that an earlier branch has never gets a record.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::Checks;
use super::node_unreachable::constant;
use crate::entry::{self, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{Branches, Choice, ExprSpec, Kind, ProcessSpec, nodes};

pub(crate) const ENTRY: entry::Entry = entry::Entry {
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
        let mut earlier: HashMap<(Told, &str), &ProcessSpec> = HashMap::new();
        for (condition, process) in branches {
            let (Some(condition), Some(process)) = (told_by(condition), process) else { continue };
            let earlier = match earlier.entry(condition) {
                Entry::Occupied(earlier) => *earlier.get(),
                Entry::Vacant(first) => {
                    first.insert(process);
                    continue;
                }
            };
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

#[derive(PartialEq, Eq, Hash)]
enum Told {
    ByText,
    ByPlugin,
}

/// What tells a condition from others: its text, or its plugin's name. What always or never holds is said of the branch
/// alone.
fn told_by(condition: &Choice) -> Option<(Told, &str)> {
    match condition {
        Choice::Expr(ExprSpec { expr: Some(expr) }) if constant(condition).is_none() => {
            Some((Told::ByText, expr.source().trim()))
        }
        Choice::Plugin(name) if !name.open => Some((Told::ByPlugin, &name.value)),
        Choice::Expr(_) | Choice::Plugin(_) | Choice::Invalid => None,
    }
}
