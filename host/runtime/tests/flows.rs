//! Whole flows on the memory broker: compiled from YAML, assembled, and run on worker threads with real components.

#[path = "flows/batches.rs"]
mod batches;
#[path = "flows/batches_property.rs"]
mod batches_property;
#[path = "flows/bounds.rs"]
mod bounds;
#[path = "flows/choosing.rs"]
mod choosing;
#[path = "flows/commit.rs"]
mod commit;
#[path = "flows/config.rs"]
mod config;
#[path = "flows/counted.rs"]
mod counted;
#[path = "flows/endings.rs"]
mod endings;
#[path = "flows/errors.rs"]
mod errors;
#[path = "flows/expand.rs"]
mod expand;
#[path = "flows/expand_property.rs"]
mod expand_property;
#[path = "flows/expand_routes.rs"]
mod expand_routes;
#[path = "flows/expressions.rs"]
mod expressions;
#[path = "flows/failed_starts.rs"]
mod failed_starts;
#[path = "flows/forks.rs"]
mod forks;
#[path = "flows/from.rs"]
mod from;
#[path = "flows/harness.rs"]
mod harness;
#[path = "flows/kept.rs"]
mod kept;
#[path = "flows/lease.rs"]
mod lease;
#[path = "flows/logs.rs"]
mod logs;
#[path = "flows/modes.rs"]
mod modes;
#[path = "flows/offsets.rs"]
mod offsets;
#[path = "flows/outputs.rs"]
mod outputs;
#[path = "flows/outside.rs"]
mod outside;
#[path = "flows/past_retention.rs"]
mod past_retention;
#[path = "flows/preflight.rs"]
mod preflight;
#[path = "flows/property.rs"]
mod property;
#[path = "flows/refusals.rs"]
mod refusals;
#[path = "flows/republished.rs"]
mod republished;
#[path = "flows/restarts.rs"]
mod restarts;
#[path = "flows/retries.rs"]
mod retries;
#[path = "flows/rights.rs"]
mod rights;
#[path = "flows/routers.rs"]
mod routers;
#[path = "flows/shutdown.rs"]
mod shutdown;
#[path = "flows/sinks.rs"]
mod sinks;
#[path = "flows/smoke.rs"]
mod smoke;
#[path = "flows/start.rs"]
mod start;
#[path = "flows/status.rs"]
mod status;
#[path = "flows/tombstones.rs"]
mod tombstones;
#[path = "flows/traps.rs"]
mod traps;
#[path = "flows/untracked.rs"]
mod untracked;
#[path = "flows/waiting.rs"]
mod waiting;
#[path = "flows/watermark.rs"]
mod watermark;
