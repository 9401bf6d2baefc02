//! What the documentation shows is true: its flows pass `check`.

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
            let ended = Folder::with_flow(&flow).run(&["check", "flow.yaml", "--no-plugins"]);
            assert_eq!(ended.status, Some(0), "{page}:\n{flow}\n{}", ended.stdout);
        }
    }
}
