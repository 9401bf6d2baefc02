//! `NODE_UNREACHABLE`: a node, branch or label that no record can reach, whatever the records are.
//!
//! Only what is certain is said: a condition that is `true` or `false` as written, and labels that a selector of a known
//! type cannot give.

use std::collections::BTreeSet;

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::expr::ResultKind;
use crate::issue::{Code, Severity};
use crate::report::{Place, Problem};
use crate::spec::{Branches, Choice, ExprSpec, FlowSpec, Kind, ProcessSpec, nodes};

pub(crate) const ENTRY: Entry = Entry {
    title: "A node or branch that no record can reach",
    severity: Severity::Warning,
    meaning: "No record can get here: the node comes after `filter: false`; the branch's condition is `false`, or \
              an earlier branch of `when` has `true`; or the branch's label is a text that the selector cannot \
              give, such as `yes` for a selector that gives `true` and `false`, `01` for one that gives a number, \
              or a topic that the flow does not read for `by: msg.topic`. The `default` of a `fork` is not meant: \
              it must be there.",
    why: "The branch looks as if it did something. Most often the order of branches or the spelling of a label \
              is wrong.",
    fails: flow!(
        "\
process:
  - fork:
      by: payload.total > 1000.0
      branches:
        \"yes\": [ { into_topic: orders.big } ]
      default: [ { into_topic: orders.small } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - fork:
      by: payload.total > 1000.0
      branches:
        \"true\": [ { into_topic: orders.big } ]
      default: [ { into_topic: orders.small } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

/// Where, why no record gets there, and what to do.
type Found = (Place, String, String);

pub(super) fn check(checks: &mut Checks<'_>) {
    let mut found = Vec::new();
    for seated in &checks.processes {
        after_filter(seated.process, &mut found);
    }
    let topics = topics_read(checks.flow);
    for (node, _) in nodes(&checks.processes) {
        let (Kind::Fork(switch) | Kind::Router(switch)) = &node.kind else { continue };
        match &switch.branches {
            Branches::When(branches) => conditions(branches, &mut found),
            Branches::By(Choice::Expr(ExprSpec { expr: Some(selector) }), branches) => {
                let topics = topics.as_ref().filter(|_| selector.source().trim() == "msg.topic");
                for (label, process) in branches {
                    let wrong = no_such_label(selector.result_kind(), label)
                        .or_else(|| no_such_topic(topics?, label));
                    found.extend(wrong.map(|(why, hint)| (process.place.clone(), why, hint)));
                }
            }
            Branches::By(..) | Branches::Invalid => {}
        }
    }
    for (place, why, hint) in found {
        let message = format!("no record gets here: {why}");
        checks.report.push(&place, Problem::warning(Code::NodeUnreachable, message).hint(hint));
    }
}

/// What a condition always is, if that can be told from its text.
pub(super) fn constant(condition: &Choice) -> Option<bool> {
    match condition {
        Choice::Expr(ExprSpec { expr: Some(expr) }) => match expr.source().trim() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

fn after_filter(process: &ProcessSpec, found: &mut Vec<Found>) {
    let followed = process.nodes.iter().zip(process.nodes.iter().skip(1));
    for (node, next) in followed {
        if let Kind::Filter(condition) = &node.kind
            && constant(condition) == Some(false)
        {
            let why = "the `filter` before it lets none through".to_owned();
            found.push((next.place.clone(), why, "remove the `filter`, or what follows it".to_owned()));
            return;
        }
    }
}

fn conditions(branches: &[(Choice, Option<ProcessSpec>)], found: &mut Vec<Found>) {
    let mut taken = false;
    for (condition, process) in branches {
        let constant = constant(condition);
        let wrong = match constant {
            _ if taken => {
                Some(("an earlier branch takes every record", "move it before that branch, or remove it"))
            }
            Some(false) => Some(("its condition is `false`", "change the condition, or remove the branch")),
            _ => None,
        };
        if let (Some((why, hint)), Some(process)) = (wrong, process) {
            found.push((process.place.clone(), why.to_owned(), hint.to_owned()));
        }
        taken |= constant == Some(true);
    }
}

/// Why a selector with results of this kind never gives a label, and what to do.
fn no_such_label(kind: ResultKind, label: &str) -> Option<(String, String)> {
    match kind {
        ResultKind::Bool if !matches!(label, "true" | "false") => Some((
            format!("the selector gives `true` or `false`, never `{label}`"),
            "write `true` or `false`".to_owned(),
        )),
        ResultKind::Int | ResultKind::UInt | ResultKind::Double => {
            let unsigned = label.strip_prefix('-').unwrap_or(label);
            let digits = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit());
            let decimal = digits && (unsigned == "0" || !unsigned.starts_with('0')) && label != "-0";
            (!decimal).then(|| {
                (
                    format!("the selector gives whole numbers in decimal, never `{label}`"),
                    "write the number without leading zeros and without a point".to_owned(),
                )
            })
        }
        _ => None,
    }
}

/// The topics that the flow reads; none where one is not known yet.
fn topics_read(flow: &FlowSpec) -> Option<BTreeSet<&str>> {
    let topics = &flow.consumer()?.topics.as_ref()?.value;
    topics.iter().map(|topic| (!topic.open).then_some(topic.value.as_str())).collect()
}

/// Why `msg.topic` is never this label, and what to do.
fn no_such_topic(topics: &BTreeSet<&str>, label: &str) -> Option<(String, String)> {
    let wrong = || {
        // Names of topics may come from outside, so none of them is suggested.
        let hint = "correct the name, or add the topic to the consumer's `topics`".to_owned();
        (format!("the flow reads no topic `{label}`"), hint)
    };
    (!topics.contains(label)).then(wrong)
}
