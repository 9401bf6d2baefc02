//! `CONFLICTING_KEYS`: raised where `fork` and `router` are read.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "Two keys exclude each other",
    severity: Severity::Error,
    meaning: "A `fork` or `router` picks its branch either by conditions (`when`) or by a label (`by` with \
              `branches`). It has keys of both forms.",
    why: "One of them would have no effect, and which one is a guess.",
    fails: flow!(
        "\
process:
  - fork:
      by: payload.region
      when:
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.big } ]
      default: [ { into_topic: orders.small } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - fork:
      when:
        - if: payload.total > 1000.0
          process: [ { into_topic: orders.big } ]
      default: [ { into_topic: orders.small } ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
