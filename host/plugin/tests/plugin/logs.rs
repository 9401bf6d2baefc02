//! A plugin's words in the host's log.

use loom_plugin::{Limits, PluginSpec, StepNode};
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
