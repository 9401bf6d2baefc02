//! Overlays: what they do to a flow, and where their issues are.

use loom_flow::{Compiled, HumanStyle};

use crate::support::{World, around, errors, warnings};

/// The plan's lines that have one of these words in them, trimmed.
fn lines(compiled: &Compiled, words: &[&str]) -> Vec<String> {
    let plan = compiled.plan_text().unwrap_or_else(|| panic!("{}", compiled.render(HumanStyle::default())));
    let found = plan.lines().map(str::trim).filter(|line| words.iter().any(|word| line.starts_with(word)));
    found.map(str::to_owned).collect()
}

#[test]
fn mappings_merge_lists_are_replaced_and_null_deletes() {
    let flow = around("[ { step: s }, { into_topic: out } ]")
        .replace("topics: [in]", "topics: [in, more], batch_size: 7")
        + "\nruntime: { prefetch: 1MiB, max_outstanding: { records: 5, bytes: 1MiB } }\n";
    let shown = [
        "topics:",
        "group_id:",
        "batch_size:",
        "prefetch:",
        "records:",
        "bytes:",
        "component:",
        "into_topic:",
    ];
    let with = |overlays: &[(&str, &str)]| {
        let compiled = World::new().compile_layers(flow.as_bytes(), overlays);
        assert!(compiled.issues.iter().all(|issue| issue.file == "flow.yaml"), "{compiled:?}");
        lines(&compiled, &shown).join("; ")
    };
    let plain = "group_id: g; topics: [in, more]; batch_size: 7; records: 5; bytes: 1MiB; prefetch: 1MiB; \
                 component: flows/step.wasm; topic: out; into_topic: out";
    let plain = plain.replace(" topic: out;", "");
    assert_eq!(with(&[]), plain);
    assert_eq!(with(&[("empty.yaml", "# nothing\n")]), plain, "an overlay may be empty");
    let one = (
        "one.yaml",
        "kafka: { consumer: { group_id: staging, topics: [other] } }\nruntime: { max_outstanding: { records: 9 } }\n",
    );
    let changed = plain
        .replace("group_id: g", "group_id: staging")
        .replace("[in, more]", "[other]")
        .replace("records: 5", "records: 9");
    assert_eq!(with(&[one]), changed);
    let two = (
        "two.yaml",
        "kafka: { consumer: { batch_size: null, group_id: last } }\nruntime: null\nplugins: { s: { component: other/step.wasm } }\n",
    );
    let both = changed
        .replace("staging", "last")
        .replace("batch_size: 7", "batch_size: 500")
        .replace(
            "records: 9; bytes: 1MiB; prefetch: 1MiB",
            "records: 100000; bytes: 256MiB; prefetch: 256MiB",
        )
        .replace("flows/step", "flows/other/step");
    assert_eq!(with(&[one, two]), both, "the later overlay is over the earlier one");
    let process = ("three.yaml", "process: [ { into_topic: elsewhere } ]\n");
    let replaced =
        lines(&World::new().compile_layers(flow.as_bytes(), &[process]), &["step:", "into_topic:"]);
    assert_eq!(replaced, ["into_topic: elsewhere"]);
}

#[test]
fn an_issue_is_in_the_file_that_says_it() {
    let flow = around("[ { into_topic: out } ]");
    let overlay = "# staging\nkafka:\n  consumer:\n    group_idd: staging\n    batch_size: many\n";
    let compiled =
        World::new().compile_layers(flow.as_bytes(), &[("empty.yaml", ""), ("staging.yaml", overlay)]);
    let places: Vec<String> = compiled
        .issues
        .iter()
        .filter(|issue| issue.file != "flow.yaml")
        .map(|issue| {
            format!("{} {}:{}:{} {}", issue.code, issue.file, issue.at.line, issue.at.column, issue.path)
        })
        .collect();
    assert_eq!(
        places,
        [
            "UNKNOWN_KEY staging.yaml:4:5 kafka.consumer.group_idd",
            "VALUE_INVALID staging.yaml:5:17 kafka.consumer.batch_size",
        ]
    );
    let shown = compiled.render(HumanStyle::default());
    assert!(shown.contains("staging.yaml:4:5") && shown.contains("group_idd: staging"), "{shown}");
    assert!(shown.contains("flow.yaml: 2 errors"), "{shown}");
}

