//! The tasks, one file each where it is more than a few lines.

mod bench;
mod demo;
mod orders;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};
use xtask::guests::{TARGET, Which, build, ensure_target};
use xtask::kafka::{Kafka, Options, jars};
use xtask::libraries::from_source;
use xtask::phases::Phases;
use xtask::programs::{cargo, run};
use xtask::root;

pub use bench::{bench, sim, soak};
pub use demo::demo;
pub use orders::orders;
pub use test::test;

/// Builds every WebAssembly component.
pub fn guests() -> Result<ExitCode> {
    ensure_target()?;
    let written = build(Which::All)?;
    for path in &written {
        eprintln!("wrote {}", path.strip_prefix(root()).unwrap_or(path).display());
    }
    if written.is_empty() {
        eprintln!("all components are up to date");
    }
    Ok(ExitCode::SUCCESS)
}

/// Formatting, clippy and documentation, of the host's workspace and of the guests'.
pub fn lint() -> Result<ExitCode> {
    let root = root();
    let guests = root.join("plugins-example");
    let mut phases = Phases::new(6);
    phases.run("Formatting of the host", || run(cargo(&root).args(["fmt", "--all", "--check"])))?;
    phases.run("Formatting of the guests", || run(cargo(&guests).args(["fmt", "--all", "--check"])))?;
    phases.run("Clippy on the host", || {
        run(cargo(&root).args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
    })?;
    phases.run("Clippy on the guests", || {
        ensure_target()?;
        let clippy =
            ["clippy", "--workspace", "--release", "--locked", "--target", TARGET, "--target-dir", "target"];
        run(cargo(&guests).args(clippy).args(["--", "-D", "warnings"]))
    })?;
    phases.run("Tests of the example plugins", || {
        let test =
            ["test", "--quiet", "--workspace", "--release", "--locked", "--lib", "--target-dir", "target"];
        run(cargo(&guests).args(test))
    })?;
    phases.run("Documentation", || {
        let mut doc = cargo(&root);
        run(doc.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--no-deps", "--locked"]))
    })?;
    eprintln!("no warnings, after {}", phases.elapsed());
    Ok(ExitCode::SUCCESS)
}

/// Everything that has to pass.
pub fn ci() -> Result<ExitCode> {
    lint()?;
    test(&[])
}

/// The host as it is given to others.
pub fn release() -> Result<ExitCode> {
    let mut phases = Phases::new(1);
    phases.run("loom-host, optimised, with every library in it", || {
        let mut build = cargo(&root());
        build.args(["build", "--release", "--locked", "--package", "loom-host", "--target-dir"]);
        build.arg(root().join("target"));
        from_source(&mut build);
        run(&mut build)
    })?;
    eprintln!("target/release/loom-host is built");
    Ok(ExitCode::SUCCESS)
}

/// A Kafka to try things with.
pub fn broker() -> Result<ExitCode> {
    let missing = jars::missing_programs();
    if !missing.is_empty() {
        bail!(jars::advice(&missing));
    }
    let jars = jars::ensure(|line| eprintln!("{line}"))?;
    let kafka = Kafka::start(&jars, &Options::default())?;
    eprintln!("Apache Kafka {} runs; Ctrl-C ends it and removes its data. Its address:", jars::VERSION);
    println!("{}", kafka.address());
    loop {
        // Ctrl-C ends this process; the watchdog sees that and ends the broker.
        std::thread::park();
    }
}
