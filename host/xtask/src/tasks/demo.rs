//! `cargo xtask demo`: the example flow on its input, without Kafka. The first command that a newcomer runs.

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use xtask::guests::{Which, build, ensure_target};
use xtask::phases::Phases;
use xtask::programs::{cargo, run};
use xtask::root;

/// Builds what is needed and runs `loom-host dev`; its exit status is ours.
pub fn demo(arguments: &[String]) -> Result<ExitCode> {
    let root = root();
    let host = root.join("target/debug/loom-host");
    if !host.is_file() {
        eprintln!(
            "A first build compiles a WebAssembly compiler and a Kafka client: some minutes, more on few cores.\n\
             Later ones take seconds. cargo shows below how far it is."
        );
    }
    let mut phases = Phases::new(4);
    phases.run("The wasm32-wasip2 target of the Rust toolchain", ensure_target)?;
    phases.run("The example's plugins, as WebAssembly components", || build(Which::Examples))?;
    phases.run("loom-host", || {
        let mut build = cargo(&root);
        run(build
            .args(["build", "--locked", "--package", "loom-host", "--target-dir"])
            .arg(root.join("target")))
    })?;

    let example = root.join("plugins-example/orders");
    // The sink's granted folder: a grant is of a folder that exists.
    fs::create_dir_all(example.join("out")).context("cannot make plugins-example/orders/out")?;
    let (flow, input) = ("plugins-example/orders/flow.yaml", "plugins-example/orders/orders.jsonl");
    let mut dev = Command::new(&host);
    dev.current_dir(&root).args(["dev", flow, "--input", input]).args(arguments);
    phases.announce(&format!("loom-host dev {flow} --input {input}"));
    let status = dev.status().with_context(|| format!("cannot start {}", host.display()))?;
    if status.success() {
        eprintln!("The archive that the sink wrote is in plugins-example/orders/out.");
    }
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
