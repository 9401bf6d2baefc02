//! The command as its users meet it: what it prints where, and how it ends. Everything here needs no broker; flows that
//! run against Kafka are tested end to end.

mod admin;
mod check;
mod dev;
mod docs;
mod explain;
mod grants;
mod plugins;
mod run;
mod running;
mod signals;
mod support;
mod usage;
