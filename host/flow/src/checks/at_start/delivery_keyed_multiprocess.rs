//! `DELIVERY_KEYED_MULTIPROCESS`: raised by the start of a flow in several processes; the flow itself is right.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A window in a flow of several processes, under `at_least_once`",
    severity: Severity::Error,
    meaning: "`collect_batch` gathers records by key, wherever they were read, so with several processes a record \
              can be completed in another process than the one that owns its partition. With `completions: local`, \
              the default, the host refuses such a pairing under `at_least_once`. The message names each such \
              node, also inside branches and routes.",
    why: "An offset could not be held back by a record in another process's window, and a crash would lose it. \
              One process with more workers is the way out, or `completions: routed`, where completions go back to \
              the owner.",
    fails: flow!(
        "\
plugins:
  summary: { component: plugins/summary.wasm }
process:
  - collect_batch: { max_records: 100, timeout_ms: 500, key: payload.customer }
  - batch_expand: summary
  - into_topic: orders.by-customer
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  summary: { component: plugins/summary.wasm }
runtime: { completions: routed }
process:
  - collect_batch: { max_records: 100, timeout_ms: 500, key: payload.customer }
  - batch_expand: summary
  - into_topic: orders.by-customer
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::AtStart,
};
