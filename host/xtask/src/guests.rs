//! The WebAssembly components: the example plugins and the guests that only tests load.
//!
//! All are members of one cargo workspace, `plugins-example/`, so that one invocation builds them. What it builds is
//! then copied to where it is looked for: an example's plugin to `plugins-example/<flow>/plugins/<name>.wasm`, beside
//! the flow file that names it, and every guest to `target/guests/<name>.wasm`, for tests.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::programs::{cargo, find, output, run, write_if_changed};
use crate::root;

/// The target that components are compiled for.
pub const TARGET: &str = "wasm32-wasip2";

/// Which guests a task needs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The example plugins.
    Examples,
    /// Those, and the guests that only tests load.
    All,
}

/// One guest crate.
struct Guest {
    name: String,
    /// Where the flow file looks for it, for an example plugin.
    plugin: Option<PathBuf>,
}

/// Where a guest's component lies once `build` was here.
pub fn component(name: &str) -> PathBuf {
    root().join("target/guests").join(format!("{name}.wasm"))
}

/// Makes sure that the pinned toolchain can compile for wasm32-wasip2, and adds the target with rustup if it cannot.
pub fn ensure_target() -> Result<()> {
    let mut rustc = std::process::Command::new("rustc");
    let folder = output(rustc.current_dir(root()).args(["--print", "target-libdir", "--target", TARGET]))?;
    if Path::new(folder.trim()).is_dir() {
        return Ok(());
    }
    if find("rustup").is_none() {
        bail!(
            "plugins are compiled for {TARGET}, and this Rust toolchain cannot do that.\n\
             It was not installed by rustup, so the target cannot be added here: install rustup (https://rustup.rs), \
             or the package of your distribution that holds Rust's standard library for {TARGET}."
        );
    }
    run(std::process::Command::new("rustup").current_dir(root()).args(["target", "add", TARGET]))
        .with_context(|| format!("plugins are compiled for {TARGET}, which could not be installed"))
}

/// Builds the guests and puts their components in place. Returns the paths that were written anew.
pub fn build(which: Which) -> Result<Vec<PathBuf>> {
    let workspace = root().join("plugins-example");
    let guests = guests(which)?;
    let mut command = cargo(&workspace);
    command
        .args(["build", "--release", "--locked", "--target", TARGET, "--target-dir"])
        .arg(workspace.join("target"));
    for guest in &guests {
        command.args(["--package", &guest.name]);
    }
    run(&mut command)?;

    let built = workspace.join("target").join(TARGET).join("release");
    let mut written = Vec::new();
    for Guest { name, plugin } in guests {
        let file = built.join(format!("{}.wasm", name.replace('-', "_")));
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        for place in std::iter::once(component(&name)).chain(plugin) {
            if write_if_changed(&place, &bytes)? {
                written.push(place);
            }
        }
    }
    Ok(written)
}

/// The guest crates, from the folders that hold them: a new one needs no entry here.
fn guests(which: Which) -> Result<Vec<Guest>> {
    let mut guests = Vec::new();
    for example in folders(&root().join("plugins-example"))? {
        if !example.join("flow.yaml").is_file() {
            continue;
        }
        for name in components(&example)? {
            let plugin = example.join("plugins").join(format!("{name}.wasm"));
            guests.push(Guest { name, plugin: Some(plugin) });
        }
    }
    if which == Which::All {
        let tests = components(&root().join("tests/guests"))?;
        guests.extend(tests.into_iter().map(|name| Guest { name, plugin: None }));
    }
    Ok(guests)
}

/// The names of the crates in a folder's folders that become components; each is named as its folder.
fn components(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for crate_folder in folders(folder)? {
        let manifest = fs::read_to_string(crate_folder.join("Cargo.toml")).unwrap_or_default();
        if manifest.contains("cdylib") {
            names.extend(crate_folder.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    Ok(names)
}

fn folders(of: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(of).with_context(|| format!("cannot read {}", of.display()))?;
    let mut folders: Vec<PathBuf> = entries.map_while(Result::ok).map(|entry| entry.path()).collect();
    folders.retain(|path| path.is_dir());
    folders.sort();
    Ok(folders)
}
