//! Whole flows on the memory broker: compiled from YAML, assembled, and run on worker threads with real components.

#[path = "flows/harness.rs"]
mod harness;
#[path = "flows/smoke.rs"]
mod smoke;
