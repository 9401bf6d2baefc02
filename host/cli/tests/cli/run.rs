//! `run` where it must refuse: each with one message, the right status, and nothing of a broker.

use crate::support::{CORE_MODULE, Folder, SOUND, flow_with_probe, flow_with_step, guest, without_broker};

#[test]
fn a_flow_that_is_wrong_is_status_1() {
    let folder = Folder::with(&[
        ("mistyped.yaml", SOUND.replace("group_id: small", "group_id: small\n    grupp: x").as_bytes()),
        ("no-yaml.yaml", b"name: [unclosed\nkafka: }"),
        ("unset.yaml", SOUND.replace("group_id: small", "group_id: \"${LOOM_CLI_TEST_UNSET}\"").as_bytes()),
    ]);
    folder.run(&["run", "nowhere.yaml"]).expect_status(1).expect_one_error(&["nowhere.yaml", "no such file"]);
    folder.run(&["run", "mistyped.yaml"]).expect_status(1).expect_one_error(&["`grupp`"]);
    folder.run(&["run", "no-yaml.yaml"]).expect_status(1).expect_one_error(&["YAML"]);
    folder.run(&["run", "unset.yaml"]).expect_status(1).expect_one_error(&["LOOM_CLI_TEST_UNSET"]);
}

#[test]
fn problems_are_log_lines_with_their_place() {
    let folder = Folder::with_flow(&SOUND.replace("group_id: small", "group_id: small\n    grupp: x"));
    let ended = folder.run(&["run", "flow.yaml"]);
    let log = ended.log();
    let line = log.iter().find(|line| line["code"] == "UNKNOWN_KEY").unwrap_or_else(|| panic!("{ended:#?}"));
    assert_eq!((&line["file"], &line["line"], &line["column"]), (&"flow.yaml".into(), &6.into(), &5.into()));
    assert!(line["path"].as_str().is_some_and(|path| path.starts_with("kafka.consumer")), "{line}");
    assert!(ended.stdout.is_empty());
}

#[test]
fn a_file_that_is_no_component_is_status_1() {
    let cases: [(&str, &[u8], &str); 3] =
        [("core.wasm", CORE_MODULE, "core"), ("text.wasm", b"hello", "text"), ("empty.wasm", b"", "empty")];
    for (name, bytes, word) in cases {
        let flow = flow_with_step(name);
        let folder = Folder::with(&[("flow.yaml", flow.as_bytes()), (name, bytes)]);
        folder.run(&["run", "flow.yaml"]).expect_status(1).expect_one_error(&[name, word]);
    }
    let folder = Folder::with_flow(&flow_with_step("gone.wasm"));
    folder.run(&["run", "flow.yaml"]).expect_status(1).expect_one_error(&["gone.wasm", "no such file"]);
}

#[test]
fn a_component_that_does_not_fit_is_status_3() {
    let run = |component: &str| Folder::with_flow(&flow_with_step(component)).run(&["run", "flow.yaml"]);
    run(&guest("foreign-track")).expect_status(3).expect_one_error(&["loom:plugin/step", "0.9", "0.1"]);
    run(&guest("unknown-import")).expect_status(3).expect_one_error(&["neither WASI"]);
    run(&guest("probe-predicate")).expect_status(3).expect_one_error(&["step", "predicate"]);
}

#[test]
fn a_plugin_that_misbehaves_in_configure_is_status_3_and_named_with_its_limit() {
    // Time is short only where it is what is used up: a busy machine may take its time to fill the stack or the memory.
    for (command, limit, told) in [
        ("loop", "lifecycle: 200ms", "ran longer in configure than its limit of 200ms (limits.lifecycle)"),
        ("sleep", "lifecycle: 200ms", "ran longer in configure than its limit of 200ms (limits.lifecycle)"),
        ("recurse", "lifecycle: 1m", "the stack that the plugin's build gave it is used up"),
        ("alloc", "lifecycle: 1m, memory: 32MiB", "reached its memory limit of 32 MiB"),
    ] {
        let limits = format!("limits: {{ {limit} }}");
        let flow = flow_with_probe(&format!("config: {{ in_configure: {command} }}, {limits}"));
        let ended = Folder::with_flow(&flow).run(&["run", "flow.yaml"]);
        ended.expect_status(3).expect_one_error(&["process[0]", "plugin x", "configure", told]);
    }
}

#[test]
fn an_untracked_sink_is_status_3_once_for_each_place() {
    let sink = guest("untracked-sink");
    let plugins = format!("plugins:\n  store: {{ component: {sink:?} }}\nprocess:\n");
    let flow = SOUND
        .replace("process:\n", &plugins)
        .replace(
            "  - into_topic: out",
            "  - broadcast:\n      - [ { into_sink: store } ]\n      - [ { into_topic: out } ]",
        )
        .replace("  default: [ { into_topic: failed } ]", "  default: [ { into_sink: store } ]");
    let ended = Folder::with_flow(&flow).run(&["run", "flow.yaml"]);
    ended.expect_status(3);
    let errors = ended.errors();
    assert_eq!(errors.len(), 2, "{ended:#?}");
    for error in errors {
        for part in ["store", "untracked-sink.wasm", "bind-commit-tracker"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn of_several_the_lowest_status_is_taken() {
    let sink = guest("untracked-sink");
    let plugins = format!("plugins:\n  store: {{ component: {sink:?} }}\nprocess:\n");
    let flow = SOUND
        .replace("process:\n", &plugins)
        .replace("  - into_topic: out", "  - into_sink: store\n    grupp: x");
    let ended = Folder::with_flow(&flow).run(&["run", "flow.yaml"]);
    ended.expect_status(1);
    assert!(ended.errors().len() > 1, "{ended:#?}");
}

#[test]
fn a_start_that_fails_ends_with_the_line_of_a_stop() {
    for flow in [without_broker(SOUND), flow_with_probe("config: { refuse: no such currency }")] {
        let ended = Folder::with_flow(&flow).run(&["run", "flow.yaml"]);
        let log = ended.log();
        let last = log.last().unwrap_or_else(|| panic!("{ended:#?}"));
        assert_eq!((&last["message"], &last["flow"]), (&"stopped".into(), &"small".into()), "{ended:#?}");
        assert_eq!(last["consumed"], 0, "{last}");
        assert_eq!(ended.errors().len(), 1, "{ended:#?}");
    }
}
