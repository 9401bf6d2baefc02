//! Commands that show how a running flow stands, and how it ended.

pub mod status;
pub mod stopped;
pub mod table;
pub mod why;

use std::io;

use loom_runtime::status::{WorkerInfo, long};

use crate::admin::client::Unanswered;
use crate::report;
use crate::status::Status;
use crate::terminal;

/// Workers answer between two steps, within half a second; what is older than this is shown with its age.
const STALE_MS: u64 = 1000;

/// Since when a worker has not answered, and what keeps it from it; none for one that did.
pub fn stale(worker: &WorkerInfo) -> Option<String> {
    if worker.ended || worker.age_ms < STALE_MS {
        return None;
    }
    Some(format!("has not answered for {}: {}", long(worker.age_ms), worker.busy()))
}

/// Says why nothing can be shown.
pub fn tell(unanswered: &Unanswered) -> Status {
    report::refusal(None, &unanswered.message);
    unanswered.status
}

/// Prints what was asked for, for people.
pub fn print(text: &str) -> Status {
    terminal::print(text).map_or_else(unwritable, |()| Status::Done)
}

/// Prints what was asked for, for programs.
pub fn print_exact(text: &str) -> Status {
    terminal::print_exact(text).map_or_else(unwritable, |()| Status::Done)
}

/// Prints one of several things, every byte as it is: the status to end with when no more can be printed.
pub fn print_on(text: &str) -> Result<(), Status> {
    match terminal::print_on(text) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Status::UNREAD),
        Err(error) => Err(unwritable(error)),
    }
}

fn unwritable(error: io::Error) -> Status {
    terminal::print_error(&format!("error: cannot write to standard output: {error}\n"));
    Status::Failed
}
