//! The components that tests load, as `cargo xtask guests` built them.

use std::path::PathBuf;

use anyhow::{Result, ensure};

/// The path of a guest of `tests/guests` or of an example's plugin, by its name, such as `probe-step`.
pub fn component(name: &str) -> Result<PathBuf> {
    let path = xtask::guests::component(name);
    ensure!(path.is_file(), "{} is not there: build the guests with `cargo xtask guests`", path.display());
    Ok(path)
}
