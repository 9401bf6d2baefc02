//! What a plan holds: defaults, modes, routes, outputs.

use std::time::Duration;

use loom_flow::plan::{
    By, CallPlan, Delivery, NodeKind, OffsetReset, OnTrap, OutOfRange, Partitioner, Switch, Timestamp,
    Tombstones, Unrouted,
};
use loom_flow::{HumanStyle, Mode};
use loom_types::ErrorKind;

use crate::support::{World, around, around_with};

/// The flow of the documentation, without the nodes and options that cannot run yet.
const ORDERS: &str = r#"
name: orders
source: consumer
kafka:
  consumer:
    brokers: ["${KAFKA_BROKERS:-localhost:9092}"]
    group_id: orders-service
    topics: [orders.in]
    delivery: at_least_once
    auto_offset_reset: earliest
    offset_out_of_range: reset
    tombstones: skip
    batch_size: 500
    poll_backoff_ms: 50
    commit_keepalive_ms: 1800000
    security: { protocol: SASL_SSL, sasl_mechanism: SCRAM-SHA-512, sasl_username: u, sasl_password: "${file:/run/secrets/kafka}" }
    extra: { fetch.min.bytes: 1 }
  producer: { brokers: ["${KAFKA_BROKERS:-localhost:9092}"] }
  consumers: {}
  producers: { audit: { brokers: [audit:9092], topic: audit.v2 } }

runtime: { completions: local, epoch_interval: 10s, startup_timeout: 30s, shutdown_timeout: 25s, commit_interval_ms: 200, max_outstanding: { records: 100000, bytes: 256MiB }, prefetch: 256MiB }

plugins:
  enrich:
    component: plugins/step.wasm
    digest: sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
    config: { currency: EUR }
    limits: { memory: 256MiB, timeout: 250ms }
    allow: { env: [REGION], dirs: [{ host: ./ref, guest: /ref, mode: ro }] }
  vip: { component: plugins/predicate.wasm }
  warehouse: { component: plugins/sink.wasm }

process:
  - step: enrich
    timeout: 100ms
    errors: { business: [ { into_topic: orders.refused } ] }
  - fork:
      when:
        - if: { plugin: vip }                      # a predicate component
          process: [ { into_topic: orders.vip } ]
        - if: payload.total > 1000.0               # CEL
          process: [ { broadcast: [ [ { into_topic: orders.big } ], [ { into_sink: warehouse } ] ] } ]
      default: [ drain ]

errors:
  wire: [ { into_topic: orders.unreadable } ]
  default: [ { into_topic: orders.failed } ]
  unrouted: drop
"#;

#[test]
fn the_documented_flow_compiles() {
    let world = World::new().mode(Mode::Run).var("REGION", "eu").file("/run/secrets/kafka", b"pw\n");
    let compiled = world.compile(ORDERS);
    assert!(compiled.issues.is_empty(), "{}", compiled.render(HumanStyle::default()));
    let plan = compiled.plan.expect("a plan");
    assert_eq!(plan.consumer.brokers, ["localhost:9092"]);
    assert_eq!(plan.consumer.security.sasl_password.as_ref().map(|secret| secret.0.as_str()), Some("pw"));
    let outputs: Vec<&str> = plan.outputs.iter().map(|output| output.name.as_str()).collect();
    assert_eq!(
        outputs,
        ["orders.unreadable", "orders.failed", "orders.refused", "orders.vip", "orders.big"]
            .iter()
            .copied()
            .collect::<std::collections::BTreeSet<_>>()
            .into_iter()
            .fold(outputs.clone(), |seen, name| {
                assert!(seen.contains(&name), "{name}");
                seen
            })
    );
    assert_eq!(plan.plugins[0].component, std::path::Path::new("flows/plugins/step.wasm"));
    assert_eq!(plan.plugins[0].allow.env[0].1.0, "eu");
    assert_eq!(plan.routes.len(), 3);
    let NodeKind::Fork(Switch::When { branches, default }) = &plan.process.nodes[1].kind else {
        panic!("{plan:?}")
    };
    assert!(matches!(branches[0].0, By::Plugin(_)) && matches!(branches[1].0, By::Expr(_)));
    assert_eq!(&*branches[1].1.nodes[0].path, "process[1].fork.when[1].process[0]");
    assert!(default.is_some());
}

