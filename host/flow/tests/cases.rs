//! The pinned cases of the flow language, each named after what it shows.

use loom_flow::{Code, Domain, to_json};

use crate::support::{World, around, around_with, errors, warnings};

fn check(text: &str) -> loom_flow::Compiled {
    World::new().compile(text)
}

#[test]
fn unknown_plugin_fork_without_terminal_and_zero_batch_size_are_all_found_in_one_run() {
    let text = around("[ { step: nobody }, { fork: { when: [ { if: true, process: [ { step: s } ] } ], default: [ drain ] } } ]")
        .replace("delivery: at_least_once", "delivery: at_least_once, batch_size: 0");
    assert_eq!(
        errors(&check(&text)),
        [
            "VALUE_INVALID kafka.consumer.batch_size",
            "PLUGIN_UNKNOWN process[0].step",
            "FORK_BRANCH_NO_TERMINAL process[1].fork.when[0].process",
        ]
    );
}

#[test]
fn a_broadcast_that_is_followed_is_not_called_a_terminal() {
    let text = around("[ { broadcast: [ [ { into_topic: a } ], [ { into_topic: b } ] ] }, { step: s } ]");
    assert_eq!(errors(&check(&text)), ["BROADCAST_NOT_LAST process[0]"]);
    let text = around(
        "[ { fork: { when: [ { if: true, process: [ drain ] } ], default: [ drain ] } }, { step: s } ]",
    );
    assert_eq!(errors(&check(&text)), ["FORK_NOT_LAST process[0]"]);
    let text = around("[ { into_topic: a }, { step: s } ]");
    assert_eq!(errors(&check(&text)), ["TERMINAL_NOT_LAST process[0]"]);
}

#[test]
fn a_broadcast_branch_without_terminal_is_a_warning() {
    let compiled = check(&around_with(
        "[ { broadcast: [ [ { into_topic: a } ], [ { step: s } ] ] } ]",
        "errors: { default: [ drain ] }",
    ));
    assert!(errors(&compiled).is_empty(), "{compiled:?}");
    assert_eq!(warnings(&compiled), ["UNTERMINATED_BRANCH process[0].broadcast[1]"]);
}

#[test]
fn a_fork_default_without_terminal_is_refused_in_every_mode() {
    for delivery in ["", ", delivery: at_most_once", ", delivery: at_least_once"] {
        let text =
            around("[ { fork: { when: [ { if: true, process: [ drain ] } ], default: [ { step: s } ] } } ]")
                .replace(", delivery: at_least_once", delivery);
        assert_eq!(errors(&check(&text)), ["FORK_BRANCH_NO_TERMINAL process[0].fork.default"], "{delivery}");
    }
}

#[test]
fn each_fork_without_default_is_found_wherever_it_stands_and_only_at_least_once() {
    let fork = "{ fork: { when: [ { if: true, process: [ drain ] } ] } }";
    let text = around_with(
        &format!(
            "[ {{ step: s, errors: {{ task: [ {fork} ] }} }}, {{ broadcast: [ [ {fork} ], [ {{ fork: {{ when: [ {{ if: true, process: [ {fork} ] }} ], default: [ drain ] }} }} ] ] }} ]"
        ),
        &format!("errors: {{ default: [ {fork} ] }}"),
    );
    let paths = [
        "FORK_UNMATCHED_UNROUTED process[0].errors.task[0]",
        "FORK_UNMATCHED_UNROUTED process[1].broadcast[0][0]",
        "FORK_UNMATCHED_UNROUTED process[1].broadcast[1][0].fork.when[0].process[0]",
        "FORK_UNMATCHED_UNROUTED errors.default[0]",
    ];
    assert_eq!(errors(&check(&text)), paths);
    let relaxed = text.replace("at_least_once", "at_most_once");
    assert!(errors(&check(&relaxed)).is_empty());
}

