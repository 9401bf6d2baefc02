//! `VARIABLE_UNSET`: raised where a reference has no value.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A variable or file that the flow names has no value",
    severity: Severity::Warning,
    meaning: "`${NAME}` or `env.NAME` names a variable that is not set, or `${file:PATH}` a file that cannot be \
              read. `check` warns, since it may run elsewhere than the flow; with `--require-env` it is an error, \
              as it is for `run` and `dev`. The message shows the reference as written, never a value.",
    why: "The flow would start with an empty address, or a password that is the text `${PASSWORD}`.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm, config: { currency: \"${CURRENCY}\" } }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm, config: { currency: \"${CURRENCY:-EUR}\" } }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
