//! Words of other tools, and text that reads as if it were computed: what stands here for them.

use loom_flow::{Compiled, Severity};

use crate::support::{World, around, errors, warnings};

fn check(process: &str) -> Compiled {
    World::new().compile(&around(process))
}

/// Every hint of a flow, one line each.
fn hints(compiled: &Compiled) -> String {
    compiled.issues.iter().filter_map(|issue| issue.hint.as_deref()).map(|hint| format!("{hint}\n")).collect()
}

#[test]
fn keys_of_other_tools_have_what_stands_here_for_them() {
    for (node, said) in [
        ("{ switch: [] }", "`router`"),
        ("{ mapping: \"root = this\" }", "`map: EXPRESSION`"),
        ("{ output: { kafka: {} } }", "`into_topic: TOPIC`"),
        ("{ pipeline: [] }", "one behind the other"),
        ("{ processor: x }", "`step: NAME`"),
        ("{ where: payload.x }", "`filter: EXPRESSION`"),
        ("{ window: {} }", "`collect_batch:"),
        ("{ on_error: [] }", "`errors:"),
        ("drop", "`drain`"),
        ("{ step: { plugin: s } }", "write `step: s`"),
        ("{ expand: { plugin: e } }", "write `expand: e`"),
        (
            "{ into_topic: { topic: out, key: payload.k } }",
            "write `into_topic: out`; options stand beside it",
        ),
        ("{ into_sink: { plugin: s } }", "write `into_sink: s`"),
        ("{ router: { by: payload.k, branches: { a: pass }, default: pass } }", "write `a: []`"),
        ("{ into_topic: \"${! json(\\\"x\\\") }\" }", "another tool's"),
        ("{ filter: \"${! this.x }\" }", "without"),
    ] {
        let compiled = check(&format!("[ {node}, {{ into_topic: out }} ]"));
        assert!(!errors(&compiled).is_empty(), "{node}");
        let found = hints(&compiled);
        assert!(
            found.contains(said) || node.contains("filter: \"${!") && found.contains("another tool's"),
            "{node}\n{found}"
        );
    }
    // What the hint for a label says is right.
    let compiled =
        check("[ { router: { by: payload.k, branches: { a: [] }, default: pass } }, { into_topic: out } ]");
    assert!(errors(&compiled).is_empty(), "{compiled:?}");
    for (key, said) in [
        ("pipeline: { processors: [] }", "in `process`"),
        ("input: {}", "kafka: { consumer:"),
        ("output: {}", "`into_topic: TOPIC`"),
    ] {
        let compiled = World::new().compile(&format!("{}\n{key}\n", around("[ { into_topic: out } ]")));
        assert!(hints(&compiled).contains(said), "{key}\n{}", hints(&compiled));
    }
}

#[test]
fn a_topic_that_reads_as_if_it_were_computed_is_a_warning() {
    for topic in [
        "payload.tenant",
        "msg.topic",
        "env.TOPIC",
        "'orders.' + payload.x",
        "orders-{tenant}",
        "payload['x']",
    ] {
        let compiled = check(&format!("[ {{ into_topic: \"{topic}\" }} ]"));
        // Some are no name of a topic either.
        assert!(
            errors(&compiled).iter().all(|error| error.starts_with("KAFKA_CONFIG_INVALID")),
            "{compiled:?}"
        );
        assert!(
            warnings(&compiled).contains(&"VALUE_INVALID process[0].into_topic".to_owned()),
            "{topic}: {compiled:?}"
        );
        assert!(hints(&compiled).contains("`fork`"), "{topic}");
    }
    let compiled = check("[ { into_topic: out, dlq: payload.dlq } ]");
    assert!(warnings(&compiled).contains(&"VALUE_INVALID process[0].dlq".to_owned()), "{compiled:?}");
    for topic in ["orders.out", "payload", "payloads.raw", "msg-topic", "\"${TOPIC:-a.b}\""] {
        let compiled = check(&format!("[ {{ into_topic: {topic} }} ]"));
        let of_topic = |issue: &&loom_flow::Issue| issue.path.contains("into_topic");
        assert!(!compiled.issues.iter().any(|issue| of_topic(&issue)), "{topic}: {compiled:?}");
    }
}

/// Each hint of `EXPRESSION_QUOTING`, put into the flow as it stands, leaves no error.
#[test]
fn what_the_hint_of_quoting_says_compiles() {
    for node in [
        "map: { id: payload.id, total: payload.total }",
        "map: {id: payload.user-id, kind: order, n: 1, ok: true, none: null, deep: { a: [payload.x, 'y'] }}",
        "map: [payload.a, payload.in]",
        "map: {'id': payload.id}",
        "filter: !has(payload[\"user-id\"])",
        "filter: !payload.gone and payload.here",
        "filter: \"a\" in payload.tags",
        "filter: payload.tag == \"a # b\" and payload.user-id == 1",
        "filter: payload.x == \"a: b\"",
        "filter: [1] == payload.x",
        "filter: payload.ok ? true : false",
    ] {
        let flow =
            |node: &str| around("NODES").replace(" NODES", &format!("\n  - {node}\n  - into_topic: out"));
        let text = flow(node);
        assert_ne!(text, around("NODES"));
        let compiled = World::new().compile(&text);
        let quoting: Vec<_> =
            compiled.issues.iter().filter(|issue| issue.code.as_str() == "EXPRESSION_QUOTING").collect();
        assert_eq!(quoting.len(), 1, "{node}: {compiled:?}");
        let hint = quoting[0].hint.as_deref().unwrap_or_default();
        let written =
            hint.strip_prefix("write `").and_then(|rest| rest.strip_suffix('`')).unwrap_or_default();
        let again = World::new().compile(&flow(written));
        let wrong: Vec<_> = again.issues.iter().filter(|issue| issue.severity == Severity::Error).collect();
        assert!(wrong.is_empty(), "{node}\n{hint}\n{wrong:?}");
    }
    let block = around("NODES")
        .replace(" NODES", "\n  - map:\n      id: payload.id\n      kind: order\n  - into_topic: out");
    let compiled = World::new().compile(&block);
    assert!(hints(&compiled).contains("map: \"{'id': payload.id, 'kind': 'order'}\""), "{compiled:?}");
}
