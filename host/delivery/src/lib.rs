//! Delivery, decided in pure code: no I/O, clock, async or locks.
//!
//! Every record that is read is registered with its partition's [`Tracker`] before it is emitted, and gets a
//! [`Token`]: an obligation as a value. Splitting or grouping consumes it, a terminal redeems it through
//! [`Accounts`]. The commit offset of a partition is the lowest unresolved record's.
//!
//! Beside that, the decisions around a partition's life: where to start ([`start`]), what is written beside an offset
//! ([`Mark`]), when to commit what ([`CommitSchedule`]), whether an offset read back is ours ([`readback`]), who owns the
//! partitions ([`lease`]), how long to wait before trying again ([`Backoff`]).

mod accounts;
mod backoff;
mod commits;
mod groups;
pub mod lease;
mod ledger;
mod mark;
mod mutations;
pub mod readback;
pub mod start;
mod table;
mod token;
mod tracker;

pub use accounts::Accounts;
pub use backoff::Backoff;
pub use commits::{ANSWER_WITHIN, CommitSchedule, Due, Entry, Request};
pub use ledger::Ledger;
pub use mark::{Mark, NotARunId, RunId};
#[cfg(feature = "simulation")]
pub use mutations::mutate;
#[doc(hidden)]
pub use mutations::{Mutation, mutated};
pub use table::TokenTable;
pub use token::{FULL_WEIGHT, Token, killed, lost_tokens};
pub use tracker::{Made, Outstanding, Stand, Tracker};
