//! Batches: what is gathered in one, when it leaves, what its plugin makes of it, and that each record is complete only when all
//! rows are that stand for it.

use std::time::{Duration, Instant};

use loom_kafka::memory::{MemoryBroker, Record};
use loom_runtime::status::Release;
use loom_runtime::{Board, Options};
use serde_json::json;

use crate::choosing::{GRANTS, commands, keys, offsets};
use crate::harness::{
    broker, committed, committed_at, endings, envelopes, flow, in0, payloads, place, produce, refused_with,
    start, start_with, wide_broker,
};
use crate::logs;
use crate::status::{until, watched};

const PLUGINS: &str = "plugins:
  b: { component: '{guests}/probe-roles.wasm' }
  x: { component: '{guests}/probe-roles.wasm' }
";

fn batches(process: &str, more: &str) -> String {
    format!("{PLUGINS}process: {process}\n{more}")
}

/// Each record makes a row that stands for its whole batch; what is written of a row is the batch's first offset and the row's
/// place.
const SHOWN: &str =
    "{ batch_expand: x }, { map: '[msg.partition, msg.offset, int(msg.row)]' }, { into_topic: out }";

fn all(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("all:{n}")).collect()
}

fn produce_all(broker: &MemoryBroker, count: usize) {
    let texts = all(count);
    produce(broker, &texts.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn every_record_of_a_batch_goes_through_step_and_for_each() {
    let broker = broker(&["out"]);
    let texts: Vec<String> = (0..25).map(|n| format!("set:{n}")).collect();
    produce(&broker, &texts.iter().map(String::as_str).collect::<Vec<_>>());
    let rest = batches(
        "[ { collect_batch: { max_records: 10, timeout_ms: 50 } }, { batch_step: b }, for_each, { step: b }, { into_topic: out } ]",
        "",
    );
    let running = start(&flow("", &rest), &broker);
    running.until_committed(25);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out"), (0..25).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("topic", 25)]);
}

/// Runs a flow until all rows came, and so many of them are in batches that are not full; and stops it, which sends them on.
fn gathered(yaml: &str, broker: &MemoryBroker, workers: usize, (came, left): (u64, u64)) {
    let board = Board::new();
    let options = Options { workers, board: Some(board.clone()), ..Options::default() };
    let running = start_with(yaml, broker, options);
    until(&board, "rows in batches", |status| {
        let node = status.nodes.iter().find(|node| node.node == "process[0]");
        node.is_some_and(|node| (node.rows, node.waiting) == (came, left))
    });
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!((outcome.summary.ledger.outstanding, outcome.summary.ledger.live), (0, 0));
}

#[test]
fn a_batch_is_full_whatever_poll_cycles_brought() {
    for batch_size in [1, 3, 500] {
        let broker = broker(&["out"]);
        produce_all(&broker, 10);
        let rest = batches(&format!("[ {{ collect_batch: {{ max_records: 4 }} }}, {SHOWN} ]"), "");
        gathered(&flow(&format!("batch_size: {batch_size}"), &rest), &broker, 1, (10, 2));
        let expected: Vec<String> = [(0, 4), (4, 4), (8, 2)]
            .into_iter()
            .flat_map(|(first, rows)| (0..rows).map(move |row| format!("[0,{first},{row}]")))
            .collect();
        assert_eq!(payloads(&broker, "out"), expected, "poll cycles of {batch_size}");
    }
}

#[test]
fn records_are_gathered_by_partition_or_by_a_key_and_no_key_is_a_key_of_its_own() {
    for (key, sizes) in [("", vec![6, 6]), (", key: msg.key", vec![4, 4, 2, 2])] {
        let broker = wide_broker(2, &["out"]);
        for n in 0..6_u8 {
            for partition in 0..2 {
                let record = Record::value(format!("all:{n}"));
                let key = match n % 3 {
                    0 => None,
                    1 => Some(Vec::new()),
                    _ => Some(vec![0xff, n / 3]),
                };
                broker.produce("in", partition, Record { key, ..record });
            }
        }
        let rest = batches(&format!("[ {{ collect_batch: {{ max_records: 100{key} }} }}, {SHOWN} ]"), "");
        gathered(&flow("", &rest), &broker, 1, (12, 12));
        let mut seen: Vec<usize> = Vec::new();
        for row in payloads(&broker, "out") {
            if row.ends_with(",0]") { seen.push(1) } else { *seen.last_mut().unwrap() += 1 }
        }
        seen.sort_unstable_by(|one, two| two.cmp(one));
        assert_eq!(seen, sizes, "by{key}");
    }
}

#[test]
fn a_partitioner_says_what_is_gathered_and_records_keep_the_keys_that_they_came_with() {
    for grant in GRANTS {
        // What waits for records that the bound does not let in leaves before it is full; the last ones leave in time.
        for (timeout, bound) in
            [("", ""), (", timeout_ms: 50", "runtime: { max_outstanding: { records: 2 } }\n")]
        {
            let broker = broker(&["out", "t", "r"]);
            commands(
                &broker,
                &[
                    ("key:a", "k0"),
                    ("key:b", "k1"),
                    // No answer in the end: it is gathered by the key that it has.
                    ("retry-n:2", "a"),
                    ("fail:x", "k3"),
                    ("key:b", "k4"),
                    ("reject:y", "k5"),
                    ("none", "b"),
                    ("key:a", "k7"),
                ],
            );
            let rest = format!(
                "plugins: {{ p: {{ component: '{{guests}}/probe-roles.wasm'{grant} }} }}
process: [ {{ collect_batch: {{ max_records: 3{timeout}, key: {{ plugin: p }} }} }}, for_each, {{ into_topic: out }} ]
errors: {{ task: [ {{ into_topic: t }} ], business: [ {{ into_topic: r }} ] }}
{bound}"
            );
            let running = start(&flow("", &rest), &broker);
            running.until_committed(8);
            let outcome = running.stop();
            assert_eq!((outcome.failures.len(), outcome.summary.ledger.live), (0, 0), "{grant}");
            let mut written: Vec<_> = offsets(&broker, "out").into_iter().zip(keys(&broker, "out")).collect();
            let expected = [(1, "k1"), (4, "k4"), (6, "b"), (0, "k0"), (2, "a"), (7, "k7")];
            let mut expected = expected.map(|(offset, key)| (offset, key.to_owned()));
            if !bound.is_empty() {
                written.sort();
                expected.sort();
            }
            assert_eq!(written, expected, "{grant} {bound}");
            for (topic, offset, key) in [("t", 3, "k3"), ("r", 5, "k5")] {
                let failed = envelopes(&broker, topic);
                assert_eq!(failed.len(), 1, "{topic} {grant}");
                let record = &failed[0]["record"];
                assert_eq!((&record["offset"], &record["key"]), (&json!(offset), &json!(key)), "{topic}");
            }
        }
    }
}

#[test]
fn what_is_not_full_at_a_stop_is_sent_on_and_written() {
    let broker = broker(&["out"]);
    produce_all(&broker, 3);
    let rest = batches(
        &format!("[ {{ collect_batch: {{ max_records: 100, timeout_ms: 3600000 }} }}, {SHOWN} ]"),
        "",
    );
    let (running, board) = watched(&flow("", &rest), &broker);
    let status = until(&board, "three rows in a batch", |status| {
        status.nodes.iter().any(|node| node.node == "process[0]" && node.waiting == 3)
    });
    // The record that holds the watermark is where people look for it.
    let oldest = status.partitions[0].oldest.as_ref().expect("nothing is resolved");
    let place = &oldest.places[0];
    assert_eq!((oldest.offset, place.node.as_str(), place.rows), (0, "process[0]", 1));
    assert!(matches!(place.release, Release::Batch { in_ms: Some(1..=3_600_000) }), "{place:?}");
    assert_eq!(committed(&broker), Some(0));
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out").len(), 3);
    assert_eq!((committed(&broker), outcome.summary.ledger.outstanding), (Some(3), 0));
}

#[test]
fn what_cannot_be_written_at_a_stop_stays_uncommitted_and_comes_again() {
    let broker = broker(&["out"]);
    produce(&broker, &["a", "retry:away", "c"]);
    let rest = |plugin: &str| {
        batches(
            &format!(
                "[ {{ collect_batch: {{ max_records: 100, timeout_ms: 3600000 }} }}, {plugin}, for_each, {{ into_topic: out }} ]"
            ),
            "runtime: { shutdown_timeout: 2s }\n",
        )
    };
    for options in ["", ", concurrency: 2"] {
        let (running, board) = watched(&flow("", &rest(&format!("{{ batch_step: b{options} }}"))), &broker);
        until(&board, "three rows in a batch", |status| {
            status.nodes.iter().any(|node| node.node == "process[0]" && node.waiting == 3)
        });
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!((committed(&broker), outcome.summary.ledger.outstanding), (Some(0), 3));
        assert_eq!(payloads(&broker, "out"), [""; 0]);
    }
    let again = rest("{ batch_step: b, retries: 0, errors: { delivery: [ drain ] } }");
    let running = start(&flow("", &again.replace("max_records: 100", "max_records: 3")), &broker);
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "c"]);
}

