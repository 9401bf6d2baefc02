//! `UNKNOWN_KEY`: raised where a mapping of the language is read.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A key that its mapping does not know",
    severity: Severity::Error,
    meaning: "Every mapping of the language has a closed list of keys, and this one is not in it. The hint names \
              the nearest, or all of them. The configuration of a plugin is the plugin's own, and is not looked \
              into. There is no key for anchors alone either: an anchor stands where its value is used first.",
    why: "A mistyped key would leave its default in force, in silence.",
    fails: flow!(
        "\
process:
  - into_topic: orders.big
    timestmap: now
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - into_topic: orders.big
    timestamp: now
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
