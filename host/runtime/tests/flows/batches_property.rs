//! Random small flows with batches, bounds and faults against what one expects of them: whatever was gathered with what, each
//! record's rows are written once and in order, or it is an error once, and the group's offset ends at the partition's end.

use std::collections::BTreeMap;
use std::time::Duration;

use loom_kafka::Kind;
use loom_kafka::memory::{Call, CommitFault, Record, When};
use loom_runtime::Options;
use proptest::prelude::*;
use serde_json::Value;

use crate::harness::{endings, flow, kafka_error, payloads, place, start_with, wide_broker};

/// What becomes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// So many rows, where rows are made; else it passes.
    Rows(usize),
    Fail,
    Reject,
    Trap,
    Retry,
}

/// What batches go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A batch step.
    Step,
    /// A batch step, and an expander that makes a row of each record.
    Both,
    /// An expander, and again a batch of what it made.
    Expand,
}

#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    /// By partition.
    records: Vec<Vec<Fate>>,
    /// Of `collect_batch`.
    bounds: String,
    /// Of the nodes of plugins.
    options: &'static str,
    workers: usize,
    batch_size: usize,
    max_outstanding: usize,
    lost_commits: u64,
    full_queues: u64,
    ack_delay_ms: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let fate = prop_oneof![
        8 => (0..4_usize).prop_map(Fate::Rows),
        1 => Just(Fate::Fail),
        1 => Just(Fate::Reject),
        1 => Just(Fate::Trap),
        1 => Just(Fate::Retry),
    ];
    let shape = prop_oneof![Just(Shape::Step), Just(Shape::Both), Just(Shape::Expand)];
    let records = prop::collection::vec(prop::collection::vec(fate, 0..25), 1..4);
    let bounds = prop_oneof![
        (1..12_usize).prop_map(|records| format!("max_records: {records}, timeout_ms: 5")),
        (20..200_usize).prop_map(|bytes| format!("max_bytes: {bytes}B, timeout_ms: 1")),
        Just("timeout_ms: 3".to_owned()),
    ];
    let options = prop_oneof![Just(""), Just(", concurrency: 1"), Just(", on_trap: rerun")];
    let sizes = (1..3_usize, 1..10_usize, 1..40_usize);
    let faults = (0..4_u64, 0..4_u64, 0..3_u64);
    (shape, records, bounds, options, sizes, faults).prop_map(
        |(shape, records, bounds, options, sizes, faults)| Case {
            shape,
            records,
            bounds,
            options,
            workers: sizes.0,
            batch_size: sizes.1,
            max_outstanding: sizes.2,
            lost_commits: faults.0,
            full_queues: faults.1,
            ack_delay_ms: faults.2,
        },
    )
}

impl Case {
    /// What becomes of a record in this shape. What makes rows is given no record that fails: its failure would be its whole
    /// batch's.
    fn fate(&self, partition: usize, offset: usize) -> Fate {
        match (self.shape, self.records[partition][offset]) {
            (Shape::Expand, Fate::Rows(rows)) => Fate::Rows(rows),
            (Shape::Expand, _) => Fate::Rows(2),
            (_, Fate::Rows(_)) => Fate::Rows(1),
            (_, fate) => fate,
        }
    }

    fn record(&self, partition: usize, offset: usize) -> Record {
        let command = match self.fate(partition, offset) {
            Fate::Rows(rows) if self.shape == Shape::Expand => {
                let each = (0..rows).map(|row| format!("[{partition} {offset} {row}]"));
                format!("rows:{}", each.collect::<Vec<_>>().join(","))
            }
            Fate::Rows(_) => "nothing".to_owned(),
            Fate::Fail => "fail:x".to_owned(),
            Fate::Reject => "reject:x".to_owned(),
            Fate::Trap => "trap".to_owned(),
            Fate::Retry => "retry-n:1".to_owned(),
        };
        Record::value(format!("{{\"do\":\"{command}\",\"at\":\"[{partition} {offset} 0]\"}}"))
    }

