//! `MISSING_KEY`: raised where a mapping of the language is read.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A key that must be there is missing",
    severity: Severity::Error,
    meaning: "The mapping needs the key that the message names. A flow needs `name`, `kafka` and `process`; a \
              plugin its `component`; a branch of `when` both `if` and `process`.",
    why: "There is no default that would be right.",
    fails: flow!(
        "\
process:
  - fork:
      when:
        - process: [ { into_topic: orders.big } ]
      default: [ { into_topic: orders.small } ]
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
