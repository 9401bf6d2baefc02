//! `NODE_INVALID`: raised where a node is read.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "Something in a process is no node",
    severity: Severity::Error,
    meaning: "A node is a mapping with exactly one node key, such as `step`, `filter` or `into_topic`, and its \
              options beside that key. `drain` and `for_each` may be bare words. This has two node keys, or none, \
              or is something else altogether.",
    why: "Which of the two was meant, and in which order, is a guess.",
    fails: flow!(
        "\
process:
  - filter: payload.total > 10
    into_topic: orders.big
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - filter: payload.total > 10
  - into_topic: orders.big
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