#[test]
fn shapes_of_fork_and_broadcast() {
    for (node, expected) in [
        (
            "{ fork: { branches: { a: [ drain ] }, default: [ drain ] } }",
            &["FORK_SELECTOR_MISSING process[0].fork"][..],
        ),
        (
            "{ fork: { by: , branches: { a: [ drain ] }, default: [ drain ] } }",
            &["FORK_SELECTOR_MISSING process[0].fork"],
        ),
        (
            "{ fork: { by: payload.a, when: [ { if: true, process: [ drain ] } ], default: [ drain ] } }",
            &["CONFLICTING_KEYS process[0].fork.by"],
        ),
        (
            "{ fork: { when: [ { if: true, process: [ drain ] } ], branches: { a: [ drain ] }, default: [ drain ] } }",
            &["CONFLICTING_KEYS process[0].fork.branches"],
        ),
        ("{ fork: { default: [ drain ] } }", &["MISSING_KEY process[0].fork"]),
        ("{ fork: { by: payload.a, default: [ drain ] } }", &["MISSING_KEY process[0].fork"]),
        (
            "{ fork: { by: payload.a, branches: {}, default: [ drain ] } }",
            &["VALUE_INVALID process[0].fork.branches"],
        ),
        ("{ fork: { when: [], default: [ drain ] } }", &["VALUE_INVALID process[0].fork.when"]),
        ("{ broadcast: [] }", &["VALUE_INVALID process[0].broadcast"]),
        (
            "{ fork: { when: [ { if: true, process: [ drain ] } ], default: pass } }",
            &["VALUE_INVALID process[0].fork.default"],
        ),
    ] {
        assert_eq!(errors(&check(&around(&format!("[ {node} ]")))), expected, "{node}");
    }
}

#[test]
fn a_kind_without_route_is_a_warning_for_each_kind_that_can_be_raised() {
    let process = "[ { step: s }, { filter: payload.a > 1 }, { into_topic: a } ]";
    let unrouted = [
        "ERROR_KIND_UNROUTED process[0]",
        "ERROR_KIND_UNROUTED process[0]",
        "ERROR_KIND_UNROUTED process[1]",
    ];
    assert_eq!(warnings(&check(&around_with(process, "errors: {}"))), unrouted);
    assert_eq!(warnings(&check(&around(process))), unrouted);
    let some = check(&around_with(process, "errors: { task: [ drain ], wire: [ drain ] }"));
    assert_eq!(warnings(&some), ["ERROR_KIND_UNROUTED process[0]"]);
    assert!(some.issues[0].message.contains("`business`"), "{some:?}");
    assert!(warnings(&check(&around_with(process, "errors: { default: [ drain ] }"))).is_empty());
    assert!(warnings(&check(&around_with(process, "errors: { unrouted: stop }"))).is_empty());
}

#[test]
fn the_warning_says_whether_the_flow_stops_or_drops() {
    let said = |flow: &str| check(flow).issues[0].message.clone();
    let process = "[ { filter: payload.a > 1 }, drain ]";
    let least = around(process);
    let stops =
        "has no route: the flow stops at the record (`unrouted: stop`, the default under `at_least_once`)";
    let drops = "has no route: the record is dropped and logged";
    assert!(said(&least).ends_with(stops), "{}", said(&least));
    let most = least.replace("at_least_once", "at_most_once");
    assert!(said(&most).ends_with(drops), "{}", said(&most));
    let asked = around_with(process, "errors: { unrouted: drop }");
    assert!(said(&asked).ends_with(drops), "{}", said(&asked));
}

