//! `DELIVERY_UNSET`: a flow that does not say when offsets are committed loses records at a crash.

use super::Checks;
use crate::entry::{Entry, Raised};
use crate::issue::{Code, Severity};
use crate::report::{Place, Problem};

pub(crate) const ENTRY: Entry = Entry {
    title: "Nothing says when offsets are committed, so a crash loses records",
    severity: Severity::Warning,
    meaning: "The consumer that the flow reads has no `delivery`, and not the deprecated `enable_auto_commit` \
              either. Such a flow runs at most once: an offset is committed as soon as its record was read, \
              whether it was processed or not.",
    why: "What was read and not processed when the process dies is gone, at every crash. Say \
              `at_least_once`, or say `at_most_once` and mean it.",
    fails: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: orders
    topics: [orders.in]
  producer: { brokers: [\"kafka:9092\"] }
process: [ { into_topic: orders.copy } ]
errors: { default: [ { into_topic: orders.failed } ] }
",
    repaired: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: orders
    topics: [orders.in]
    delivery: at_least_once
  producer: { brokers: [\"kafka:9092\"] }
process: [ { into_topic: orders.copy } ]
errors: { default: [ { into_topic: orders.failed } ] }
",
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    let Some(consumer) = checks.flow.consumer() else { return };
    if consumer.says_delivery || consumer.enable_auto_commit.is_some() {
        return;
    }
    let message = format!(
        "`{}` has no `delivery`, so the flow runs at most once: a crash loses records",
        consumer.key()
    );
    let problem = Problem::warning(Code::DeliveryUnset, message)
        .hint("write `delivery: at_least_once`, or `delivery: at_most_once` if records may be lost");
    let place = Place { span: consumer.place.span, path: consumer.place.path.clone() };
    checks.report.push(&place, problem);
}
