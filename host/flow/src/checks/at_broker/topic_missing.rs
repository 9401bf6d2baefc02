//! `TOPIC_MISSING`: a topic that the flow reads or writes does not exist.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A topic does not exist",
    severity: Severity::Error,
    meaning: "A topic of the flow is not at its broker. The message names the nearest that are.",
    why: "The host never creates topics: one that is created by a typing mistake has the broker's default partitions and \
              retention, and is found weeks later.",
    fails: flow!(
        "\
process:
  - filter: payload.total > 10
  - into_topic: orders.bgi
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
    raised: Raised::ByBroker,
};