#[test]
fn a_bound_of_drops_is_a_rate_and_has_no_effect_where_nothing_is_dropped() {
    let with = |errors: &str| check(&around_with("[ drain ]", errors));
    for right in ["100/min", "0/h", "5 / h", "\"7/min\""] {
        let compiled = with(&format!("errors: {{ unrouted: drop, max_dropped: {right} }}"));
        assert!(compiled.issues.is_empty(), "{right}: {compiled:?}");
    }
    for wrong in ["100", "100/m", "-1/min", "x/min", "1.5/h", "/min", "9999999999999999999/h"] {
        let compiled = with(&format!("errors: {{ unrouted: drop, max_dropped: {wrong} }}"));
        assert_eq!(errors(&compiled), ["VALUE_INVALID errors.max_dropped"], "{wrong}");
    }
    for idle in ["max_dropped: 1/h", "unrouted: stop, max_dropped: 1/h"] {
        let compiled = with(&format!("errors: {{ {idle} }}"));
        assert_eq!(warnings(&compiled), ["VALUE_INVALID errors.max_dropped"], "{idle}");
    }
}

#[test]
fn a_nodes_name_is_one_word_that_no_other_node_has() {
    let right = check(&around("[ { filter: payload.a > 1, name: big.only_1-x }, { drain: , name: away } ]"));
    assert_eq!(errors(&right), [""; 0], "{right:?}");
    let plan = right.plan.expect("a plan");
    assert_eq!(plan.process.nodes[0].name.as_deref(), Some("big.only_1-x"));
    for (wrong, path) in
        [("a b", "process[0].name"), ("'process[0]'", "process[0].name"), ("'a\"b'", "process[0].name")]
    {
        let compiled = check(&around(&format!("[ {{ filter: payload.a > 1, name: {wrong} }}, drain ]")));
        assert_eq!(errors(&compiled), [format!("VALUE_INVALID {path}")], "{wrong}");
    }
    let twice = around_with(
        "[ { filter: payload.a > 1, name: x }, drain ]",
        "errors: { default: [ { map: payload, name: x }, drain ] }",
    );
    assert_eq!(errors(&check(&twice)), ["VALUE_INVALID errors.default[0].name"]);
}

#[test]
fn one_error_kind_routed_twice_is_a_duplicate_with_both_places() {
    let compiled =
        check(&around_with("[ { into_topic: a } ]", "errors:\n  task: [ drain ]\n  task: [ drain ]\n"));
    assert_eq!(errors(&compiled), ["DUPLICATE_KEY task"]);
    let (first, _) = compiled.issues[0].related.clone().expect("the first place");
    assert_eq!((first.line, compiled.issues[0].at.line), (16, 17));
}

#[test]
fn an_untracked_sink_is_found_once_for_each_place_and_blamed_on_the_pairing() {
    let sink = "[ { into_sink: u } ]";
    let places = around_with(
        &format!(
            "[ {{ step: s, errors: {{ task: {sink} }} }}, {{ broadcast: [ {sink}, [ {{ fork: {{ when: [ {{ if: true, process: {sink} }} ], default: {sink} }} }} ] ] }} ]"
        ),
        &format!("errors: {{ default: {sink} }}"),
    );
    let compiled = check(&places);
    assert_eq!(
        errors(&compiled),
        [
            "SINK_UNTRACKED process[0].errors.task[0]",
            "SINK_UNTRACKED process[1].broadcast[0][0]",
            "SINK_UNTRACKED process[1].broadcast[1][0].fork.when[0].process[0]",
            "SINK_UNTRACKED process[1].broadcast[1][0].fork.default[0]",
            "SINK_UNTRACKED errors.default[0]",
        ]
    );
    for issue in compiled.issues.iter().filter(|issue| issue.code == Code::SinkUntracked) {
        for part in ["`u`", "untracked.wasm", "bind-commit-tracker"] {
            assert!(issue.message.contains(part), "{}", issue.message);
        }
    }
    assert_eq!(compiled.blame(), Some(Domain::Runtime));
    assert_eq!(errors(&check(&around(sink))), ["SINK_UNTRACKED process[0]"]);
    assert!(errors(&check(&around(sink).replace("at_least_once", "at_most_once"))).is_empty());
    let both = check(&around("[ { step: nobody }, { into_sink: u } ]"));
    assert_eq!(both.blame(), Some(Domain::Flow));
}

