//! `FORK_UNMATCHED_UNROUTED`: under `at_least_once` a fork says what becomes of records that no branch takes. Without
//! it they would be dropped as routing errors, which is not what the mode promises.

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::plan::Delivery;
use crate::report::Problem;
use crate::spec::{Kind, SwitchDefault, nodes};

pub(crate) const ENTRY: Entry = Entry {
    title: "A `fork` under `at_least_once` has no `default`",
    severity: Severity::Error,
    meaning: "A record that no branch takes is a `routing` error. Under `delivery: at_least_once` a `fork` must \
              say what becomes of it: with `default`, a process of its own. It is looked for at every place where \
              a `fork` can stand, and not under `at_most_once`.",
    why: "Without it records would be dropped by a flow that promised to lose none.",
    fails: flow!(
        "\
process:
  - fork:
      by: payload.region
      branches:
        eu: [ { into_topic: orders.eu } ]
        us: [ { into_topic: orders.us } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - fork:
      by: payload.region
      branches:
        eu: [ { into_topic: orders.eu } ]
        us: [ { into_topic: orders.us } ]
      default: [ { into_topic: orders.elsewhere } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

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
