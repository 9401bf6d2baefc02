//! `PLUGIN_LOAD_FAILED`: the file of each used plugin is there and is a component.

use super::{Checks, Unusable, unusable};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;

pub(crate) const ENTRY: Entry = Entry {
    title: "A plugin's file cannot be read, or is no component",
    severity: Severity::Error,
    meaning: "The file of `component` is not there, cannot be read, or holds something else than a WebAssembly \
              component: often a core module, which `wasm-tools component new` or the language's own tool makes a \
              component of. Only plugins that a node uses are looked at, without compiling them; `check \
              --no-plugins` looks at none. Paths are beside the flow file.",
    why: "Nothing that names the plugin could run.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/notes.txt }
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

pub(super) fn check(checks: &mut Checks<'_>) {
    for Unusable { component, message, hint } in unusable(checks, false) {
        let problem = Problem::error(Code::PluginLoadFailed, message).maybe_hint(hint);
        checks.report.push(&component.text.place, problem);
    }
}
