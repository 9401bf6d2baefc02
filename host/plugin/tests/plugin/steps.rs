//! What steps answer. Whatever one form does, the other does too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use loom_plugin::{Cause, Interrupt, Limits, PluginSpec, RowFailure, StepNode};
use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};
use serde_json::{Value, json};

use crate::common::{STEPS, all, load, node, payloads, spec, step, texts};

#[test]
fn both_forms_change_what_a_record_asks_and_nothing_else() {
    let commands =
        ["upper", "set:new", "clear", "set-key:k2", "clear-key", "set-headers:a=1,b,a=2", "nothing"];
    let batch = payloads(commands);
    for name in STEPS {
        let answers = step(name, Value::Null).call(&batch, &all(&batch));
        assert!(answers.failures.is_empty(), "{name}: {:?}", answers.failures);
        assert_eq!(answers.answered as usize, commands.len());
        let after = batch.clone().with(answers.changes);
        let text = |bytes: Option<&[u8]>| bytes.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap());
        let payloads: Vec<_> = (0..7).map(|row| text(after.payload(row))).collect();
        let expected = ["UPPER", "new", "", "set-key:k2", "clear-key", "set-headers:a=1,b,a=2", "nothing"];
        for (row, (found, expected)) in payloads.iter().zip(expected).enumerate() {
            assert_eq!(found.as_deref(), (row != 2).then_some(expected), "{name}: row {row}");
        }
        let keys: Vec<_> = (0..7).map(|row| text(after.key(row))).collect();
        assert_eq!(keys[3].as_deref(), Some("k2"), "{name}");
        assert_eq!(keys[4], None, "{name}");
        assert!([0, 1, 2, 5, 6].iter().all(|row| keys[*row].as_deref() == Some("key")), "{name}");
        let headers =
            |row| after.headers(row).map(|(n, v)| (n.to_vec(), v.map(<[u8]>::to_vec))).collect::<Vec<_>>();
        let expected = vec![
            (b"a".to_vec(), Some(b"1".to_vec())),
            (b"b".to_vec(), None),
            (b"a".to_vec(), Some(b"2".to_vec())),
        ];
        assert_eq!(headers(5), expected, "{name}");
        assert!(headers(6).is_empty(), "{name}");
    }
}

#[test]
fn failures_are_booked_on_their_rows_with_the_plugins_words() {
    let batch = payloads(["ok", "reject:bad order", "ok", "retry:busy", "fail:broken"]);
    for name in STEPS {
        let answers = step(name, Value::Null).call(&batch, &all(&batch));
        let failure =
            |position, cause, reason: &str| RowFailure { position, cause, reason: reason.to_owned() };
        let expected = [
            failure(1, Cause::Reject, "bad order"),
            failure(3, Cause::Retry, "busy"),
            failure(4, Cause::Fail, "broken"),
        ];
        assert_eq!(answers.failures, expected, "{name}");
        assert!(answers.changes.is_empty(), "{name}: {:?}", answers.changes);
    }
}

fn rich() -> Batch {
    let mut builder = BatchBuilder::new(Arc::from(vec![Arc::from("first"), Arc::from("second")]));
    builder.header(b"h", Some(b"1"));
    builder.header(b"none", None);
    builder.header(b"h", Some(b"2"));
    builder
        .push(RecordRef {
            topic: 1,
            partition: 7,
            offset: RecordOffset(1 << 40),
            timestamp_ms: Some(1_700_000_000_000),
            key: None,
            payload: Some(b"x"),
            row: "2.0",
        })
        .unwrap();
    builder
        .push(RecordRef {
            topic: 0,
            partition: 0,
            offset: RecordOffset(0),
            timestamp_ms: None,
            key: Some(b""),
            payload: None,
            row: "",
        })
        .unwrap();
    builder.finish()
}

