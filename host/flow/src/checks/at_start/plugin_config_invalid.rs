//! `PLUGIN_CONFIG_INVALID`: raised by the start, where a plugin's `configure` refuses what it is given.

use crate::entry::{Entry, Raised, flow};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A plugin refuses its configuration",
    severity: Severity::Error,
    meaning: "The plugin is given its `config` as JSON before the first record, and answered that it cannot work \
              with it. The message has the plugin's own words, without values that came from the environment or a \
              file.",
    why: "A plugin that guessed what was meant would do the wrong thing for every record.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm, config: { curency: EUR } }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    repaired: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich.wasm, config: { currency: EUR } }
process:
  - step: enrich
  - into_topic: orders.rich
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::AtStart,
};
