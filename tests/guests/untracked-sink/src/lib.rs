//! A sink without `bind-commit-tracker`: it cannot confirm what it writes, and is refused under `at_least_once`.
//!
//! It prints the payloads, so that a run under `at_most_once` can be seen to reach it.

use exports::loom::plugin::sink::{Guest, TrackedMessage};
use loom::plugin::log::{Level, log};
use loom::plugin::types::Failure;

wit_bindgen::generate!({
    path: "../../../wit",
    inline: "package test:untracked; world untracked { include loom:plugin/untracked-sink-plugin@0.1.0; }",
    generate_all,
});

struct Sink;
export!(Sink);

impl Guest for Sink {
    fn write(messages: Vec<TrackedMessage>) -> Result<(), Failure> {
        for tracked in messages {
            let payload = tracked.message.payload.unwrap_or_default();
            log(Level::Info, &format!("untracked write: {}", String::from_utf8_lossy(&payload)));
        }
        Ok(())
    }

    fn flush() -> Result<(), Failure> {
        Ok(())
    }

    fn close() -> Result<(), String> {
        Ok(())
    }
}
