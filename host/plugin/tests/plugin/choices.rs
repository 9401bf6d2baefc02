//! What selectors and partitioners answer.

use loom_plugin::{Cause, ChoiceAnswers, PartitionerNode, RowFailure, SelectorNode, StartError};
use serde_json::Value;

use crate::common::{all, load, node, payloads, quick, spec};

fn chosen(answers: &ChoiceAnswers) -> Vec<Option<&[u8]>> {
    (0..answers.chosen.len()).map(|position| answers.chosen.get(position)).collect()
}

#[test]
fn labels_and_keys_come_by_position_and_may_be_none() {
    let plugin = load(&spec("probe-roles", Value::Null));
    let batch = payloads(["label:vip", "none", "reject:odd", "label:"]);
    let odd = RowFailure { position: 1, cause: Cause::Reject, reason: "odd".to_owned() };

    let answers = SelectorNode::new(&plugin, node()).unwrap().call(&batch, &[3, 2, 1, 0]);
    let labels: Vec<_> = (0..4).map(|position| answers.label(position)).collect();
    assert_eq!(labels, [Some(""), None, None, Some("vip")]);
    assert_eq!((answers.answered, &answers.failures), (4, &vec![odd.clone()]));

    let batch = payloads(["key:eu", "none", "reject:odd", "key:"]);
    let answers = PartitionerNode::new(&plugin, node()).unwrap().call(&batch, &[3, 2, 1, 0]);
    assert_eq!(chosen(&answers), [Some(&b""[..]), None, None, Some(b"eu")]);
    assert_eq!((answers.answered, &answers.failures), (4, &vec![odd]));
}

#[test]
fn a_poison_record_is_found_among_its_neighbours() {
    let plugin = load(&quick(spec("probe-roles", Value::Null)));
    let batch = payloads(["label:a", "trap", "invalid-utf8", "loop", "label:b"]);
    let answers = SelectorNode::new(&plugin, node()).unwrap().call(&batch, &all(&batch));
    let causes: Vec<_> = answers.failures.iter().map(|failure| (failure.position, failure.cause)).collect();
    assert_eq!(causes, [(1, Cause::Trap), (2, Cause::Trap), (3, Cause::Timeout)]);
    assert_eq!((answers.label(0), answers.label(1), answers.label(4)), (Some("a"), None, Some("b")));
}

#[test]
fn a_run_that_ends_early_has_no_answer_for_the_rest() {
    let plugin = load(&spec("probe-roles", Value::Null));
    let batch = payloads(["label:a", "trap", "trap", "label:b"]);
    let answers = SelectorNode::new(&plugin, node()).unwrap().call_until(&batch, &all(&batch), 2);
    assert_eq!((answers.answered, answers.failures.len()), (3, 2));
    assert_eq!(chosen(&answers), [Some(&b"a"[..]), None, None, None]);
}

#[test]
fn a_step_chooses_nothing() {
    let plugin = load(&spec("nop-step", Value::Null));
    let error = SelectorNode::new(&plugin, node()).unwrap_err();
    assert!(matches!(&error, StartError::RoleMissing { role: "selector", .. }), "{error}");
    let error = PartitionerNode::new(&plugin, node()).unwrap_err();
    assert!(matches!(&error, StartError::RoleMissing { role: "partitioner", .. }), "{error}");
}
