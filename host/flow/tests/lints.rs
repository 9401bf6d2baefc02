//! What runs and is surely not meant: each warning, where it is given and where it is not.

use loom_flow::{Code, Compiled};

use crate::support::{World, around, around_with, errors, warnings};

/// A flow without a warning of its own.
const ROUTED: &str = "errors: { default: [ { into_topic: failed } ] }";

fn quiet(process: &str) -> String {
    around_with(process, ROUTED)
}

fn check(text: &str) -> Compiled {
    World::new().compile(text)
}

/// Paths of the warnings with one code.
fn of(compiled: &Compiled, code: Code) -> Vec<String> {
    let found = compiled.issues.iter().filter(|issue| issue.code == code);
    found.map(|issue| issue.path.clone()).collect()
}

#[test]
fn a_plugin_that_no_node_names_is_unused_wherever_it_could_stand() {
    let declared = |process: &str, more: &str| {
        let text = around_with(process, more);
        let plugins = "plugins:\n  lonely: { component: step.wasm }\n";
        check(&text.replace("plugins:\n", plugins))
    };
    for (process, more) in [
        ("[ { step: lonely }, drain ]", ""),
        ("[ { filter: { plugin: lonely } }, drain ]", ""),
        (
            "[ { fork: { when: [ { if: { plugin: lonely }, process: [ drain ] } ], default: [ drain ] } } ]",
            "",
        ),
        ("[ { fork: { by: { plugin: lonely }, branches: { a: [ drain ] }, default: [ drain ] } } ]", ""),
        ("[ { collect_batch: { key: { plugin: lonely } } }, drain ]", ""),
        ("[ { into_topic: a, key: { plugin: lonely } } ]", ""),
        ("[ { into_topic: a, partitioner: lonely } ]", ""),
        ("[ { into_sink: lonely } ]", ""),
        ("[ { expand_routes: { plugin: lonely, routes: { a: [ drain ] } } } ]", ""),
        ("[ { broadcast: [ [ drain ], [ { step: lonely }, drain ] ] } ]", ""),
        ("[ { step: s, errors: { task: [ { into_sink: lonely } ] } }, drain ]", ""),
        ("[ drain ]", "errors: { wire: [ { step: lonely }, drain ] }"),
    ] {
        assert!(of(&declared(process, more), Code::PluginUnused).is_empty(), "{process} {more}");
    }
    assert_eq!(warnings(&declared("[ drain ]", "")), ["PLUGIN_UNUSED plugins.lonely"]);
    // Mistyped, it is meant; in a node that was not understood, it may be.
    assert_eq!(errors(&declared("[ { step: lonly }, drain ]", "")), ["PLUGIN_UNKNOWN process[0].step"]);
    for process in
        ["[ { step: lonly }, drain ]", "[ { stpe: lonely }, drain ]", "[ { step: \"${P}\" }, drain ]"]
    {
        assert!(of(&declared(process, ""), Code::PluginUnused).is_empty(), "{process}");
    }
}

#[test]
fn a_missing_delivery_is_said_of_the_consumer_that_is_read() {
    let text = quiet("[ { into_topic: a } ]");
    let unset = text.replace(", delivery: at_least_once", "");
    assert_eq!(warnings(&check(&unset)), ["DELIVERY_UNSET kafka.consumer"]);
    for said in [
        "delivery: at_most_once",
        "delivery: at_least_once",
        "delivery: exactly_once",
        "delivery: \"${D}\"",
        "enable_auto_commit: true",
        "enable_auto_commit: false",
    ] {
        let text = text.replace("delivery: at_least_once", said);
        assert!(of(&check(&text), Code::DeliveryUnset).is_empty(), "{said}");
    }
    let other = unset.replace(
        "  producer:",
        "  consumers: { other: { brokers: [b], group_id: g, topics: [t] } }\n  producer:",
    );
    assert_eq!(of(&check(&other), Code::DeliveryUnset), ["kafka.consumer"]);
    assert_eq!(of(&check(&(other + "source: other\n")), Code::DeliveryUnset), ["kafka.consumers.other"]);
}

#[test]
fn a_group_that_would_not_survive_a_restart_is_named_without_its_value() {
    let pod = "orders-7d9f8b6c5d-x2k4q";
    let group = |group: &str| {
        let text = quiet("[ drain ]").replace("group_id: g", &format!("group_id: {group:?}"));
        World::new().var("POD_NAME", pod).var("SERVICE", pod).var("STAGE", "eu").compile(&text)
    };
    for temporary in ["${POD_NAME}", "orders-${HOSTNAME:-x}", "orders-${RANDOM:-1}", pod, "${SERVICE}"] {
        let compiled = group(temporary);
        assert_eq!(of(&compiled, Code::GroupIdUnstable), ["kafka.consumer.group_id"], "{temporary}");
        if temporary != pod {
            assert!(!format!("{:?}", compiled.issues).contains(pod), "{temporary}: {compiled:?}");
        }
    }
    for lasting in ["orders-service", "orders-${STAGE}", "$${HOSTNAME}-orders", "eu-1-orders"] {
        let compiled = group(lasting);
        // A literal `${HOSTNAME}` is an odd name, and the same in every pod.
        let expected: &[&str] = &[];
        assert_eq!(of(&compiled, Code::GroupIdUnstable), expected, "{lasting}");
    }
}

