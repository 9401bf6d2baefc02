//! `errors.max_dropped` in a flow that stops where it would drop.

use super::Checks;
use crate::issue::Code;
use crate::plan::{Delivery, Unrouted};
use crate::report::Problem;
use crate::spec::unrouted;

pub(super) fn check(checks: &mut Checks<'_>) {
    let Some(errors) = &checks.flow.errors else { return };
    let (Some(bound), Some(delivery)) = (&errors.max_dropped, checks.delivery) else { return };
    if unrouted(Some(errors), delivery) == Unrouted::Drop {
        return;
    }
    let why = match delivery {
        Delivery::AtLeastOnce if errors.unrouted.is_none() => {
            "under `at_least_once` the flow stops at a record that no route takes"
        }
        _ => "`unrouted: stop` stops the flow at a record that no route takes",
    };
    let message = format!("`max_dropped` has no effect: {why}");
    let problem = Problem::warning(Code::ValueInvalid, message)
        .hint("write `unrouted: drop` beside it, or leave it out");
    checks.report.push(&bound.place, problem);
}
