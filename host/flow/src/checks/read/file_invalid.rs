//! `FILE_INVALID`: raised where the file is read, or cannot be.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "The file cannot be read as a flow",
    severity: Severity::Error,
    meaning: "The file is not there, is a folder, or may not be read; it is larger than 4 MiB, no UTF-8, has \
              control characters, is no YAML, nests deeper than 128 levels, repeats itself through aliases beyond \
              all size, holds several documents, or is no mapping.",
    why: "Nothing in it can be looked at, or only its beginning.",
    fails: flow!(
        "\
process:
  - filter: payload.total > 10
	- into_topic: orders.big
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