#[test]
fn an_output_into_a_topic_that_is_read_is_a_loop_only_on_the_same_brokers() {
    let loops = |process: &str, kafka: (&str, &str), more: &str| {
        of(&check(&around_with(process, more).replace(kafka.0, kafka.1)), Code::TopicLoop)
    };
    let same = ("", "");
    assert_eq!(loops("[ { into_topic: in } ]", same, ROUTED), ["process[0].into_topic"]);
    assert_eq!(loops("[ { into_topic: out, dlq: in } ]", same, ROUTED), ["process[0].dlq"]);
    assert_eq!(
        loops("[ drain ]", same, "errors: { default: [ { into_topic: in } ] }"),
        ["errors.default[0].into_topic"]
    );
    let producer = "producer: { brokers: [localhost:9092] }";
    let elsewhere = (producer, "producer: { brokers: [other:9092] }");
    assert!(loops("[ { into_topic: in } ]", elsewhere, ROUTED).is_empty());
    let renamed = (
        producer,
        "producer: { brokers: [localhost:9092] }\n  producers: { in: { brokers: [localhost:9092], topic: out }, back: { brokers: [localhost:9092], topic: in } }",
    );
    assert!(loops("[ { into_topic: in } ]", renamed, ROUTED).is_empty());
    assert_eq!(loops("[ { into_topic: back } ]", renamed, ROUTED), ["process[0].into_topic"]);
    // Each side may name some brokers of a cluster, in its own spelling.
    for (reads, writes, is_loop) in [
        ("a:1, b:1", "b:1, c:1", true),
        ("a:1", "a:1, b:1, c:1", true),
        ("a:1, b:1, c:1", "c:1", true),
        ("\"a:1,b:1\"", "\"c:1,b:1\"", true),
        ("Kafka", "kafka:9092", true),
        ("a:1, b:1", "c:1, d:1", false),
        ("a:1", "a:2", false),
    ] {
        let text = around_with("[ { into_topic: in } ]", ROUTED);
        let text = text
            .replace("consumer: { brokers: [localhost:9092]", &format!("consumer: {{ brokers: [{reads}]"));
        let text = text
            .replace("producer: { brokers: [localhost:9092]", &format!("producer: {{ brokers: [{writes}]"));
        assert_eq!(!of(&check(&text), Code::TopicLoop).is_empty(), is_loop, "{reads} and {writes}");
    }
    let unread = ("topics: [in]", "topics: [in2]");
    assert!(loops("[ { into_topic: in } ]", unread, ROUTED).is_empty());
    // A topic that is not known yet may be any.
    assert!(
        loops("[ { into_topic: \"${IN}\" } ]", ("topics: [in]", "topics: [\"${IN}\"]"), ROUTED).is_empty()
    );
}

#[test]
fn a_condition_that_an_earlier_branch_has_is_a_duplicate() {
    let branches = |conditions: &[&str]| {
        let when: Vec<String> =
            conditions.iter().map(|condition| format!("{{ if: {condition}, process: [ drain ] }}")).collect();
        let fork = format!("[ {{ fork: {{ when: [ {} ], default: [ drain ] }} }} ]", when.join(", "));
        let router = format!(
            "[ {{ router: {{ when: [ {} ], default: pass }} }}, drain ]",
            when.join(", ").replace("[ drain ]", "[]")
        );
        let found = of(&check(&quiet(&fork)), Code::DuplicateBranch);
        let in_router = of(&check(&quiet(&router)), Code::DuplicateBranch);
        assert_eq!(found.join(" ").replace("fork", "router"), in_router.join(" "), "{conditions:?}");
        found
    };
    assert_eq!(branches(&["payload.a", "payload.b", "payload.a"]), ["process[0].fork.when[2].process"]);
    assert_eq!(branches(&["{ plugin: p }", "{ plugin: p }"]), ["process[0].fork.when[1].process"]);
    assert_eq!(
        branches(&["payload.a", "payload.a", "payload.a"]),
        ["process[0].fork.when[1].process", "process[0].fork.when[2].process"]
    );
    assert!(branches(&["payload.a", "payload.b", "{ plugin: p }"]).is_empty());
    // The same label twice is a key twice, whatever quotes it has.
    let labels =
        "[ { fork: { by: payload.a, branches: { 1: [ drain ], \"1\": [ drain ] }, default: [ drain ] } } ]";
    assert_eq!(errors(&check(&quiet(labels))), ["DUPLICATE_KEY 1"]);
}

