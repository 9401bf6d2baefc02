//! `ROUTER_BRANCH_SHAPE_DIVERGENCE`: what comes out of a `router` has one shape, whichever branch it took.

use super::Checks;
use super::shapes::{Shape, end};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::{Place, Problem};
use crate::spec::{Kind, SwitchDefault, inner, nodes};

pub(crate) const ENTRY: Entry = Entry {
    title: "Branches of a `router` end in different shapes",
    severity: Severity::Error,
    meaning: "What comes out of a `router` goes on as one stream, so all its branches must end in the same shape: \
              records or batches. `default: pass` gives on records. It comes beside the code of the node that made \
              the batch, since no such node belongs in a branch.",
    why: "The node after the router could not say what it gets.",
    fails: flow!(
        "\
process:
  - router:
      by: payload.kind
      branches:
        bulk: [ { collect_batch: { max_records: 100, timeout_ms: 500 } } ]
        single: [ { filter: payload.ok } ]
      default: pass
  - into_topic: orders.out
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - router:
      by: payload.kind
      branches:
        bulk: []
        single: [ { filter: payload.ok } ]
      default: pass
  - into_topic: orders.out
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, _) in nodes(&checks.processes) {
        let Kind::Router(switch) = &node.kind else { continue };
        let passes = matches!(switch.default, SwitchDefault::Pass).then_some((Shape::Records, None));
        let branches = inner(node).into_iter().filter_map(|(_, branch)| Some((end(branch)?, Some(branch))));
        let ends: Vec<_> = passes.into_iter().chain(branches).collect();
        let Some(&(first, first_branch)) = ends.first() else { continue };
        let odd = ends.iter().find_map(|&(shape, branch)| (shape != first).then_some((shape, branch?)));
        let Some((shape, branch)) = odd else { continue };
        let other = match first_branch {
            Some(first) => format!("`{}`", first.place.path),
            None => "`default: pass`".to_owned(),
        };
        let message = format!(
            "the branch `{}` ends in {shape}, and {other} in {first}: all branches must end in the same shape",
            branch.place.path
        );
        let mut problem = Problem::error(Code::RouterBranchShapeDivergence, message)
            .hint("form batches before or after the router, not in a branch");
        if let Some(first) = first_branch {
            problem = problem.related(first.place.span, format!("ends in {}", ends[0].0));
        }
        let last = branch.nodes.last().map_or(&branch.place, |node| &node.place);
        let place = Place { span: last.span, path: branch.place.path.clone() };
        checks.report.push(&place, problem);
    }
}
