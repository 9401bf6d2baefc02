//! Random flows that make rows of records, with small bounds and faults, against what one expects of them: every row that is
//! made is written once and in its place, every failure is one row, and the group's offset ends at the partition's end.

use std::time::Duration;

use loom_kafka::Kind;
use loom_kafka::memory::{Call, CommitFault, Record, When};
use loom_runtime::Options;
use proptest::prelude::*;

use crate::harness::{endings, envelopes, flow, kafka_error, payloads, place, start_with, wide_broker};

/// What a record comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// So many rows.
    Rows(usize),
    Fail,
    Reject,
    Trap,
    /// One row, at the second attempt.
    Retry,
}

/// Where its rows go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Into `a`.
    Line,
    /// Each becomes one, three or none once more, then into `a`.
    Twice,
    /// Those of type `a` into `a`, of type `b` into `b`; of type `c` nobody knows.
    Routes,
    /// The same, and all else into `a` too.
    Default,
    /// Into `a`, and the record as it is into `b`.
    Beside,
}

#[derive(Clone, Debug)]
struct Case {
    shape: Shape,
    /// By partition.
    records: Vec<Vec<Fate>>,
    columns: bool,
    concurrency: Option<usize>,
    workers: usize,
    batch_size: usize,
    max_outstanding: usize,
    lost_commits: u64,
    full_queues: u64,
    ack_delay_ms: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let fate = prop_oneof![
        8 => (0..6_usize).prop_map(Fate::Rows),
        1 => Just(Fate::Rows(40)),
        1 => Just(Fate::Fail),
        1 => Just(Fate::Reject),
        1 => Just(Fate::Trap),
        1 => Just(Fate::Retry),
    ];
    let shape = prop_oneof![
        Just(Shape::Line),
        Just(Shape::Twice),
        Just(Shape::Routes),
        Just(Shape::Default),
        Just(Shape::Beside)
    ];
    let records = prop::collection::vec(prop::collection::vec(fate, 0..20), 1..4);
    let concurrency = prop_oneof![Just(None), (1..5_usize).prop_map(Some)];
    let sizes = (1..3_usize, 1..10_usize, 1..60_usize);
    let faults = (0..4_u64, 0..4_u64, 0..3_u64);
    (shape, records, any::<bool>(), concurrency, sizes, faults).prop_map(
        |(shape, records, columns, concurrency, sizes, faults)| Case {
            shape,
            records,
            columns,
            concurrency,
            workers: sizes.0,
            batch_size: sizes.1,
            max_outstanding: sizes.2,
            lost_commits: faults.0,
            full_queues: faults.1,
            ack_delay_ms: faults.2,
        },
    )
}

/// What a record comes to: its rows in topic `a` and in topic `b`, in order, how many rows fail, and how many become nothing.
#[derive(Clone, Debug, Default)]
struct Expected {
    a: Vec<String>,
    b: Vec<String>,
    errors: usize,
    nothing: usize,
}

/// The type of a record's row: the plugin has them in this order.
fn type_of(row: usize) -> &'static str {
    ["a", "b", "c"][row % 3]
}

impl Case {
    fn typed(&self) -> bool {
        matches!(self.shape, Shape::Routes | Shape::Default)
    }

    fn record(&self, partition: usize, offset: usize) -> String {
        match self.records[partition][offset] {
            Fate::Rows(rows) => {
                let row = |row| {
                    let own = format!("{partition}-{offset}-{row}");
                    match (self.shape, row % 4) {
                        (Shape::Twice, 1) => "many:3:2".to_owned(),
                        (Shape::Twice, 2) => "rows:".to_owned(),
                        (Shape::Twice, _) => format!("rows:{own}"),
                        (Shape::Routes | Shape::Default, _) => format!("{}/{own}", type_of(row)),
                        (Shape::Line | Shape::Beside, _) => own,
                    }
                };
                format!("rows:{}", (0..rows).map(row).collect::<Vec<_>>().join(","))
            }
            Fate::Fail => format!("fail:{partition}-{offset}"),
            Fate::Reject => format!("reject:{partition}-{offset}"),
            Fate::Trap => format!("trap:{partition}-{offset}"),
            Fate::Retry => format!("{{\"do\":\"retry-n:1\",\"at\":\"{partition}-{offset}\"}}"),
        }
    }

    fn expected(&self, partition: usize, offset: usize) -> Expected {
        let own = self.record(partition, offset);
        let copy = if self.shape == Shape::Beside { vec![own.clone()] } else { vec![] };
        let rows = match self.records[partition][offset] {
            Fate::Rows(rows) => rows,
            // One row of type `a`, as the record was.
            Fate::Retry => return Expected { a: vec![own], b: copy, ..Expected::default() },
            Fate::Fail | Fate::Reject | Fate::Trap => {
                return Expected { b: copy, errors: 1, ..Expected::default() };
            }
        };
        if rows == 0 {
            return Expected { b: copy, nothing: 1, ..Expected::default() };
        }
        let named = |row: &usize| format!("{partition}-{offset}-{row}");
        let of = |name: &str| (0..rows).filter(|row| type_of(*row) == name).collect::<Vec<_>>();
        let texts = |rows: &[usize]| rows.iter().map(named).collect::<Vec<_>>();
        match self.shape {
            Shape::Line | Shape::Beside => {
                Expected { a: texts(&(0..rows).collect::<Vec<_>>()), b: copy, ..Expected::default() }
            }
            Shape::Twice => {
                let twice = |row: usize| match row % 4 {
                    1 => vec!["xx".to_owned(); 3],
                    2 => vec![],
                    _ => vec![named(&row)],
                };
                let nothing = (0..rows).filter(|row| row % 4 == 2).count();
                Expected { a: (0..rows).flat_map(twice).collect(), nothing, ..Expected::default() }
            }
            Shape::Routes => {
                let (a, b) = (texts(&of("a")), texts(&of("b")));
                Expected { a, b, errors: of("c").len(), nothing: 0 }
            }
            Shape::Default => {
                let a = [texts(&of("a")), texts(&of("c"))].concat();
                Expected { a, b: texts(&of("b")), ..Expected::default() }
            }
        }
    }

