//! A panic ends the process: a crash is safe by design, half a process is not. The one exception is an expression's
//! evaluation and compiling, where the library's panic is caught and becomes an error of that record.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::{self, PanicHookInfo};
use std::process;
use std::thread;

use loom_types::printable;
use serde_json::json;

use crate::terminal;

/// Installs the hook.
pub fn abort_on_panic() {
    panic::set_hook(Box::new(|info| {
        if loom_flow::expr::in_guarded_evaluation() {
            return;
        }
        let text = describe(info);
        if terminal::stderr_is_terminal() {
            terminal::print_error(&text)
        } else {
            terminal::print_error_exact(&text)
        }
        process::abort()
    }));
}

fn describe(info: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let place = info.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let cause = info.payload_as_str().unwrap_or("no message");
    let backtrace = Backtrace::capture();
    let trace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    if terminal::stderr_is_terminal() {
        let trace = trace.unwrap_or_else(|| "RUST_BACKTRACE=1 shows the way there.".to_owned());
        return format!(
            "\nloom-host has a bug and ends here: nothing that was not written is committed.\n\
             thread `{name}` at {place}: {}\n{trace}\n",
            printable(cause)
        );
    }
    let line = json!({
        "timestamp": humantime::format_rfc3339_micros(std::time::SystemTime::now()).to_string(),
        "level": "ERROR",
        "target": "panic",
        "message": cause,
        "thread": name,
        "place": place,
        "backtrace": trace,
    });
    format!("{line}\n")
}