#[test]
fn a_component_is_looked_at_only_where_it_is_used_and_when_asked() {
    let broken = around("[ { step: s }, { filter: { plugin: k } }, { into_sink: k } ]")
        .replace("step.wasm", "broken.wasm");
    assert_eq!(
        errors(&check(&broken)),
        ["PLUGIN_LOAD_FAILED plugins.s.component", "PLUGIN_ROLE_MISSING process[1].filter.plugin"]
    );
    let mut world = World::new();
    world.options.plugins = false;
    assert!(errors(&world.compile(&broken)).is_empty());
}

#[test]
fn what_chooses_is_a_plugin_of_its_role_wherever_it_stands() {
    for (process, expected) in [
        ("[ { into_topic: a, partitioner: nobody } ]", "PLUGIN_UNKNOWN process[0].partitioner"),
        (
            "[ { into_topic: a, partitioner: { plugin: s } } ]",
            "PLUGIN_ROLE_MISSING process[0].partitioner.plugin",
        ),
        ("[ { into_topic: a, key: { plugin: s } } ]", "PLUGIN_ROLE_MISSING process[0].key.plugin"),
        (
            "[ { fork: { by: { plugin: s }, branches: { a: [ drain ] }, default: [ drain ] } } ]",
            "PLUGIN_ROLE_MISSING process[0].fork.by.plugin",
        ),
        (
            "[ { router: { by: { plugin: s }, branches: { a: [] } } }, drain ]",
            "PLUGIN_ROLE_MISSING process[0].router.by.plugin",
        ),
        (
            "[ { router: { when: [ { if: { plugin: s }, process: [] } ] } }, drain ]",
            "PLUGIN_ROLE_MISSING process[0].router.when[0].if.plugin",
        ),
    ] {
        assert_eq!(errors(&check(&around(process))), [expected], "{process}");
    }
}

#[test]
fn an_output_without_producer_is_found_at_its_node() {
    let text = around("[ { into_topic: x } ]").replace("  producer: { brokers: [localhost:9092] }\n", "");
    assert_eq!(errors(&check(&text)), ["KAFKA_CONFIG_INVALID process[0].into_topic"]);
}

#[test]
fn a_dead_letter_output_is_resolved_as_every_output_is_and_is_another_one() {
    let text = around("[ { into_topic: x, dlq: y } ]")
        .replace("  producer: { brokers: [localhost:9092] }\n", "  producers: { x: { brokers: [b:1] } }\n");
    assert_eq!(errors(&check(&text)), ["KAFKA_CONFIG_INVALID process[0].dlq"]);
    assert_eq!(errors(&check(&around("[ { into_topic: x, dlq: x } ]"))), ["VALUE_INVALID process[0].dlq"]);
    let in_route = around_with("[ { into_topic: a } ]", "errors: { default: [ { into_topic: b, dlq: b } ] }");
    assert_eq!(errors(&check(&in_route)), ["VALUE_INVALID errors.default[0].dlq"]);
}

#[test]
fn a_topic_on_the_default_producer_is_for_one_output_only() {
    let outputs = around_with(
        "[ { broadcast: [ [ { into_topic: a } ], [ { into_topic: b } ] ] } ]",
        "errors: { default: [ { into_topic: c } ] }",
    );
    let several = outputs.replace(
        "producer: { brokers: [localhost:9092] }",
        "producer: { brokers: [localhost:9092], topic: out }",
    );
    assert_eq!(errors(&check(&several)), ["KAFKA_CONFIG_INVALID kafka.producer.topic"]);
    assert!(errors(&check(&outputs)).is_empty());
    let one = around("[ { into_topic: a } ]").replace(
        "producer: { brokers: [localhost:9092] }",
        "producer: { brokers: [localhost:9092], topic: out }",
    );
    assert!(errors(&check(&one)).is_empty());
}

