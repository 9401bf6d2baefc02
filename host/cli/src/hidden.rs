//! Secrets of the flow, for every line that this process writes after the flow was read: a plugin may quote its
//! configuration, a client what it was given.

use std::borrow::Cow;
use std::sync::OnceLock;

use loom_flow::Compiled;

static FLOW: OnceLock<Compiled> = OnceLock::new();

/// Remembers the flow whose secrets are to be hidden; the first one counts.
pub fn remember(flow: Compiled) {
    let _ = FLOW.set(flow);
}

/// The text without the flow's secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    match FLOW.get() {
        Some(flow) => Cow::Owned(flow.redact(text)),
        None => Cow::Borrowed(text),
    }
}
