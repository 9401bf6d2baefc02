//! `DUPLICATE_KEY`: raised where the file is read; both places are shown.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A key is given twice",
    severity: Severity::Error,
    meaning: "YAML forbids a mapping that has one key twice, and many readers take one of the two in silence. The \
              second one is reported, with the place of the first. Branches by label are keys too, and a label is \
              its text as written: `1` and `\"1\"` are the same.",
    why: "Half of what was written would have no effect.",
    fails: flow!(
        "\
process:
  - into_topic: orders.big
    key: payload.customer
errors:
  wire: [ drain ]
  task: [ { into_topic: orders.failed } ]
  task: [ drain ]
"
    ),
    repaired: flow!(
        "\
process:
  - into_topic: orders.big
    key: payload.customer
errors:
  wire: [ drain ]
  task: [ { into_topic: orders.failed } ]
"
    ),
    raised: Raised::ByCheck,
};
