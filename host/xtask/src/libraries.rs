//! Which C libraries the host is linked with: those of the system, or ones that are built from source.
//!
//! OpenSSL takes longer to build than all else. Where the system has it, with its headers, builds for this machine take
//! that one; where not, and for releases, which run on other machines, it is built from source.
//!
//! The choice stands in `.cargo/system.toml`, which `.cargo/config.toml` includes and git ignores: plain `cargo` then
//! makes the same one, and nothing is compiled twice.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::Result;

use crate::programs::write_if_changed;
use crate::root;

/// What the build of `openssl-sys` reads: with any value but `0` it takes the system's library.
const NO_VENDOR: &str = "OPENSSL_NO_VENDOR";

/// Writes the choice down for plain `cargo`.
///
/// # Errors
/// If the file cannot be written.
pub fn choose() -> Result<()> {
    write_if_changed(&file(), text(system_openssl()).as_bytes())?;
    Ok(())
}

/// Makes a command build for this machine, with the libraries that it has.
pub fn of_this_machine(cargo: &mut Command) {
    if system_openssl() {
        cargo.env(NO_VENDOR, "1");
    } else {
        // cargo gives what the file said before to the tasks that it runs.
        cargo.env_remove(NO_VENDOR);
    }
}

/// Makes a command build for other machines too, with every library from source.
pub fn from_source(cargo: &mut Command) {
    cargo.env(NO_VENDOR, "0");
}

fn file() -> PathBuf {
    root().join(".cargo/system.toml")
}

/// Whether the system has OpenSSL 3 to link with. `openssl-sys` asks the same program in the same way.
fn system_openssl() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let pkg_config = std::env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
        let mut ask = Command::new(Path::new(&pkg_config));
        ask.args(["--exists", "openssl >= 3.0.0"]).stdin(Stdio::null()).stdout(Stdio::null());
        ask.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    })
}

fn text(system_openssl: bool) -> String {
    let choice = if system_openssl { "\n[env]\nOPENSSL_NO_VENDOR = \"1\"\n" } else { "" };
    format!(
        "# Written by `cargo xtask`: which C libraries of this system are linked, instead of built.\n{choice}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str) -> Vec<String> {
        let text = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_choice_is_read_by_plain_cargo_and_not_committed() {
        assert!(
            lines(".cargo/config.toml")
                .contains(&r#"include = [{ path = "system.toml", optional = true }]"#.into())
        );
        assert!(lines(".gitignore").contains(&"/.cargo/system.toml".into()));
        assert!(file().ends_with(".cargo/system.toml"));
        let tracked =
            Command::new("git").current_dir(root()).args(["ls-files", ".cargo/system.toml"]).output();
        let committed = tracked.is_ok_and(|tracked| !tracked.stdout.is_empty());
        assert!(!committed, "this machine's choice is committed");
    }

    #[test]
    fn a_build_for_this_machine_is_told_what_plain_cargo_is_told() {
        let mut cargo = Command::new("cargo");
        of_this_machine(&mut cargo);
        let told = cargo
            .get_envs()
            .any(|(name, value)| name == NO_VENDOR && value.is_some_and(|value| value == "1"));
        assert_eq!(told, text(system_openssl()).contains("OPENSSL_NO_VENDOR = \"1\""));
    }

    #[test]
    fn a_release_takes_nothing_from_the_system() {
        let mut cargo = Command::new("cargo");
        of_this_machine(&mut cargo);
        from_source(&mut cargo);
        let told: Vec<_> = cargo.get_envs().collect();
        assert_eq!(told, [(NO_VENDOR.as_ref(), Some("0".as_ref()))]);
    }
}