    fn yaml(&self) -> String {
        let Case { bounds, options, batch_size, max_outstanding, .. } = self;
        let gather = format!("{{ collect_batch: {{ {bounds} }} }}");
        let step = format!("{{ batch_step: b{options} }}");
        let process = match self.shape {
            Shape::Step => format!("{gather}, {step}, for_each, {{ map: payload.at }}"),
            Shape::Both => {
                format!("{gather}, {step}, {{ batch_expand: one{options} }}, {{ map: payload.at }}")
            }
            Shape::Expand => {
                format!("{gather}, {{ batch_expand: x{options} }}, {gather}, {{ batch_step: one }}, for_each")
            }
        };
        let rest = format!(
            "runtime: {{ max_outstanding: {{ records: {max_outstanding} }}, commit_interval_ms: 0 }}
plugins:
  b: {{ component: '{{guests}}/probe-roles.wasm' }}
  x: {{ component: '{{guests}}/probe-roles.wasm' }}
  one: {{ component: '{{guests}}/probe-roles.wasm', config: {{ command: nothing }} }}
process: [ {process}, {{ into_topic: a }} ]
errors: {{ default: [ {{ into_topic: e }} ] }}
"
        );
        flow(&format!("batch_size: {batch_size}\npoll_backoff_ms: 5"), &rest)
    }
}

/// The rows `[partition offset row]`, by partition, in the order in which they were written.
fn rows<'t>(texts: impl Iterator<Item = &'t str>) -> BTreeMap<usize, Vec<(usize, usize)>> {
    let mut seen: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for text in texts {
        let text = text.trim_matches(['"', '[', ']']);
        let numbers: Vec<usize> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        seen.entry(numbers[0]).or_default().push((numbers[1], numbers[2]));
    }
    seen
}

fn check(case: &Case) {
    let broker = wide_broker(case.records.len() as i32, &["a", "e"]);
    let (mut passed, mut failed) = (BTreeMap::new(), BTreeMap::new());
    for (partition, records) in case.records.iter().enumerate() {
        for offset in 0..records.len() {
            broker.produce("in", partition as i32, case.record(partition, offset));
            let (into, rows): (&mut BTreeMap<usize, Vec<_>>, _) = match case.fate(partition, offset) {
                Fate::Rows(rows) => (&mut passed, rows),
                Fate::Retry => (&mut passed, 1),
                Fate::Fail | Fate::Reject | Fate::Trap => (&mut failed, 1),
            };
            if rows > 0 {
                into.entry(partition).or_default().extend((0..rows).map(|row| (offset, row)));
            }
        }
    }
    let coordinator = || kafka_error(Kind::Coordinator, "NOT_COORDINATOR");
    broker.faults().commit(When::next(case.lost_commits), CommitFault::Refused(coordinator()));
    broker.faults().fail(Call::Send, When::next(case.full_queues), coordinator());
    broker.faults().delay_acks("a", Duration::from_millis(case.ack_delay_ms));

    let running = start_with(&case.yaml(), &broker, Options { workers: case.workers, ..Options::default() });
    for (partition, records) in case.records.iter().enumerate() {
        running.until_committed_at(&place("in", partition as i32), records.len() as i64);
    }
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);

    assert_eq!(rows(payloads(&broker, "a").iter().map(String::as_str)), passed, "in order, each once");
    // Error rows come once, in whatever order.
    let payload = |text: &String| {
        let envelope: Value = serde_json::from_str(text).unwrap();
        let payload: Value = serde_json::from_str(envelope["record"]["payload"].as_str().unwrap()).unwrap();
        payload["at"].as_str().unwrap().to_owned()
    };
    let errors: Vec<String> = payloads(&broker, "e").iter().map(payload).collect();
    let mut errors = rows(errors.iter().map(String::as_str));
    errors.values_mut().for_each(|rows| rows.sort_unstable());
    assert_eq!(errors, failed);

    let ledger = &outcome.summary.ledger;
    let records: usize = case.records.iter().map(Vec::len).sum();
    assert_eq!((ledger.registered, ledger.outstanding, ledger.live), (records as u64, 0, 0));
    let none = |(partition, records): (usize, &Vec<Fate>)| {
        (0..records.len()).filter(|offset| case.fate(partition, *offset) == Fate::Rows(0)).count()
    };
    let none: usize = case.records.iter().enumerate().map(none).sum();
    let written: usize = passed.values().chain(failed.values()).map(Vec::len).sum();
    assert_eq!(endings(&outcome).values().sum::<u64>(), (written + none) as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_row_of_a_batch_ends_once_and_in_order_whatever_the_bounds_and_faults(case in cases()) {
        check(&case);
    }
}
