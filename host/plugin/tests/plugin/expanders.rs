//! What expanders make. Whatever one form does, the other does too.

use std::time::Duration;

use loom_plugin::{
    Cause, ExpandAnswers, ExpandNode, Interrupt, Limits, PluginSpec, RowFailure, StartError, TypedExpandNode,
};
use loom_types::{Batch, BatchBuilder, RecordOffset, RecordRef};
use serde_json::{Value, json};

use crate::common::{all, load, node, payloads, quick, spec};

/// The two forms of a probe.
const EXPANDERS: [&str; 2] = ["probe-roles", "probe-column-expand"];

fn expander(name: &str, config: Value) -> ExpandNode {
    ExpandNode::new(&load(&spec(name, config)), node()).unwrap_or_else(|error| panic!("{error}"))
}

/// Of one row: payload, key, offset and name.
fn told(rows: &Batch, row: u32) -> String {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or(b"-")).into_owned();
    let source = rows.source(row);
    format!("{} {} {}/{}", text(rows.payload(row)), text(rows.key(row)), source.offset.0, source.row)
}

/// By position, what each input became.
fn made(answers: &ExpandAnswers, inputs: u32) -> Vec<Vec<String>> {
    let of = |input| answers.made_from(input).map(|row| told(&answers.rows, row)).collect();
    (0..inputs).map(of).collect()
}

#[test]
fn both_forms_make_what_a_record_asks_and_name_it() {
    let batch = payloads(["rows:a,k2=b,c", "rows:", "clear", "upper", "rows:d"]);
    for name in EXPANDERS {
        let answers = expander(name, Value::Null).call(&batch, &[4, 0, 1, 2, 3]);
        assert!(answers.failures.is_empty(), "{name}: {:?}", answers.failures);
        assert_eq!(answers.answered, 5);
        let expected: [&[&str]; 5] = [
            &["d key 4/0"],
            &["a key 0/0", "b k2 0/1", "c key 0/2"],
            &[],
            &["- key 2/0"],
            &["UPPER key 3/0"],
        ];
        assert_eq!(made(&answers, 5), expected, "{name}");
        assert_eq!(answers.rows.len(), 6);
    }
}

/// A row of a row, with headers and a time.
fn rich() -> Batch {
    let mut builder = BatchBuilder::new(std::sync::Arc::from(vec![std::sync::Arc::from("in")]));
    for row in ["", "2"] {
        builder.header(b"h", Some(b"1"));
        builder.header(b"none", None);
        builder
            .push(RecordRef {
                topic: 0,
                partition: 7,
                offset: RecordOffset(40),
                timestamp_ms: Some(1_700_000_000_000),
                key: Some(b"k"),
                payload: Some(b"rows:a,own=b"),
                row,
            })
            .unwrap();
    }
    builder.finish()
}

#[test]
fn rows_keep_where_their_record_came_from_and_columns_left_out_are_the_records() {
    let batch = rich();
    let cases = [("probe-roles", false), ("probe-column-expand", false), ("probe-column-expand", true)];
    for (name, inherit) in cases {
        let answers = expander(name, json!({ "inherit": inherit })).call(&batch, &[1, 0]);
        let second = if inherit { "b k" } else { "b own" };
        let expected = [
            vec!["a k 40/2.0".to_owned(), format!("{second} 40/2.1")],
            vec!["a k 40/0".to_owned(), format!("{second} 40/1")],
        ];
        assert_eq!(made(&answers, 2), expected, "{name} {inherit}");
        for row in 0..4 {
            let headers: Vec<_> = answers.rows.headers(row).collect();
            assert_eq!(headers, [(&b"h"[..], Some(&b"1"[..])), (b"none", None)], "{name} {inherit}");
            let source = answers.rows.source(row);
            assert_eq!((&**source.topic, source.partition), ("in", 7));
            assert_eq!(source.timestamp_ms, Some(1_700_000_000_000));
        }
    }
}

#[test]
fn what_was_made_can_go_through_another_plugin() {
    let batch = payloads(["rows:rows:x,upper"]);
    for name in EXPANDERS {
        let mut node = expander(name, Value::Null);
        let first = node.call(&batch, &[0]).rows;
        let second = node.call(&first, &all(&first));
        assert_eq!(made(&second, 2), [vec!["x key 0/0.0"], vec!["UPPER key 0/1.0"]], "{name}");
        // Its own commands are payloads now; what the plugin sees of a row names it.
        let seen = expander(name, json!({"command": "message"})).call(&second.rows, &[1]);
        let message: Value = serde_json::from_slice(seen.rows.payload(0).unwrap()).unwrap();
        assert_eq!((&message["row"], &message["offset"]), (&json!("1.0"), &json!(0)), "{name}");
        assert_eq!(seen.rows.name(0), "1.0.0");
    }
}

