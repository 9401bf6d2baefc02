//! Records, batches and typed rows followed through every node and every place where a node can stand.

use loom_flow::{Code, Issue, Severity};

use crate::support::{World, around, around_with, warnings};

/// `CODE path` of every error, without what this version cannot run yet: shapes are checked all the same.
fn errors(process: &str) -> Vec<String> {
    errors_with(process, "")
}

fn errors_with(process: &str, more: &str) -> Vec<String> {
    named(&issues(&around_with(process, more)))
}

fn issues(text: &str) -> Vec<Issue> {
    let compiled = World::new().compile(text);
    let wanted = |issue: &Issue| issue.severity == Severity::Error && issue.code != Code::NotAvailable;
    compiled.issues.into_iter().filter(wanted).collect()
}

fn named(issues: &[Issue]) -> Vec<String> {
    issues.iter().map(|issue| format!("{} {}", issue.code, issue.path)).collect()
}

/// The message of the one mismatch of a process.
fn mismatch(process: &str) -> String {
    let found = issues(&around(process));
    let [Issue { code: Code::ShapeMismatch, message, hint: Some(_), .. }] = &found[..] else {
        panic!("{process}: {found:?}");
    };
    message.clone()
}

const WINDOW: &str = "{ collect_batch: { max_records: 100, timeout_ms: 500 } }";

#[test]
fn a_window_a_batch_step_and_for_each_give_records_again() {
    let process =
        format!("[ {WINDOW}, {{ batch_step: b }}, for_each, {{ step: s }}, {{ into_topic: out }} ]");
    assert!(errors(&process).is_empty(), "{:?}", errors(&process));
}

#[test]
fn a_batch_expander_gives_records() {
    let process = format!("[ {WINDOW}, {{ batch_expand: bx }}, {{ step: s }}, {{ into_topic: out }} ]");
    assert!(errors(&process).is_empty(), "{:?}", errors(&process));
}

#[test]
fn windows_of_what_batches_gave_follow_one_another() {
    let process =
        format!("[ {WINDOW}, {{ batch_expand: bx }}, {WINDOW}, {{ batch_step: b }}, for_each, drain ]");
    assert!(errors(&process).is_empty(), "{:?}", errors(&process));
}

#[test]
fn each_node_that_takes_records_refuses_batches_and_names_them_and_their_node() {
    for (node, name) in [
        ("{ step: s }", "step"),
        ("{ map: payload }", "map"),
        ("{ expand: x }", "expand"),
        ("{ filter: payload.a }", "filter"),
        (WINDOW, "collect_batch"),
        ("{ router: { when: [ { if: payload.a, process: [ { step: s } ] } ], default: pass } }", "router"),
    ] {
        let after = if name == "collect_batch" { "for_each, " } else { "" };
        assert_eq!(
            mismatch(&format!("[ {WINDOW}, {{ batch_step: b }}, {node}, {after}drain ]")),
            format!("`{name}` takes records, and gets batches from `batch_step`"),
        );
    }
    for (terminal, name) in [
        ("{ fork: { when: [ { if: payload.a, process: [ drain ] } ], default: [ drain ] } }", "fork"),
        ("{ broadcast: [ [ drain ] ] }", "broadcast"),
        ("{ expand_routes: { plugin: t, routes: { a: [ drain ] } } }", "expand_routes"),
        ("{ into_topic: a }", "into_topic"),
        ("{ into_sink: k }", "into_sink"),
    ] {
        assert_eq!(
            mismatch(&format!("[ {WINDOW}, {terminal} ]")),
            format!("`{name}` takes records, and gets batches from `collect_batch`"),
        );
    }
    assert_eq!(
        mismatch(&format!(
            "[ {WINDOW}, {{ explode: t }}, {{ router: {{ by: msg.type, branches: {{ a: [] }}, default: pass }} }}, drain ]"
        )),
        "`explode` takes records, and gets batches from `collect_batch`",
    );
}

#[test]
fn each_node_that_takes_batches_refuses_records_and_says_where_they_come_from() {
    for (node, name, after) in [
        ("{ batch_step: b }", "batch_step", "for_each, "),
        ("{ batch_expand: bx }", "batch_expand", ""),
        ("for_each", "for_each", ""),
    ] {
        for (before, from) in [
            ("", "the flow's topics"),
            ("{ step: s }, ", "`step`"),
            ("{ map: payload }, ", "`map`"),
            ("{ expand: x }, ", "`expand`"),
            ("{ filter: payload.a }, ", "`filter`"),
            ("{ router: { when: [ { if: payload.a, process: [] } ], default: pass } }, ", "`router`"),
        ] {
            assert_eq!(
                mismatch(&format!("[ {before}{node}, {after}drain ]")),
                format!("`{name}` takes batches, and gets records from {from}"),
            );
        }
        let twice = mismatch(&format!("[ {WINDOW}, for_each, {node}, {after}drain ]"));
        assert_eq!(twice, format!("`{name}` takes batches, and gets records from `for_each`"));
    }
}

