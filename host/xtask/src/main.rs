//! `cargo xtask TASK`: everything that a developer does here, under one name.
//!
//! Each task prints what it does and how long it took, leaves cargo's own progress on the screen, and installs or names
//! what is missing.

mod tasks;

use std::process::ExitCode;

use anyhow::Result;
use xtask::libraries;

const HELP: &str = "\
Developer tasks of loom-host.

Usage: cargo xtask TASK [ARGUMENTS]

  demo [ARGS]    Build the example plugins and the host, and run the example flow on its input, without Kafka.
                 ARGS go to `loom-host dev`.
  test [ARGS]    Build the guests and run every test, with a real Kafka. ARGS go to `cargo test`.
  lint           Formatting, clippy and documentation, of the host and of the guests, without a warning.
  ci             lint, then test: what has to pass before a change is taken.
  guests         Build all WebAssembly components: into plugins-example/*/plugins/ and target/guests/.
  release        Build target/release/loom-host, for any machine of this kind: every C library is built from source.
  broker         Start a Kafka to try things with, print its address, and keep it until Ctrl-C.
  bench [ARGS]   Run the benches. ARGS: `tracker`, `crossing`, `kafka`, or none for all; what follows `--` goes to them.
  sim [ARGS]     Run the deterministic simulation over many seeds, or repeat one with its history: `sim --seed 7`.
                 ARGS go to the simulation (`--help` lists them).
  soak [ARGS]    A million seeds of the simulation, a million broken flows; then host, broker and cluster hurt under load,
                 at full scale. ARGS go to the soak program (`--help` lists them).
  orders         Write plugins-example/orders/orders.jsonl anew.

Examples:
  cargo xtask demo
  cargo xtask test -- order_is_kept
  cargo xtask test -p loom-delivery
  LOOM_TEST_KAFKA=localhost:9092 cargo xtask test
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let result = match task.as_deref() {
        Some("-h" | "--help" | "help") | None => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Some(task) => run(task, &rest),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &str, arguments: &[String]) -> Result<ExitCode> {
    libraries::choose()?;
    match task {
        "demo" => tasks::demo(arguments),
        "test" => tasks::test(arguments),
        "lint" => none(task, arguments, tasks::lint),
        "ci" => none(task, arguments, tasks::ci),
        "guests" => none(task, arguments, tasks::guests),
        "release" => none(task, arguments, tasks::release),
        "broker" => none(task, arguments, tasks::broker),
        "bench" => tasks::bench(arguments),
        "sim" => tasks::sim(arguments),
        "soak" => tasks::soak(arguments),
        "orders" => none(task, arguments, tasks::orders),
        other => {
            eprintln!("error: there is no task {other:?}\n\n{HELP}");
            Ok(ExitCode::from(2))
        }
    }
}

/// A task that takes no arguments: one that is given must not be ignored.
fn none(task: &str, arguments: &[String], work: fn() -> Result<ExitCode>) -> Result<ExitCode> {
    match arguments.first() {
        None => work(),
        Some(argument) => {
            eprintln!("error: `cargo xtask {task}` takes no arguments, but {argument:?} was given\n\n{HELP}");
            Ok(ExitCode::from(2))
        }
    }
}
