//! `FORK_SELECTOR_MISSING`: raised where `fork` and `router` are read.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "Branches by label without a selector",
    severity: Severity::Error,
    meaning: "A `fork` or `router` has `branches` by label, and no `by` that says which label a record has: an \
              expression, or `{ plugin: NAME }`.",
    why: "No record could be given to a branch.",
    fails: flow!(
        "\
process:
  - fork:
      branches:
        eu: [ { into_topic: orders.eu } ]
      default: [ { into_topic: orders.elsewhere } ]
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
      default: [ { into_topic: orders.elsewhere } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