#[test]
fn failures_are_booked_on_their_records_and_a_poison_one_is_found() {
    for (poison, cause, words) in [
        ("reject:bad order", Cause::Reject, "bad order"),
        ("retry:busy", Cause::Retry, "busy"),
        ("fail:broken", Cause::Fail, "broken"),
        ("trap", Cause::Trap, "trapped"),
        ("invalid-utf8", Cause::Trap, "utf-8"),
        ("loop", Cause::Timeout, "ran longer"),
        ("huge-output:20000000", Cause::Trap, "more than its output limit of 16 MiB (limits.output)"),
    ] {
        for name in EXPANDERS {
            let spec = spec(name, Value::Null);
            let spec = if cause == Cause::Timeout { quick(spec) } else { spec };
            let limits = Limits { output: 16 << 20, memory: 256 << 20, ..spec.limits.clone() };
            let mut expander = ExpandNode::new(&load(&PluginSpec { limits, ..spec }), node()).unwrap();
            let batch = payloads(["rows:a,b", poison, "rows:c"]);
            let answers = expander.call(&batch, &[0, 1, 2]);
            let [failure] = &answers.failures[..] else {
                panic!("{name}, {poison}: one failed, not {:?}", answers.failures)
            };
            assert_eq!((failure.position, failure.cause), (1, cause), "{name}, {poison}: {}", failure.reason);
            assert!(failure.reason.contains(words), "{name}, {poison}: {}", failure.reason);
            let expected: [&[&str]; 3] = [&["a key 0/0", "b key 0/1"], &[], &["c key 2/0"]];
            assert_eq!(made(&answers, 3), expected, "{name}, {poison}");
        }
    }
}

#[test]
fn a_plugin_that_may_not_run_rows_again_fails_all_of_a_call_that_trapped() {
    let batch = payloads(["rows:a", "trap", "rows:c"]);
    let answers = expander("probe-column-expand", Value::Null).failing_batches().call(&batch, &[0, 1, 2]);
    assert_eq!(answers.failures.iter().map(|failure| failure.cause).collect::<Vec<_>>(), [Cause::Trap; 3]);
    assert_eq!((answers.answered, answers.rows.len()), (3, 0));
}

#[test]
fn a_failed_call_fails_each_of_its_records() {
    let batch = payloads(["rows:a", "rows:b"]);
    let answers = expander("probe-column-expand", json!({"fail_call": "down"})).call(&batch, &[1, 0]);
    let failure = |position| RowFailure { position, cause: Cause::Fail, reason: "down".to_owned() };
    assert_eq!(answers.failures, [failure(0), failure(1)]);
}

#[test]
fn columns_that_break_the_contract_are_the_records_failures() {
    let batch = payloads(["rows:a,b", "rows:c"]);
    for (how, words) in [
        ("short", "payload column is invalid"),
        ("offsets", "payload column is invalid"),
        ("origin", "is made from row 1, and there are 1 rows"),
        ("origins", "payload column is invalid"),
        ("failure-row", "names a failure of row 1, and there are 1 rows"),
    ] {
        let answers = expander("probe-column-expand", json!({"bad_columns": how})).call(&batch, &[0, 1]);
        assert_eq!((answers.failures.len(), answers.rows.len()), (2, 0), "{how}");
        for failure in &answers.failures {
            assert_eq!(failure.cause, Cause::Protocol, "{how}");
            assert!(failure.reason.contains(words), "{how}: {}", failure.reason);
        }
    }
}

#[test]
fn rows_leave_in_the_order_of_their_records_however_they_come() {
    let batch = payloads((0..1200).map(|row| format!("rows:{row}")));
    let answers = expander("probe-column-expand", json!({"backwards": true})).call(&batch, &all(&batch));
    let payloads: Vec<_> = (0..1200).map(|row| answers.rows.payload(row).unwrap().to_vec()).collect();
    assert!(payloads.iter().enumerate().all(|(row, text)| *text == row.to_string().into_bytes()));
    assert!((0..1200).all(|row| answers.made_from(row) == (row..row + 1)));
}

#[test]
fn the_column_form_is_used_where_both_are_there() {
    let batch = payloads(["a", "b"]);
    let answers = expander("both-forms", Value::Null).call(&batch, &[0, 1]);
    assert_eq!(made(&answers, 2), [["column key 0/0"], ["column key 1/0"]]);
}

#[test]
fn a_run_of_calls_ends_early_where_it_is_told_to() {
    let batch = payloads((0..600).map(|row| if row < 20 { "rows:a" } else { "trap" }));
    for (name, interrupted) in [("probe-roles", 1), ("probe-column-expand", 20)] {
        let answers = expander(name, Value::Null).call_until(&batch, &all(&batch), 100);
        assert_eq!((answers.answered, answers.failures.len()), (120, 100), "{name}");
        assert_eq!((answers.rows.len(), answers.made_from(599)), (20, 20..20), "{name}");
        let mut node = expander(name, Value::Null).interrupted_by(Interrupt::new(|| true));
        let answers = node.call(&batch, &all(&batch)[..20]);
        assert_eq!((answers.answered, answers.rows.len()), (interrupted, interrupted as usize), "{name}");
    }
}

