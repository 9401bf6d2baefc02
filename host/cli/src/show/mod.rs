//! Commands that show how a running flow stands.

pub mod status;
pub mod table;
pub mod why;

use crate::admin::client::Unanswered;
use crate::report;
use crate::status::Status;
use crate::terminal;

/// Says why nothing can be shown.
pub fn tell(unanswered: &Unanswered) -> Status {
    report::refusal(None, &unanswered.message);
    unanswered.status
}

/// Prints what was asked for.
pub fn print(text: &str) -> Status {
    match terminal::print(text) {
        Ok(()) => Status::Done,
        Err(error) => {
            terminal::print_error(&format!("error: cannot write to standard output: {error}\n"));
            Status::Failed
        }
    }
}
