//! What calls answer: by position in the rows that were given, failures sparse.

use loom_types::Changes;

use crate::bindings::loom::plugin::types::Failure;
use crate::log::cut;

/// The longest reason that is kept of a plugin's own words.
const REASON_BYTES: usize = 16 << 10;

/// Why a row has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// The plugin rejected the record.
    Reject,
    /// The plugin asks to be called again later.
    Retry,
    /// The plugin said that it could not.
    Fail,
    /// The plugin trapped.
    Trap,
    /// The plugin ran, or waited, longer than it may.
    Timeout,
    /// The plugin's answer breaks the contract: a wrong number of rows, invalid columns.
    Protocol,
}

impl Cause {
    /// Whether the call ended with the plugin's instance thrown away: what the breaker counts.
    #[must_use]
    pub fn is_trap(self) -> bool {
        matches!(self, Cause::Trap | Cause::Timeout)
    }
}

/// One row without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowFailure {
    /// The row's place in the rows that were given.
    pub position: u32,
    /// Why.
    pub cause: Cause,
    /// In the plugin's words, or in the host's where it trapped.
    pub reason: String,
}

/// What a step answered.
#[derive(Debug)]
pub struct StepAnswers {
    /// How many of the rows have an answer; fewer than were given only where the call was told to stop early.
    pub answered: u32,
    /// New columns with one row for each row that was given, in its order. Values at failed positions, and from
    /// `answered` on, mean nothing.
    pub changes: Changes,
    /// Ascending by position.
    pub failures: Vec<RowFailure>,
}

/// What a predicate answered.
#[derive(Debug)]
pub struct PredicateAnswers {
    /// How many of the rows have an answer; fewer than were given only where the call was told to stop early.
    pub answered: u32,
    /// By position. Values at failed positions, and from `answered` on, are false and mean nothing.
    pub yes: Vec<bool>,
    /// Ascending by position.
    pub failures: Vec<RowFailure>,
}

/// Why a call on a sink failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct CallFailure {
    /// What kind of failure.
    pub cause: Cause,
    /// In the plugin's words, or in the host's where it trapped.
    pub reason: String,
}

/// A guest's failure in our words.
pub(crate) fn told(failure: Failure) -> (Cause, String) {
    let (cause, mut reason) = match failure {
        Failure::Reject(reason) => (Cause::Reject, reason),
        Failure::Retry(reason) => (Cause::Retry, reason),
        Failure::Fail(reason) => (Cause::Fail, reason),
    };
    let kept = cut(&reason, REASON_BYTES).len();
    if kept < reason.len() {
        reason.truncate(kept);
        reason.push('…');
        reason.shrink_to_fit();
    }
    (cause, reason)
}
