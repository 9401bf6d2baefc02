//! `FORK_UNMATCHED_UNROUTED`: under `at_least_once` a fork says what becomes of records that no branch takes. Without
//! it they would be dropped as routing errors, which is not what the mode promises.

use super::Checks;
use crate::issue::Code;
use crate::plan::Delivery;
use crate::report::Problem;
use crate::spec::{Kind, SwitchDefault, nodes};

pub(super) fn check(checks: &mut Checks<'_>) {
    if checks.delivery != Some(Delivery::AtLeastOnce) {
        return;
    }
    for (node, _) in nodes(&checks.processes) {
        if let Kind::Fork(switch) = &node.kind
            && matches!(switch.default, SwitchDefault::None)
        {
            let message = "under `at_least_once` a `fork` needs a `default` for records that no branch takes";
            let problem = Problem::error(Code::ForkUnmatchedUnrouted, message)
                .hint("add `default: [ drain ]` to complete them, or another process");
            checks.report.push(&node.place, problem);
        }
    }
}