#[test]
fn no_bound_of_a_batch_deadlocks_with_what_may_be_outstanding() {
    for records in 1..=4 {
        for key in ["", ", key: \"msg.offset % 3\""] {
            let broker = wide_broker(2, &["out"]);
            for n in 0..20 {
                for partition in 0..2 {
                    broker.produce("in", partition, Record::value(format!("all:{n}")));
                }
            }
            let rest = batches(
                &format!("[ {{ collect_batch: {{ max_records: 1000{key} }} }}, {SHOWN} ]"),
                &format!("runtime: {{ max_outstanding: {{ records: {records} }} }}\n"),
            );
            let running = start(&flow("batch_size: 3", &rest), &broker);
            for partition in 0..2 {
                let place = place("in", partition);
                running.until("nearly all", |view| {
                    view.committed("g", &place)
                        .is_some_and(|committed| committed.offset.0 >= 20 - records as i64)
                });
            }
            let outcome = running.stop();
            assert_eq!(outcome.failures, []);
            assert_eq!(outcome.summary.ledger.outstanding, 0);
        }
    }
}

/// A batch of batches: what the second one holds are rows that stand for several records of both partitions.
#[test]
fn batches_of_batches_are_complete_with_all_that_was_made_of_them() {
    let broker = wide_broker(2, &["out"]);
    for n in 0..50 {
        for partition in 0..2 {
            let command = if n % 10 == 9 { "all:sum" } else { "rows:" };
            broker.produce("in", partition, Record::value(command));
        }
    }
    let process = "[ { collect_batch: { max_records: 10, timeout_ms: 50, key: \"'one'\" } }, { batch_expand: x },
  { map: '{\"do\": \"rows:a,b\"}' },
  { collect_batch: { max_records: 3, timeout_ms: 50, key: \"'one'\" } }, { batch_step: b }, { batch_expand: x }, { into_topic: out } ]";
    for bound in ["", "runtime: { max_outstanding: { records: 12 } }\n"] {
        let group = if bound.is_empty() { "a" } else { "b" };
        let before = payloads(&broker, "out").len();
        let yaml = flow("batch_size: 7", &batches(process, bound))
            .replace("group_id: g", &format!("group_id: {group}"));
        let running = start(&yaml, &broker);
        for partition in 0..2 {
            let place = place("in", partition);
            running.until("all", |view| {
                view.committed(group, &place).is_some_and(|committed| committed.offset.0 == 50)
            });
        }
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!((outcome.summary.ledger.outstanding, outcome.summary.ledger.live), (0, 0));
        assert_eq!(payloads(&broker, "out").len() - before, 20, "two rows for each of ten sums");
    }
}

#[test]
fn a_record_is_complete_when_the_last_row_is_that_stands_for_it() {
    let broker = broker(&["out"]);
    broker.faults().hold_acks("out");
    produce(&broker, &["rows:a,b,c", "rows:", "rows:d,e"]);
    let process = "[ { collect_batch: { max_records: 3 } }, { batch_expand: x }, { into_topic: out } ]";
    let (running, board) = watched(&flow("", &batches(process, "")), &broker);
    running.until_count("out", 5);
    // The second one, of which nothing was made, is complete at once, and counted as such.
    let status = until(&board, "a record without output", |status| {
        status.partitions[0].ledger.ended.get("no_output").is_some_and(|rows| *rows == 1)
    });
    assert_eq!(status.partitions[0].outstanding_records, 2);
    assert_eq!(committed(&broker), Some(0));
    for (acknowledged, offset) in [(1, 0), (1, 0), (1, 2), (1, 2), (1, 3)] {
        broker.faults().release_acks("out", acknowledged);
        if offset > 0 {
            running.until_committed(offset);
        }
        assert_eq!(committed(&broker), Some(offset));
    }
    let outcome = running.stop();
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [("no_output", 1), ("topic", 5)]);
}

#[test]
fn origins_overlap_and_one_that_is_not_there_is_the_plugins_fault() {
    let broker = broker(&["out", "t"]);
    produce(&broker, &["of:0+1:x", "of:1+2:y", "all:z", "of:0+7:w"]);
    let process =
        "[ { collect_batch: { max_records: 3, timeout_ms: 50 } }, { batch_expand: x }, { into_topic: out } ]";
    let running = start(&flow("", &batches(process, "errors: { task: [ { into_topic: t } ] }\n")), &broker);
    running.until_committed(4);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out"), ["x", "y", "z"]);
    let all = envelopes(&broker, "t");
    assert_eq!((all.len(), &all[0]["record"]["offset"]), (1, &json!(3)));
    assert!(all[0]["reason"].as_str().unwrap().contains("stands for record 7"), "{}", all[0]);
    let ledger = &outcome.summary.ledger;
    assert_eq!((ledger.outstanding, ledger.live), (0, 0));
}

#[test]
fn a_call_that_fails_as_a_whole_is_an_error_of_each_record_one_line_and_one_count() {
    logs::keep();
    for (name, route, ending) in [
        ("whole-routed", "errors: { task: [ { into_topic: t } ] }\n", "error_route(task)"),
        ("whole-dropped", "errors: { unrouted: drop }\n", "dropped(task)"),
    ] {
        for role in ["batch_step: b }, for_each", "batch_expand: b }"] {
            let broker = broker(&["out", "t"]);
            for _ in 0..500 {
                broker.produce("in", 0, Record::value("a"));
            }
            let name = format!("{name}-{}", &role[..10]);
            let rest = format!(
                "plugins: {{ b: {{ component: '{{guests}}/probe-roles.wasm', config: {{ fail_call: down }} }} }}
process: [ {{ collect_batch: {{ max_records: 500 }} }}, {{ {role}, {{ into_topic: out }} ]
{route}"
            );
            let running = start(&flow("", &rest).replace("name: test", &format!("name: '{name}'")), &broker);
            running.until_committed(500);
            let outcome = running.stop();
            assert_eq!(outcome.failures, []);
            assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), [(ending, 500)]);
            if ending.starts_with("error_route") {
                let all = envelopes(&broker, "t");
                assert_eq!(all.len(), 500);
                assert!(all.iter().all(|one| one["kind"] == "task" && one["reason"] == "down"));
            }
            let errors: Vec<u64> = outcome.summary.counters.errors.values().copied().collect();
            assert_eq!(errors, [500]);
            let loud: Vec<_> = logs::of_flow(&name);
            let loud: Vec<_> =
                loud.iter().filter(|line| line["kind"] == "task" && line["level"] != "DEBUG").collect();
            assert_eq!(loud.len(), 1, "{loud:?}");
            assert_eq!((&loud[0]["rows"], &loud[0]["reason"]), (&json!(500), &json!("down")));
        }
    }
}

#[test]
fn each_record_of_a_batch_has_its_own_verdict_and_a_wrong_number_of_answers_is_nobodys_but_the_plugins() {
    let one = broker(&["out", "t", "b"]);
    produce(&one, &["upper", "reject:bad", "trap", "fail:no", "set:x", "clear"]);
    let errors = "errors: { task: [ { into_topic: t } ], business: [ { into_topic: b } ] }\n";
    let process =
        "[ { collect_batch: { max_records: 6 } }, { batch_step: b }, for_each, { into_topic: out } ]";
    let running = start(&flow("", &batches(process, errors)), &one);
    running.until_committed(6);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&one, "out"), ["UPPER", "x", "null"]);
    assert_eq!(envelopes(&one, "b")[0]["record"]["offset"], 1);
    let offsets: Vec<_> = envelopes(&one, "t").iter().map(|one| one["record"]["offset"].clone()).collect();
    assert_eq!(offsets, [json!(2), json!(3)]);

    for concurrency in ["", ", concurrency: 2"] {
        let two = broker(&["out", "t"]);
        produce(&two, &["a", "b", "c"]);
        let rest = format!(
            "plugins: {{ b: {{ component: '{{guests}}/probe-roles.wasm', config: {{ answers_off: 1 }} }} }}
process: [ {{ collect_batch: {{ max_records: 3 }} }}, {{ batch_step: b{concurrency} }}, for_each, {{ into_topic: out }} ]
errors: {{ task: [ {{ into_topic: t }} ] }}
"
        );
        let running = start(&flow("", &rest), &two);
        running.until_committed(3);
        assert_eq!(running.stop().failures, []);
        let reasons: Vec<_> = envelopes(&two, "t").iter().map(|one| one["reason"].clone()).collect();
        assert_eq!(
            reasons,
            vec![json!("it gave 2 answers to 1 records"); 3],
            "tried row by row{concurrency}"
        );
    }
}

