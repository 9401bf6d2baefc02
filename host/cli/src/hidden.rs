//! Flows that this process has read: their secrets, for every line that it writes after, since a plugin may quote its
//! configuration, and a client what it was given; and their lines, for problems that show at the start.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use loom_flow::{Code, Compiled, HumanStyle, Issue, Need};

static FLOWS: RwLock<Vec<Compiled>> = RwLock::new(Vec::new());

/// Remembers a flow whose secrets are to be hidden.
pub fn remember(flow: Compiled) {
    FLOWS.write().unwrap_or_else(PoisonError::into_inner).push(flow);
}

/// Problems that a broker showed at the start, at their places in the flow that was read last, and the same for people.
pub fn placed(
    problems: &[(Need, Code, String, Option<String>)],
    style: HumanStyle,
) -> Option<(Vec<Issue>, String)> {
    let mut flows = FLOWS.write().unwrap_or_else(PoisonError::into_inner);
    Some(flows.last_mut()?.placed(problems, style))
}

/// The text without the flows' secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    let flows = FLOWS.read().unwrap_or_else(PoisonError::into_inner);
    if flows.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(Compiled::redact_all(&flows, text)) }
}
