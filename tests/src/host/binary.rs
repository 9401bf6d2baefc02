//! Where the binary under test is.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow};
use xtask::programs::{cargo, output};

/// `loom-host`: what `LOOM_HOST_BIN` names, as `cargo xtask test` sets it; else it is built once for this program, in
/// the profile of this program, so that no test ever runs yesterday's binary.
///
/// # Errors
/// If it cannot be built.
pub fn path() -> Result<&'static Path> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let binary = BINARY.get_or_init(|| find().map_err(|error| format!("{error:#}")));
    binary.as_deref().map_err(|error| anyhow!("no loom-host to test: {error}"))
}

fn find() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("LOOM_HOST_BIN") {
        return Ok(PathBuf::from(path));
    }
    // This program is <target>/<profile>/deps/<name>, or without `deps` for a binary.
    let program = std::env::current_exe().context("cannot find this program")?;
    let folder = program.parent().context("this program lies in no folder")?;
    let profile =
        if folder.ends_with("deps") { folder.parent().context("no profile folder")? } else { folder };
    let target = profile.parent().context("no target folder")?;

    let mut build = cargo(&xtask::root());
    build.args(["build", "--quiet", "--package", "loom-host", "--target-dir"]).arg(target);
    if profile.ends_with("release") {
        build.arg("--release");
    }
    output(&mut build)?;
    Ok(profile.join("loom-host"))
}