#[test]
fn a_million_rows_of_one_record_take_limits_that_say_so() {
    let batch = payloads(["many:1000000:10", "rows:after"]);
    for name in EXPANDERS {
        let spec = spec(name, Value::Null);
        let limits = Limits {
            memory: 1 << 30,
            output: 512 << 20,
            timeout: Duration::from_secs(120),
            ..spec.limits.clone()
        };
        let plugin = load(&PluginSpec { limits, ..spec });
        let answers = ExpandNode::new(&plugin, node()).unwrap().call(&batch, &[0, 1]);
        assert!(answers.failures.is_empty(), "{name}: {:?}", answers.failures);
        assert_eq!((answers.made_from(0), answers.made_from(1)), (0..1_000_000, 1_000_000..1_000_001));
        assert_eq!(told(&answers.rows, 999_999), "xxxxxxxxxx key 0/999999", "{name}");
        assert_eq!(told(&answers.rows, 1_000_000), "after key 1/0", "{name}");
    }
}

#[test]
fn a_million_rows_are_a_failure_that_names_the_limit_where_limits_are_as_always() {
    // As columns the rows of ten bytes are within the limit, and these are not.
    for (name, many) in [("probe-roles", "many:1000000:10"), ("probe-column-expand", "many:1000000:90")] {
        let batch = payloads(["rows:before", many, "rows:after"]);
        let spec = spec(name, Value::Null);
        let limits = Limits { memory: 1 << 30, timeout: Duration::from_secs(120), ..Limits::default() };
        let plugin = load(&PluginSpec { limits, ..spec });
        let answers = ExpandNode::new(&plugin, node()).unwrap().call(&batch, &[0, 1, 2]);
        let [failure] = &answers.failures[..] else { panic!("{name}: {:?}", answers.failures) };
        assert_eq!((failure.position, failure.cause), (1, Cause::Trap), "{name}");
        let words = "handed over more than its output limit of 64 MiB (limits.output)";
        assert!(failure.reason.contains(words), "{name}: {}", failure.reason);
        let expected: [&[&str]; 3] = [&["before key 0/0"], &[], &["after key 2/0"]];
        assert_eq!(made(&answers, 3), expected, "{name}");
    }
}

fn typed(config: Value) -> Result<TypedExpandNode, StartError> {
    TypedExpandNode::new(&load(&spec("probe-roles", config)), node())
}

#[test]
fn typed_rows_come_by_type_and_then_in_the_plugins_order() {
    let batch = payloads(["rows:c/1,a/2,b/3,a/4", "rows:", "rows:b/5"]);
    let mut expander = typed(Value::Null).unwrap();
    let types: Vec<&str> = expander.types().iter().map(|name| &**name).collect();
    assert_eq!(types, ["a", "b", "c"]);
    let answers = expander.call(&batch, &[0, 1, 2]);
    assert!(answers.made.failures.is_empty(), "{:?}", answers.made.failures);
    let expected: [&[&str]; 3] = [&["2 key 0/0", "4 key 0/1", "3 key 0/2", "1 key 0/3"], &[], &["5 key 2/0"]];
    assert_eq!(made(&answers.made, 3), expected);
    assert_eq!(answers.types, [0, 0, 1, 2, 1]);
}

#[test]
fn a_type_that_was_not_named_is_the_plugins_fault_and_its_neighbours_go_on() {
    let batch = payloads(["rows:b/1", "rows:a/2,z/3", "trap", "reject:no", "rows:c/4"]);
    let answers = typed(Value::Null).unwrap().call(&batch, &all(&batch));
    let causes: Vec<_> =
        answers.made.failures.iter().map(|failure| (failure.position, failure.cause)).collect();
    assert_eq!(causes, [(1, Cause::Protocol), (2, Cause::Trap), (3, Cause::Reject)]);
    let reason = &answers.made.failures[0].reason;
    assert_eq!(reason, "its row 1 is of the type \"z\", and its types are a, b, c");
    let expected: [&[&str]; 5] = [&["1 key 0/0"], &[], &[], &[], &["4 key 4/0"]];
    assert_eq!(made(&answers.made, 5), expected);
    assert_eq!(answers.types, [1, 2]);
}

#[test]
fn types_that_make_no_sense_refuse_the_plugin() {
    for (types, words) in [
        (json!([]), "plugin p failed in types: it named no type"),
        (json!(["a", "b", "a"]), "it named a type twice"),
        (json!(["a", ""]), "it named a type without a name"),
    ] {
        let error = typed(json!({ "types": types })).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_step_is_no_expander() {
    let plugin = load(&spec("nop-step", Value::Null));
    let error = ExpandNode::new(&plugin, node()).unwrap_err();
    assert!(matches!(&error, StartError::RoleMissing { role: "expander", .. }), "{error}");
    assert!(error.to_string().contains("is no expander: it exports step"), "{error}");
    let error = TypedExpandNode::new(&plugin, node()).unwrap_err();
    assert!(matches!(&error, StartError::RoleMissing { role: "typed expander", .. }), "{error}");
}
