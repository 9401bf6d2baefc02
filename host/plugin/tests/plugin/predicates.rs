//! What predicates answer, in both forms.

use loom_plugin::{Cause, PredicateNode, RowFailure, StartError};
use serde_json::{Value, json};

use crate::common::{all, load, node, payloads, quick, spec};

const PREDICATES: [&str; 2] = ["probe-predicate", "probe-column-predicate"];

fn predicate(name: &str, config: Value) -> PredicateNode {
    PredicateNode::new(&load(&spec(name, config)), node()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn yes_no_and_failures_come_by_position() {
    let batch = payloads(["yes", "no", "reject:odd", "yes"]);
    for name in PREDICATES {
        let answers = predicate(name, Value::Null).call(&batch, &[3, 2, 1, 0]);
        assert_eq!(answers.yes, [true, false, false, true], "{name}");
        let odd = RowFailure { position: 1, cause: Cause::Reject, reason: "odd".to_owned() };
        assert_eq!(answers.failures, [odd], "{name}");
        assert_eq!(answers.answered, 4);
    }
}

#[test]
fn configuration_reaches_it() {
    let batch = payloads((0..1200).map(|row| format!("row {row}")));
    for name in PREDICATES {
        let answers = predicate(name, json!({"contains": "99"})).call(&batch, &all(&batch));
        let yes = answers.yes.iter().filter(|yes| **yes).count();
        assert_eq!(yes, (0..1200).filter(|row| row.to_string().contains("99")).count(), "{name}");
        assert!(answers.failures.is_empty(), "{name}");
    }
}

#[test]
fn a_poison_row_is_found_among_its_neighbours() {
    let batch = payloads(["yes", "trap", "yes", "loop", "no"]);
    for name in PREDICATES {
        let plugin = load(&quick(spec(name, Value::Null)));
        let answers = PredicateNode::new(&plugin, node()).unwrap().call(&batch, &all(&batch));
        assert_eq!(answers.yes, [true, false, true, false, false], "{name}");
        let causes: Vec<_> =
            answers.failures.iter().map(|failure| (failure.position, failure.cause)).collect();
        assert_eq!(causes, [(1, Cause::Trap), (3, Cause::Timeout)], "{name}");
    }
}

#[test]
fn a_whole_call_that_fails_fails_each_row() {
    let batch = payloads(["yes", "yes"]);
    let answers = predicate("probe-column-predicate", json!({"fail_call": "down"})).call(&batch, &[0, 1]);
    assert_eq!(answers.failures.iter().map(|failure| failure.cause).collect::<Vec<_>>(), [Cause::Fail; 2]);
}

#[test]
fn a_step_is_no_predicate() {
    let plugin = load(&spec("nop-step", Value::Null));
    let error = PredicateNode::new(&plugin, node()).unwrap_err();
    assert!(matches!(&error, StartError::RoleMissing { role: "predicate", .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("is no predicate: it exports step"), "{text}");
    assert!(text.contains("nop-step.wasm"), "{text}");
}
