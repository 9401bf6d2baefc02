//! Random small flows, bounds and faults against what one expects of them: every record ends once in every branch, and the
//! group's offset ends at the partition's end.

use std::collections::BTreeMap;
use std::time::Duration;

use loom_kafka::Kind;
use loom_kafka::memory::{Call, CommitFault, Record, When};
use loom_runtime::Options;
use proptest::prelude::*;
use serde_json::Value;

use crate::harness::{endings, flow, kafka_error, payloads, place, start_with, wide_broker};

/// What the step does with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pass,
    Fail,
    Reject,
    Trap,
    Retry,
}

/// The process, by where a record's rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Through the step into `a`.
    Line,
    /// Through the step into `a`, and as it is into `b`.
    Both,
    /// Every other record through the step, all into `a`.
    Either,
    /// Through the step into `a`, and as it is into the sink.
    Sink,
}

#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    /// By partition.
    records: Vec<Vec<Fate>>,
    columns: bool,
    workers: usize,
    batch_size: usize,
    max_outstanding: usize,
    commit_interval_ms: u64,
    sink: String,
    flush_records: usize,
    lost_commits: u64,
    full_queues: u64,
    ack_delay_ms: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let fate = prop_oneof![
        8 => Just(Fate::Pass),
        1 => Just(Fate::Fail),
        1 => Just(Fate::Reject),
        1 => Just(Fate::Trap),
        1 => Just(Fate::Retry),
    ];
    let shape = prop_oneof![Just(Shape::Line), Just(Shape::Both), Just(Shape::Either), Just(Shape::Sink)];
    let records = prop::collection::vec(prop::collection::vec(fate, 0..25), 1..4);
    // One failure: a second could meet a row that is written alone, and would rightly be that row's end.
    let failure = prop_oneof![Just((0, 0)), Just((1, 0)), Just((0, 1))];
    let with = prop_oneof![Just("fail"), Just("reject"), Just("retry"), Just("trap")];
    let sink = (failure, with, any::<bool>()).prop_map(|((writes, flushes), with, early)| {
        let complete = if early { "write" } else { "flush" };
        format!("complete: {complete}, fail_writes: {writes}, fail_flushes: {flushes}, fail_with: {with}")
    });
    let sizes = (1..3_usize, 1..10_usize, 1..30_usize, prop_oneof![Just(0_u64), Just(20)], 1..40_usize);
    let faults = (0..4_u64, 0..4_u64, 0..3_u64);
    (shape, records, any::<bool>(), sink, sizes, faults).prop_map(
        |(shape, records, columns, sink, sizes, faults)| Case {
            shape,
            records,
            columns,
            workers: sizes.0,
            batch_size: sizes.1,
            max_outstanding: sizes.2,
            commit_interval_ms: sizes.3,
            sink,
            flush_records: sizes.4,
            lost_commits: faults.0,
            full_queues: faults.1,
            ack_delay_ms: faults.2,
        },
    )
}

impl Case {
    /// What the step does with a record, where it gets there at all.
    fn fate(&self, partition: usize, offset: usize) -> Fate {
        let fate = self.records[partition][offset];
        match (self.shape, fate) {
            (Shape::Either, _) if offset % 2 == 1 => Fate::Pass,
            // One branch that waits holds no other back, and so not their common topic's order.
            (Shape::Either, Fate::Retry) => Fate::Pass,
            _ => fate,
        }
    }

    fn record(&self, partition: usize, offset: usize) -> Record {
        let command = match self.fate(partition, offset) {
            Fate::Pass => "nothing",
            Fate::Fail => "fail:x",
            Fate::Reject => "reject:x",
            Fate::Trap => "trap",
            Fate::Retry => "retry-n:1",
        };
        Record::value(format!("{{\"do\":\"{command}\",\"at\":[{partition},{offset}]}}"))
    }

    fn yaml(&self, folder: &std::path::Path) -> String {
        let step = if self.columns { "probe-column-step" } else { "probe-step" };
        let (a, b) = ("[ { step: s }, { into_topic: a } ]", "[ { into_topic: b } ]");
        let sink =
            format!("[ {{ into_sink: k, flush: {{ records: {}, interval: 10ms }} }} ]", self.flush_records);
        let process = match self.shape {
            Shape::Line => a.to_owned(),
            Shape::Both => format!("[ {{ broadcast: [ {a}, {b} ] }} ]"),
            Shape::Sink => format!("[ {{ broadcast: [ {sink}, {a} ] }} ]"),
            Shape::Either => format!(
                "[ {{ fork: {{ when: [ {{ if: msg.offset % 2 == 0, process: {a} }} ], default: [ {{ into_topic: a }} ] }} }} ]"
            ),
        };
        let consumer = format!("batch_size: {}\npoll_backoff_ms: 5", self.batch_size);
        let rest = format!(
            "runtime: {{ max_outstanding: {{ records: {} }}, commit_interval_ms: {} }}
plugins:
  s: {{ component: '{{guests}}/{step}.wasm' }}
  k:
    component: '{{guests}}/probe-sink.wasm'
    config: {{ folder: /out, {} }}
    allow: {{ dirs: [ {{ host: '{}', guest: /out, mode: rw }} ] }}
process: {process}
errors: {{ default: [ {{ into_topic: e }} ] }}
",
            self.max_outstanding,
            self.commit_interval_ms,
            self.sink,
            folder.display(),
        );
        flow(&consumer, &rest)
    }