#[test]
fn drain_takes_whatever_comes() {
    assert!(errors(&format!("[ {WINDOW}, drain ]")).is_empty());
    assert!(errors(&format!("[ {WINDOW}, {{ batch_step: b }}, drain ]")).is_empty());
}

#[test]
fn one_mistake_is_one_issue() {
    let process = "[ { batch_step: b }, for_each, { step: s }, { batch_expand: bx }, { into_topic: a } ]";
    assert_eq!(errors(process), ["SHAPE_MISMATCH process[0]", "SHAPE_MISMATCH process[3]"]);
    // What is not understood is not guessed at.
    assert_eq!(errors("[ { stpe: s }, for_each, drain ]"), ["UNKNOWN_KEY process[0].stpe"]);
    // What follows a terminal gets nothing, which is said of the terminal.
    assert_eq!(errors("[ { into_topic: a }, for_each, drain ]"), ["TERMINAL_NOT_LAST process[0]"]);
}

#[test]
fn a_shape_error_is_found_inside_every_process_with_its_path() {
    for (process, more, path) in [
        ("[ { broadcast: [ [ drain ], [ for_each, drain ] ] } ]", "", "process[0].broadcast[1][0]"),
        (
            "[ { fork: { when: [ { if: payload.a, process: [ for_each, drain ] } ], default: [ drain ] } } ]",
            "",
            "process[0].fork.when[0].process[0]",
        ),
        (
            "[ { fork: { by: payload.a, branches: { a: [ for_each, drain ] }, default: [ drain ] } } ]",
            "",
            "process[0].fork.branches.a[0]",
        ),
        (
            "[ { fork: { when: [ { if: payload.a, process: [ drain ] } ], default: [ for_each, drain ] } } ]",
            "",
            "process[0].fork.default[0]",
        ),
        (
            "[ { expand_routes: { plugin: t, routes: { a: [ drain ], b: [ for_each, drain ] } } } ]",
            "",
            "process[0].expand_routes.routes.b[0]",
        ),
        (
            "[ { expand_routes: { plugin: t, routes: { a: [ drain ] }, default: [ for_each, drain ] } } ]",
            "",
            "process[0].expand_routes.default[0]",
        ),
        ("[ { step: s, errors: { task: [ for_each, drain ] } }, drain ]", "", "process[0].errors.task[0]"),
        ("[ drain ]", "errors: { wire: [ for_each, drain ] }", "errors.wire[0]"),
        (
            "[ { broadcast: [ [ { fork: { when: [ { if: payload.a, process: [ drain ] } ], default: [ { broadcast: [ [ for_each, drain ] ] } ] } } ] ] } ]",
            "",
            "process[0].broadcast[0][0].fork.default[0].broadcast[0][0]",
        ),
    ] {
        assert_eq!(errors_with(process, more), [format!("SHAPE_MISMATCH {path}")], "{process}");
    }
    let found = issues(&around("[ { broadcast: [ [ drain ], [ for_each, drain ] ] } ]"));
    assert_eq!(found[0].message, "`for_each` takes batches, and gets records from the `broadcast` around it");
}

#[test]
fn an_expand_routes_that_is_followed_is_a_terminal_that_is_not_last() {
    let process = "[ { expand_routes: { plugin: t, routes: { a: [ drain ] } } }, { step: s }, drain ]";
    assert_eq!(errors(process), ["TERMINAL_NOT_LAST process[0]"]);
}

#[test]
fn a_row_of_a_type_without_route_is_a_routing_error_unless_there_is_a_default() {
    let warned = |default: &str| -> bool {
        let process =
            format!("[ {{ expand_routes: {{ plugin: t, routes: {{ a: [ drain ] }}{default} }} }} ]");
        let compiled = World::new().compile(&around(&process));
        compiled.issues.iter().any(|issue| issue.message.contains("`routing`"))
    };
    assert!(warned("") && !warned(", default: [ drain ]"));
}