#[test]
fn a_record_arrives_whole_in_both_forms() {
    let batch = rich();
    let mut seen = Vec::new();
    for name in STEPS {
        let answers = step(name, json!({"command": "message"})).call(&batch, &[1, 0]);
        assert!(answers.failures.is_empty(), "{name}: {:?}", answers.failures);
        let records: Vec<Value> = texts(&batch, &[1, 0], answers.changes)
            .into_iter()
            .map(|text| serde_json::from_str(&text.unwrap()).unwrap())
            .collect();
        seen.push(records);
    }
    assert_eq!(seen[0], seen[1]);
    let bytes = |text: &str| json!(text.as_bytes());
    assert_eq!(
        seen[0][1],
        json!({
            "payload": bytes("x"), "key": null,
            "headers": [["h", bytes("1")], ["none", null], ["h", bytes("2")]],
            "topic": "second", "partition": 7, "offset": 1_u64 << 40, "timestamp_ms": 1_700_000_000_000_i64, "row": "2.0",
        })
    );
    assert_eq!(
        seen[0][0],
        json!({
            "payload": null, "key": [], "headers": [],
            "topic": "first", "partition": 0, "offset": 0, "timestamp_ms": null, "row": "",
        })
    );
}

#[test]
fn only_what_a_column_step_reads_crosses() {
    let batch = rich();
    let config = json!({"command": "message", "reads": ["headers"], "header_names": ["h"]});
    let answers = step("probe-column-step", config).call(&batch, &[0]);
    let text = texts(&batch, &[0], answers.changes).remove(0).unwrap();
    let record: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(record["payload"], Value::Null);
    assert_eq!(record["topic"], "");
    assert_eq!(record["headers"], json!([["h", b"1"], ["h", b"2"]]));
}

#[test]
fn the_column_form_is_used_where_both_are_there() {
    let batch = payloads(["a", "b"]);
    let answers = step("both-forms", Value::Null).call(&batch, &[0, 1]);
    assert_eq!(
        texts(&batch, &[0, 1], answers.changes),
        [Some("column".to_owned()), Some("column".to_owned())]
    );
}

#[test]
fn what_changes_nothing_answers_no_column() {
    let batch = payloads(vec![[b'x'; 100]; 512]);
    for name in ["nop-step", "nop-column-step"] {
        let answers = step(name, Value::Null).call(&batch, &all(&batch));
        assert!(answers.changes.is_empty() && answers.failures.is_empty(), "{name}");
        assert_eq!(answers.answered, 512);
    }
}

#[test]
fn many_rows_go_in_several_calls_and_come_back_as_one_column() {
    // Only rows of the second call change, and a record larger than a plugin batch goes alone.
    let batch = payloads((0..1500).map(|row| match row {
        600..1000 => format!("set:{row}").into_bytes(),
        1200 => vec![b'z'; 3 << 20],
        _ => format!("keep {row}").into_bytes(),
    }));
    let rows: Vec<u32> = (0..1500).rev().collect();
    for name in STEPS {
        let answers = step(name, Value::Null).call(&batch, &rows);
        assert!(answers.failures.is_empty(), "{name}: {:?}", answers.failures);
        for (text, row) in texts(&batch, &rows, answers.changes).into_iter().zip(&rows) {
            let text = text.unwrap();
            match row {
                600..1000 => assert_eq!(text, row.to_string(), "{name}"),
                1200 => assert_eq!(text.len(), 3 << 20, "{name}"),
                _ => assert_eq!(text, format!("keep {row}"), "{name}"),
            }
        }
    }
}

#[test]
fn a_plugin_knows_where_it_runs() {
    let batch = payloads(["context"]);
    for name in STEPS {
        let answers = step(name, Value::Null).call(&batch, &[0]);
        let context: Value =
            serde_json::from_str(texts(&batch, &[0], answers.changes)[0].as_ref().unwrap()).unwrap();
        assert_eq!(
            context,
            json!({"flow": "orders", "node": "process[0]", "plugin": "p", "worker": 3}),
            "{name}"
        );
    }
}

#[test]
fn nodes_of_one_plugin_share_no_state() {
    let plugin = load(&spec("probe-step", Value::Null));
    let mut nodes = [StepNode::new(&plugin, node()).unwrap(), StepNode::new(&plugin, node()).unwrap()];
    let batch = payloads(["calls"]);
    for expected in ["1", "2"] {
        for step in &mut nodes {
            let answers = step.call(&batch, &[0]);
            assert_eq!(texts(&batch, &[0], answers.changes), [Some(expected.to_owned())]);
        }
    }
}

