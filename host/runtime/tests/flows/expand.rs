//! Rows that are made of records: a record is done when all that were made of it are, and not before.

use std::collections::BTreeMap;

use loom_kafka::memory::{Call, MemoryBroker, Record};
use loom_runtime::status::{Intake, Release};

use crate::harness::{
    Running, broker, commit_history, committed, committed_at, endings, envelopes, flow, in0, payloads, place,
    produce, start, wide_broker,
};
use crate::status::{until, watched};

/// The forms of an expander: plain, by columns, and each called beside the worker.
const FORMS: [(&str, &str); 4] = [
    ("probe-roles", ""),
    ("probe-column-expand", ""),
    ("probe-roles", ", concurrency: 3"),
    ("probe-column-expand", ", concurrency: 3"),
];

/// An expander into `out`, its failures to `t`.
fn through((component, options): (&str, &str)) -> String {
    format!(
        "plugins: {{ x: {{ component: '{{guests}}/{component}.wasm', limits: {{ timeout: 20s }} }} }}
process: [ {{ expand: x{options} }}, {{ into_topic: out }} ]
errors: {{ default: [ {{ into_topic: t }} ] }}
"
    )
}

/// Lets the workers look some more times at what there is.
pub fn look_again(running: &Running, broker: &MemoryBroker) {
    let polls = broker.view(|view| view.calls(Call::Take));
    running.until("three polls more", |view| view.calls(Call::Take) >= polls + 3);
}

fn ended(outcome: &loom_runtime::Outcome) -> Vec<(&'static str, u64)> {
    assert_eq!(outcome.failures, []);
    assert_eq!((outcome.summary.ledger.live, outcome.summary.counters.violations), (0, 0));
    endings(outcome).into_iter().collect()
}

#[test]
fn a_record_is_done_when_the_last_of_its_rows_is() {
    for form in FORMS {
        let broker = broker(&["out", "t"]);
        produce(&broker, &["rows:a,k=b,c"]);
        broker.faults().hold_acks("out");
        let running = start(&flow("poll_backoff_ms: 5", &through(form)), &broker);
        running.until_count("out", 3);
        broker.faults().release_acks("out", 1);
        look_again(&running, &broker);
        assert_eq!(committed(&broker), Some(0), "{form:?}");
        broker.faults().release_acks("out", 2);
        running.until_committed(1);
        let history = commit_history(&broker, &in0());
        assert_eq!(history.iter().filter(|offset| **offset == 1).count(), 1, "{history:?}");
        let outcome = running.stop();
        assert_eq!(ended(&outcome), [("topic", 3)], "{form:?}");
        let ledger = &outcome.summary.ledger;
        assert_eq!((ledger.registered, ledger.minted, ledger.consumed), (1, 4, 1));
        assert_eq!(payloads(&broker, "out"), ["a", "b", "c"], "{form:?}");
        let keys: Vec<_> =
            broker.view(|view| view.records("out")).into_iter().map(|stored| stored.record.key).collect();
        assert_eq!(keys, [None, Some(b"k".to_vec()), None]);
    }
}

#[test]
fn a_record_that_becomes_nothing_is_done_at_once() {
    for form in FORMS {
        let broker = broker(&["out", "t"]);
        produce(&broker, &["rows:"]);
        let running = start(&flow("", &through(form)), &broker);
        running.until_committed(1);
        assert_eq!(ended(&running.stop()), [("no_output", 1)], "{form:?}");
        assert_eq!(payloads(&broker, "out"), [""; 0]);
    }
}

#[test]
fn at_most_once_every_row_is_written_and_nothing_is_accounted_for() {
    for form in FORMS {
        let broker = broker(&["out", "t"]);
        produce(&broker, &["rows:a,b,c", "rows:", "rows:d"]);
        let running = start(&flow("delivery: at_most_once", &through(form)), &broker);
        running.until_count("out", 4);
        running.until_committed(3);
        let outcome = running.stop();
        assert_eq!(ended(&outcome), [("no_output", 1), ("topic", 4)], "{form:?}");
        assert_eq!(outcome.summary.ledger.outstanding, 0);
        assert_eq!(payloads(&broker, "out"), ["a", "b", "c", "d"]);
    }
}

#[test]
fn a_failure_is_the_one_output_of_its_record() {
    for form in FORMS {
        let broker = broker(&["out", "t"]);
        produce(&broker, &["fail:no", "rows:a,b"]);
        broker.faults().hold_acks("t");
        let running = start(&flow("poll_backoff_ms: 5", &through(form)), &broker);
        running.until_count("t", 1);
        running.until_count("out", 2);
        look_again(&running, &broker);
        assert_eq!(committed(&broker), Some(0), "{form:?}: the offset waits for the error route");
        broker.faults().release_all_acks("t");
        running.until_committed(2);
        assert_eq!(ended(&running.stop()), [("error_route(task)", 1), ("topic", 2)], "{form:?}");
        let envelope = &envelopes(&broker, "t")[0];
        assert_eq!((&envelope["reason"], &envelope["plugin"]["name"]), (&"no".into(), &"x".into()));
        assert_eq!(envelope["record"]["payload"], "fail:no");
    }
}

