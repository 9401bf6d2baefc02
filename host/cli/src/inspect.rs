//! `plugin inspect`: what a component's file says of it, for people. Nothing is compiled and nothing runs.

use std::fmt::Write;
use std::path::Path;

use loom_plugin::{Facts, FactsError, read_facts};
use loom_types::printable;

use crate::answers::why_no_plugin;
use crate::args::InspectArgs;
use crate::status::Status;
use crate::terminal;

/// Shows every file; those that are no plugin are reported together at the end.
pub fn inspect(args: &InspectArgs) -> Status {
    let mut shown = String::new();
    let mut refused = Vec::new();
    for file in &args.files {
        match read_facts(file) {
            Ok(facts) => {
                let gap = if shown.is_empty() { "" } else { "\n" };
                let _ = write!(shown, "{gap}{}", describe(file, &facts));
            }
            Err(error) => refused.push(error),
        }
    }
    if let Err(error) = terminal::print(&shown) {
        terminal::print_error(&format!("error: cannot write to standard output: {error}\n"));
        return Status::Failed;
    }
    for error in &refused {
        terminal::print_error(&format!("error: {}\n", printable(&why_no_plugin(error))));
    }
    Status::of_several(refused.iter().map(status_of))
}

/// As `run` judges the same file.
fn status_of(error: &FactsError) -> Status {
    if error.is_bad_file() { Status::Flow } else { Status::Runtime }
}

/// A heading and a line a fact.
fn describe(file: &Path, facts: &Facts) -> String {
    let mut out = format!("{}\n", printable(&file.display().to_string()));
    let roles = facts.roles.names();
    let roles = if roles.is_empty() { "none: a flow cannot use it".to_owned() } else { roles.join(", ") };
    line(&mut out, "roles", &roles);
    line(&mut out, "contract", facts.track.map_or("none", |track| track));
    line(&mut out, "size", &size(facts.size));
    line(&mut out, "digest", &format!("sha256:{}", facts.digest));
    list(&mut out, "imports", &facts.imports);
    list(&mut out, "exports", &facts.exports);
    out
}

fn line(out: &mut String, name: &str, value: &str) {
    let _ = writeln!(out, "  {name:<9} {}", printable(value));
}

fn list(out: &mut String, name: &str, values: &[String]) {
    if values.is_empty() {
        line(out, name, "none");
    }
    for (index, value) in values.iter().enumerate() {
        line(out, if index == 0 { name } else { "" }, value);
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20)),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use loom_plugin::{Facts, Roles};

    use super::{describe, size};

    #[test]
    fn every_fact_has_a_line() {
        let facts = Facts {
            roles: Roles { step: true, setup: true, ..Roles::default() },
            imports: vec!["wasi:io/poll@0.2.6".to_owned(), "wasi:cli/environment@0.2.6".to_owned()],
            exports: Vec::new(),
            track: Some("0.1"),
            digest: "ab".repeat(32),
            size: 1536,
        };
        let expected = format!(
            "enrich.wasm\n  roles     step, setup\n  contract  0.1\n  size      1.5 KiB\n  digest    sha256:{}\n  \
             imports   wasi:io/poll@0.2.6\n            wasi:cli/environment@0.2.6\n  exports   none\n",
            "ab".repeat(32)
        );
        assert_eq!(describe(Path::new("enrich.wasm"), &facts), expected);
    }

    #[test]
    fn sizes_are_readable() {
        assert_eq!(size(12), "12 bytes");
        assert_eq!(size(3 << 20), "3.0 MiB");
    }
}