#[test]
fn what_one_issue_says_of_two_files_is_said_in_words() {
    let flow =
        around("[ { fork: { when: [ { if: payload.a, process: [ drain ] } ], default: [ drain ] } } ]");
    let overlay = "process:\n  - fork: { by: payload.t, when: [ { if: payload.a, process: [ drain ] } ], default: [ drain ] }\n";
    let compiled = World::new().compile_layers(flow.as_bytes(), &[("over.yaml", overlay)]);
    assert_eq!(errors(&compiled), ["CONFLICTING_KEYS process[0].fork.by"]);
    assert!(compiled.issues.iter().any(|issue| issue.related.is_some()), "both keys are in one file");
    // A role that is missing stands at the node and at the component, which the overlay has changed.
    let flow = around("[ { step: s }, { into_topic: out } ]");
    let compiled = World::new()
        .compile_layers(flow.as_bytes(), &[("over.yaml", "plugins: { s: { component: sink.wasm } }\n")]);
    let issue =
        compiled.issues.iter().find(|issue| issue.code.as_str() == "PLUGIN_ROLE_MISSING").expect("the issue");
    assert_eq!((issue.file.as_str(), &issue.related), ("flow.yaml", &None));
    assert!(issue.hint.as_ref().is_some_and(|hint| hint.contains("over.yaml:1:28")), "{issue:?}");
    let shown = compiled.render(HumanStyle::default());
    assert!(shown.contains("over.yaml:1:28"), "{shown}");
}

#[test]
fn an_overlay_that_is_none_is_refused() {
    let flow = around("[ { into_topic: out } ]");
    for (overlay, said) in [
        ("- a\n", "an overlay is a mapping, not a list"),
        ("word\n", "an overlay is a mapping, not a single value"),
        ("a: [\n", "this is not YAML"),
        ("a: 1\n---\nb: 2\n", "a second document starts here"),
        ("kafka: 1\nkafka: 2\n", "`kafka` is given twice"),
    ] {
        let compiled = World::new().compile_layers(flow.as_bytes(), &[("over.yaml", overlay)]);
        assert!(compiled.plan.is_none());
        let found =
            compiled.issues.iter().any(|issue| issue.file == "over.yaml" && issue.message.contains(said));
        assert!(found, "{overlay:?}: {compiled:?}");
    }
    let compiled = World::new().compile_layers(b"a: [\n", &[("over.yaml", "name: x\n")]);
    assert_eq!(errors(&compiled), ["FILE_INVALID "], "without a flow there is nothing to lay over");
}

#[test]
fn null_that_deletes_nothing_is_told() {
    let flow = around("[ { into_topic: out } ]");
    let overlay = "kafka: { consumer: { secruity: null }, producers: { a: { topic: null } } }\n";
    let compiled = World::new().compile_layers(flow.as_bytes(), &[("over.yaml", overlay)]);
    let told: Vec<String> =
        warnings(&compiled).into_iter().filter(|warning| warning.starts_with("VALUE_INVALID")).collect();
    assert_eq!(told, ["VALUE_INVALID kafka.consumer.secruity", "VALUE_INVALID kafka.producers.a.topic"]);
}

#[test]
fn a_secret_in_an_overlay_is_masked_there() {
    let flow = around("[ { into_topic: out } ]");
    let overlay = "kafka:\n  consumer: { security: { sasl_password: canary-4711, protocool: SSL } }\n";
    let compiled = World::new().compile_layers(flow.as_bytes(), &[("over.yaml", overlay)]);
    let shown = compiled.render(HumanStyle::default());
    assert!(shown.contains("protocool") && !shown.contains("canary-4711"), "{shown}");
    let broken = World::new().compile_layers(flow.as_bytes(), &[("over.yaml", &format!("{overlay}x: [\n"))]);
    assert!(
        broken.errors() > 0 && !broken.render(HumanStyle::default()).contains("canary-4711"),
        "{broken:?}"
    );
}
