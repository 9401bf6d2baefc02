//! `cargo xtask bench`, `cargo xtask sim` and `cargo xtask soak`: what takes long, or is asked for by hand, and is no part
//! of CI. (The simulation's first ten thousand seeds are: they are one of the tests of `loom-runtime`.)

use std::process::ExitCode;

use anyhow::{Result, bail};
use xtask::guests::{Which, build, ensure_target};
use xtask::phases::Phases;
use xtask::programs::{cargo, run};
use xtask::root;

/// The benches: name, package, and whether it runs the host.
const BENCHES: [(&str, &str, bool); 5] = [
    ("tracker", "loom-delivery", false),
    ("crossing", "loom-plugin", false),
    ("expression", "loom-flow", false),
    ("check", "loom-tests", true),
    ("kafka", "loom-tests", true),
];

/// Runs the named benches, or all.
pub fn bench(arguments: &[String]) -> Result<ExitCode> {
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    let names = parts.next().unwrap_or_default();
    let passed_on = parts.next().unwrap_or_default();
    for name in names {
        if BENCHES.iter().all(|(known, ..)| known != name) {
            let known = BENCHES.map(|(known, ..)| known).join(", ");
            bail!("there is no bench {name:?}; there are {known}");
        }
    }
    let chosen =
        BENCHES.iter().filter(|(name, ..)| names.is_empty() || names.iter().any(|chosen| chosen == name));
    let chosen: Vec<_> = chosen.collect();
    let root = root();
    let needs_host = chosen.iter().any(|(.., host)| *host);
    let mut phases = Phases::new(1 + usize::from(needs_host) + chosen.len());
    phases.run("The guests", || ensure_target().and_then(|()| build(Which::All)))?;
    if needs_host {
        phases.run("loom-host, optimised", build_host)?;
    }
    for (name, package, _) in chosen {
        phases.run(&format!("Bench {name}"), || {
            let mut command = cargo(&root);
            command.args(["bench", "--locked", "--package", package, "--bench", name, "--target-dir"]);
            command.arg(root.join("target")).arg("--").args(passed_on);
            run(command.env("LOOM_HOST_BIN", root.join("target/release/loom-host")))
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Seeds of the simulation, and flows that are made and broken, in a soak.
const MANY: &str = "1000000";

/// Runs the simulation. It is built as tests are, with every assertion, and needs neither guests nor a Kafka.
pub fn sim(arguments: &[String]) -> Result<ExitCode> {
    simulate(false, arguments)
}

fn simulate(optimised: bool, arguments: &[String]) -> Result<ExitCode> {
    let root = root();
    let mut command = cargo(&root);
    command.arg("run");
    if optimised {
        command.arg("--release");
    }
    command.args(["--locked", "--package", "loom-runtime", "--example", "sim", "--target-dir"]);
    run(command.arg(root.join("target")).arg("--").args(arguments))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the simulation and the flow language's generated documents at length, and the soak program on the optimised host;
/// with `--only PART` what is named alone.
pub fn soak(arguments: &[String]) -> Result<ExitCode> {
    let root = root();
    let only: Vec<&str> =
        arguments.windows(2).filter(|pair| pair[0] == "--only").map(|pair| &*pair[1]).collect();
    let holds = |part: &str| only.is_empty() || only.contains(&part);
    let (simulates, documents) = (holds("sim"), holds("documents"));
    let drills = only.is_empty() || only.iter().any(|part| !["sim", "documents"].contains(part));
    let mut phases = Phases::new(usize::from(simulates) + usize::from(documents) + 3 * usize::from(drills));
    if simulates {
        phases.run("The simulation, a million seeds", || {
            let seeds = ["--seeds", MANY].map(str::to_owned);
            simulate(true, &seeds)
        })?;
    }
    if documents {
        phases.run("A million broken flows", || {
            let mut command = cargo(&root);
            command.args(["test", "--release", "--locked", "--package", "loom-flow", "--test", "flow"]);
            command.args(["generated", "--target-dir"]).arg(root.join("target"));
            run(command.env("LOOM_DOCUMENTS", MANY))
        })?;
    }
    if !drills {
        return Ok(ExitCode::SUCCESS);
    }
    phases.run("The guests", || ensure_target().and_then(|()| build(Which::All)))?;
    phases.run("loom-host, optimised", build_host)?;
    phases.run("Soak", || {
        let mut command = cargo(&root);
        command.args([
            "run",
            "--release",
            "--locked",
            "--package",
            "loom-tests",
            "--bin",
            "soak",
            "--target-dir",
        ]);
        command.arg(root.join("target")).arg("--").args(arguments);
        run(command.env("LOOM_HOST_BIN", root.join("target/release/loom-host")))
    })?;
    Ok(ExitCode::SUCCESS)
}

fn build_host() -> Result<()> {
    let root = root();
    let mut build = cargo(&root);
    build.args(["build", "--release", "--locked", "--package", "loom-host", "--target-dir"]);
    run(build.arg(root.join("target")))
}
