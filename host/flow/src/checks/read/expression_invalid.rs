//! `EXPRESSION_INVALID`: raised where an expression is read; the position is inside it where the file has its text as it is.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "An expression is wrong",
    severity: Severity::Error,
    meaning: "The CEL expression does not parse, names a variable or function that there is not, gives a function \
              the wrong number of arguments, or has a result that its place cannot use. `${…}` is refused too: a \
              value would become code, so an expression reads `env.NAME`. What depends on the payload is found \
              when a record comes, as a `task` error of that record.",
    why: "It would fail for every record.",
    fails: flow!(
        "\
process:
  - filter: payload.total > 10 && payloda.paid
  - into_topic: orders.big
    key: eu
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - filter: payload.total > 10 && payload.paid
  - into_topic: orders.big
    key: \"'eu'\"
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