#[test]
fn a_failed_batch_call_fails_each_of_its_rows() {
    let batch = payloads(["a", "b", "c"]);
    let answers = step("probe-column-step", json!({"fail_call": "down"})).call(&batch, &[2, 0]);
    let failure = |position| RowFailure { position, cause: Cause::Fail, reason: "down".to_owned() };
    assert_eq!(answers.failures, [failure(0), failure(1)]);
}

#[test]
fn columns_that_break_the_contract_are_the_rows_failures() {
    let batch = payloads(["a", "b"]);
    for (how, told) in [
        ("short", "payload column is invalid"),
        ("offsets", "payload column is invalid"),
        ("order", "payload column is invalid"),
        ("failure-row", "names a failure of row 1, and there are 1 rows"),
    ] {
        let answers = step("probe-column-step", json!({"bad_columns": how})).call(&batch, &[0, 1]);
        assert_eq!(answers.failures.len(), 2, "{how}");
        for failure in &answers.failures {
            assert_eq!(failure.cause, Cause::Protocol, "{how}");
            assert!(failure.reason.contains(told), "{how}: {}", failure.reason);
        }
    }
    // A bitmap that is too short, in a batch of more rows than its one byte has bits for.
    let batch = payloads((0..20).map(|row| format!("{row}")));
    let answers = step("probe-column-step", json!({"bad_columns": "validity"})).call(&batch, &all(&batch));
    assert_eq!(answers.answered, 20);
}

#[test]
fn an_interrupted_run_of_calls_ends_after_the_call_under_way_and_says_how_far_it_came() {
    let batch = payloads((0..600).map(|row| format!("set:{row}")));
    for (name, answered) in [("probe-step", 1), ("probe-column-step", 512)] {
        let mut step = step(name, Value::Null).interrupted_by(Interrupt::new(|| true));
        let answers = step.call(&batch, &all(&batch));
        assert_eq!(answers.answered, answered, "{name}");
        assert_eq!(answers.failures, [], "{name}");
        let rows: Vec<u32> = (answered..600).collect();
        assert_eq!(step.call(&batch, &rows[..1]).answered, 1, "{name}: a run makes one call at least");
    }
}

#[test]
fn a_call_under_way_is_ended_by_the_interrupt_and_its_rows_have_no_answer() {
    for (name, before) in [("probe-step", 2), ("probe-column-step", 0)] {
        for command in ["sleep", "loop"] {
            let stopping = Arc::new(AtomicBool::new(false));
            let asked = stopping.clone();
            let interrupt = Interrupt::new(move || asked.load(Ordering::Relaxed));
            let patient = PluginSpec {
                limits: Limits { timeout: Duration::from_secs(3600), ..Limits::default() },
                ..spec(name, Value::Null)
            };
            let mut step = StepNode::new(&load(&patient), node()).unwrap().interrupted_by(interrupt);
            let batch = payloads(["set:a", "upper", command, "upper"]);
            let answers = std::thread::scope(|scope| {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_millis(200));
                    stopping.store(true, Ordering::Relaxed);
                });
                step.call(&batch, &all(&batch))
            });
            assert_eq!((answers.answered, &answers.failures[..]), (before, &[][..]), "{name} {command}");
            // What the call held is gone with its instance, and a later one works.
            stopping.store(false, Ordering::Relaxed);
            assert_eq!(step.call(&batch, &[1]).answered, 1, "{name} {command}");
        }
    }
}

#[test]
fn a_row_that_the_interrupt_cuts_while_a_batch_that_trapped_is_run_again_row_by_row_has_no_answer() {
    let patient = PluginSpec {
        limits: Limits { timeout: Duration::from_secs(3600), ..Limits::default() },
        ..spec("probe-column-step", Value::Null)
    };
    // Asked now and then while a call is under way: so often only while the endless one is.
    let asked = AtomicUsize::new(0);
    let interrupt = Interrupt::new(move || asked.fetch_add(1, Ordering::Relaxed) >= 100);
    let mut step = StepNode::new(&load(&patient), node()).unwrap().interrupted_by(interrupt);
    let batch = payloads(["trap", "upper", "loop", "upper"]);
    let answers = step.call(&batch, &all(&batch));
    assert_eq!(answers.answered, 2);
    let failures: Vec<_> = answers.failures.iter().map(|failure| (failure.position, failure.cause)).collect();
    assert_eq!(failures, [(0, Cause::Trap)], "the one that was cut is none");
}
