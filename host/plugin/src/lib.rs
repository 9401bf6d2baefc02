//! The plugin host: users' steps, predicates and sinks are WebAssembly components, run with wasmtime under limits.
//!
//! - [`PluginHost`] loads a component: reads its facts, checks it against the contract, compiles it (or takes it from
//!   the verified cache), links it. [`read_facts`] does the first without the rest.
//! - [`StepNode`], [`PredicateNode`] and [`SinkInstance`] are a plugin at one node, on one worker, each with an instance
//!   of its own. They are called on the worker's thread, with a batch and row ids; answers come by position.
//! - [`CallPool`] is a step or predicate that waits: several instances, called beside the worker, one row each; answers
//!   come later, with a ring.
//! - [`Breaker`] decides when a node is held because its plugin, not its records, is bad.
//!
//! Invariants:
//! - A call ends within its time, whatever the guest does: guest code is bounded by epochs, waits in the host by what
//!   is left of the call.
//! - An instance that trapped or timed out is never called again.
//! - What a guest answers is checked before it is believed. A wrong answer is a failure of the rows it was about.
//! - Nothing outside is reachable without a grant. What is not granted is linked, and answers `access-denied`.
//!
//! Kafka, the flow language and tokens are unknown here: a sink speaks of rows by handles that the caller minted.

mod answers;
mod beside;
mod bindings;
mod breaker;
mod cache;
mod calls;
mod changes;
mod delivery;
mod engine;
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
mod plain;
mod plugin;
mod pool;
mod predicate;
mod sink;
mod state;
mod step;
mod ticker;
mod waits;

pub use answers::{CallFailure, Cause, PredicateAnswers, RowFailure, StepAnswers};
pub use breaker::{Breaker, OPENS_AT, Permit};
pub use cache::CacheDir;
pub use delivery::Verdict;
pub use facts::{Facts, FactsError, Roles, TRACKS, read_facts};
pub use grants::{DirGrant, DirMode, GrantError, Grants, HostGrant};
pub use host::{HostError, HostOptions, LoadError, PluginHost};
pub use limits::Limits;
pub use node::{Interrupt, NodeContext};
pub use plugin::{Plugin, PluginSpec, StartError};
pub use pool::{Bell, CallAnswer, CallFault, CallPool};
pub use predicate::PredicateNode;
pub use sink::SinkInstance;
pub use step::StepNode;
