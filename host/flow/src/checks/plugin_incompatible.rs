//! `PLUGIN_INCOMPATIBLE`: the component of each used plugin is made for this host.

use super::{Checks, Unusable, unusable};
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;

pub(crate) const ENTRY: Entry = Entry {
    title: "A component is made for another host",
    severity: Severity::Error,
    meaning: "The file is a component, and it does not fit: it speaks a track of the plugin contract that this \
              host does not have, exports a role with other types, or imports something that is neither WASI nor \
              part of the contract. The message names the interface, the track that was found and those that are \
              supported.",
    why: "It could not be linked, so nothing that names it could run. The flow is right; it needs a component \
              that was built for this version, or another version of the host.",
    fails: flow!(
        "\
plugins:
  enrich: { component: plugins/enrich-of-track-9.wasm }
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
    for Unusable { component, message, hint } in unusable(checks, true) {
        let problem = Problem::error(Code::PluginIncompatible, message).maybe_hint(hint);
        checks.report.push(&component.text.place, problem);
    }
}
