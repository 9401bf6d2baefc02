//! What the documentation shows is true: its flows, and those of the examples, pass `check` without a warning.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Folder, guest};

/// What a part of a flow is laid over.
const BASE: &str = "\
name: base
kafka:
  consumer: { brokers: [\"localhost:9092\"], group_id: base, topics: [in], delivery: at_least_once, batch_size: 100 }
  producer: { brokers: [\"localhost:9092\"] }
process: [ { into_topic: out } ]
errors: { default: [ { into_topic: failed } ] }
";

/// The YAML blocks of a page.
fn blocks(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

/// Whether a block has this key at its top.
fn has(block: &str, key: &str) -> bool {
    block.lines().any(|line| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':')))
}

/// What a block lays over a flow, where it is a part of one: of the whole, or of its Kafka section.
fn part(block: &str) -> Option<String> {
    if ["kafka", "plugins", "process", "runtime", "errors"].iter().any(|key| has(block, key)) {
        return Some(block.to_owned());
    }
    has(block, "producers").then(|| format!("kafka:\n  {}", block.replace('\n', "\n  ")))
}

#[test]
fn flows_of_the_documentation_and_parts_of_flows_pass_check() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = fs::read_dir(root.join("docs"))
        .expect("the folder of pages")
        .map(|entry| entry.expect("an entry").path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let (mut flows, mut parts) = (0, 0);
    for page in pages.chain([root.join("README.md")]) {
        for block in blocks(&page) {
            let check = ["check", "flow.yaml", "--no-plugins", "--deny-warnings"];
            let ended = if has(&block, "name") {
                flows += 1;
                Folder::with_flow(&block).run(&check)
            } else if let Some(part) = part(&block) {
                parts += 1;
                let folder = Folder::with(&[("flow.yaml", BASE.as_bytes()), ("part.yaml", part.as_bytes())]);
                folder.run(&[&check[..], &["--overlay", "part.yaml"]].concat())
            } else {
                // Of something else than a flow.
                continue;
            };
            assert_eq!(ended.status, Some(0), "{}:\n{block}\n{}", page.display(), ended.stdout);
        }
    }
    assert!(flows >= 3 && parts >= 4, "{flows} flows and {parts} parts were found");
}

#[test]
fn flows_of_the_examples_pass_check() {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins-example");
    let examples = examples.canonicalize().expect("the folder of examples").display().to_string();
    let ended = Folder::with(&[]).run(&["check", &examples, "--no-plugins", "--deny-warnings"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stdout);
}

#[test]
fn cases_of_the_examples_pass() {
    let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins-example/orders");
    // A copy: the archive's folder need not be there.
    let folder = Folder::with(&[]);
    for name in ["out", "plugins"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    for name in ["flow.yaml", "flow.test.yaml"] {
        fs::copy(example.join(name), folder.path().join(name)).expect("a file of the example");
    }
    for name in ["enrich", "vip", "archive"] {
        fs::copy(guest(name), folder.path().join(format!("plugins/{name}.wasm")))
            .expect("a plugin of the example");
    }
    let ended = folder.run(&["test"]);
    assert!(ended.expect_status(0).stdout.ends_with("\n4 passed, 0 failed\n"), "{ended:#?}");
    assert_eq!(fs::read_dir(folder.path().join("out")).expect("the folder").count(), 0);
}
