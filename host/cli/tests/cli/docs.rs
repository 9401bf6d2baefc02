//! What the documentation shows is true: its flows, and those of the examples, pass `check` without a warning.

use std::fs;
use std::path::PathBuf;

use crate::support::Folder;

/// The YAML blocks of a page that are whole flows.
fn flows(page: &str) -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(page);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.filter(|block| block.contains("kafka:")).map(str::to_owned).collect()
}

#[test]
fn flows_of_the_documentation_pass_check() {
    for page in ["README.md", "docs/flow-language.md"] {
        let flows = flows(page);
        assert!(!flows.is_empty(), "{page} shows no flow");
        for flow in flows {
            let ended =
                Folder::with_flow(&flow).run(&["check", "flow.yaml", "--no-plugins", "--deny-warnings"]);
            assert_eq!(ended.status, Some(0), "{page}:\n{flow}\n{}", ended.stdout);
        }
    }
}

#[test]
fn flows_of_the_examples_pass_check() {
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../plugins-example");
    let examples = examples.canonicalize().expect("the folder of examples").display().to_string();
    let ended = Folder::with(&[]).run(&["check", &examples, "--no-plugins", "--deny-warnings"]);
    assert_eq!(ended.status, Some(0), "{}", ended.stdout);
}
