//! `explain`.

use crate::support::Folder;

#[test]
fn a_code_is_explained_with_a_flow_that_fails_and_the_flow_repaired() {
    let ended = Folder::with(&[]).run(&["explain", "SHAPE_MISMATCH"]);
    ended.expect_status(0);
    for part in
        ["SHAPE_MISMATCH: ", "A flow that fails:\n\n    name: orders\n", "The flow repaired:", "- for_each\n"]
    {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 110), "{}", ended.stdout);
    let two = Folder::with(&[]).run(&["explain", "shape_mismatch", "DUPLICATE_KEY"]);
    two.expect_status(0);
    assert!(
        two.stdout.starts_with(&ended.stdout) && two.stdout.contains("DUPLICATE_KEY: "),
        "{}",
        two.stdout
    );
}

#[test]
fn an_unknown_code_is_answered_with_the_nearest() {
    let folder = Folder::with(&[]);
    let ended = folder.run(&["explain", "SHAPE_MISSMATCH", "E0308"]);
    ended.expect_status(2);
    assert!(ended.stdout.is_empty());
    assert!(ended.stderr.contains("did you mean SHAPE_MISMATCH?"), "{}", ended.stderr);
    assert!(ended.stderr.contains("\"E0308\"; `loom-host explain --list`"), "{}", ended.stderr);
    folder.run(&["explain"]).expect_status(2);
    folder.run(&["explain", "--list", "SHAPE_MISMATCH"]).expect_status(2);
}

#[test]
fn every_code_is_listed() {
    let ended = Folder::with(&[]).run(&["explain", "--list"]);
    ended.expect_status(0);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), loom_flow::Code::ALL.len());
    for (line, code) in lines.iter().zip(loom_flow::Code::ALL) {
        assert!(line.starts_with(code.as_str()) && line.contains(code.entry().title), "{line}");
    }
}
