//! `cargo xtask test`: every test, with the guests built, the host built, and a real Kafka running.
//!
//! One broker serves all test programs of the run; tests that kill their broker start their own. Where no Kafka can be
//! had, the tests that need it are skipped by name and counted at the end; under `CI=true` that is a failure.

use std::fs;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use xtask::guests::{Which, build, ensure_target};
use xtask::kafka::{Kafka, Options, jars};
use xtask::phases::Phases;
use xtask::programs::{cargo, run};
use xtask::root;

/// Arguments go to `cargo test`; `--workspace` is added unless they choose packages.
pub fn test(arguments: &[String]) -> Result<ExitCode> {
    let root = root();
    let to_cargo: Vec<&str> =
        arguments.iter().map(String::as_str).take_while(|argument| *argument != "--").collect();
    let all = !to_cargo.iter().any(|argument| ["-p", "--package", "--workspace", "--all"].contains(argument));
    let end_to_end =
        all || to_cargo.iter().any(|argument| ["loom-tests", "--workspace", "--all"].contains(argument));

    let mut phases = Phases::new(if end_to_end { 5 } else { 3 });
    phases.run("The wasm32-wasip2 target of the Rust toolchain", ensure_target)?;
    phases.run("The guests, as WebAssembly components", || build(Which::All))?;
    let mut kafka = None;
    if end_to_end {
        phases.run("loom-host and the tests", build_host)?;
        kafka = phases.run("Kafka", shared_kafka)?;
    }

    let skipped = root.join("target").join(format!("skipped-tests-{}", std::process::id()));
    let mut command = cargo(&root);
    command.args(["test", "--locked", "--no-fail-fast", "--target-dir"]).arg(root.join("target"));
    if all {
        command.arg("--workspace");
    }
    command.args(arguments).env("LOOM_SKIPPED_TESTS", &skipped);
    if end_to_end {
        command.env("LOOM_HOST_BIN", root.join("target/debug/loom-host"));
    }
    if let Some(kafka) = &kafka {
        command.env("LOOM_TEST_KAFKA", kafka.address());
    }
    let result = phases.run("Tests", || run(&mut command));
    report_skipped(&skipped)?;
    result?;
    eprintln!("all tests passed, after {}", phases.elapsed());
    Ok(ExitCode::SUCCESS)
}

/// Builds the binary that the end-to-end tests run. With `--tests` the features of development dependencies are chosen
/// as `cargo test` chooses them, so that nothing is compiled twice.
fn build_host() -> Result<()> {
    let root = root();
    let mut build = cargo(&root);
    build
        .args(["build", "--locked", "--workspace", "--bins", "--tests", "--target-dir"])
        .arg(root.join("target"));
    run(&mut build)
}

/// The broker for this run; none where one is named already, or where none can be had.
fn shared_kafka() -> Result<Option<Kafka>> {
    if let Ok(address) = std::env::var("LOOM_TEST_KAFKA") {
        eprintln!("      LOOM_TEST_KAFKA names {address}");
        return Ok(None);
    }
    let missing = jars::missing_programs();
    if !missing.is_empty() {
        let advice = jars::advice(&missing);
        if std::env::var("CI").is_ok_and(|value| value == "true") {
            bail!(advice);
        }
        eprintln!("warning: {advice}\nThose tests are skipped.");
        return Ok(None);
    }
    let jars = jars::ensure(|line| eprintln!("      {line}"))?;
    Kafka::start(&jars, &Options::default()).map(Some)
}

fn report_skipped(file: &std::path::Path) -> Result<()> {
    let Ok(names) = fs::read_to_string(file) else { return Ok(()) };
    fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()))?;
    eprintln!("{} tests were skipped, because this machine lacks what they need:", names.lines().count());
    names.lines().for_each(|name| eprintln!("  {name}"));
    Ok(())
}