#[test]
fn nothing_set_means_the_documented_defaults() {
    let plan = World::new().plan(&around("[ { step: s }, { into_sink: k } ]"));
    let consumer = &plan.consumer;
    assert_eq!(
        (consumer.auto_offset_reset, consumer.offset_out_of_range),
        (OffsetReset::Earliest, OutOfRange::Reset)
    );
    assert_eq!((consumer.tombstones, consumer.batch_size), (Tombstones::Skip, 500));
    assert_eq!(consumer.poll_backoff, Duration::from_millis(50));
    assert_eq!(consumer.commit_keepalive, Duration::from_millis(1_800_000));
    let runtime = &plan.runtime;
    assert_eq!((runtime.startup_timeout.as_secs(), runtime.shutdown_timeout.as_secs()), (30, 25));
    assert_eq!(runtime.commit_interval.as_millis(), 200);
    assert_eq!((runtime.max_outstanding_records, runtime.max_outstanding_bytes), (100_000, 256 << 20));
    assert_eq!((runtime.prefetch, plan.unrouted), (256 << 20, Unrouted::Stop));
    assert_eq!(plan.max_dropped, None);
    let NodeKind::IntoSink { flush, .. } = plan.process.nodes[1].kind else { panic!("a sink") };
    assert_eq!((flush.records, flush.bytes, flush.interval.as_secs()), (1000, 1 << 20, 1));
    assert!(plan.plugins[0].breaker);
}

#[test]
fn counted_retries_and_dead_letters_are_in_the_plan() {
    let process = "[ { step: s, retries: 0 }, { broadcast: [ [ { into_sink: k, retries: 7 } ], [ { into_topic: a, dlq: b } ] ] } ]";
    let plan = World::new().plan(&around(process));
    let NodeKind::Step(CallPlan { retries, .. }) = plan.process.nodes[0].kind else { panic!("a step") };
    assert_eq!(retries, Some(0));
    let NodeKind::Broadcast(branches) = &plan.process.nodes[1].kind else { panic!("a broadcast") };
    let NodeKind::IntoSink { retries, .. } = branches[0].nodes[0].kind else { panic!("a sink") };
    assert_eq!(retries, Some(7));
    let NodeKind::IntoTopic { output, dlq: Some(dlq), .. } = branches[1].nodes[0].kind else {
        panic!("an output")
    };
    assert_eq!((&*plan.outputs[output.0].topic, &*plan.outputs[dlq.0].topic), ("a", "b"));
}

#[test]
fn nine_pairs_of_delivery_and_auto_commit() {
    use Delivery::{AtLeastOnce, AtMostOnce};
    for (delivery, switch, expected) in [
        ("", "", AtMostOnce),
        ("", ", enable_auto_commit: true", AtMostOnce),
        ("", ", enable_auto_commit: false", AtLeastOnce),
        (", delivery: at_least_once", "", AtLeastOnce),
        (", delivery: at_least_once", ", enable_auto_commit: false", AtLeastOnce),
        (", delivery: at_most_once", "", AtMostOnce),
        (", delivery: at_most_once", ", enable_auto_commit: true", AtMostOnce),
    ] {
        let text = around("[ drain ]").replace(", delivery: at_least_once", &format!("{delivery}{switch}"));
        assert_eq!(World::new().plan(&text).consumer.delivery, expected, "{delivery}{switch}");
    }
}

#[test]
fn without_key_the_records_key_stays_and_its_time_too() {
    let plan = World::new().plan(&around("[ { into_topic: a } ]"));
    let NodeKind::IntoTopic { key, timestamp, .. } = &plan.process.nodes[0].kind else { panic!("an output") };
    assert!(key.is_none());
    assert_eq!(*timestamp, Timestamp::Source);
    let plan = World::new().plan(&around("[ { into_topic: a, key: \"'eu'\", timestamp: now } ]"));
    let NodeKind::IntoTopic { key, timestamp, .. } = &plan.process.nodes[0].kind else { panic!("an output") };
    assert!(matches!(key, Some(By::Expr(key)) if key.source() == "'eu'"));
    assert_eq!(*timestamp, Timestamp::Now);
}

#[test]
fn a_partitioner_leaves_keys_that_are_there_unless_it_is_told() {
    for (option, repartition) in
        [("", false), (", allow_repartition: false", false), (", allow_repartition: true", true)]
    {
        let text = around(&format!("[ {{ into_topic: a, partitioner: {{ plugin: s }}{option} }} ]"));
        let text = text.replace("component: step.wasm", "component: partitioner.wasm");
        let plan = World::new().plan(&text);
        let NodeKind::IntoTopic { partitioner, .. } = &plan.process.nodes[0].kind else {
            panic!("an output")
        };
        let expected = Partitioner { plugin: loom_flow::plan::PluginId(0), repartition };
        assert_eq!(*partitioner, Some(expected), "{option}");
    }
}

#[test]
fn a_named_producer_has_its_own_brokers_and_topic() {
    let text = around("[ { broadcast: [ [ { into_topic: audit } ], [ { into_topic: other } ] ] } ]").replace(
        "  producer:",
        "  producers: { audit: { brokers: [audit:9092], topic: audit.v2, compression: zstd, idempotence: false } }\n  producer:",
    );
    let plan = World::new().plan(&text);
    let [audit, other] = &plan.outputs[..] else { panic!("two outputs") };
    assert_eq!(
        (audit.name.as_str(), &*audit.topic, audit.brokers[0].as_str()),
        ("audit", "audit.v2", "audit:9092")
    );
    assert_eq!((audit.compression.as_deref(), audit.idempotence), (Some("zstd"), false));
    assert_eq!(
        (other.name.as_str(), &*other.topic, other.brokers[0].as_str()),
        ("other", "other", "localhost:9092")
    );
    assert_eq!((audit.producer.as_str(), other.producer.as_str()), ("producers.audit", "producer"));
}