#[test]
fn no_topics_is_a_fault_of_the_consumer() {
    let text = around("[ drain ]").replace("topics: [in]", "topics: []");
    assert_eq!(errors(&check(&text)), ["KAFKA_CONFIG_INVALID kafka.consumer.topics"]);
}

#[test]
fn contradicting_modes_are_found_in_every_consumer_and_only_there() {
    for (delivery, switch, conflict) in [
        ("", "", false),
        ("", "true", false),
        ("", "false", false),
        ("at_least_once", "", false),
        ("at_least_once", "true", true),
        ("at_least_once", "false", false),
        ("at_most_once", "", false),
        ("at_most_once", "true", false),
        ("at_most_once", "false", true),
    ] {
        let delivery = if delivery.is_empty() { String::new() } else { format!(", delivery: {delivery}") };
        let switch =
            if switch.is_empty() { String::new() } else { format!(", enable_auto_commit: {switch}") };
        let text = around("[ drain ]").replace(", delivery: at_least_once", &format!("{delivery}{switch}"));
        let expected: &[&str] =
            if conflict { &["DELIVERY_CONFLICT kafka.consumer.enable_auto_commit"] } else { &[] };
        assert_eq!(errors(&check(&text)), expected, "{delivery}{switch}");
        let named = text
            .replace("  consumer: {", "  consumers: { orders: {")
            .replace(" }\n  producer:", " } }\n  producer:")
            + "source: orders\n";
        let compiled = check(&named);
        let expected: &[&str] =
            if conflict { &["DELIVERY_CONFLICT kafka.consumers.orders.enable_auto_commit"] } else { &[] };
        assert_eq!(errors(&compiled), expected, "{named}");
        if conflict {
            assert!(
                compiled.issues.iter().any(|issue| issue.message.contains("kafka.consumers.orders")),
                "{compiled:?}"
            );
        }
    }
    assert_eq!(errors(&check("name: x\nprocess: [ drain ]\n")), ["KAFKA_CONFIG_INVALID "]);
}

#[test]
fn zero_and_negative_numbers_are_one_issue_for_each_field() {
    for value in ["0", "-1", "-5ms", "x"] {
        for field in ["batch_size", "poll_backoff_ms", "commit_keepalive_ms"] {
            let text =
                around("[ drain ]").replace("topics: [in]", &format!("topics: [in], {field}: {value}"));
            let compiled = check(&text);
            assert_eq!(
                errors(&compiled),
                [format!("VALUE_INVALID kafka.consumer.{field}")],
                "{field}: {value}"
            );
            assert!(compiled.issues[0].message.contains(field));
        }
        for field in ["timeout", "concurrency"] {
            let compiled = check(&around(&format!("[ {{ step: s, {field}: {value} }}, drain ]")));
            assert_eq!(errors(&compiled), [format!("VALUE_INVALID process[0].{field}")], "{field}: {value}");
        }
        for field in ["max_records", "timeout_ms", "max_bytes"] {
            let compiled = check(&around(&format!("[ {{ collect_batch: {{ {field}: {value} }} }}, drain ]")));
            let expected = [format!("VALUE_INVALID process[0].collect_batch.{field}")];
            assert_eq!(errors(&compiled), expected, "{field}: {value}");
        }
    }
}

#[test]
fn an_empty_name_an_empty_process_and_a_process_without_terminal() {
    assert_eq!(
        errors(&check(&around("[ drain ]").replace("name: test", "name: \"\""))),
        ["VALUE_INVALID name"]
    );
    assert_eq!(errors(&check(&around("[]"))), ["VALUE_INVALID process"]);
    assert_eq!(errors(&check(&around("[ { step: s } ]"))), ["MISSING_TERMINAL_OUTPUT process"]);
}