#[test]
fn an_explode_names_what_follows_it_where_no_router_does() {
    for (after, came) in [
        ("", "nothing follows it"),
        (", { step: s }, drain", "`step` follows it"),
        (", drain", "`drain` follows it"),
        (", { into_topic: a }", "`into_topic` follows it"),
        (", { fork: { by: msg.type, branches: { a: [ drain ] }, default: [ drain ] } }", "`fork` follows it"),
        (", for_each, drain", "`for_each` follows it"),
    ] {
        for (process, path) in [
            (format!("[ {{ explode: t }}{after} ]"), "process[0]"),
            (
                format!("[ {{ broadcast: [ [ drain ], [ {{ explode: t }}{after} ] ] }} ]"),
                "process[0].broadcast[1][0]",
            ),
        ] {
            let found = issues(&around(&process));
            let exploded: Vec<&Issue> =
                found.iter().filter(|issue| issue.code == Code::ExplodeWithoutRouter).collect();
            assert_eq!(exploded.len(), 1, "{process}: {found:?}");
            assert_eq!(exploded[0].path, path);
            assert!(exploded[0].message.ends_with(came), "{}", exploded[0].message);
            assert!(found.iter().all(|issue| issue.code != Code::ShapeMismatch), "{process}: {found:?}");
        }
    }
    let good = "[ { explode: t }, { router: { by: msg.type, branches: { a: [ { step: s } ] }, default: pass } }, { into_topic: a } ]";
    assert!(errors(good).is_empty(), "{:?}", errors(good));
}

#[test]
fn what_expands_and_what_batches_ends_or_routes_is_refused_in_a_branch_of_a_router() {
    const FANOUT: &str = "ROUTER_BRANCH_FANOUT_UNSUPPORTED";
    const UNSAFE: &str = "ROUTER_BRANCH_UNSAFE_NODE";
    for (node, code) in [
        ("{ expand: x }", FANOUT),
        ("{ batch_expand: bx }", FANOUT),
        ("{ explode: t }", FANOUT),
        ("{ expand_routes: { plugin: t, routes: { a: [ drain ] } } }", FANOUT),
        ("{ batch_step: b }", UNSAFE),
        (WINDOW, UNSAFE),
        ("for_each", UNSAFE),
        ("{ router: { when: [ { if: payload.b, process: [] } ], default: pass } }", UNSAFE),
        ("{ fork: { when: [ { if: payload.b, process: [ drain ] } ], default: [ drain ] } }", UNSAFE),
        ("{ broadcast: [ [ drain ] ] }", UNSAFE),
        ("{ into_topic: vip }", UNSAFE),
        ("{ into_sink: k }", UNSAFE),
        ("drain", UNSAFE),
    ] {
        for (router, path) in [
            (
                format!(
                    "{{ when: [ {{ if: payload.a, process: [ {{ step: s }}, {node} ] }} ], default: pass }}"
                ),
                "when[0].process[1]",
            ),
            (format!("{{ by: payload.a, branches: {{ a: [ {node} ] }}, default: pass }}"), "branches.a[0]"),
            (format!("{{ when: [ {{ if: payload.a, process: [] }} ], default: [ {node} ] }}"), "default[0]"),
        ] {
            let found = errors(&format!("[ {{ router: {router} }}, {{ into_topic: out }} ]"));
            assert!(found.contains(&format!("{code} process[0].router.{path}")), "{node}: {found:?}");
            let of_routers = found.iter().filter(|found| found.starts_with("ROUTER_BRANCH_"));
            let own = of_routers.filter(|found| !found.starts_with("ROUTER_BRANCH_SHAPE")).count();
            assert_eq!(own, 1, "{node}: {found:?}");
        }
    }
}

#[test]
fn steps_maps_and_filters_may_stand_in_a_router() {
    let branch = "[ { step: s }, { map: payload }, { filter: { plugin: p } } ]";
    let process = format!(
        "[ {{ router: {{ by: payload.a, branches: {{ a: {branch}, b: [] }}, default: {branch} }} }}, {{ into_topic: out }} ]"
    );
    assert!(errors(&process).is_empty(), "{:?}", errors(&process));
}

#[test]
fn a_router_inside_a_routers_branch_is_looked_into() {
    let inner = "{ router: { when: [ { if: payload.b, process: [ { expand: x } ] } ], default: pass } }";
    let process = format!(
        "[ {{ router: {{ by: payload.a, branches: {{ a: [ {inner} ] }}, default: pass }} }}, drain ]"
    );
    assert_eq!(
        errors(&process),
        [
            "ROUTER_BRANCH_UNSAFE_NODE process[0].router.branches.a[0]",
            "ROUTER_BRANCH_FANOUT_UNSUPPORTED process[0].router.branches.a[0].router.when[0].process[0]",
        ]
    );
}

#[test]
fn a_fan_out_in_a_router_and_a_missing_kafka_section_are_both_found() {
    let text = "name: x\nplugins: { x: { component: expander.wasm } }\nprocess:\n  - router: { by: payload.a, branches: { a: [ { expand: x } ] }, default: pass }\n  - drain\n";
    let found = named(&issues(text));
    assert_eq!(
        found,
        ["KAFKA_CONFIG_INVALID ", "ROUTER_BRANCH_FANOUT_UNSUPPORTED process[0].router.branches.a[0]"]
    );
}

