//! `EXPRESSION_QUOTING`: raised where YAML gives an expression's line back as something else; the hint is the line rewritten.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "YAML takes an expression for something else",
    severity: Severity::Error,
    meaning: "YAML and CEL share signs. To YAML `!has(x)` is a tag, `\"a\" in b` ends after the quoted text, `x == \
              \"a: b\"` starts a mapping, ` # ` starts a comment, and `[1] == x` is a list. The whole expression \
              needs quotes, or a block (`>-`). The hint has the line as it should be.",
    why: "The flow would run with half an expression, or with none.",
    fails: flow!(
        "\
process:
  - filter: !has(payload.deleted)
  - filter: payload.tag == \"a # b\"
  - into_topic: orders.live
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - filter: \"!has(payload.deleted)\"
  - filter: 'payload.tag == \"a # b\"'
  - into_topic: orders.live
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};
