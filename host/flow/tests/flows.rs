//! Goldens of what a flow becomes: every `flows/NAME.yaml` has its plan (`NAME.plan`) and is drawn three times
//! (`NAME.txt`, `NAME.mmd`, `NAME.dot`).
//!
//! `BLESS=1 cargo test -p loom-flow` writes them anew. A node that runs must be in one of the flows; a golden without its
//! flow fails.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use loom_flow::{Compiled, GraphFormat};

use crate::support::World;

const FORMS: [&str; 4] = ["plan", "txt", "mmd", "dot"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows")
}

fn names(extension: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder()).expect("the folder of flows");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}

fn compile(name: &str) -> Compiled {
    let text = std::fs::read_to_string(folder().join(format!("{name}.yaml"))).expect("a flow");
    let world = World::new()
        .var("BROKERS", "a:9092, b:9092")
        .var("ZONE", "canary-zone")
        .var("REGION", "canary-region");
    let compiled = world.file("password", b"canary-password\n").compile(&text);
    assert!(compiled.plan.is_some(), "{name}: {}", compiled.render(loom_flow::HumanStyle::default()));
    compiled
}

fn form(compiled: &Compiled, form: &str) -> String {
    let shown = match form {
        "plan" => compiled.plan_text(),
        "txt" => compiled.graph(GraphFormat::Text { unicode: true }),
        "mmd" => compiled.graph(GraphFormat::Mermaid),
        _ => compiled.graph(GraphFormat::Dot),
    };
    shown.expect("a plan")
}

#[test]
fn every_flow_has_its_plan_and_its_graphs() {
    let bless = std::env::var_os("BLESS").is_some();
    let flows = names("yaml");
    assert!(flows.len() > 8, "the folder of flows was found");
    let mut failures = Vec::new();
    for name in &flows {
        let compiled = compile(name);
        for extension in FORMS {
            let shown = form(&compiled, extension);
            assert!(!shown.contains("canary"), "{name}.{extension} shows a secret:\n{shown}");
            let golden = folder().join(format!("{name}.{extension}"));
            if bless {
                std::fs::write(&golden, shown).expect("a golden is written");
            } else if std::fs::read_to_string(&golden).unwrap_or_default() != shown {
                failures.push(format!("== {name}.{extension} is now\n{shown}"));
            }
        }
    }
    for extension in FORMS {
        let orphans: Vec<String> = names(extension).difference(&flows).cloned().collect();
        assert!(orphans.is_empty(), "{extension} without a flow: {orphans:?}");
    }
    assert!(failures.is_empty(), "{}\nto accept: BLESS=1 cargo test -p loom-flow", failures.join("\n"));
}

#[test]
fn every_node_that_runs_is_in_one_of_the_flows() {
    let schema = loom_flow::schema();
    let definitions = schema["$defs"].as_object().expect("definitions");
    let plans: String = names("yaml").iter().map(|name| form(&compile(name), "plan")).collect();
    let mut nodes = 0;
    for (name, definition) in definitions {
        // A node's definition has the name of its node key.
        let Some(doc) = definition["properties"][name]["description"].as_str() else { continue };
        if doc.starts_with("Not in this version.") {
            continue;
        }
        nodes += 1;
        assert!(
            plans.contains(&format!("  {name}: ")) || plans.contains(&format!("  {name}:\n")),
            "{name} is in no flow"
        );
    }
    assert!(nodes >= 8, "{nodes}");
}

#[test]
fn a_plan_is_yaml_and_says_its_version() {
    for name in names("yaml") {
        let text = form(&compile(&name), "plan");
        let plan: serde_yaml::Value =
            serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
        assert_eq!(plan["plan"], 1, "{name}");
        assert!(plan["process"].is_sequence() && plan["consumer"]["brokers"].is_sequence(), "{name}: {text}");
        assert!(text.lines().all(|line| line.trim_end() == line), "{name}: {text}");
    }
}

#[test]
fn the_flow_of_forty_nodes_stays_readable() {
    let compiled = compile("forty");
    let mut nodes = 0;
    let plan = compiled.plan.as_ref().expect("a plan");
    plan.process.visit(&mut |_| nodes += 1);
    plan.routes.iter().for_each(|route| route.process.visit(&mut |_| nodes += 1));
    assert!(nodes >= 40, "{nodes}");
    let tree = form(&compiled, "txt");
    let widest = tree.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    assert!(widest <= 110 && tree.lines().count() <= 2 * nodes, "{widest} columns\n{tree}");
    // One arrow for a route of the whole flow, not one from every node.
    let dashed = form(&compiled, "mmd").lines().filter(|line| line.contains("-.->")).count();
    assert!(dashed < 10, "{dashed}");
}

