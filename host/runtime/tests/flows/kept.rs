//! What rows that wait keep in memory: little of their neighbours, and never more than the bound.

use loom_kafka::Kind;
use loom_kafka::memory::{MemoryBroker, Record, RowFault, When};

use crate::harness::{broker, flow, kafka_error, payloads, start};

const SIZE: usize = 10_000;

/// Each a number, and as many letters as make it ten kilobytes.
fn payload(number: usize) -> String {
    format!("{{\"n\":{number},\"x\":\"{}\"}}", "x".repeat(SIZE))
}

fn produce(broker: &MemoryBroker, records: usize) {
    for number in 0..records {
        let record = Record::value(payload(number)).keyed(number.to_string()).header("n", Some(b"h"));
        broker.produce("in", 0, record);
    }
}

/// The least that a worker may keep.
const BOUND: &str = "runtime: { max_outstanding: { bytes: 4MiB } }\n";

/// One of fifty records waits, a hundred come together, and the bound has room for four hundred: so batches have to be let go.
#[test]
fn rows_that_wait_let_go_of_those_that_came_with_them() {
    let some = "{ filter: payload.n % 50 == 7 }";
    for process in [
        format!("[ {some}, {{ into_topic: stuck }} ]"),
        format!("[ {some}, {{ map: payload }}, {{ into_topic: stuck }} ]"),
        format!("[ {some}, {{ broadcast: [ [ {{ into_topic: stuck }} ], [ {{ into_topic: out }} ] ] }} ]"),
    ] {
        let broker = broker(&["stuck", "out"]);
        broker.faults().hold_acks("stuck");
        produce(&broker, 2000);
        let running = start(&flow("", &format!("{BOUND}process: {process}\n")), &broker);
        running.until_count("stuck", 40);
        broker.faults().release_all_acks("stuck");
        running.until_committed(2000);
        assert_eq!(running.stop().failures, [], "{process}");
        let expected: Vec<String> = (0..40).map(|at| payload(50 * at + 7)).collect();
        assert!(payloads(&broker, "stuck") == expected, "{process}");
    }
}

/// Rows that a broker refuses come back from their copies.
#[test]
fn rows_that_were_copied_come_back_whole() {
    let broker = broker(&["stuck", "failed", "out"]);
    broker.faults().hold_acks("stuck");
    let error = kafka_error(Kind::Refused, "INVALID_RECORD");
    broker.faults().rows("stuck", When::always(), RowFault::Refused(error));
    produce(&broker, 2000);
    let process = "process: [ { filter: payload.n % 50 == 7 }, { broadcast: [ [ { into_topic: stuck, dlq: failed } ], \
                   [ { into_topic: out } ] ] } ]\n";
    let running = start(&flow("", &format!("{BOUND}{process}")), &broker);
    running.until_count("out", 40);
    broker.faults().release_all_acks("stuck");
    running.until_committed(2000);
    assert_eq!(running.stop().failures, []);
    let mut came = payloads(&broker, "failed");
    came.sort_by_key(|text| text[5..].split(',').next().and_then(|n| n.parse::<usize>().ok()));
    let expected: Vec<String> = (0..40).map(|at| payload(50 * at + 7)).collect();
    assert!(came == expected, "{} came", came.len());
}

/// Nothing is tracked at most once: what waits is bounded all the same, also where it waits for more.
#[test]
fn at_most_once_what_waits_is_bounded_too() {
    for (process, most) in [
        ("[ { into_topic: stuck } ]", 600),
        ("[ { collect_batch: { max_records: 100000 } }, for_each, { into_topic: stuck } ]", 1000),
    ] {
        let broker = broker(&["stuck"]);
        broker.faults().hold_acks("stuck");
        produce(&broker, 3000);
        let running =
            start(&flow("delivery: at_most_once", &format!("{BOUND}process: {process}\n")), &broker);
        running.until_count("stuck", 300);
        // As soon as acknowledgements make room there is more, and no more than that.
        for (more, released) in [(0, 0), (500, 500), (1000, 1500)] {
            broker.faults().release_acks("stuck", more);
            running.until_count("stuck", released + 300);
            let held = broker.view(|view| view.count("stuck")) - released;
            assert!(held <= most, "{held} records of ten kilobytes are kept: {process}");
        }
        broker.faults().release_all_acks("stuck");
        // The last ones wait for more where batches are gathered, until the stop.
        running.until_count("stuck", 2500);
        assert_eq!(running.stop().failures, []);
    }
}
