//! Goldens: every `diagnostics/NAME.yaml` is compiled, and what `check` would print is held against `NAME.stderr`.
//!
//! These are files with many faults, or none that has a single code; each code by itself is held by its page, see
//! `codes`. `BLESS=1 cargo test -p loom-flow` writes the goldens anew; a golden without its flow fails. A first line such
//! as `# world: mode=run A=1` sets the mode and variables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use loom_flow::{HumanStyle, Mode};

use crate::support::World;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

fn names(extension: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder of goldens");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}

fn world(text: &str) -> World {
    let mut world = World::new();
    let Some(settings) = text.lines().next().and_then(|line| line.strip_prefix("# world: ")) else {
        return world;
    };
    for (name, value) in settings.split(' ').filter_map(|setting| setting.split_once('=')) {
        world = match (name, value) {
            ("mode", "run") => world.mode(Mode::Run),
            ("mode", "dev") => world.mode(Mode::Dev),
            ("require_env", value) => {
                world.options.require_env = value == "true";
                world
            }
            _ => world.var(name, value),
        };
    }
    world
}

#[test]
fn every_flow_prints_its_golden() {
    let bless = std::env::var_os("BLESS").is_some();
    let flows = names("yaml");
    let mut failures = Vec::new();
    for name in &flows {
        let bytes = std::fs::read(folder().join(format!("{name}.yaml"))).expect("a flow");
        let compiled = world(&String::from_utf8_lossy(&bytes)).compile_bytes(&bytes);
        let shown = compiled.render(HumanStyle { color: false, unicode: true, width: 100 });
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        let shown = lines.join("\n") + "\n";
        let golden = folder().join(format!("{name}.stderr"));
        if bless {
            std::fs::write(&golden, shown).expect("a golden is written");
        } else {
            let expected = std::fs::read_to_string(&golden).unwrap_or_default();
            if expected != shown {
                failures.push(format!("== {name}: expected\n{expected}\n== {name}: printed\n{shown}"));
            }
        }
    }
    let orphans: Vec<String> = names("stderr").difference(&flows).cloned().collect();
    assert!(orphans.is_empty(), "goldens without a flow: {orphans:?}");
    assert!(flows.len() > 10, "the folder of goldens was found");
    assert!(failures.is_empty(), "{}\nto accept: BLESS=1 cargo test -p loom-flow", failures.join("\n"));
}
