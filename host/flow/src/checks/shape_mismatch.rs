//! `SHAPE_MISMATCH`: every node gets what it takes, records or batches, wherever it stands.
//!
//! Each process begins with records: those of the flow's topics, of the node around it, or the envelopes of failures.
//! After a mismatch the node is taken as if it had got the right thing, so that one mistake is one issue.

use super::Checks;
use super::shapes::{Shape, followed, name, takes};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::Seat;

pub(crate) const ENTRY: Entry = Entry {
    title: "A node gets records where it takes batches, or the other way round",
    severity: Severity::Error,
    meaning: "Between nodes go records or batches. `collect_batch` makes batches of records; `batch_step` takes \
              and gives batches; `batch_expand` and `for_each` make records of batches again; all others take \
              records, except `drain`, which takes anything. The message says what the node takes, what it gets, \
              and from which node. Every process of the flow is followed: branches, `default`, expand routes and \
              error routes begin with records.",
    why: "Such a node could not be called. Where a batch was meant to be written as it is, its records are: \
              put `for_each` before the output.",
    fails: flow!(
        "\
plugins:
  score: { component: plugins/score.wasm }
process:
  - filter: payload.total > 10
  - batch_step: score
  - into_topic: orders.scored
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  score: { component: plugins/score.wasm }
process:
  - filter: payload.total > 10
  - collect_batch: { max_records: 100, timeout_ms: 500 }
  - batch_step: score
  - for_each
  - into_topic: orders.scored
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    for seated in &checks.processes {
        for (node, came) in followed(seated.process) {
            let (Some(came), Some(takes)) = (came, takes(&node.kind)) else { continue };
            // Typed rows are the business of the rule about `explode`.
            if came.shape == takes || came.shape == Shape::Typed {
                continue;
            }
            let from = match came.from {
                Some(from) => format!("`{}`", name(&from.kind)),
                None => start(seated.seat).to_owned(),
            };
            let message =
                format!("`{}` takes {takes}, and gets {} from {from}", name(&node.kind), came.shape);
            let mut problem = Problem::error(Code::ShapeMismatch, message).hint(match takes {
                Shape::Batches => "put `- collect_batch: { max_records: 100, timeout_ms: 500 }` before it",
                _ => "put `- for_each` before it",
            });
            if let Some(from) = came.from {
                problem = problem.related(from.place.span, format!("gives {}", came.shape));
            }
            checks.report.push(&node.place, problem);
        }
    }
}

/// Where the records come from that a process begins with.
fn start(seat: Seat) -> &'static str {
    match seat {
        Seat::Top => "the flow's topics",
        Seat::ForkBranch => "the `fork` around it",
        Seat::BroadcastBranch => "the `broadcast` around it",
        Seat::RouterBranch => "the `router` around it",
        Seat::ExpandRoute => "the `expand_routes` around it",
        Seat::ErrorRoute => "the node that failed",
    }
}
