//! What must hold of the repository itself: who may depend on whom, and where versions, lints and licence come from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;
use xtask::programs::{cargo, output};
use xtask::root;

/// Who may know whom, beside crates that are not ours. A crate that is new must be entered, and so be thought about.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("loom-types", &[]),
    ("loom-flow", &["loom-types"]),
    ("loom-delivery", &["loom-types"]),
    ("loom-plugin", &["loom-types", "loom-delivery"]),
    ("loom-kafka", &["loom-types", "loom-delivery"]),
    ("loom-runtime", &["loom-types", "loom-flow", "loom-delivery", "loom-plugin", "loom-kafka"]),
    ("loom-host", &["loom-types", "loom-flow", "loom-delivery", "loom-plugin", "loom-kafka", "loom-runtime"]),
    ("loom-tests", &["xtask"]),
    ("xtask", &[]),
];

/// Each engine enters through one crate. The tests speak to Kafka themselves, to see what the host did.
const ENGINES: &[(&str, &[&str])] = &[
    ("wasmtime", &["loom-plugin"]),
    ("wasmtime-wasi", &["loom-plugin"]),
    ("wasmtime-wasi-http", &["loom-plugin"]),
    ("rdkafka", &["loom-kafka", "loom-tests"]),
    ("rdkafka-sys", &["loom-kafka"]),
    ("timely", &["loom-runtime"]),
];

/// What lies at the top, beside dotfiles.
const TOP_LEVEL: &[&str] = &[
    "host",
    "wit",
    "plugins-example",
    "tests",
    "docs",
    "target",
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "rust-toolchain.toml",
    "rustfmt.toml",
];

/// A package of a workspace, as cargo describes it.
struct Package {
    name: String,
    manifest: String,
    facts: Value,
}

impl Package {
    /// The names of its dependencies of a kind: `None` = normal, else `build` or `dev`.
    fn dependencies(&self, kind: Option<&str>) -> impl Iterator<Item = &str> {
        let dependencies = self.facts["dependencies"].as_array().into_iter().flatten();
        let of_kind = move |dependency: &&Value| dependency["kind"].as_str() == kind;
        dependencies.filter(of_kind).filter_map(|dependency| dependency["name"].as_str())
    }
}

/// The packages of the workspace in a folder below the root.
fn packages(folder: &str) -> Vec<Package> {
    let metadata =
        output(cargo(&root().join(folder)).args(["metadata", "--no-deps", "--format-version", "1"]));
    let metadata: Value =
        serde_json::from_str(&metadata.expect("cargo describes the workspace")).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    let package = |facts: &Value| {
        let path = facts["manifest_path"].as_str().expect("a package has a manifest");
        Package {
            name: facts["name"].as_str().expect("a package has a name").to_owned(),
            manifest: fs::read_to_string(path).expect("the manifest can be read"),
            facts: facts.clone(),
        }
    };
    packages.iter().map(package).collect()
}

#[test]
fn dependencies_point_one_way() {
    let packages = packages(".");
    let may_know: BTreeMap<_, _> = MAY_KNOW.iter().copied().collect();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let mut wrong = Vec::new();
    for package in &packages {
        let Some(allowed) = may_know.get(package.name.as_str()) else {
            wrong.push(format!("{} is not in MAY_KNOW: say there what it may depend on", package.name));
            continue;
        };
        let known = package.dependencies(None).chain(package.dependencies(Some("build")));
        for dependency in known.filter(|name| ours.contains(name)) {
            if !allowed.contains(&dependency) {
                wrong.push(format!("{} must not depend on {dependency}", package.name));
            }
        }
        // A crate's tests see no more of ours than the crate, beside the harness; the end-to-end tests may see all.
        let seen = package.dependencies(Some("dev")).filter(|name| ours.contains(name));
        for dependency in seen.filter(|_| package.name != "loom-tests") {
            // A crate may switch features of its own on for its tests.
            let known = ["loom-tests", "xtask", package.name.as_str()];
            if !allowed.contains(&dependency) && !known.contains(&dependency) {
                wrong.push(format!("the tests of {} must not depend on {dependency}", package.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_engine_is_a_normal_dependency_of_one_crate() {
    let packages = packages(".");
    let mut wrong = Vec::new();
    for (engine, owners) in ENGINES {
        let users = packages.iter().filter(|package| package.dependencies(None).any(|name| name == *engine));
        for package in users.filter(|package| !owners.contains(&package.name.as_str())) {
            wrong.push(format!("{} depends on {engine}, which is for {}", package.name, owners[0]));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn versions_lints_and_licence_come_from_the_workspace() {
    let mut wrong = Vec::new();
    let (host, guests) = (packages("."), packages("plugins-example"));
    for package in host.iter().chain(&guests) {
        let name = &package.name;
        for key in ["version", "edition", "rust-version", "license", "publish"] {
            if !package.manifest.contains(&format!("\n{key}.workspace = true\n")) {
                wrong.push(format!("{name}: `{key}.workspace = true` is missing"));
            }
        }
        if !package.manifest.contains("[lints]\nworkspace = true\n") {
            wrong.push(format!("{name}: `[lints]` does not take the workspace's"));
        }
        if package.facts["license"] != "Apache-2.0" {
            wrong.push(format!("{name}: the licence is {}", package.facts["license"]));
        }
        wrong.extend(
            own_versions(&package.manifest).map(|line| format!("{name}: `{line}` names its own version")),
        );
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The lines of the dependency sections that do not refer to the workspace.
fn own_versions(manifest: &str) -> impl Iterator<Item = &str> {
    let mut in_dependencies = false;
    manifest.lines().map(str::trim).filter(move |line| {
        if line.starts_with('[') {
            in_dependencies = line.ends_with("dependencies]");
            return false;
        }
        in_dependencies && line.contains('=') && !line.starts_with('#') && !line.contains("workspace = true")
    })
}

#[test]
fn nothing_else_lies_at_the_top() {
    let entries = fs::read_dir(root()).expect("the root can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let strangers: Vec<String> =
        names.filter(|name| !name.starts_with('.') && !TOP_LEVEL.contains(&name.as_str())).collect();
    assert!(strangers.is_empty(), "{strangers:?} belong into one of the folders");
}

#[test]
fn a_dependency_with_a_version_of_its_own_is_noticed() {
    let manifest = "[package]\nversion = \"1\"\n[dependencies]\na.workspace = true\nb = \"2\"\n[dev-dependencies]\n\
                    c = { version = \"3\" }\n[features]\nd = []\n";
    assert_eq!(own_versions(manifest).collect::<Vec<_>>(), ["b = \"2\"", "c = { version = \"3\" }"]);
}