#[test]
fn rows_are_in_the_order_of_their_records_whatever_came_between() {
    let records = ["rows:a,b", "retry-n:2", "rows:", "rows:c", "trap", "rows:d,e,f", "reject:g", "rows:h"];
    for form in FORMS {
        let broker = broker(&["out", "t"]);
        produce(&broker, &records);
        let running = start(&flow("", &through(form)), &broker);
        running.until_committed(8);
        let outcome = running.stop();
        assert_eq!(payloads(&broker, "out"), ["a", "b", "retry-n:2", "c", "d", "e", "f", "h"], "{form:?}");
        assert_eq!(
            ended(&outcome),
            [("error_route(business)", 1), ("error_route(task)", 1), ("no_output", 1), ("topic", 8)]
        );
        assert!(outcome.summary.counters.retries >= 2, "{form:?}");
    }
}

#[test]
fn counted_retries_and_an_answer_above_the_limit_are_errors_of_the_record() {
    for form in [("probe-roles", ", retries: 1"), ("probe-column-expand", ", retries: 1, concurrency: 2")] {
        let broker = broker(&["out", "t"]);
        produce(&broker, &["rows:a", "retry:away", "many:200000:10", "rows:b"]);
        let rest = through(form).replace("timeout: 20s", "timeout: 60s, output: 1MiB");
        let running = start(&flow("", &rest), &broker);
        running.until_committed(4);
        assert_eq!(
            ended(&running.stop()),
            [("error_route(delivery)", 1), ("error_route(task)", 1), ("topic", 2)],
            "{form:?}"
        );
        let told: BTreeMap<String, String> = envelopes(&broker, "t")
            .into_iter()
            .map(|e| (e["kind"].as_str().unwrap().to_owned(), e["reason"].as_str().unwrap().to_owned()))
            .collect();
        assert!(told["task"].contains("limits.output"), "{told:?}");
        assert!(told["delivery"].contains("`retries` are used up"), "{told:?}");
    }
}

#[test]
fn a_record_of_very_many_rows_gets_through_alone_and_is_committed_once() {
    const ROWS: usize = 200_000;
    let broker = broker(&["out", "t"]);
    produce(&broker, &["rows:a", "many:200000:10", "rows:b", "rows:c"]);
    broker.faults().hold_acks("out");
    let (running, board) = watched(&flow("", &through(("probe-roles", ""))), &broker);
    // More than the client's queue has room for.
    until(&board, "all rows made", |status| status.ledger.live == ROWS as u64 + 3);
    broker.faults().release_acks("out", 1);
    running.until_committed(1);
    let status = until(&board, "the row that waits", |status| {
        let oldest = status.partitions.first().and_then(|partition| partition.oldest.as_ref());
        oldest.is_some_and(|oldest| oldest.offset == 1)
    });
    let waiting = status.nodes.iter().find(|node| node.node == "process[0]").map(|node| node.waiting);
    // The second record, the one after it, which was called with it, and the last one, which waits for room.
    assert_eq!((waiting, status.ledger.live), (Some(1), ROWS as u64 + 2));
    broker.faults().release_all_acks("out");
    running.until_committed(4);
    assert_eq!(ended(&running.stop()), [("topic", ROWS as u64 + 3)]);
    let seen = payloads(&broker, "out");
    assert_eq!(
        (&*seen[0], &*seen[1], &seen[ROWS + 1..]),
        ("a", "xxxxxxxxxx", &["b".to_owned(), "c".to_owned()][..])
    );
}

#[test]
fn what_is_made_stays_within_the_bound_and_other_partitions_go_on() {
    for form in FORMS {
        let broker = wide_broker(2, &["out", "other", "t"]);
        for n in 0..40 {
            broker.produce("in", 0, Record::value(format!("rows:{n}a,{n}b,{n}c,{n}d,{n}e")));
            broker.produce("in", 1, Record::value(format!("rows:{n}")));
        }
        broker.faults().hold_acks("out");
        let fork = "fork: { when: [ { if: msg.partition == 0, process: [ { into_topic: out } ] } ], default: [ { into_topic: other } ] }";
        let rest = through(form).replace("{ into_topic: out }", &format!("{{ {fork} }}"));
        let bounds = "runtime: { max_outstanding: { records: 80 } }\n";
        let (running, board) = watched(&flow("", &(bounds.to_owned() + &rest)), &broker);
        // The other partition's rows go on.
        running.until_committed_at(&place("in", 1), 40);
        running.until_count("out", 20);
        let status = until(&board, "rows that wait for room", |status| {
            status.nodes.iter().any(|node| node.node == "process[0]" && node.waiting > 0)
        });
        // A quarter of the bound is for what is made of a partition's records; one call more makes five, three at a time.
        let oldest = status.partitions[0].oldest.as_ref().unwrap();
        assert_eq!(oldest.places[0].release, Release::Acknowledgement, "{form:?}: {oldest:?}");
        assert_eq!(status.partitions[0].intake, Intake::Held, "{form:?}");
        let expander = status.nodes.iter().find(|node| node.node == "process[0]").unwrap().expander.unwrap();
        let made = expander.made - 40;
        assert!((20..=40).contains(&made) && expander.defaulted == 0, "{form:?}: {made} rows");
        broker.faults().release_all_acks("out");
        running.until_committed_at(&in0(), 40);
        assert_eq!(ended(&running.stop()), [("topic", 240)]);
        let expected: Vec<String> =
            (0..40).flat_map(|n| ["a", "b", "c", "d", "e"].map(|l| format!("{n}{l}"))).collect();
        assert_eq!(payloads(&broker, "out"), expected, "{form:?}");
    }
}

