//! The command as its users meet it: what it prints where, and how it ends. Everything here needs no broker; flows that
//! run against Kafka are tested end to end.

mod admin;
mod canary;
mod cases;
mod check;
mod describe;
mod dev;
mod docs;
mod explain;
mod grants;
mod plugins;
mod run;
mod running;
mod settings;
mod signals;
mod support;
mod terminal;
mod tools;
mod usage;