#[test]
fn what_no_record_reaches_is_named() {
    let unreachable = |process: &str| of(&check(&quiet(process)), Code::NodeUnreachable);
    assert_eq!(unreachable("[ { filter: false }, { into_topic: a } ]"), ["process[1]"]);
    assert!(unreachable("[ { filter: true }, { into_topic: a } ]").is_empty());
    let when = |conditions: [&str; 3]| {
        let [one, two, three] = conditions;
        unreachable(&format!(
            "[ {{ fork: {{ when: [ {{ if: {one}, process: [ drain ] }}, {{ if: {two}, process: [ drain ] }}, {{ if: {three}, process: [ drain ] }} ], default: [ drain ] }} }} ]"
        ))
    };
    assert_eq!(
        when(["payload.a", "true", "payload.b"]),
        ["process[0].fork.when[2].process"],
        "and not the default, which must be there"
    );
    assert_eq!(when(["payload.a", "false", "payload.b"]), ["process[0].fork.when[1].process"]);
    assert!(when(["payload.a", "payload.b", "true"]).is_empty());
}

#[test]
fn labels_that_a_selector_cannot_give_are_named() {
    let labels = |by: &str, labels: &[&str]| {
        let branches: Vec<String> = labels.iter().map(|label| format!("{label:?}: [ drain ]")).collect();
        let process = format!(
            "[ {{ fork: {{ by: {by:?}, branches: {{ {} }}, default: [ drain ] }} }} ]",
            branches.join(", ")
        );
        of(&check(&quiet(&process)), Code::NodeUnreachable).len()
    };
    assert_eq!(labels("payload.a > 1", &["true", "false"]), 0);
    assert_eq!(labels("payload.a > 1", &["yes", "True", "1"]), 3);
    assert_eq!(labels("msg.partition", &["0", "7", "-3", "10"]), 0);
    assert_eq!(labels("msg.partition", &["007", "1.0", "", "-", "-0", "a"]), 6);
    assert_eq!(labels("msg.topic", &["in"]), 0);
    assert_eq!(labels("msg.topic", &["In", "other"]), 2);
    // A text may be anything, and so may what depends on the record.
    assert_eq!(labels("payload.a", &["NO", "on", "007", "1.0", "2026-01-01", "true", "~"]), 0);
}

#[test]
fn deprecated_keys_name_what_replaces_them() {
    let text = quiet("[ drain ]");
    for (key, replaced) in [
        ("enable_auto_commit: false", "`delivery: at_least_once`"),
        ("enable_auto_commit: true", "`delivery: at_most_once`"),
        ("delivery: at_least_once, enable_auto_commit: false", "remove it"),
        ("delivery: at_least_once, poll_timeout_ms: 100", "`poll_backoff_ms`"),
    ] {
        let compiled = check(&text.replace("delivery: at_least_once", key));
        assert_eq!(of(&compiled, Code::Deprecated).len(), 1, "{key}: {compiled:?}");
        let hint = compiled.issues.iter().find_map(|issue| issue.hint.clone()).unwrap_or_default();
        assert!(hint.contains(replaced), "{key}: {hint}");
    }
}

#[test]
fn a_number_with_a_leading_zero_in_a_configuration_is_text_and_said_to_be() {
    let config = |config: &str| {
        let text = quiet("[ { step: s }, drain ]")
            .replace("component: step.wasm", &format!("component: step.wasm, config: {{ pn: {config} }}"));
        let compiled = check(&text);
        let warned = of(&compiled, Code::ValueInvalid);
        (compiled.plan.expect("a plan").plugins[0].config["pn"].clone(), warned)
    };
    assert_eq!(config("0510210600"), ("0510210600".into(), vec!["plugins.s.config".to_owned()]));
    for (written, value) in [
        ("\"0510210600\"", serde_json::json!("0510210600")),
        ("510210600", serde_json::json!(510_210_600)),
        ("0", serde_json::json!(0)),
        ("0.5", serde_json::json!(0.5)),
    ] {
        assert_eq!(config(written), (value, Vec::new()), "{written}");
    }
}

#[test]
fn names_that_hang_on_an_unset_variable_are_not_judged() {
    for (text, path) in [
        (quiet("[ { step: \"${P}\" }, drain ]"), "process[0].step"),
        (quiet("[ drain ]") + "source: \"${S}\"\n", "source"),
        (
            quiet("[ { into_topic: \"${T}\" } ]")
                .replace("producer: {", "producers: { failed: { brokers: [b] }, x: {")
                .replace("brokers: [localhost:9092] }\nplugins", "brokers: [localhost:9092] } }\nplugins"),
            "process[0].into_topic",
        ),
    ] {
        let compiled = check(&text);
        assert!(errors(&compiled).is_empty(), "{text}: {compiled:?}");
        assert!(warnings(&compiled).contains(&format!("VARIABLE_UNSET {path}")), "{text}: {compiled:?}");
    }
}

#[test]
fn a_quiet_flow_has_nothing_to_say() {
    let process = "[ { step: s }, { fork: { by: payload.region, branches: { eu: [ { into_topic: eu } ] }, default: [ { into_topic: other } ] } } ]";
    assert!(check(&quiet(process)).issues.is_empty(), "{:?}", check(&quiet(process)));
    // Without a node that can fail there is nothing to route.
    assert!(check(&around("[ { into_topic: a } ]")).issues.is_empty());
}
