//! `NOT_AUTHORIZED`: the broker does not allow what the flow needs.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A right is missing",
    severity: Severity::Error,
    meaning: "The broker does not let the flow's user read a topic, write to one, or read and write the offsets of its group. \
              The message names which. The rights that a flow needs are listed in `docs/kafka.md`.",
    why: "What may not be read or written is found before the first record, not by it. The repaired flow writes where \
              its user may; giving the right does too.",
    fails: flow!(
        "\
process:
  - filter: payload.total > 10
  - into_topic: audit.internal
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