#[test]
fn branches_that_end_in_batches_and_in_records_diverge() {
    let process = format!(
        "[ {{ router: {{ by: payload.a, branches: {{ a: [ {{ step: s }} ], b: [ {WINDOW} ] }}, default: pass }} }}, drain ]"
    );
    assert_eq!(
        errors(&process),
        [
            "ROUTER_BRANCH_UNSAFE_NODE process[0].router.branches.b[0]",
            "ROUTER_BRANCH_SHAPE_DIVERGENCE process[0].router.branches.b",
        ]
    );
    // Without `pass` the first branch says what the others must be.
    let process = format!(
        "[ {{ router: {{ when: [ {{ if: payload.a, process: [ {WINDOW} ] }}, {{ if: payload.b, process: [] }} ] }} }}, drain ]"
    );
    assert_eq!(
        errors(&process),
        [
            "ROUTER_BRANCH_UNSAFE_NODE process[0].router.when[0].process[0]",
            "ROUTER_BRANCH_SHAPE_DIVERGENCE process[0].router.when[1].process",
        ]
    );
    // All of one shape do not diverge, whatever else is wrong with them, and go on in that shape.
    let process = format!(
        "[ {{ router: {{ when: [ {{ if: payload.a, process: [ {WINDOW} ] }} ] }} }}, for_each, drain ]"
    );
    assert_eq!(errors(&process), ["ROUTER_BRANCH_UNSAFE_NODE process[0].router.when[0].process[0]"]);
}

#[test]
fn a_branching_node_without_branches_or_selector_is_an_issue_each() {
    for (node, expected) in [
        ("{ router: { branches: { a: [] }, default: pass } }", "FORK_SELECTOR_MISSING process[0].router"),
        (
            "{ router: { by: , branches: { a: [] }, default: pass } }",
            "FORK_SELECTOR_MISSING process[0].router",
        ),
        (
            "{ router: { by: payload.a, when: [ { if: true, process: [] } ], default: pass } }",
            "CONFLICTING_KEYS process[0].router.by",
        ),
        ("{ router: { default: pass } }", "MISSING_KEY process[0].router"),
        ("{ router: { when: [], default: pass } }", "VALUE_INVALID process[0].router.when"),
        ("{ router: { by: payload.a, branches: {} } }", "VALUE_INVALID process[0].router.branches"),
        ("{ expand_routes: { plugin: t, routes: {} } }", "VALUE_INVALID process[0].expand_routes.routes"),
        ("{ expand_routes: { plugin: t } }", "MISSING_KEY process[0].expand_routes"),
        ("{ expand_routes: { routes: { a: [ drain ] } } }", "MISSING_KEY process[0].expand_routes"),
    ] {
        let after = if node.contains("router:") { ", drain" } else { "" };
        assert_eq!(errors(&format!("[ {node}{after} ]")), [expected], "{node}");
    }
}

#[test]
fn every_path_needs_a_terminal_wherever_it_stands() {
    let found = errors(
        "[ { router: { by: payload.a, branches: { a: [] }, default: pass } }, { fork: { by: payload.a, branches: { a: [ { step: s } ], b: [ drain ], c: [ { fork: { when: [ { if: payload.a, process: [ { map: payload } ] } ], default: [] } } ] }, default: [ { step: s } ] } } ]",
    );
    assert_eq!(
        found,
        [
            "FORK_BRANCH_NO_TERMINAL process[1].fork.branches.a",
            "FORK_BRANCH_NO_TERMINAL process[1].fork.branches.c[0].fork.when[0].process",
            "FORK_BRANCH_NO_TERMINAL process[1].fork.branches.c[0].fork.default",
            "FORK_BRANCH_NO_TERMINAL process[1].fork.default",
        ]
    );
    // A router is no terminal, whatever its branches do.
    let found = errors("[ { router: { by: payload.a, branches: { a: [ drain ] }, default: [ drain ] } } ]");
    assert!(found.contains(&"MISSING_TERMINAL_OUTPUT process".to_owned()), "{found:?}");
    let open = World::new().compile(&around_with(
        "[ { expand_routes: { plugin: t, routes: { a: [ { step: s } ] }, default: [] } } ]",
        "errors: { task: [ { map: payload } ], default: [ drain ] }",
    ));
    assert_eq!(
        warnings(&open),
        [
            "UNTERMINATED_BRANCH process[0].expand_routes.routes.a",
            "UNTERMINATED_BRANCH process[0].expand_routes.default",
            "UNTERMINATED_BRANCH errors.task",
        ]
    );
}

#[test]
fn bounds_of_a_window_that_are_zero_or_negative_are_one_issue_each() {
    for value in ["0", "-1"] {
        for field in ["max_records", "timeout_ms", "max_bytes"] {
            assert_eq!(
                errors(&format!("[ {{ collect_batch: {{ {field}: {value} }} }}, drain ]")),
                [format!("VALUE_INVALID process[0].collect_batch.{field}")],
            );
        }
    }
}
