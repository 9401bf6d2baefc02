//! `WRONG_TYPE`: raised where a value is read.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A value of the wrong type",
    severity: Severity::Error,
    meaning: "A list stands where a single value belongs, a mapping where a list belongs, or the other way round. \
              The message says what the key takes and what it got. A process is always a list of nodes, even of \
              one.",
    why: "What was meant is often plain to a person, and is not guessed.",
    fails: flow!(
        "\
process:
  - fork:
      by: payload.region
      branches:
        eu: { into_topic: orders.eu }
      default: drain
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
      default: [ drain ]
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
