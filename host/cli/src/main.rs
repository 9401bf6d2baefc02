//! `loom-host`: the command. Verbs, what people see, signals and exit statuses; the work is done in the crates below.
//!
//! Invariants: standard output holds what a command was asked for and nothing else; everything else goes to standard
//! error; every way out of the process has a status of [`status::Status`]; no text from outside acts on a terminal.

mod admin;
mod answers;
mod args;
mod cases;
mod check;
mod describe;
mod dev;
mod explain;
mod flow_file;
mod from;
mod graph;
mod hidden;
mod init;
mod inspect;
mod logs;
mod offsets;
mod panics;
mod progress;
mod report;
mod run;
mod show;
mod signals;
mod start;
mod status;
mod terminal;

use std::process::ExitCode;

use args::{PluginVerb, Verb};
use loom_types::printable;
use status::Status;

fn main() -> ExitCode {
    panics::abort_on_panic();
    let cli = args::parse().unwrap_or_else(|error| error.exit());
    if let Err(message) = logs::start(matches!(cli.verb, Verb::Run(_) | Verb::Dev(_))) {
        terminal::print_error(&format!("error: {}\n", printable(&message)));
        return Status::Usage.into();
    }
    match cli.verb {
        Verb::Run(args) => run::run(&args),
        Verb::Dev(args) => dev::dev(&args),
        Verb::Test(args) => cases::test(&args),
        Verb::Check(args) => check::check(&args),
        Verb::Explain(args) => explain::explain(&args),
        Verb::Offsets(args) => offsets::offsets(&args),
        Verb::Status(args) => show::status::status(&args),
        Verb::Why(args) => show::why::why(&args),
        Verb::Graph(args) => graph::graph(&args),
        Verb::Init(args) => init::init(&args),
        Verb::Schema(args) => describe::schema(args.of),
        Verb::Completions(args) => describe::completions(args.shell),
        Verb::Man(args) => describe::man(args.dir.as_deref()),
        Verb::Plugin { verb: PluginVerb::Inspect(args) } => inspect::inspect(&args),
    }
    .into()
}