#[test]
fn a_bound_that_one_record_fills_deadlocks_nothing_where_rows_are_made_of_rows() {
    for (component, options) in FORMS {
        let broker = wide_broker(2, &["out", "t"]);
        for n in 0..30 {
            broker.produce("in", n % 2, Record::value("rows:rows:p,rows:,many:2:1"));
        }
        let rest = format!(
            "plugins: {{ x: {{ component: '{{guests}}/{component}.wasm' }} }}
runtime: {{ max_outstanding: {{ records: 2 }} }}
process: [ {{ expand: x{options} }}, {{ expand: x{options} }}, {{ into_topic: out }} ]
"
        );
        let running = start(&flow("batch_size: 9", &rest), &broker);
        running.until_committed_at(&place("in", 0), 15);
        running.until_committed_at(&place("in", 1), 15);
        assert_eq!(ended(&running.stop()), [("no_output", 30), ("topic", 90)], "{component}{options}");
        // Rows of two partitions in one topic have no order among them.
        let made = payloads(&broker, "out");
        let of = |name: &str| made.iter().filter(|made| *made == name).count();
        assert_eq!((of("p"), of("x")), (30, 60), "{component}{options}");
    }
}

#[test]
fn a_stop_gives_up_what_was_not_made_and_the_next_run_makes_it_again() {
    for form in FORMS {
        let broker = broker(&["out", "t"]);
        let records: Vec<String> = (0..60).map(|n| format!("rows:{n}a,{n}b,{n}c")).collect();
        produce(&broker, &records.iter().map(|text| &**text).collect::<Vec<_>>());
        let bounds = "runtime: { max_outstanding: { records: 20 }, shutdown_timeout: 3s }\n";
        let rest = bounds.to_owned() + &through(form);
        broker.faults().hold_acks("out");
        let running = start(&flow("", &rest), &broker);
        running.until_count("out", 10);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(committed(&broker), Some(0));
        assert!(outcome.summary.ledger.outstanding > 0);
        broker.faults().release_all_acks("out");
        let written = broker.view(|view| view.count("out"));
        let running = start(&flow("", &rest), &broker);
        running.until_committed(60);
        assert_eq!(ended(&running.stop()), [("topic", 180)], "{form:?}");
        let all = payloads(&broker, "out");
        let expected: Vec<String> =
            (0..60).flat_map(|n| ["a", "b", "c"].map(|l| format!("{n}{l}"))).collect();
        assert_eq!(all[written..], expected[..], "{form:?}: from the beginning, in order");
    }
}

#[test]
fn rows_are_made_of_envelopes_too_and_what_ends_there_ends_in_the_route() {
    let broker = broker(&["out", "t"]);
    produce(&broker, &["fail:a", "rows:b"]);
    let rest = "plugins:
  x: { component: '{guests}/probe-roles.wasm' }
  twice: { component: '{guests}/probe-roles.wasm', config: { command: 'rows:1,2' } }
  never: { component: '{guests}/probe-roles.wasm', config: { command: 'rows:' } }
process: [ { expand: x }, { into_topic: out } ]
errors: { task: [ { broadcast: [ [ { expand: twice }, { into_topic: t } ], [ { expand: never } ] ] } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(2);
    assert_eq!(ended(&running.stop()), [("error_route(task)", 3), ("topic", 1)]);
    assert_eq!(payloads(&broker, "t"), ["1", "2"]);
}

#[test]
fn rows_of_several_workers_are_counted_by_their_partitions() {
    let broker = wide_broker(4, &["out", "t"]);
    for n in 0..200 {
        broker.produce("in", n % 4, Record::value(format!("rows:{n}a,{n}b")));
    }
    let options = loom_runtime::Options { workers: 2, ..loom_runtime::Options::default() };
    let rest = format!("runtime: {{ max_outstanding: {{ records: 12 }} }}\n{}", through(FORMS[0]));
    let running = crate::harness::start_with(&flow("", &rest), &broker, options);
    (0..4).for_each(|partition| running.until_committed_at(&place("in", partition), 50));
    assert_eq!(ended(&running.stop()), [("topic", 400)]);
    assert_eq!(committed_at(&broker, &place("in", 3)), Some(50));
}
