//! A plugin's words in the host's log.

use loom_plugin::{BatchStepNode, Cause, Limits, PluginSpec, SinkInstance, StepNode};
use serde_json::{Value, json};

use crate::common::{STEPS, all, load, logged, node, payloads, plugin_messages, spec};

fn lines_of(commands: &[String], limits: Limits) -> Vec<Value> {
    let plugin = load(&PluginSpec { limits, ..spec("probe-step", Value::Null) });
    let batch = payloads(commands);
    let ((), events) = logged(|| {
        let answers = StepNode::new(&plugin, node()).unwrap().call(&batch, &all(&batch));
        assert!(answers.failures.is_empty(), "{:?}", answers.failures);
    });
    events.into_iter().filter(|event| event["target"] == "plugin").collect()
}

#[test]
fn lines_carry_flow_node_plugin_and_worker() {
    let commands = ["log:through log", "print:to stdout", "eprint:to stderr"].map(str::to_owned);
    for name in STEPS {
        let plugin = load(&spec(name, Value::Null));
        let batch = payloads(&commands);
        let (_, events) = logged(|| StepNode::new(&plugin, node()).unwrap().call(&batch, &all(&batch)));
        assert_eq!(plugin_messages(&events), ["through log", "to stdout", "to stderr"], "{name}");
        for (event, level) in
            events.iter().filter(|event| event["target"] == "plugin").zip(["INFO", "INFO", "WARN"])
        {
            let fields =
                [&event["flow"], &event["node"], &event["plugin"], &event["worker"], &event["level"]];
            assert_eq!(
                fields,
                [&json!("orders"), &json!("process[0]"), &json!("p"), &json!(3), &json!(level)]
            );
        }
    }
}

#[test]
fn long_lines_are_cut_whichever_way_they_come() {
    let long = "é".repeat(20_000);
    for verb in ["log", "print"] {
        let events = lines_of(&[format!("{verb}:{long}"), format!("{verb}:after")], Limits::default());
        let messages: Vec<_> = events.iter().map(|event| event["message"].as_str().unwrap()).collect();
        assert_eq!(messages.len(), 2, "{verb}");
        assert!(messages[0].len() <= (16 << 10) + 64, "{verb}: {}", messages[0].len());
        assert!(messages[0].starts_with("éé") && messages[0].ends_with("bytes cut off)"), "{verb}");
        assert_eq!(messages[1], "after", "{verb}");
    }
}

#[test]
fn a_flood_is_bounded_and_what_was_left_out_is_counted() {
    let events = lines_of(&["log-flood:5000".to_owned()], Limits { log: 64 << 10, ..Limits::default() });
    let (told, lines): (Vec<_>, Vec<_>) = events
        .iter()
        .map(|event| event["message"].as_str().unwrap())
        .partition(|message| message.contains("were left out (limits.log)"));
    assert!(lines.len() >= 1000 && lines.len() < 4500, "{} lines", lines.len());
    let left_out: usize =
        told.iter().map(|message| message.split(' ').next().unwrap().parse::<usize>().unwrap()).sum();
    assert_eq!(lines.len() + left_out, 5000);
}

/// Topic, partition, offset and number of records of each line that a plugin wrote.
fn places(events: &[Value]) -> Vec<[Value; 4]> {
    let lines = events.iter().filter(|event| event["target"] == "plugin" && event["level"] != "DEBUG");
    lines.map(|event| ["topic", "partition", "offset", "records"].map(|field| event[field].clone())).collect()
}

#[test]
fn lines_carry_the_record_that_is_being_processed() {
    let of = |offset: u64, records: Value| [json!("in"), json!(1), json!(offset), records];
    let batch = payloads(["log:a", "upper", "print:b", "eprint:c"]);
    let plain = load(&spec("probe-step", Value::Null));
    let (_, events) = logged(|| StepNode::new(&plain, node()).unwrap().call(&batch, &[3, 0, 1, 2]));
    assert_eq!(places(&events), [of(3, Value::Null), of(0, Value::Null), of(2, Value::Null)]);

    // Of a call on several, the first and how many there are.
    let columns = load(&spec("probe-column-step", Value::Null));
    let (_, events) = logged(|| StepNode::new(&columns, node()).unwrap().call(&batch, &[2, 3, 1]));
    assert_eq!(places(&events), [of(2, json!(3)), of(2, json!(3))]);
    let roles = load(&spec("probe-roles", Value::Null));
    let (_, events) = logged(|| BatchStepNode::new(&roles, node()).unwrap().call(&batch, &all(&batch)));
    assert_eq!(places(&events), vec![of(0, json!(4)); 3]);
}

#[test]
fn lines_that_are_about_no_record_carry_none() {
    let configured = load(&spec("probe-step", json!({ "in_configure": "log:hello" })));
    let (_, events) = logged(|| StepNode::new(&configured, node()).unwrap().call(&payloads(["log:x"]), &[0]));
    let none = [Value::Null, Value::Null, Value::Null, Value::Null];
    assert_eq!(places(&events), [none.clone(), [json!("in"), json!(1), json!(0), Value::Null]]);
    let sink = load(&spec("probe-sink", json!({ "fail_flushes": 1, "fail_with": "trap" })));
    let (_, events) = logged(|| {
        let mut sink = SinkInstance::new(&sink, node()).unwrap();
        sink.write(&payloads(["a"]), &[0], &[0]).unwrap();
        sink.flush().unwrap_err();
    });
    assert!(!places(&events).is_empty());
    assert!(places(&events).iter().all(|place| *place == none), "{events:?}");
}

#[test]
fn empty_lines_are_left_out() {
    let commands = ["log:", "print:", "print: \t", "eprint:\n\nend", "log:a\n"].map(str::to_owned);
    let events = lines_of(&commands, Limits::default());
    let messages: Vec<_> = events.iter().map(|event| event["message"].as_str().unwrap().trim()).collect();
    assert_eq!(messages, ["end", "a"]);
}

#[test]
fn what_a_call_wrote_before_it_trapped_belongs_to_its_reason() {
    let batch = payloads(["log:of another call", "trap:no such currency", "upper"]);
    for name in STEPS {
        let answers =
            StepNode::new(&load(&spec(name, Value::Null)), node()).unwrap().call(&batch, &all(&batch));
        let [failure] = &answers.failures[..] else { panic!("{name}: {:?}", answers.failures) };
        let reason = &failure.reason;
        assert_eq!((failure.position, failure.cause), (1, Cause::Trap), "{name}: {reason}");
        assert!(reason.contains("`unreachable` instruction executed; it wrote last: "), "{name}: {reason}");
        assert!(
            reason.contains("panicked at ") && reason.ends_with("told to trap: no such currency"),
            "{name}: {reason}"
        );
        assert!(!reason.contains("another call"), "{name}: {reason}");
    }
    let error = StepNode::new(&load(&spec("probe-step", json!({ "in_configure": "trap:no table" }))), node())
        .unwrap_err();
    assert!(error.to_string().contains("told to trap: no table"), "{error}");
    let mut sink = SinkInstance::new(&load(&spec("probe-sink", Value::Null)), node()).unwrap();
    let failure = sink.write(&payloads(["trap:full"]), &[0], &[0]).unwrap_err();
    assert!(failure.reason.contains("told to trap: full"), "{}", failure.reason);
}