#[test]
fn a_batch_waits_for_its_rows_that_are_tried_again_and_later_ones_wait_behind_it() {
    // One call at a time, or the plugin's count of attempts would be in several instances.
    for options in ["", ", concurrency: 1"] {
        let broker = wide_broker(2, &["out"]);
        for n in 0..12 {
            for partition in 0..2 {
                let command = if partition == 0 && n == 1 { "retry-n:2" } else { "nothing" };
                let payload = format!("{{\"do\":\"{command}\",\"n\":\"{partition} {n:02}\"}}");
                broker.produce("in", partition, Record::value(payload));
            }
        }
        let process = format!(
            "[ {{ collect_batch: {{ max_records: 4, timeout_ms: 100 }} }}, {{ batch_step: b{options} }}, for_each, {{ map: payload.n }}, {{ into_topic: out }} ]"
        );
        let running = start(&flow("", &batches(&process, "")), &broker);
        for partition in 0..2 {
            running.until_committed_at(&place("in", partition), 12);
        }
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(outcome.summary.counters.retries, 2);
        let seen = payloads(&broker, "out");
        for partition in 0..2 {
            let mine: Vec<&String> =
                seen.iter().filter(|text| text.starts_with(&format!("\"{partition} "))).collect();
            let expected: Vec<String> = (0..12).map(|n| format!("\"{partition} {n:02}\"")).collect();
            assert_eq!(mine, expected.iter().collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_batch_with_a_row_that_is_tried_again_for_ever_holds_its_partition_and_no_other() {
    let broker = wide_broker(2, &["out"]);
    broker.produce("in", 0, Record::value("retry:the service is away"));
    for n in 0..40 {
        broker.produce("in", 0, Record::value("later"));
        broker.produce("in", 1, Record::value(format!("set:{n}")));
    }
    let process = "[ { collect_batch: { max_records: 4, timeout_ms: 50 } }, { batch_step: b }, for_each, { into_topic: out } ]";
    let (running, board) = watched(&flow("batch_size: 8", &batches(process, "")), &broker);
    running.until_committed_at(&place("in", 1), 40);
    let status = until(&board, "a second attempt", |status| {
        let oldest = status.partitions[0].oldest.as_ref();
        oldest.is_some_and(|oldest| oldest.places.iter().any(|place| place.attempt >= 2))
    });
    let oldest = status.partitions[0].oldest.as_ref().unwrap();
    assert_eq!((oldest.offset, oldest.places[0].node.as_str()), (0, "process[1]"));
    assert_eq!(oldest.places[0].answer.as_deref(), Some("the service is away"));
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    assert_eq!(committed_at(&broker, &in0()), Some(0));
    assert!(outcome.summary.partitions[0].position.0 < 40, "a partition that waits is not read on and on");
}

#[test]
fn waiting_calls_of_batches_overlap_and_one_that_hangs_is_given_up_at_a_stop() {
    let broker = broker(&["out"]);
    produce(&broker, &["set:a", "set:b", "sleep", "set:c", "set:d", "set:e"]);
    let process = "[ { collect_batch: { max_records: 2 } }, { batch_step: b, concurrency: 2, ordered: false, timeout: 1h }, for_each, { into_topic: out } ]";
    let rest = batches(process, "runtime: { shutdown_timeout: 2s }\n");
    let running = start(&flow("", &rest), &broker);
    running.until_count("out", 4);
    let begun = Instant::now();
    let outcome = running.stop();
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    assert_eq!(outcome.failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "b", "d", "e"]);
    assert_eq!((committed(&broker), outcome.summary.ledger.outstanding), (Some(2), 2));
}

#[test]
fn tombstones_count_and_errors_of_the_key_take_their_route() {
    let broker = broker(&["out", "t"]);
    let record = Record::value("all:x");
    broker.produce("in", 0, Record { payload: None, key: Some(b"k".to_vec()), ..record.clone() });
    broker.produce("in", 0, Record::value("{\"do\":\"all:x\"}"));
    broker.produce("in", 0, Record { key: Some(b"k".to_vec()), ..record });
    let process = "[ { collect_batch: { max_records: 2, key: \"size(msg.key) > 0 ? msg.key : 'none'\" } }, { batch_step: b }, for_each, { into_topic: out } ]";
    let rest = batches(process, "errors: { task: [ { into_topic: t } ] }\n");
    let running = start(&flow("tombstones: forward", &rest), &broker);
    running.until_committed(3);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["null", "all:x"]);
    assert_eq!(envelopes(&broker, "t")[0]["record"]["offset"], 1, "of a record without key there is no size");
}

#[test]
fn a_batch_in_an_error_route_has_errors_of_one_kind_only() {
    let broker = broker(&["out", "e"]);
    produce(&broker, &["fail:a", "reject:b", "fail:c", "reject:d"]);
    let rest = "plugins:
  s: { component: '{guests}/probe-step.wasm' }
  x: { component: '{guests}/probe-roles.wasm', config: { command: 'all:' } }
process: [ { step: s }, { into_topic: out } ]
errors: { default: [ { collect_batch: { max_records: 100, timeout_ms: 50 } }, { batch_expand: x }, { into_topic: e, key: \"msg.headers['loom-error-kind']\" } ] }
";
    let running = start(&flow("", rest), &broker);
    running.until_committed(4);
    let outcome = running.stop();
    assert_eq!(outcome.failures, []);
    // Each record makes a row for its whole batch: two batches of two, named after their first record.
    let kinds: Vec<_> = broker.records("e").into_iter().map(|stored| stored.record.key.unwrap()).collect();
    assert_eq!(kinds, [&b"task"[..], b"task", b"business", b"business"]);
    let ends = [("error_route(business)", 2), ("error_route(task)", 2)];
    assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
}

#[test]
fn at_most_once_gathers_without_counting_what_it_owes_and_within_the_bound() {
    let broker = broker(&["out"]);
    produce_all(&broker, 50);
    let rest = batches(
        &format!("[ {{ collect_batch: {{ max_records: 1000, timeout_ms: 3600000 }} }}, {SHOWN} ]"),
        "runtime: { max_outstanding: { records: 20 } }\n",
    );
    // Twice the bound is passed, by 24 records each time; the rest is written at the stop.
    gathered(&flow("delivery: at_most_once\nbatch_size: 8", &rest), &broker, 1, (50, 2));
    assert_eq!(payloads(&broker, "out").len(), 50);
    let batches = payloads(&broker, "out").iter().filter(|row| row.ends_with(",0]")).count();
    assert_eq!(batches, 3);
}

#[test]
fn several_workers_gather_by_partition_and_refuse_to_by_key() {
    let broker = wide_broker(4, &["out"]);
    for n in 0..10 {
        for partition in 0..4 {
            broker.produce("in", partition, Record::value(format!("all:{n}")));
        }
    }
    let window =
        |key: &str| batches(&format!("[ {{ collect_batch: {{ max_records: 4{key} }} }}, {SHOWN} ]"), "");
    let errors = refused_with(
        &flow("", &window(", key: msg.key")),
        &broker,
        Options { workers: 2, ..Options::default() },
    );
    assert_eq!((errors.len(), errors[0].code, errors[0].status.code()), (1, Some("NOT_AVAILABLE"), 3));
    for part in ["process[0]", "`key`", "2 workers", "one worker"] {
        assert!(errors[0].message.contains(part), "{}", errors[0].message);
    }
    gathered(&flow("", &window("")), &broker, 2, (40, 8));
    let seen = payloads(&broker, "out");
    for partition in 0..4 {
        for (first, rows) in [(0, 4), (4, 4), (8, 2)] {
            let batch = format!("[{partition},{first},");
            assert_eq!(seen.iter().filter(|row| row.starts_with(&batch)).count(), rows, "{batch}");
        }
    }
}
