//! What is about a batch: batch steps and batch expanders, which get it whole.

use loom_plugin::{BatchExpandAnswers, BatchExpandNode, BatchStepNode, Cause, RowFailure, StartError};
use serde_json::{Value, json};

use crate::common::{all, load, node, payloads, spec, texts};

fn step(config: Value) -> BatchStepNode {
    BatchStepNode::new(&load(&spec("probe-roles", config)), node()).unwrap_or_else(|error| panic!("{error}"))
}

fn expander(config: Value) -> BatchExpandNode {
    BatchExpandNode::new(&load(&spec("probe-roles", config)), node())
        .unwrap_or_else(|error| panic!("{error}"))
}

fn failure(position: u32, cause: Cause, reason: &str) -> RowFailure {
    RowFailure { position, cause, reason: reason.to_owned() }
}

#[test]
fn a_batch_step_answers_each_record_by_its_place() {
    let batch = payloads(["upper", "reject:bad", "nothing", "set:x", "clear"]);
    let answers = step(Value::Null).call(&batch, &[3, 2, 1, 0, 4]);
    assert_eq!(answers.failures, [failure(2, Cause::Reject, "bad")]);
    let after = texts(&batch, &[3, 2, 1, 0, 4], answers.changes);
    let of = |text: &str| Some(text.to_owned());
    assert_eq!([&after[..2], &after[3..]].concat(), [of("x"), of("nothing"), of("UPPER"), None]);
}

#[test]
fn a_wrong_number_of_answers_is_tried_row_by_row_before_it_is_booked() {
    let batch = payloads(["upper", "upper"]);
    for (off, given) in [(-1, 0), (2, 3)] {
        let answers = step(json!({ "answers_off": off })).call(&batch, &[0, 1]);
        let words = format!("it gave {given} answers to 1 records");
        assert_eq!(
            answers.failures,
            [failure(0, Cause::Protocol, &words), failure(1, Cause::Protocol, &words)]
        );
        assert!(answers.changes.is_empty());
    }
}

#[test]
fn a_batch_that_fails_as_a_whole_fails_each_record_with_one_reason() {
    let batch = payloads(vec!["upper"; 500]);
    for answers in [
        step(json!({"fail_call": "down"})).call(&batch, &all(&batch)).failures,
        expander(json!({"fail_call": "down"})).call(&batch, &all(&batch)).failures,
    ] {
        let expected: Vec<_> = (0..500).map(|position| failure(position, Cause::Fail, "down")).collect();
        assert_eq!(answers, expected);
    }
}

#[test]
fn a_poison_record_is_found_and_the_others_are_run_one_by_one() {
    let batch = payloads(["set:a", "trap", "set:c"]);
    let answers = step(Value::Null).call(&batch, &[0, 1, 2]);
    assert_eq!(
        answers.failures.iter().map(|f| (f.position, f.cause)).collect::<Vec<_>>(),
        [(1, Cause::Trap)]
    );
    let after = texts(&batch, &[0, 1, 2], answers.changes);
    assert_eq!((after[0].as_deref(), after[2].as_deref()), (Some("a"), Some("c")));

    let batch = payloads(["rows:a", "trap", "all:c"]);
    let answers = expander(Value::Null).call(&batch, &[0, 1, 2]);
    assert_eq!(
        answers.failures.iter().map(|f| (f.position, f.cause)).collect::<Vec<_>>(),
        [(1, Cause::Trap)]
    );
    // Run alone, a record is all of its batch.
    assert_eq!(told(&answers), ["a 0/0 [0]", "c 2/0 [2]"]);

    let answers = expander(Value::Null).failing_batches().call(&batch, &[0, 1, 2]);
    assert_eq!(answers.failures.iter().map(|failure| failure.cause).collect::<Vec<_>>(), [Cause::Trap; 3]);
    assert_eq!(answers.rows.len(), 0);
}

