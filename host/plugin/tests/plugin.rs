//! The plugin host with real guests: every role in each of its forms, limits, grants, logs, and what is
//! refused before a record flows. The guests are built by `cargo xtask guests`.

#[path = "plugin/batches.rs"]
mod batches;
#[path = "plugin/choices.rs"]
mod choices;
#[path = "plugin/common.rs"]
mod common;
#[path = "plugin/expanders.rs"]
mod expanders;
#[path = "plugin/isolation.rs"]
mod isolation;
#[path = "plugin/limits.rs"]
mod limits;
#[path = "plugin/loading.rs"]
mod loading;
#[path = "plugin/logs.rs"]
mod logs;
#[path = "plugin/pool.rs"]
mod pool;
#[path = "plugin/predicates.rs"]
mod predicates;
#[path = "plugin/sinks.rs"]
mod sinks;
#[path = "plugin/steps.rs"]
mod steps;
#[path = "plugin/throttled.rs"]
mod throttled;
#[path = "plugin/uploads.rs"]
mod uploads;
