//! `DELIVERY_CONFLICT`: `delivery` and the deprecated `enable_auto_commit` both say when offsets are committed. Where
//! they disagree, either could be the one that was meant.

use super::Checks;
use crate::issue::Code;
use crate::plan::Delivery;
use crate::report::Problem;

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
