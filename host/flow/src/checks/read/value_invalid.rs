//! `VALUE_INVALID`: raised where a leaf is read, and by checks of single values.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A value that means nothing here",
    severity: Severity::Error,
    meaning: "The value has the right type and is not one that the key takes: a word outside a closed list, a \
              number of 0 where there must be one, a time without a unit, an empty name, an empty list of \
              branches, an empty user or password, a number in a plugin's `config` that has no room in 64 bits. It \
              is a warning where a value from a file or variable begins or ends with something unseen, such as a \
              second line end. Times take `250ms` or `30s`, sizes `64MiB`; keys that end with `_ms` take whole numbers.",
    why: "The nearest thing that could be meant is a guess.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm }
process:
  - step: enrich
    timeout: 250
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
    timeout: 250ms
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