#[test]
fn what_cannot_run_yet_is_refused_at_its_place_and_looked_into() {
    for (process, expected) in [
        ("[ { expand: nobody }, drain ]", &["PLUGIN_UNKNOWN process[0].expand"][..]),
        (
            "[ { batch_step: s }, drain ]",
            &["PLUGIN_ROLE_MISSING process[0].batch_step", "SHAPE_MISMATCH process[0]"],
        ),
        ("[ for_each, drain ]", &["SHAPE_MISMATCH process[0]"]),
        (
            "[ { collect_batch: { max_records: 9, key: { plugin: nobody } } }, drain ]",
            &["PLUGIN_UNKNOWN process[0].collect_batch.key.plugin"],
        ),
        (
            "[ { collect_batch: { max_records: 9, key: { plugin: s } } }, drain ]",
            &["PLUGIN_ROLE_MISSING process[0].collect_batch.key.plugin"],
        ),
        ("[ { router: { branches: { a: [] } } }, drain ]", &["FORK_SELECTOR_MISSING process[0].router"]),
        (
            "[ { expand_routes: { plugin: nobody, routes: { a: [ drain ] } } }, drain ]",
            &["TERMINAL_NOT_LAST process[0]", "PLUGIN_UNKNOWN process[0].expand_routes.plugin"],
        ),
        ("[ { step: s, retries: 3 }, drain ]", &[]),
        ("[ { into_topic: a, dlq: b } ]", &[]),
    ] {
        let compiled = check(&around(process));
        let mut found = errors(&compiled);
        let mut expected: Vec<String> = expected.iter().map(|text| (*text).to_owned()).collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{process}");
    }
    let granted = around("[ { step: s }, drain ]").replace(
        "component: step.wasm",
        "component: step.wasm, allow: { http: [\"api:443\"], tcp: [\"db:5432\"] }",
    );
    assert_eq!(errors(&check(&granted)), ["NOT_AVAILABLE plugins.s.allow.tcp"]);
}

#[test]
fn a_node_waits_with_concurrency_or_the_network_and_says_where_order_means_nothing() {
    let http = |process: &str, hosts: &str| {
        around(process)
            .replace("component: step.wasm", &format!("component: step.wasm, allow: {{ http: [{hosts}] }}"))
    };
    let all = |text: &str| -> Vec<String> {
        let compiled = check(text);
        compiled.issues.iter().map(|issue| format!("{} {}", issue.code, issue.path)).collect()
    };
    for (process, hosts, expected) in [
        ("[ { step: s, concurrency: 4 }, drain ]", "", &[][..]),
        ("[ { step: s, concurrency: 4, ordered: false, timeout: 30s }, drain ]", "", &[]),
        ("[ { step: s, ordered: true }, drain ]", "", &[]),
        ("[ { step: s, ordered: false }, drain ]", "", &["VALUE_INVALID process[0].ordered"]),
        ("[ { step: s, ordered: false }, drain ]", "'api:443'", &[]),
        ("[ { step: s, ordered: maybe }, drain ]", "", &["VALUE_INVALID process[0].ordered"]),
        ("[ { step: s, concurrency: 1001 }, drain ]", "", &["VALUE_INVALID process[0].concurrency"]),
        ("[ { step: s }, drain ]", "'*.example.com:443', '[::1]:80'", &[]),
        (
            "[ { step: s }, drain ]",
            "'https://example.com', example.com, '169.254.169.254:80'",
            &[
                "VALUE_INVALID plugins.s.allow.http[0]",
                "VALUE_INVALID plugins.s.allow.http[1]",
                "VALUE_INVALID plugins.s.allow.http[2]",
            ],
        ),
    ] {
        let found: Vec<String> =
            all(&http(process, hosts)).into_iter().filter(|issue| !issue.starts_with("ERROR_KIND")).collect();
        assert_eq!(found, expected, "{process} {hosts}");
    }
}

