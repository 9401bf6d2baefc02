//! `ERRORS_IGNORED`: what fails inside an error route is not routed again, so `errors` there has no effect.

use super::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::nodes;

pub(super) fn check(checks: &mut Checks<'_>) {
    for (node, in_route) in nodes(&checks.processes) {
        if let (Some(errors), true) = (&node.errors, in_route) {
            let message = "`errors` has no effect inside an error route: what fails here is not routed again";
            checks
                .report
                .push(&errors.place, Problem::warning(Code::ErrorsIgnored, message).hint("remove it"));
        }
    }
}