    fn yaml(&self) -> String {
        let component = if self.columns && !self.typed() { "probe-column-expand" } else { "probe-roles" };
        let options = self.concurrency.map_or_else(String::new, |calls| format!(", concurrency: {calls}"));
        let expand = format!("{{ expand: x{options} }}");
        let routes = "a: [ { into_topic: a } ], b: [ { into_topic: b } ]";
        let routed = |default: &str| {
            format!("[ {{ expand_routes: {{ plugin: x, routes: {{ {routes} }}{default} }}{options} }} ]")
        };
        let process = match self.shape {
            Shape::Line => format!("[ {expand}, {{ into_topic: a }} ]"),
            Shape::Twice => format!("[ {expand}, {expand}, {{ into_topic: a }} ]"),
            Shape::Routes => routed(""),
            Shape::Default => routed(", default: [ { into_topic: a } ]"),
            Shape::Beside => {
                format!("[ {{ broadcast: [ [ {expand}, {{ into_topic: a }} ], [ {{ into_topic: b }} ] ] }} ]")
            }
        };
        let rest = format!(
            "runtime: {{ max_outstanding: {{ records: {} }}, commit_interval_ms: 0 }}
plugins: {{ x: {{ component: '{{guests}}/{component}.wasm' }} }}
process: {process}
errors: {{ default: [ {{ into_topic: e }} ] }}
",
            self.max_outstanding,
        );
        flow(&format!("batch_size: {}\npoll_backoff_ms: 5", self.batch_size), &rest)
    }
}

/// The partition that a row's text names.
fn is_of(partition: usize) -> impl Fn(&&String) -> bool {
    move |text| {
        let place = text.trim_end_matches("\"}").rsplit([':', '"']).next().unwrap_or(text);
        place.trim_start_matches("a/").starts_with(&format!("{partition}-"))
    }
}

fn check(case: &Case) {
    let broker = wide_broker(case.records.len() as i32, &["a", "b", "e"]);
    let mut expected = Vec::new();
    for (partition, records) in case.records.iter().enumerate() {
        for offset in 0..records.len() {
            broker.produce("in", partition as i32, Record::value(case.record(partition, offset)));
            expected.push((partition, case.expected(partition, offset)));
        }
    }
    let coordinator = || kafka_error(Kind::Coordinator, "NOT_COORDINATOR");
    broker.faults().commit(When::next(case.lost_commits), CommitFault::Refused(coordinator()));
    broker.faults().fail(Call::Send, When::next(case.full_queues), coordinator());
    broker.faults().delay_acks("a", Duration::from_millis(case.ack_delay_ms));

    let options = Options { workers: case.workers, ..Options::default() };
    let running = start_with(&case.yaml(), &broker, options);
    for (partition, records) in case.records.iter().enumerate() {
        running.until_committed_at(&place("in", partition as i32), records.len() as i64);
    }
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);

    let (a, b) = (payloads(&broker, "a"), payloads(&broker, "b"));
    for partition in 0..case.records.len() {
        let own = || expected.iter().filter(|(of, _)| *of == partition).map(|(_, expected)| expected);
        let seen = |all: &[String]| all.iter().filter(is_of(partition)).cloned().collect::<Vec<_>>();
        let to_a = named(own().flat_map(|record| record.a.clone()));
        let to_b = named(own().flat_map(|record| record.b.clone()));
        assert_eq!((seen(&a), seen(&b)), (to_a, to_b), "partition {partition}");
    }
    let sum = |of: fn(&Expected) -> usize| expected.iter().map(|(_, record)| of(record)).sum::<usize>();
    assert_eq!((a.len(), b.len()), (sum(|record| record.a.len()), sum(|record| record.b.len())));
    let errors = sum(|record| record.errors);
    assert_eq!(envelopes(&broker, "e").len(), errors);
    let ledger = &outcome.summary.ledger;
    assert_eq!((ledger.registered, ledger.outstanding, ledger.live), (expected.len() as u64, 0, 0));
    let ends = a.len() + b.len() + errors + sum(|record| record.nothing);
    assert_eq!(endings(&outcome).values().sum::<u64>(), ends as u64);
}

/// Those that name their record's place.
fn named(texts: impl Iterator<Item = String>) -> Vec<String> {
    texts.filter(|text| text.contains('-') && text.contains(|c: char| c.is_ascii_digit())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_row_is_written_once_in_its_place_whatever_the_bounds_and_faults(case in cases()) {
        check(&case);
    }
}
