//! Delivery, decided in pure code: no I/O, clock, async or locks.
//!
//! Every record that is read is registered with its partition's [`Tracker`] before it is emitted, and gets a
//! [`Token`]: an obligation as a value. Splitting or grouping consumes it, a terminal redeems it through
//! [`Accounts`]. The commit offset of a partition is the lowest unresolved record's.
//!
//! Beside that, the decisions around a partition's life: where to start ([`start`]), when to commit what
//! ([`CommitSchedule`]), how long to wait before trying again ([`Backoff`]).

mod accounts;
mod backoff;
mod commits;
mod groups;
mod ledger;
pub mod start;
mod table;
mod token;
mod tracker;

pub use accounts::Accounts;
pub use backoff::Backoff;
pub use commits::{CommitSchedule, Due};
pub use ledger::Ledger;
pub use table::TokenTable;
pub use token::{FULL_WEIGHT, Token, lost_tokens};
pub use tracker::{Outstanding, Tracker};
