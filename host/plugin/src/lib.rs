//! The plugin host: users' plugins are WebAssembly components, run with wasmtime under limits.
//!
//! - [`PluginHost`] loads a component: reads its facts, checks it against the contract, compiles it (or takes it from
//!   the verified cache), links it. [`read_facts`] does the first without the rest.
//! - [`StepNode`], [`ExpandNode`], [`TypedExpandNode`], [`BatchStepNode`], [`BatchExpandNode`], [`PredicateNode`],
//!   [`SelectorNode`], [`PartitionerNode`] and [`SinkInstance`] are a plugin at one node, on one worker, each with an
//!   instance of its own. They are called on the worker's thread, with a batch and row ids; answers come by position.
//! - [`CallPool`] is a plugin that waits: several instances, called beside the worker, one row or one batch each; answers
//!   come later, with a ring.
//! - [`Breaker`] decides when a node is held because its plugin, not its records, is bad.
//!
//! Invariants:
//! - A call ends within its time, whatever the guest does. Its time is what it computes, in processor time, and what it
//!   waits in the host; never the time in which it could run and did not.
//! - An instance that trapped or timed out is never called again.
//! - What a guest answers is checked before it is believed. A wrong answer is a failure of the rows it was about.
//! - Nothing outside is reachable without a grant. What is not granted is linked, and answers `access-denied`.
//!
//! What a node makes of the answers, for each row that was given and has one (`position < answered`):
//!
//! | node | failure at the position | else |
//! |---|---|---|
//! | step, batch step | the row fails | it goes on, with `batch.select(rows).with(changes)` |
//! | predicate | the row fails | it goes the way of `yes` |
//! | selector | the row fails | it goes to the branch of its label; none = no branch |
//! | partitioner | the row fails | it leaves with its key; none = with the key it has |
//! | expander | the row fails: its one output | it becomes the rows `made_from(position)` of the answer's batch: its token is split over them, and redeemed at once where there are none |
//! | typed expander | the same | the same, each row with its type |
//! | batch expander | the row fails: one more of its outputs | it is one of the parents of every row whose origins name it; a set of several origins makes one group for all its rows |
//!
//! Rows from `answered` on were not tried: they wait. A row that failed with [`Cause::Retry`] is tried again later, one of a
//! batch with the rows that its node then makes a batch. The batch of an answer keeps the columns that it shares with the
//! batch that was given.
//!
//! Kafka, the flow language and tokens are unknown here: a sink speaks of rows by handles that the caller minted.

mod alarm;
mod answers;
mod batch_expand;
mod beside;
mod bindings;
mod breaker;
mod cache;
mod calls;
mod changes;
mod choice;
mod clock;
mod delivery;
mod engine;
mod expand;
mod facts;
mod fault;
mod grants;
mod host;
mod http;
mod instance;
mod limits;
mod log;
mod lower;
mod network;
mod node;
mod patience;
mod plain;
mod plugin;
mod pool;
mod predicate;
mod role;
mod rows;
mod script;
mod sink;
mod state;
mod step;
mod ticker;
mod waits;

pub use answers::{
    BatchExpandAnswers, CallFailure, Cause, ChoiceAnswers, ExpandAnswers, Origins, PredicateAnswers,
    RowFailure, StepAnswers, TypedExpandAnswers,
};
pub use batch_expand::BatchExpandNode;
pub use breaker::{Breaker, OPENS_AT, Permit};
pub use cache::CacheDir;
pub use choice::{PartitionerNode, SelectorNode};
pub use delivery::Verdict;
pub use expand::{ExpandNode, TypedExpandNode};
pub use facts::{Facts, FactsError, Roles, TRACKS, read_facts};
pub use grants::{DirGrant, DirMode, GrantError, Grants, HostGrant};
pub use host::{HostError, HostOptions, LoadError, PluginHost};
pub use limits::Limits;
pub use node::{Interrupt, NodeContext};
pub use plugin::{Plugin, PluginSpec, StartError};
pub use pool::{Bell, CallAnswer, CallFault, CallPool};
pub use predicate::PredicateNode;
pub use script::Script;
pub use sink::SinkInstance;
pub use step::{BatchStepNode, StepNode};
