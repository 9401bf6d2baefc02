//! `plugin inspect`.

use crate::support::{CORE_MODULE, Folder, guest};

#[test]
fn inspect_shows_roles_imports_size_and_digest() {
    let step = guest("probe-step");
    let ended = Folder::with(&[]).run(&["plugin", "inspect", &step]);
    ended.expect_status(0);
    for part in ["roles     step, setup", "contract  0.1", "KiB", "digest    sha256:", "wasi:"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let sink = Folder::with(&[]).run(&["plugin", "inspect", &guest("probe-sink"), &guest("untracked-sink")]);
    sink.expect_status(0);
    assert!(sink.stdout.contains("sink, bind-commit-tracker"), "{}", sink.stdout);
    assert!(sink.stdout.contains("\n\n"), "two files are two paragraphs");
}

#[test]
fn what_is_no_component_has_a_message_of_its_own() {
    let files: [(&str, &[u8]); 3] =
        [("core.wasm", CORE_MODULE), ("text.wasm", b"hello"), ("empty.wasm", b"")];
    let folder = Folder::with(&files);
    for (file, words) in [
        ("core.wasm", "core WebAssembly module"),
        ("text.wasm", "is text"),
        ("empty.wasm", "is empty"),
        ("gone.wasm", "no such file"),
        (".", "it is a folder"),
    ] {
        let ended = folder.run(&["plugin", "inspect", file]);
        ended.expect_status(1);
        assert!(ended.stderr.starts_with("error: ") && ended.stderr.contains(words), "{ended:#?}");
        assert_eq!(ended.stderr.lines().count(), 1);
    }
}

#[test]
fn a_component_of_another_world_is_status_3() {
    let folder = Folder::with(&[]);
    let ended = folder.run(&["plugin", "inspect", &guest("foreign-track")]);
    ended.expect_status(3);
    assert!(ended.stderr.contains("track 0.9"), "{}", ended.stderr);
    let ended = folder.run(&["plugin", "inspect", &guest("unknown-import")]);
    ended.expect_status(3);
    assert!(ended.stderr.contains("imports"), "{}", ended.stderr);
}

#[test]
fn one_bad_file_does_not_hide_the_good_ones() {
    let folder = Folder::with(&[("text.wasm", b"hello")]);
    let ended =
        folder.run(&["plugin", "inspect", "text.wasm", &guest("probe-step"), &guest("foreign-track")]);
    ended.expect_status(1);
    assert!(ended.stdout.contains("roles     step"), "{}", ended.stdout);
    assert_eq!(ended.stderr.lines().count(), 2, "{}", ended.stderr);
}
