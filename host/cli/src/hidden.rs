//! Secrets of flows, for every line that this process writes after the flow was read: a plugin may quote its
//! configuration, a client what it was given.

use std::borrow::Cow;
use std::sync::{PoisonError, RwLock};

use loom_flow::Compiled;

static FLOWS: RwLock<Vec<Compiled>> = RwLock::new(Vec::new());

/// Remembers a flow whose secrets are to be hidden.
pub fn remember(flow: Compiled) {
    FLOWS.write().unwrap_or_else(PoisonError::into_inner).push(flow);
}

/// The text without the flows' secrets.
pub fn redact(text: &str) -> Cow<'_, str> {
    let flows = FLOWS.read().unwrap_or_else(PoisonError::into_inner);
    if flows.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(Compiled::redact_all(&flows, text)) }
}
