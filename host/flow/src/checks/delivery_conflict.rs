//! `DELIVERY_CONFLICT`: `delivery` and the deprecated `enable_auto_commit` both say when offsets are committed. Where
//! they disagree, either could be the one that was meant.

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::plan::Delivery;
use crate::report::Problem;

pub(crate) const ENTRY: Entry = Entry {
    title: "`delivery` and `enable_auto_commit` contradict each other",
    severity: Severity::Error,
    meaning: "Both say when offsets are committed. `enable_auto_commit: false` stands for `at_least_once`, `true` \
              for `at_most_once`; where `delivery` says the other, either could be the one that was meant. It is \
              looked for in every consumer of the file.",
    why: "One of the two loses records at a crash, and the other does not. The compiler does not guess which \
              was meant.",
    fails: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: orders
    topics: [orders.in]
    delivery: at_least_once
    enable_auto_commit: true
process: [ drain ]
",
    repaired: flow!("process: [ drain ]\n"),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    let consumers = checks.flow.kafka.iter().flat_map(|kafka| &kafka.consumers);
    for consumer in consumers {
        let (Some(delivery), Some(switch)) = (&consumer.delivery, &consumer.enable_auto_commit) else {
            continue;
        };
        let (mode, agrees) = match delivery.value {
            Delivery::AtLeastOnce => ("at_least_once", !switch.value),
            Delivery::AtMostOnce => ("at_most_once", switch.value),
        };
        if agrees {
            continue;
        }
        let message = format!(
            "`{}` says `delivery: {mode}` and `enable_auto_commit: {}`, which contradict each other",
            consumer.key(),
            switch.value
        );
        let problem = Problem::error(Code::DeliveryConflict, message)
            .related(delivery.place.span, "the other setting")
            .hint("remove `enable_auto_commit`; `delivery` says all of it");
        checks.report.push(&switch.place, problem);
    }
}