#[test]
fn leave_to_replace_keys_has_no_effect_without_a_partitioner_and_says_so() {
    let idle = "VALUE_INVALID process[0].allow_repartition";
    for (options, expected) in [
        ("allow_repartition: true", &[idle][..]),
        ("key: payload.k, allow_repartition: true", &[idle]),
        ("key: { plugin: s }, allow_repartition: true", &[idle]),
        ("allow_repartition: false", &[]),
        ("partitioner: s, allow_repartition: true", &[]),
        ("partitioner: { plugin: s }, allow_repartition: true", &[]),
        // A partitioner that is not understood is meant.
        ("partitioner: 'payload.k', allow_repartition: true", &[]),
        ("partitioner: [ s ], allow_repartition: true", &[]),
    ] {
        let text =
            around_with(&format!("[ {{ into_topic: a, {options} }} ]"), "errors: { default: [ drain ] }");
        let compiled = check(&text.replace("component: step.wasm", "component: partitioner.wasm"));
        let found = warnings(&compiled).into_iter().filter(|warning| warning.starts_with("VALUE_INVALID"));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{options}");
    }
}

#[test]
fn errors_inside_a_route_have_no_effect_and_say_so() {
    let compiled = check(&around_with(
        "[ { into_topic: a } ]",
        "errors: { default: [ { step: s, errors: { task: [ drain ] } }, drain ] }",
    ));
    assert!(errors(&compiled).is_empty());
    assert_eq!(warnings(&compiled), ["ERRORS_IGNORED errors.default[0].errors"]);
}