    /// Every record's place.
    fn places(&self) -> Vec<(usize, usize)> {
        let partitions = self.records.iter().enumerate();
        partitions
            .flat_map(|(partition, all)| (0..all.len()).map(move |offset| (partition, offset)))
            .collect()
    }
}

/// Where records came from, in the order in which they were written, by partition.
fn sources(texts: &[String], at: &str) -> BTreeMap<usize, Vec<usize>> {
    let mut seen: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for text in texts {
        let value: Value = serde_json::from_str(text).unwrap();
        let place = value.pointer(at).unwrap();
        let number = |index: usize| place[index].as_u64().unwrap() as usize;
        seen.entry(number(0)).or_default().push(number(1));
    }
    seen
}

fn expected(places: impl IntoIterator<Item = (usize, usize)>) -> BTreeMap<usize, Vec<usize>> {
    let mut all: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (partition, offset) in places {
        all.entry(partition).or_default().push(offset);
    }
    all
}

fn sorted(mut seen: BTreeMap<usize, Vec<usize>>) -> BTreeMap<usize, Vec<usize>> {
    seen.values_mut().for_each(|offsets| offsets.sort_unstable());
    seen
}

fn check(case: &Case) {
    let folder = tempfile::tempdir().unwrap();
    let broker = wide_broker(case.records.len() as i32, &["a", "b", "e"]);
    for (partition, offset) in case.places() {
        broker.produce("in", partition as i32, case.record(partition, offset));
    }
    let coordinator = || kafka_error(Kind::Coordinator, "NOT_COORDINATOR");
    broker.faults().commit(When::next(case.lost_commits), CommitFault::Refused(coordinator()));
    broker.faults().fail(Call::Send, When::next(case.full_queues), coordinator());
    broker.faults().delay_acks("a", Duration::from_millis(case.ack_delay_ms));

    let options = Options { workers: case.workers, ..Options::default() };
    let running = start_with(&case.yaml(folder.path()), &broker, options);
    for (partition, records) in case.records.iter().enumerate() {
        running.until_committed_at(&place("in", partition as i32), records.len() as i64);
    }
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);

    let all = case.places();
    let fails = |(partition, offset): &(usize, usize)| {
        !matches!(case.fate(*partition, *offset), Fate::Pass | Fate::Retry)
    };
    // In order, each once.
    let passed = all.iter().copied().filter(|place| !fails(place));
    assert_eq!(sources(&payloads(&broker, "a"), "/at"), expected(passed));
    // Error rows come once, in whatever order.
    let envelopes: Vec<String> = payloads(&broker, "e")
        .iter()
        .map(|text| {
            serde_json::from_str::<Value>(text).unwrap()["record"]["payload"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(sorted(sources(&envelopes, "/at")), expected(all.iter().copied().filter(fails)));
    let copies = if case.shape == Shape::Both { all.clone() } else { vec![] };
    assert_eq!(sources(&payloads(&broker, "b"), "/at"), expected(copies));

    let mut kept = Vec::new();
    for worker in 0..case.workers {
        let text = std::fs::read_to_string(folder.path().join(format!("{worker}.jsonl"))).unwrap_or_default();
        kept.extend(text.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["payload"].as_str().unwrap().to_owned()
        }));
    }
    let sunk = if case.shape == Shape::Sink { all.clone() } else { vec![] };
    assert_eq!(sorted(sources(&kept, "/at")), expected(sunk));

    let ledger = &outcome.summary.ledger;
    assert_eq!((ledger.registered, ledger.outstanding, ledger.live), (all.len() as u64, 0, 0));
    let rows = if matches!(case.shape, Shape::Both | Shape::Sink) { 2 * all.len() } else { all.len() };
    assert_eq!(endings(&outcome).values().sum::<u64>(), rows as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_record_ends_once_in_every_branch_whatever_the_bounds_and_faults(case in cases()) {
        check(&case);
    }
}
