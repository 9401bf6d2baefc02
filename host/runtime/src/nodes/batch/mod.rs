//! Nodes of batches: `collect_batch` makes them, `batch_step` and `batch_expand` call their plugin with them.
//!
//! Invariants:
//! - a batch on its way is one [`RowSet`](crate::rows::RowSet) of one [`Batch`](loom_types::Batch): nothing on a batch path
//!   divides or joins sets, so that `for_each` is no node at all, and its batches just go where it goes;
//! - a [`Collect`] holds rows and their tokens, never the batches that they came in: a row that waits long keeps no more than
//!   itself;
//! - a [`BatchNode`] answers each row of a batch once, in however many calls, and a batch leaves whole: when all of its rows
//!   have their verdict;
//! - what several rows became together is accounted by [`derive`](derive::derive), at the cost of parents and rows.

mod calls;
mod collect;
mod derive;
mod held;
mod node;
mod order;
#[cfg(test)]
mod tests;
mod window;

pub(crate) use calls::{Answered, BatchCalls, BatchRole, Direct};
pub(crate) use collect::{Collect, CollectBounds, Gather};
pub(crate) use node::{BatchNode, Batching};