#[test]
fn issues_as_json_have_the_documented_form() {
    let compiled = check(&around("[ { stpe: s }, drain ]"));
    let json: serde_json::Value = serde_json::from_str(&to_json(&compiled.issues)).expect("JSON");
    assert_eq!(
        json,
        serde_json::json!({
            "version": 1,
            "issues": [{
                "severity": "error",
                "code": "UNKNOWN_KEY",
                "message": "a node has no key `stpe`",
                "file": "flow.yaml",
                "line": 14,
                "column": 14,
                "path": "process[0].stpe",
                "hint": "did you mean `step`?",
            }],
            "errors": 1,
            "warnings": 0,
        })
    );
    assert_eq!(to_json(&[]), r#"{"version":1,"issues":[],"errors":0,"warnings":0}"#);
}

#[test]
fn nesting_within_reason_compiles() {
    let mut process = "[ drain ]".to_owned();
    for _ in 0..30 {
        process = format!("[ {{ broadcast: [ {process} ] }} ]");
    }
    assert!(errors(&check(&around(&process))).is_empty());
    for _ in 0..100 {
        process = format!("[ {{ broadcast: [ {process} ] }} ]");
    }
    assert_eq!(errors(&check(&around(&process))), ["FILE_INVALID "]);
}

#[test]
fn a_bare_boolean_is_an_expression() {
    for text in ["true", "false", "True", "FALSE", "\"true\""] {
        assert!(errors(&check(&around(&format!("[ {{ filter: {text} }}, drain ]")))).is_empty(), "{text}");
    }
}

#[test]
fn a_folder_is_granted_at_an_absolute_path_of_its_own() {
    let text = |dirs: &str| {
        format!(
            "name: f\nkafka: {{ consumer: {{ brokers: [b], group_id: g, topics: [in], delivery: at_least_once }} }}\nplugins: {{ s: \
             {{ component: step.wasm, allow: {{ dirs: [{dirs}] }} }} }}\nprocess: [ {{ step: s }}, drain ]\nerrors: {{ default: [ drain ] }}\n"
        )
    };
    assert_eq!(errors(&check(&text("{ host: a, guest: /a }, { host: a, guest: /b }"))), [""; 0]);
    let twice = check(&text("{ host: a, guest: /r }, { host: b, guest: /r }"));
    assert_eq!(errors(&twice), ["VALUE_INVALID plugins.s.allow.dirs[1].guest"]);
    let relative = check(&text("{ host: a, guest: rel }"));
    assert_eq!(errors(&relative), ["VALUE_INVALID plugins.s.allow.dirs[0].guest"]);
}

#[test]
fn a_login_needs_all_of_its_keys_and_a_protocol() {
    let found = |security: &str| {
        let text =
            around("[ drain ]").replace("group_id: g", &format!("group_id: g, security: {{ {security} }}"));
        errors(&World::new().compile(&text))
    };
    let at = "kafka.consumer.security";
    let whole = "protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u, sasl_password: p";
    for fine in [whole, "protocol: SSL", "protocol: \"${P:-SASL_SSL}\", sasl_username: u"] {
        assert!(found(fine).is_empty(), "{fine}: {:?}", found(fine));
    }
    let missing = format!("MISSING_KEY {at}");
    assert_eq!(found("protocol: SASL_PLAINTEXT"), [missing.as_str(); 3]);
    assert_eq!(found("protocol: SASL_SSL, sasl_username: u, sasl_password: p"), [missing]);
    for idle in
        ["sasl_username: u", "protocol: SSL, sasl_username: u", "protocol: PLAINTEXT, sasl_username: u"]
    {
        assert_eq!(found(idle), [format!("KAFKA_CONFIG_INVALID {at}.sasl_username")]);
    }
    for unsupported in ["GSSAPI", "OAUTHBEARER"] {
        assert_eq!(
            found(&whole.replace("PLAIN,", &format!("{unsupported},"))),
            [format!("VALUE_INVALID {at}.sasl_mechanism")]
        );
    }
}

#[test]
fn files_for_tls_lie_beside_the_flow() {
    let extra = "extra: { ssl.ca.location: tls/ca.pem, ssl.key.location: /etc/key.pem }";
    let plan =
        World::new().plan(&around("[ drain ]").replace("topics: [in]", &format!("topics: [in], {extra}")));
    let of = |key: &str| plan.consumer.extra[key].0.clone();
    assert_eq!(std::path::Path::new(&of("ssl.ca.location")), std::path::Path::new("flows/tls/ca.pem"));
    assert_eq!(of("ssl.key.location"), "/etc/key.pem");
}

#[test]
fn a_batch_has_a_bound_and_which_one_is_the_flows_to_say() {
    for bounds in ["{}", "{ key: payload.k }"] {
        let compiled = check(&around(&format!("[ {{ collect_batch: {bounds} }}, drain ]")));
        assert_eq!(errors(&compiled), ["VALUE_INVALID process[0].collect_batch"], "{bounds}");
    }
    for bounds in ["max_records: 1", "max_bytes: 1KiB", "timeout_ms: 1", "max_records: 1, key: msg.key"] {
        let compiled = check(&around_with(
            &format!("[ {{ collect_batch: {{ {bounds} }} }}, drain ]"),
            "errors: { default: [ drain ] }",
        ));
        assert!(compiled.issues.is_empty(), "{bounds}: {compiled:?}");
    }
}

#[test]
fn records_that_a_batch_expander_makes_go_on_as_records() {
    for process in [
        "[ { collect_batch: { max_records: 9 } }, { batch_expand: bx }, { step: s }, { into_topic: out } ]",
        "[ { collect_batch: { max_records: 9, timeout_ms: 5 } }, { batch_step: b }, for_each, { step: s }, { into_topic: out } ]",
        "[ { collect_batch: { max_records: 9 } }, { batch_expand: bx }, { collect_batch: { max_records: 9 } }, { batch_step: b }, { batch_step: b }, for_each, { into_topic: out } ]",
    ] {
        let compiled = check(&around_with(process, "errors: { default: [ { into_topic: e } ] }"));
        assert!(compiled.issues.is_empty(), "{process}: {compiled:?}");
        assert!(compiled.plan.is_some());
    }
}
