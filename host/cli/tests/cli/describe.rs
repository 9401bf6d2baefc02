//! What the command says of itself and of the language, for other programs.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::Folder;

const VERBS: [&str; 5] = ["run", "dev", "check", "schema", "completions"];

#[test]
fn the_schema_is_json_and_names_its_dialect() {
    let ended = Folder::with(&[]).run(&["schema"]);
    ended.expect_status(0);
    let schema: Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema["$defs"]["step"]["properties"]["timeout"]["description"].is_string());
    assert!(ended.stdout.ends_with("}\n") && ended.stdout.lines().count() > 500, "people can read it");
}

#[test]
fn completions_know_every_verb_and_bash_reads_its_own() {
    let folder = Folder::with(&[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = folder.run(&["completions", shell]);
        ended.expect_status(0);
        for word in VERBS {
            assert!(ended.stdout.contains(word), "{shell} has no {word}");
        }
        for word in ["require-env", "workers-per-process"] {
            assert!(ended.stdout.contains(word), "{shell} has no --{word}");
        }
    }
    let script = folder.run(&["completions", "bash"]).stdout;
    fs::write(folder.path().join("script"), &script).expect("a file");
    let complete = "source ./script; registered=$(complete -p loom-host); registered=${registered#*-F }; \
                    COMP_WORDS=(loom-host comp); COMP_CWORD=1; ${registered%% *} loom-host comp loom-host; \
                    printf '%s ' \"${COMPREPLY[@]}\"";
    let bash = Command::new("bash").current_dir(folder.path()).args(["-c", complete]).output().expect("bash");
    assert_eq!(String::from_utf8_lossy(&bash.stdout).trim(), "completions", "{bash:?}");
    let mistyped = folder.run(&["completions", "bsh"]);
    mistyped.expect_status(2);
    assert!(mistyped.stderr.contains("'bash'"), "{}", mistyped.stderr);
}

#[test]
fn the_manual_has_a_page_for_each_verb() {
    let folder = Folder::with(&[]);
    let first = folder.run(&["man"]);
    first.expect_status(0);
    assert!(
        first.stdout.contains(".TH loom-host 1") && first.stdout.contains("Exit statuses"),
        "{}",
        first.stdout
    );
    folder.run(&["man", "--dir", "pages/man1"]).expect_status(0);
    for verb in VERBS.into_iter().chain(["plugin-inspect", "offsets-reset"]) {
        let file = folder.path().join(format!("pages/man1/loom-host-{verb}.1"));
        let page = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert!(page.contains(&format!(".TH loom-host-{verb} 1")), "{page}");
        assert!(page.contains("Examples"), "{page}");
    }
    fs::write(folder.path().join("file"), "").expect("a file");
    let refused = folder.run(&["man", "--dir", "file"]);
    refused.expect_status(4);
    assert!(refused.stderr.contains("cannot write file"), "{}", refused.stderr);
}
