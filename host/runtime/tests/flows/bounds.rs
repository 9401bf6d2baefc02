//! Back-pressure: one stuck record grows no memory and stops no other partition, and no small bound deadlocks.

use loom_kafka::memory::{Call, Record};
use proptest::prelude::*;

use crate::harness::{broker, committed_at, flow, in0, payloads, place, start, wide_broker};

fn bound(records: usize) -> String {
    format!("runtime: {{ max_outstanding: {{ records: {records} }} }}\n")
}

const PARTED: &str = "process: [ { fork: { when: [ { if: msg.partition == 0, process: [ { into_topic: stuck } ] } ], default: [ { into_topic: out } ] } } ]\n";

#[test]
fn rows_without_acknowledgement_stay_within_the_bound_and_other_partitions_go_on() {
    let broker = wide_broker(2, &["stuck", "out"]);
    broker.faults().hold_acks("stuck");
    for n in 0..1000 {
        for partition in 0..2 {
            broker.produce("in", partition, Record::value(n.to_string()));
        }
    }
    let running = start(&flow("batch_size: 7", &(bound(20) + PARTED)), &broker);
    running.until_committed_at(&place("in", 1), 1000);
    running.until_count("stuck", 10);
    assert_eq!(broker.view(|view| view.count("stuck")), 10, "half of the bound belongs to each partition");
    // Later ones that are done do not make room while the oldest is not: their entries are held too.
    broker.faults().release_acks("stuck", 3);
    running.until_committed_at(&in0(), 3);
    running.until_count("stuck", 13);
    assert_eq!(broker.view(|view| view.count("stuck")), 13);
    broker.faults().release_all_acks("stuck");
    running.until_committed_at(&in0(), 1000);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "stuck"), (0..1000).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[test]
fn a_bound_of_bytes_is_kept_and_a_record_above_it_passes_alone() {
    let broker = broker(&["stuck", "out"]);
    broker.faults().hold_acks("stuck");
    for _ in 0..50 {
        broker.produce("in", 0, Record::value(vec![b'x'; 1000]));
    }
    let runtime = "runtime: { max_outstanding: { bytes: 3500B } }\n";
    let running = start(&flow("", &(runtime.to_owned() + PARTED)), &broker);
    running.until_count("stuck", 3);
    let polls = broker.view(|view| view.calls(Call::Take));
    broker.faults().release_acks("stuck", 1);
    running.until_committed_at(&in0(), 1);
    let held = broker.view(|view| view.count("stuck"));
    assert!((3..=5).contains(&held), "{held} rows of 1000 bytes within 3500, after {polls} polls");
    broker.produce("in", 0, Record::value(vec![b'x'; 100_000]));
    broker.faults().release_all_acks("stuck");
    running.until_committed_at(&in0(), 51);
    assert_eq!(running.stop().failures, []);
}

/// Rows that a broadcast makes count before they are made, in error routes too.
#[test]
fn rows_made_by_a_broadcast_stay_within_the_bound() {
    let two = "[ { broadcast: [ [ { into_topic: stuck } ], [ { into_topic: stuck } ] ] } ]";
    let nested = format!("[ {{ broadcast: [ {two}, {two}, [ {{ into_topic: stuck }} ] ] }} ]");
    for (process, rows) in [
        (two.to_owned(), 2),
        (nested.clone(), 5),
        (format!("[ {{ map: 'payload.none', errors: {{ task: {nested} }} }}, {{ into_topic: out }} ]"), 5),
    ] {
        let broker = broker(&["stuck", "out"]);
        broker.faults().hold_acks("stuck");
        for _ in 0..100 {
            broker.produce("in", 0, Record::value("{}"));
        }
        let running = start(&flow("batch_size: 50", &format!("{}process: {process}\n", bound(17))), &broker);
        let fit = 17 / rows * rows;
        running.until_count("stuck", fit);
        broker.faults().release_acks("stuck", rows as u64);
        running.until_committed_at(&in0(), 1);
        running.until_count("stuck", fit + rows);
        assert_eq!(broker.view(|view| view.count("stuck")), fit + rows, "{process}");
        broker.faults().release_all_acks("stuck");
        running.until_committed_at(&in0(), 100);
        assert_eq!(running.stop().failures, []);
    }
}

#[test]
fn a_row_that_is_tried_again_for_ever_holds_no_more_than_its_share() {
    let broker = wide_broker(2, &["out"]);
    broker.produce("in", 0, Record::value("retry:away"));
    for n in 0..500 {
        broker.produce("in", 0, Record::value("later"));
        broker.produce("in", 1, Record::value(n.to_string()));
    }
    let rest = bound(20)
        + "plugins: { s: { component: '{guests}/probe-column-step.wasm' } }\nprocess: [ { step: s }, { into_topic: out } ]\n";
    let running = start(&flow("", &rest), &broker);
    running.until_committed_at(&place("in", 1), 500);
    let outcome = running.stop();
    assert_eq!(committed_at(&broker, &in0()), Some(0));
    assert!(outcome.summary.partitions[0].outstanding <= 10, "{:?}", outcome.summary.partitions[0]);
}