#[test]
fn the_nearest_errors_win_and_default_takes_the_rest() {
    let text = around_with(
        "[ { step: s }, { step: s, errors: { task: [ drain ] } }, { fork: { when: [ { if: true, process: [ { step: s }, drain ] } ], default: [ drain ] }, errors: { default: [ drain ] } } ]",
        "errors: { wire: [ drain ], default: [ { step: s, errors: { task: [ drain ] } }, drain ] }",
    );
    let plan = World::new().plan(&text);
    let taken = |node: &loom_flow::plan::NodePlan, kind: ErrorKind| {
        node.errors[kind.index()].map(|route| plan.routes[route.0].path.to_string())
    };
    let nodes = &plan.process.nodes;
    assert_eq!(taken(&nodes[0], ErrorKind::Wire).as_deref(), Some("errors.wire"));
    assert_eq!(taken(&nodes[0], ErrorKind::Task).as_deref(), Some("errors.default"));
    assert_eq!(taken(&nodes[1], ErrorKind::Task).as_deref(), Some("process[1].errors.task"));
    assert_eq!(taken(&nodes[1], ErrorKind::Wire).as_deref(), Some("errors.wire"));
    let NodeKind::Fork(Switch::When { branches, .. }) = &nodes[2].kind else { panic!("a fork") };
    assert_eq!(taken(&branches[0].1.nodes[0], ErrorKind::Wire).as_deref(), Some("process[2].errors.default"));
    let inside = plan.routes.iter().find(|route| &*route.path == "errors.default").expect("the route");
    assert!(inside.process.nodes.iter().all(|node| node.errors.iter().all(Option::is_none)), "{inside:?}");
}

#[test]
fn a_plugin_that_may_write_fails_the_batch_on_a_trap() {
    let on_trap = |allow: &str, option: &str| {
        let text = around(&format!("[ {{ step: s{option} }}, drain ]"))
            .replace("component: step.wasm", &format!("component: step.wasm{allow}"));
        match World::new().plan(&text).process.nodes[0].kind {
            NodeKind::Step(call) => call.on_trap,
            _ => panic!("a step"),
        }
    };
    let rw = ", allow: { dirs: [ { host: out, guest: /out, mode: rw } ] }";
    let ro = ", allow: { dirs: [ { host: out, guest: /out } ] }";
    assert_eq!(on_trap("", ""), OnTrap::Rerun);
    assert_eq!(on_trap(ro, ""), OnTrap::Rerun);
    assert_eq!(on_trap(rw, ""), OnTrap::FailBatch);
    assert_eq!(on_trap(", allow: { http: ['api:443'] }", ""), OnTrap::FailBatch);
    assert_eq!(on_trap(rw, ", on_trap: rerun"), OnTrap::Rerun);
    assert_eq!(on_trap("", ", on_trap: fail_batch"), OnTrap::FailBatch);
}

#[test]
fn labels_and_names_are_the_text_as_written() {
    let text = around(
        "[ { fork: { by: payload.c, branches: { NO: [ drain ], 007: [ drain ], 1.0: [ drain ], ~: [ drain ] }, default: [ drain ] } } ]",
    )
    .replace("group_id: g", "group_id: 0123");
    let plan = World::new().plan(&text);
    assert_eq!(plan.consumer.group_id, "0123");
    let NodeKind::Fork(Switch::By { branches, .. }) = &plan.process.nodes[0].kind else { panic!("a fork") };
    let labels: Vec<&str> = branches.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(labels, ["NO", "007", "1.0", "~"]);
    assert_eq!(&*branches[2].1.nodes[0].path, "process[0].fork.branches[\"1.0\"][0]");
}

#[test]
fn anchors_and_merge_keys_are_resolved() {
    let text = around("[ { step: s, <<: *options }, { step: s, timeout: 1s, <<: *options }, drain ]")
        + "\nruntime: {}\n";
    let text = text.replace("name: test", "name: &name test\nerrors: &options { default: [ drain ] }");
    let compiled = World::new().compile(&text);
    // The anchored mapping is an `errors`, and `default` is no option of a step: found at both uses, where it is said.
    let places: Vec<usize> = compiled.issues.iter().map(|issue| issue.at.line).collect();
    assert_eq!(places, [2, 2], "{compiled:?}");
    let good = around(
        "[ { step: s, <<: &options { timeout: 2s } }, { step: s, <<: *options }, { step: s, timeout: 1s, <<: *options }, drain ]",
    );
    let times: Vec<_> = World::new()
        .plan(&good)
        .process
        .nodes
        .iter()
        .map(|node| match node.kind {
            NodeKind::Step(call) => call.timeout.map(|timeout| timeout.as_secs()),
            _ => None,
        })
        .collect();
    assert_eq!(times, [Some(2), Some(2), Some(1), None]);
}
