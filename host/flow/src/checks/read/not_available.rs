//! `NOT_AVAILABLE`: raised where a part of the language is read that this version cannot run.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A part of the language that this version cannot run",
    severity: Severity::Error,
    meaning: "The node or option is right, and a later version runs it. All that can be checked of it is checked.",
    why: "Refused before anything runs, it cannot do something else than it says.",
    fails: flow!(
        "\
plugins:
  enrich: { component: \"oci://registry.example.com/enrich:1\" }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
