//! Variables and files that run and are surely not meant as they stand, and values that a plugin's configuration cannot hold.

use loom_flow::{Code, Compiled, HumanStyle, Severity};
use serde_json::json;

use crate::support::{World, around, around_with, errors};

const ROUTED: &str = "errors: { default: [ drain ] }";

/// A flow with a text in each kind of place.
fn places(text: &str) -> [(&'static str, String); 5] {
    let flow = || around_with("[ { step: s }, { into_topic: a } ]", ROUTED);
    let login = "protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u";
    [
        ("kafka.consumer.group_id", flow().replace("group_id: g", &format!("group_id: {text}"))),
        (
            "kafka.consumer.security.sasl_password",
            flow().replace(
                "group_id: g",
                &format!("group_id: g, security: {{ {login}, sasl_password: {text} }}"),
            ),
        ),
        (
            "kafka.consumer.extra[\"ssl.key.password\"]",
            flow().replace("group_id: g", &format!("group_id: g, extra: {{ ssl.key.password: {text} }}")),
        ),
        ("process[1].into_topic", flow().replace("into_topic: a", &format!("into_topic: {text}"))),
        (
            "plugins.s.config",
            flow().replace(
                "component: step.wasm",
                &format!("component: step.wasm, config: {{ x: [ {text} ] }}"),
            ),
        ),
    ]
}

fn warned(compiled: &Compiled, code: Code, path: &str) -> Vec<(String, String)> {
    let of = compiled
        .issues
        .iter()
        .filter(|issue| issue.severity == Severity::Warning && issue.code == code && issue.path == path);
    of.map(|issue| (issue.message.clone(), issue.hint.clone().unwrap_or_default())).collect()
}

#[test]
fn a_variable_without_braces_is_warned_of_wherever_one_with_braces_is_replaced() {
    for (text, name) in [("$NAME", "NAME"), ("$(NAME)", "NAME"), ("\"$NAME\"", "NAME")] {
        for (path, flow) in places(text) {
            let found =
                warned(&World::new().var("NAME", "x").compile(&flow), Code::InterpolationInvalid, path);
            let [(message, hint)] = &found[..] else { panic!("{path}: {found:?}") };
            assert!(
                message.contains("taken as it is") && *hint == format!("write `${{{name}}}`"),
                "{message}; {hint}"
            );
        }
    }
    for text in ["\"${NAME}\"", "\"$${NAME}\"", "\"a$\"", "\"$1\""] {
        for (path, flow) in places(text) {
            let found =
                warned(&World::new().var("NAME", "x").compile(&flow), Code::InterpolationInvalid, path);
            assert!(found.is_empty(), "{path}: {found:?}");
        }
    }
}

#[test]
fn a_password_with_a_dollar_is_not_shown_by_what_is_said_of_it() {
    for (path, flow) in places("\"hunter2$HUNTER-three\"") {
        let compiled = World::new().compile(&flow);
        let found = warned(&compiled, Code::InterpolationInvalid, path);
        assert_eq!(found.len(), 1, "{path}: {found:?}");
        let shown = format!("{found:?}");
        let secret = path.contains("password") || path.contains("config");
        assert_eq!(shown.contains("HUNTER"), !secret, "{path}: {shown}");
        assert!(
            !path.contains("password") || !compiled.render(HumanStyle::default()).contains("hunter2"),
            "{path}"
        );
    }
}

#[test]
fn a_default_is_whole_or_an_issue_and_never_cut() {
    let config = |text: &str| {
        let flow = around_with("[ { step: s }, drain ]", ROUTED)
            .replace("component: step.wasm", &format!("component: step.wasm, config: {{ x: '{text}' }}"));
        let compiled = World::new().var("SET", "set").var("H", "h").compile(&flow);
        let issues: Vec<String> = compiled.issues.iter().map(|issue| issue.code.to_string()).collect();
        (compiled.plan.map(|plan| plan.plugins[0].config["x"].clone()), issues.join(" "))
    };
    for (text, value) in [
        ("${G:-a${H:-b}c}", "ahc"),
        ("${G:-a${I:-b}c}", "abc"),
        ("${SET:-a${I:-b}c}", "set"),
        ("${G:-{\"k\":1}}", "{\"k\":1}"),
        ("${SET:-{\"k\":1}}", "set"),
        ("${G:-${H}}", "h"),
        ("${SET:-${H}}", "set"),
        ("${G:-{\"k\":\"}\"}}", "{\"k\":\"}\"}"),
    ] {
        assert_eq!(config(text), (Some(json!(value)), String::new()), "{text}");
    }
    for (text, code) in [
        ("${G:-a}b}", "INTERPOLATION_INVALID"),
        ("${SET}}", "INTERPOLATION_INVALID"),
        ("${G:-{}", "INTERPOLATION_INVALID"),
        ("${SET:-${}}", "INTERPOLATION_INVALID"),
        ("${G:-${NONE}}", "VARIABLE_UNSET"),
    ] {
        assert_eq!(config(text).1, code, "{text}");
    }
}

#[test]
fn what_is_unseen_at_the_ends_of_a_file_is_warned_of() {
    let found = |reference: &str, bytes: &str| {
        let world = World::new().file("secret", bytes.as_bytes()).var("V", bytes);
        places(&format!("\"{reference}\""))
            .map(|(path, flow)| warned(&world.compile(&flow), Code::ValueInvalid, path).len())
    };
    for bytes in [" x", "x ", "x \n", "\tx", "x\n\n", "x\r\n\r\n", "\u{feff}x\n", "x\u{200b}", "\n\n"] {
        assert_eq!(found("${file:secret}", bytes), [1; 5], "{bytes:?}");
    }
    for bytes in ["x", "x\n", "x\r\n", "x y", "-----BEGIN KEY-----\nx\n\n"] {
        assert_eq!(found("${file:secret}", bytes), [0; 5], "{bytes:?}");
    }
    // Of variables only where they are secrets or a plugin's, and hold more than blanks.
    assert_eq!(found("${V}", "x\n"), [0, 1, 1, 0, 1]);
    assert_eq!(found("${V}", "x"), [0; 5]);
    assert_eq!(found("${V}", "\t")[4], 0);
}

#[test]
fn what_a_file_holds_is_not_shown_by_what_is_said_of_its_ends() {
    for (path, flow) in places("\"${file:secret}\"") {
        let compiled = World::new().file("secret", b"hunter2-three \n").compile(&flow);
        assert!(!compiled.render(HumanStyle::default()).contains("hunter2"), "{path}");
    }
}

#[test]
fn a_configuration_reaches_its_plugin_as_it_is_written_or_not_at_all() {
    let config = |yaml: &str| {
        let flow = around_with("[ { step: s }, drain ]", ROUTED)
            .replace("component: step.wasm", &format!("component: step.wasm, config: {{ {yaml} }}"));
        World::new().compile(&flow)
    };
    for (yaml, value) in [
        ("x: 0.1", json!({ "x": 0.1 })),
        ("x: 1e3", json!({ "x": 1000.0 })),
        ("\"7\": 7", json!({ "7": 7 })),
        ("x: \"1e400\"", json!({ "x": "1e400" })),
        ("x: !!str 7", json!({ "x": "7" })),
        ("x: !!int 7", json!({ "x": 7 })),
        ("x: { on: NO, a.b: [ c ] }", json!({ "x": { "on": "NO", "a.b": ["c"] } })),
    ] {
        let compiled = config(yaml);
        assert!(compiled.issues.is_empty(), "{yaml}: {compiled:?}");
        assert_eq!(compiled.plan.expect("a plan").plugins[0].config, value, "{yaml}");
    }
    for yaml in [
        "x: 1e400",
        "x: -1e400",
        "x: 1e-400",
        "x: 9007199254740993.5",
        "x: 18446744073709551616",
        "x: .inf",
        "x: .nan",
        "7: x",
        "x: [ { 7: x } ]",
        "1.5: x",
        "true: x",
        "null: x",
        "x: !!int \"7\"",
        "x: !!binary aGk=",
        "x: !mine 7",
    ] {
        let compiled = config(yaml);
        assert_eq!(errors(&compiled), ["VALUE_INVALID plugins.s.config"], "{yaml}: {compiled:?}");
    }
}

#[test]
fn a_key_that_is_there_for_an_anchor_is_told_where_anchors_stand() {
    let hint = |more: &str| {
        let compiled = World::new().compile(&around_with("[ drain ]", more));
        let issue = compiled.issues.iter().find(|issue| issue.code == Code::UnknownKey);
        issue.and_then(|issue| issue.hint.clone()).unwrap_or_default()
    };
    for more in
        ["x-login: &login { protocol: SSL }", "shared:\n  login: &login\n    protocol: SSL", "x: [ &a b ]"]
    {
        assert!(
            hint(more).contains("an anchor stands at the first place that uses its value"),
            "{more}: {}",
            hint(more)
        );
    }
    for more in ["x-login: { protocol: SSL }", "x: \"a && b\"", "x: a & b"] {
        assert!(hint(more).starts_with("its keys are"), "{more}: {}", hint(more));
    }
    let compiled = World::new().compile(
        &around("[ drain ]")
            .replace("group_id: g", "group_id: g, security: &login { protocol: SSL }")
            .replace("producer: {", "producer: { security: *login,"),
    );
    assert!(compiled.issues.is_empty(), "{compiled:?}");
}