#[test]
fn no_small_bound_deadlocks_with_a_sink_that_would_wait_for_more() {
    for records in 1..=5 {
        for rest in [
            "process: [ { into_sink: k, flush: { records: 1000, interval: 1h } } ]\n",
            "process: [ { broadcast: [ [ { into_sink: k, flush: { records: 1000, interval: 1h } } ], [ { into_topic: out } ], [ { into_sink: k, flush: { records: 3, interval: 1h } } ] ] } ]\n",
        ] {
            let broker = wide_broker(2, &["out"]);
            for n in 0..20 {
                for partition in 0..2 {
                    broker.produce("in", partition, Record::value(n.to_string()));
                }
            }
            let plugins = "plugins: { k: { component: '{guests}/probe-sink.wasm' } }\n";
            let yaml = flow("batch_size: 3", &(bound(records) + plugins + rest));
            let running = start(&yaml, &broker);
            // The last rows below the bound stay unflushed, by the interval, until the stop.
            for partition in 0..2 {
                let place = place("in", partition);
                running.until("nearly all", |view| {
                    view.committed("g", &place)
                        .is_some_and(|committed| committed.offset.0 >= 20 - records as i64)
                });
            }
            // What was read by then is written at the stop; the last record may not have been.
            let outcome = running.stop();
            assert_eq!(outcome.failures, []);
            for partition in outcome.summary.partitions {
                assert_eq!((partition.outstanding, partition.committed), (0, Some(partition.position)));
                let committed = committed_at(&broker, &partition.partition);
                assert_eq!(committed, Some(partition.position.0));
            }
        }
    }
}

/// Rows that stand for several records, in whatever order, in front of nodes that make rows of rows.
#[derive(Clone, Debug)]
struct Shuffled {
    bound: usize,
    /// By partition: what the first step, without order, does with each record, what becomes of it in its batch, and how many
    /// rows the expander makes of each of those.
    records: Vec<Vec<(bool, bool, usize)>>,
    gathered: usize,
    concurrency: usize,
    batch_size: usize,
    expander: &'static str,
}

fn shuffled() -> impl Strategy<Value = Shuffled> {
    let record = (any::<bool>(), any::<bool>(), 0..4_usize);
    let expander = prop_oneof![
        Just("{ expand: e }"),
        Just("{ expand: e, concurrency: 2 }"),
        Just("{ expand: e, concurrency: 3, ordered: false }"),
        Just(
            "{ collect_batch: { max_records: 3, timeout_ms: 3 } }, { batch_expand: x, concurrency: 2 }, { expand: e }"
        ),
    ];
    let records = prop::collection::vec(prop::collection::vec(record, 0..20), 1..3);
    (1..6_usize, records, 1..5_usize, 1..4_usize, 1..8_usize, expander).prop_map(
        |(bound, records, gathered, concurrency, batch_size, expander)| Shuffled {
            bound,
            records,
            gathered,
            concurrency,
            batch_size,
            expander,
        },
    )
}

fn all_come_through(case: &Shuffled) {
    let broker = wide_broker(case.records.len() as i32, &["out", "e"]);
    for (partition, records) in case.records.iter().enumerate() {
        for (late, several, rows) in records {
            let made = format!("{{'do':'many:{rows}:3'}}").replace('\'', "\\\"");
            let batch = if *several { format!("all:{made}") } else { format!("rows:{made}") };
            let first = if *late { "retry-n:1" } else { "nothing" };
            let text = format!("{{\"do\":\"{first}\",\"then\":{{\"do\":\"{batch}\"}}}}");
            broker.produce("in", partition as i32, Record::value(text));
        }
    }
    let Shuffled { gathered, concurrency, batch_size, expander, .. } = case;
    let rest = bound(case.bound)
        + &format!(
            "plugins:
  s: {{ component: '{{guests}}/probe-step.wasm' }}
  x: {{ component: '{{guests}}/probe-roles.wasm' }}
  e: {{ component: '{{guests}}/probe-column-expand.wasm' }}
process:
  - {{ step: s, concurrency: {concurrency}, ordered: false }}
  - map: payload.then
  - {{ collect_batch: {{ max_records: {gathered}, timeout_ms: 3 }} }}
  - batch_expand: x
  - {}
  - into_topic: out
errors: {{ default: [ {{ into_topic: e }} ] }}
",
            expander.replace("}, {", "}\n  - {")
        );
    let running = start(&flow(&format!("batch_size: {batch_size}\npoll_backoff_ms: 5"), &rest), &broker);
    for (partition, records) in case.records.iter().enumerate() {
        running.until_committed_at(&place("in", partition as i32), records.len() as i64);
    }
    let outcome = running.stop();
    assert_eq!((outcome.failures, outcome.summary.ledger.outstanding), (vec![], 0));
    assert_eq!(payloads(&broker, "e"), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 8, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_small_bound_stands_still_with_rows_of_several_records_in_another_order(case in shuffled()) {
        all_come_through(&case);
    }
}
