//! Starts that fail, each in its way: sinks that were opened by then are closed.

use std::path::Path;

use loom_kafka::memory::{Call, MemoryBroker, Right, When};
use loom_kafka::{Kind, Member};
use loom_runtime::Options;
use loom_types::CommitOffset;
use tempfile::TempDir;

use crate::harness::{broker, flow, in0, kafka_error, produce, refused_with, start, start_with};

/// A flow into the probe sink, which leaves a file when it is closed. `plugins` and `nodes` come before the sink's.
fn flow_of(folder: &Path, consumer: &str, plugins: &str, nodes: &str) -> String {
    flow(
        consumer,
        &format!(
            "runtime: {{ startup_timeout: 1s }}
plugins:
  k:
    component: '{{guests}}/probe-sink.wasm'
    config: {{ folder: /out, note_close: true }}
    allow: {{ dirs: [ {{ host: '{}', guest: /out, mode: rw }} ] }}
{plugins}process: [ {nodes}{{ broadcast: [ [ {{ into_sink: k }} ], [ {{ into_topic: out }} ] ] }} ]
",
            folder.display()
        ),
    )
}

/// How often each worker's sink was closed.
fn closed(folder: &TempDir) -> [usize; 2] {
    [0, 1].map(|worker| {
        let text = std::fs::read_to_string(folder.path().join(format!("closed-{worker}")));
        text.unwrap_or_default().lines().count()
    })
}

/// Fails the start; what of the messages must be there.
type Way = (fn(&MemoryBroker), &'static str, &'static str, &'static str, &'static str);

const REFUSING: &str =
    "  x: { component: '{guests}/probe-step.wasm', config: { refuse: no such currency } }\n";

const WAYS: [Way; 7] = [
    (|broker| broker.delete_topic("out"), "", "", "", "out"),
    (|broker| broker.delete_topic("in"), "", "", "", "in"),
    (|_| {}, "", REFUSING, "{ step: x }, ", "no such currency"),
    (
        |broker| broker.join_group("g", Member { client_id: "old".into(), host: "/10.0.0.7".into() }),
        "",
        "",
        "",
        "old at /10.0.0.7",
    ),
    (|broker| broker.faults().deny(Right::Write("out".into())), "", "", "", "right to write"),
    (
        |broker| {
            let error = kafka_error(Kind::Coordinator, "NOT_COORDINATOR");
            broker.faults().fail(Call::Committed, When::always(), error);
        },
        "",
        "",
        "",
        "startup_timeout",
    ),
    (
        |broker| {
            produce(broker, &["a"]);
            broker.set_committed("g", &in0(), CommitOffset(7), "");
        },
        "offset_out_of_range: fail",
        "",
        "",
        "7",
    ),
];

#[test]
fn a_start_that_fails_closes_the_sinks_that_it_opened() {
    for (fault, consumer, plugins, nodes, told) in WAYS {
        let (broker, folder) = (broker(&["out"]), tempfile::tempdir().unwrap());
        fault(&broker);
        let yaml = flow_of(folder.path(), consumer, plugins, nodes);
        let errors = refused_with(&yaml, &broker, Options { workers: 2, ..Options::default() });
        assert!(errors.iter().any(|error| error.message.contains(told)), "{told}: {errors:?}");
        // A plugin that refuses is one of the first worker's: the second has none yet.
        let second = usize::from(plugins.is_empty());
        assert_eq!(closed(&folder), [1, second], "{told}");
    }
}

#[test]
fn a_worker_that_cannot_start_closes_its_sinks_and_those_of_the_others_are_closed() {
    for call in [Call::Reader, Call::Writer] {
        let (broker, folder) = (broker(&["out"]), tempfile::tempdir().unwrap());
        broker.faults().fail(call, When::next(1), kafka_error(Kind::Fatal, "_CRIT_SYS_RESOURCE"));
        let yaml = flow_of(folder.path(), "", "", "");
        let outcome = start_with(&yaml, &broker, Options { workers: 2, ..Options::default() }).ended();
        assert_eq!(outcome.failures.len(), 1, "{:?}", outcome.failures);
        assert_eq!(closed(&folder), [1, 1], "{call:?}");
    }
}

#[test]
fn a_run_closes_each_sink_once() {
    let (broker, folder) = (broker(&["out"]), tempfile::tempdir().unwrap());
    produce(&broker, &["a"]);
    let running = start(&flow_of(folder.path(), "", "", ""), &broker);
    running.until_committed(1);
    assert_eq!(running.stop().failures, []);
    assert_eq!(closed(&folder), [1, 0]);
}