/// Of every row: payload, offset, name and origins.
fn told(answers: &BatchExpandAnswers) -> Vec<String> {
    let rows = &answers.rows;
    (0..rows.len() as u32)
        .map(|row| {
            let payload = String::from_utf8_lossy(rows.payload(row).unwrap_or(b"-"));
            let source = rows.source(row);
            format!("{payload} {}/{} {:?}", source.offset.0, source.row, answers.origins.of(row))
        })
        .collect()
}

#[test]
fn rows_stand_for_the_records_that_they_name() {
    let batch = payloads(["rows:a,b,c", "rows:", "rows:d,e"]);
    let answers = expander(Value::Null).call(&batch, &[0, 1, 2]);
    assert!(answers.failures.is_empty(), "{:?}", answers.failures);
    assert_eq!(answers.answered, 3);
    assert_eq!(told(&answers), ["a 0/0 [0]", "b 0/1 [0]", "c 0/2 [0]", "d 2/0 [2]", "e 2/1 [2]"]);
    assert_eq!((answers.origins.sets(), answers.origins.set_of(1), answers.origins.set_of(4)), (2, 0, 1));
}

#[test]
fn origins_may_overlap_and_the_first_one_named_gives_place_and_name() {
    let batch = payloads(["of:0+1:x", "of:2+1:y", "of:1+2+1:z", "rows:w"]);
    let answers = expander(Value::Null).call(&batch, &[3, 2, 1, 0]);
    assert!(answers.failures.is_empty(), "{:?}", answers.failures);
    // Places are in the rows of the call: 3, 2, 1, 0 of the batch.
    assert_eq!(told(&answers), ["w 3/0 [0]", "z 2/0 [1, 2]", "y 1/0 [1, 2]", "x 3/1 [0, 1]"]);
    assert_eq!(answers.rows.key(3), Some(&b"key"[..]));
    assert_eq!(answers.origins.sets(), 3, "neighbours with the same origins share a set");
}

#[test]
fn a_row_that_names_none_stands_for_its_whole_batch_however_large() {
    let batch = payloads((0..2000).map(|row| match row {
        5 => "all:sum".to_owned(),
        7 => "all:max".to_owned(),
        _ => "rows:".to_owned(),
    }));
    let answers = expander(Value::Null).call(&batch, &all(&batch));
    assert!(answers.failures.is_empty(), "{:?}", answers.failures.first());
    assert_eq!(answers.rows.len(), 2);
    assert_eq!((answers.rows.payload(0), answers.rows.payload(1)), (Some(&b"sum"[..]), Some(&b"max"[..])));
    assert_eq!((answers.rows.name(0), answers.rows.name(1)), ("0", "1"));
    assert_eq!(answers.origins.sets(), 1, "both share it");
    assert_eq!(answers.origins.of(1), all(&batch));
}

#[test]
fn an_origin_that_is_not_there_is_the_plugins_fault() {
    let batch = payloads(["rows:a", "of:0+3:x", "rows:c"]);
    let answers = expander(Value::Null).call(&batch, &[0, 1, 2]);
    let words = "its row 0 stands for record 3, and there are 1 records";
    assert_eq!(answers.failures, [failure(1, Cause::Protocol, words)]);
    assert_eq!(told(&answers), ["a 0/0 [0]", "c 2/0 [2]"]);
}

#[test]
fn an_answer_that_is_a_failure_is_every_records() {
    let batch = payloads(["rows:a", "reject:odd"]);
    let answers = expander(Value::Null).call(&batch, &[0, 1]);
    assert_eq!(answers.failures, [failure(0, Cause::Reject, "odd"), failure(1, Cause::Reject, "odd")]);
    assert_eq!(answers.rows.len(), 0);
}

#[test]
fn a_step_is_nothing_about_a_batch() {
    let plugin = load(&spec("nop-step", Value::Null));
    let error = BatchStepNode::new(&plugin, node()).unwrap_err();
    assert!(matches!(&error, StartError::RoleMissing { role: "batch step", .. }), "{error}");
    let error = BatchExpandNode::new(&plugin, node()).unwrap_err();
    assert!(matches!(&error, StartError::RoleMissing { role: "batch expander", .. }), "{error}");
}
