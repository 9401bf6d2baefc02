//! `ERROR_KIND_UNROUTED`: records that fail in some way would stop the flow or be dropped, since no route takes that kind.
//!
//! Only kinds that the flow's nodes can raise are named, each once. A `delivery` error without a route always stops the
//! flow under `at_least_once`, and is not named. A flow that says `unrouted: stop` knows.

use loom_types::ErrorKind;

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::plan::{Delivery, Unrouted};
use crate::report::{Place, Problem};
use crate::spec::{
    Branches, Choice, ErrorsSpec, ExprSpec, Kind, NodeSpec, ProcessSpec, SwitchDefault, SwitchSpec, inner,
    unrouted,
};

pub(crate) const ENTRY: Entry = Entry {
    title: "Records that fail in this way stop the flow, or are dropped: no route takes their kind",
    severity: Severity::Warning,
    meaning: "A node of the flow can raise errors of this kind, and neither its own `errors` nor the one around it \
              or at the top has a route or a `default` for them. Under `delivery: at_least_once` such a record stops \
              the flow, and is not committed; otherwise, and with `errors: { unrouted: drop }`, it is completed, \
              counted and logged, and gone. The message says which. Each kind is named once, at the first node that \
              can raise it. A `delivery` error without a route stops the flow under `at_least_once` whatever \
              `unrouted` says, and is not named. A flow that says `unrouted: stop` is not warned.\n\nThe kinds are \
              `wire` (the payload cannot be decoded), `routing` (no branch took it), `task` (a plugin or \
              expression failed), `business` (a plugin rejected it) and `delivery` (an output refused it for \
              good).",
    why: "One bad record stops a flow that has no place for it, and a record that vanishes into a log line is found \
              when somebody misses it. A topic of failed records can be looked at, repaired and sent again. Where the \
              stop is meant, `errors: { unrouted: stop }` says so.",
    fails: flow!(
        "\
process:
  - filter: payload.total > 10
  - into_topic: orders.big
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

type Kinds = [bool; ErrorKind::ALL.len()];

pub(super) fn check(checks: &mut Checks<'_>) {
    let flow = checks.flow;
    let Some(process) = &flow.process else { return };
    if flow.errors.as_ref().is_some_and(|errors| errors.unrouted == Some(Unrouted::Stop)) {
        return;
    }
    let what = match unrouted(flow.errors.as_ref(), checks.delivery.unwrap_or(Delivery::AtMostOnce)) {
        Unrouted::Stop => {
            "the flow stops at the record (`unrouted: stop`, the default under `at_least_once`)"
        }
        Unrouted::Drop => "the record is dropped and logged",
    };
    let mut search = Search { delivery: checks.delivery, open: [None; ErrorKind::ALL.len()] };
    search.process(process, routed([false; ErrorKind::ALL.len()], flow.errors.as_ref()));
    for kind in ErrorKind::ALL {
        let Some(node) = search.open[kind.index()] else { continue };
        let message = format!("a `{kind}` error, such as of this node, has no route: {what}");
        let problem = Problem::warning(Code::ErrorKindUnrouted, message).hint(format!(
            "add `errors: {{ {kind}: [ {{ into_topic: NAME }} ] }}`, or `default` for every kind"
        ));
        let at = Place { span: node.place.span, path: node.place.path.clone() };
        checks.report.push(&at, problem);
    }
}

struct Search<'f> {
    delivery: Option<Delivery>,
    /// By kind, the first node whose errors of that kind no route takes.
    open: [Option<&'f NodeSpec>; ErrorKind::ALL.len()],
}

impl<'f> Search<'f> {
    fn process(&mut self, process: &'f ProcessSpec, around: Kinds) {
        for node in &process.nodes {
            let taken = routed(around, node.errors.as_ref());
            let raised = self.raised(&node.kind);
            for index in 0..taken.len() {
                if raised[index] && !taken[index] {
                    self.open[index].get_or_insert(node);
                }
            }
            for (_, process) in inner(node) {
                self.process(process, taken);
            }
        }
    }

    /// The kinds that a node can raise, of those of which `unrouted` decides.
    fn raised(&self, kind: &Kind) -> Kinds {
        let mut kinds = [false; ErrorKind::ALL.len()];
        let mut raise = |kind: ErrorKind| kinds[kind.index()] = true;
        let mut plugin = false;
        let mut expr = |spec: &ExprSpec| {
            let reads = spec.expr.as_ref().is_none_or(|expr| expr.reads_payload());
            if reads {
                raise(ErrorKind::Wire);
            }
            raise(ErrorKind::Task);
        };
        let mut choice = |choice: &Choice| match choice {
            Choice::Expr(spec) => expr(spec),
            Choice::Plugin(_) => plugin = true,
            Choice::Invalid => {}
        };
        let mut unmatched = false;
        let mut output = false;
        match kind {
            Kind::Call { options, .. } => {
                plugin = true;
                // Counted retries that are used up are a delivery error.
                output = options.retries.is_some();
            }
            Kind::ExpandRoutes { options, default, .. } => {
                plugin = true;
                output = options.retries.is_some();
                // A row of a type that no route takes.
                unmatched = default.is_none();
            }
            Kind::Map(spec) => expr(spec),
            Kind::Filter(predicate) => choice(predicate),
            Kind::Fork(switch) | Kind::Router(switch) => {
                // Under `at_least_once` a fork without a default is an error of its own.
                unmatched = matches!(switch.default, SwitchDefault::None)
                    && !(matches!(kind, Kind::Fork(_)) && self.delivery == Some(Delivery::AtLeastOnce));
                conditions(switch).into_iter().for_each(choice);
            }
            Kind::IntoTopic(topic) => {
                topic.key.iter().for_each(&mut choice);
                topic.partitioner.iter().for_each(|name| choice(&Choice::Plugin(name.clone())));
                output = true;
            }
            Kind::IntoSink { .. } => {
                plugin = true;
                output = true;
            }
            Kind::CollectBatch { key, .. } => key.iter().for_each(choice),
            Kind::ForEach | Kind::Broadcast(_) | Kind::Drain | Kind::Unknown => {}
        }
        if plugin {
            // A sink computes nothing of the flow's: what it cannot write is a delivery error.
            kinds[ErrorKind::Task.index()] |= !matches!(kind, Kind::IntoSink { .. });
            kinds[ErrorKind::Business.index()] = true;
        }
        kinds[ErrorKind::Routing.index()] |= unmatched;
        kinds[ErrorKind::Delivery.index()] |= output && self.delivery == Some(Delivery::AtMostOnce);
        kinds
    }
}

fn conditions(switch: &SwitchSpec) -> Vec<&Choice> {
    match &switch.branches {
        Branches::When(branches) => branches.iter().map(|(condition, _)| condition).collect(),
        Branches::By(selector, _) => vec![selector],
        Branches::Invalid => Vec::new(),
    }
}

fn routed(mut around: Kinds, errors: Option<&ErrorsSpec>) -> Kinds {
    let Some(errors) = errors else { return around };
    for (taken, route) in around.iter_mut().zip(&errors.kinds) {
        *taken |= route.is_some() || errors.default.is_some();
    }
    around
}
