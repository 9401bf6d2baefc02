//! `INTERPOLATION_INVALID`: raised where a text with `${…}` is resolved.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A `${…}` is not one of the forms there are",
    severity: Severity::Error,
    meaning: "Inside text `${NAME}`, `${NAME:-default}` and `${file:PATH}` are replaced, and `$${` stands for a \
              literal `${`. This is none of them: the closing brace is missing, or what stands inside is no name \
              of a variable. A default may hold references, and braces in pairs. It is a warning where a variable \
              stands without braces, as `$NAME` or `$(NAME)`, or a brace that closes nothing behind a reference: both \
              are taken as they are.",
    why: "Left as it stands, the text would go to a broker or a plugin with its braces or its `$`.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm, config: { path: \"${HOME DIR}/cache\" } }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm, config: { path: \"${HOME_DIR:-/tmp}/cache\" } }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
