//! All integration tests of the flow compiler, as one binary.

mod cases;
mod codes;
mod diagnostics;
mod flows;
mod foreign;
mod generated;
mod hostile;
mod lints;
mod mutations;
mod overlays;
mod plans;
mod schema;
mod secrets;
mod settings;
mod shapes;
mod support;
mod variables;