#[test]
fn a_tree_can_do_with_ascii() {
    for name in names("yaml").into_iter().filter(|name| name != "odd-names") {
        let tree = compile(&name).graph(GraphFormat::Text { unicode: false }).expect("a plan");
        assert!(tree.is_ascii(), "{tree}");
    }
}

/// A word or a quoted string of DOT, and what is after it.
fn dot_id(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if let Some(rest) = text.strip_prefix('"') {
        let mut escaped = false;
        let end = rest.char_indices().find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        })?;
        return Some((&text[..end.0 + 2], &rest[end.0 + 1..]));
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| text.split_at(end))
}

/// `[a=b, c=d]`, or nothing, and then the end of the line.
fn dot_attributes(text: &str) -> Option<()> {
    let text = text.trim();
    let Some(inner) = text.strip_prefix('[') else { return (text == ";").then_some(()) };
    let mut rest = inner;
    loop {
        let (_, after) = dot_id(rest)?;
        let (_, after) = dot_id(after.trim_start().strip_prefix('=')?)?;
        match after.trim_start().strip_prefix(',') {
            Some(more) => rest = more,
            None => return (after.trim() == "];").then_some(()),
        }
    }
}

#[test]
fn graphs_are_dot() {
    for name in names("yaml") {
        let text = form(&compile(&name), "dot");
        let mut depth = 0;
        for line in text.lines().map(str::trim) {
            let right = if let Some(rest) = line.strip_prefix("digraph ") {
                depth += 1;
                dot_id(rest).is_some_and(|(_, after)| after == " {")
            } else if let Some(rest) = line.strip_prefix("subgraph ") {
                depth += 1;
                dot_id(rest).is_some_and(|(id, after)| id.starts_with("cluster_") && after == " {")
            } else if line == "}" {
                depth -= 1;
                true
            } else if let Some((from, rest)) = dot_id(line) {
                match (rest.trim_start().strip_prefix("->"), rest.trim_start().strip_prefix('=')) {
                    (Some(to), _) => dot_id(to).is_some_and(|(to, after)| {
                        from.starts_with('n') && to.starts_with('n') && dot_attributes(after).is_some()
                    }),
                    (_, Some(value)) => dot_id(value).is_some_and(|(_, after)| after == ";"),
                    _ => dot_attributes(rest).is_some(),
                }
            } else {
                false
            };
            assert!(right, "{name}: {line}");
        }
        assert_eq!(depth, 0, "{name}");
    }
}

#[test]
fn graphs_are_mermaid() {
    // A quoted text in which nothing ends it, and no character that the picture's HTML would read.
    fn text(line: &str) -> Option<&str> {
        let inner = line.strip_prefix('"')?;
        let (inner, after) = inner.split_once('"')?;
        let inner = inner.replace("<br/>", "");
        let quiet = !inner.is_empty() && !inner.contains(['<', '>', '&', '`', '\\', '|', '%', '\n']);
        quiet.then_some(after)
    }
    const SHAPES: [(&str, &str); 7] =
        [("[/", "\\]"), ("[(", ")]"), ("[[", "]]"), ("([", "])"), ("((", "))"), ("[", "]"), ("{", "}")];
    for name in names("yaml") {
        let drawn = form(&compile(&name), "mmd");
        let mut lines = drawn.lines();
        assert_eq!(lines.next(), Some("flowchart TD"));
        let mut known = BTreeSet::new();
        for line in lines.map(str::trim) {
            let right = if line == "end" {
                true
            } else if let Some(rest) = line.strip_prefix("subgraph ") {
                rest.split_once('[').is_some_and(|(id, rest)| {
                    known.insert(id.to_owned());
                    text(rest) == Some("]")
                })
            } else if let Some((from, rest)) = line.split_once(" --> ").or(line.split_once(" -.-> ")) {
                known.contains(from) && known.contains(rest)
            } else if let Some((from, rest)) = line.split_once(" -->|").or(line.split_once(" -.->|")) {
                known.contains(from)
                    && text(rest).is_some_and(|to| known.contains(to.strip_prefix("| ").unwrap_or(to)))
            } else {
                let at = line.find(['[', '(', '{']).unwrap_or(0);
                let (id, rest) = line.split_at(at);
                known.insert(id.to_owned());
                let is = |(open, close): &(&str, &str)| rest.strip_prefix(open).and_then(text) == Some(close);
                id.starts_with('n') && SHAPES.iter().any(is)
            };
            assert!(right, "{name}: {line}");
        }
    }
}
