//! `dev`: a flow on lines of JSON. What is printed, when it ends, and with which status.

use std::io::Read;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::running::Running;
use crate::support::{Ended, Folder, SOUND, guest};

const INPUT: &[u8] =
    b"{\"id\":1,\"total\":5}\n{\"id\":2,\"total\":12.50}\nnot JSON\n{\"id\":3,\"total\":70}\n";

fn lines(ended: &Ended) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("a JSON object")).collect()
}

/// Payloads written to a topic, in order.
fn payloads<'a>(lines: &'a [Value], topic: &str) -> Vec<&'a str> {
    lines.iter().filter(|line| line["topic"] == topic).filter_map(|line| line["payload"].as_str()).collect()
}

#[test]
fn outputs_then_offsets_and_ledger() {
    let folder = Folder::with(&[("flow.yaml", SOUND.as_bytes()), ("in.jsonl", INPUT)]);
    let ended = folder.run(&["dev", "flow.yaml", "--input", "in.jsonl"]);
    ended.expect_status(0);
    let lines = lines(&ended);
    assert_eq!(payloads(&lines, "out"), ["{\"id\":2,\"total\":12.50}", "{\"id\":3,\"total\":70}"]);
    let failed = payloads(&lines, "failed");
    assert_eq!(failed.len(), 1, "{lines:#?}");
    let envelope: Value = serde_json::from_str(failed[0]).expect("the envelope is JSON");
    assert_eq!((&envelope["kind"], &envelope["record"]["payload"]), (&json!("wire"), &json!("not JSON")));
    let last = lines.last().expect("a last line");
    assert_eq!(last["offsets"]["in"]["0"]["committed"], 4, "{last}");
    assert_eq!((&last["ledger"]["registered"], &last["ledger"]["outstanding"]), (&json!(4), &json!(0)));
    assert_eq!(last["ledger"]["balances"], true, "{last}");
    let stopped = ended.log().pop().expect("a last line of the log");
    assert_eq!((&stopped["message"], &stopped["flow"]), (&json!("stopped"), &json!("small")));
}

#[test]
fn standard_input_and_envelopes() {
    let folder = Folder::with_flow(SOUND);
    let mut command =
        folder.command(&["dev", "flow.yaml", "-i", "-", "--envelope", "--partitions", "3", "-w", "2"]);
    let input = "{\"key\":\"k\",\"headers\":[[\"a\",\"1\"],[\"a\",null]],\"timestamp_ms\":7,\"payload\":{\"total\": 11}}\n\
                 {\"partition\":2,\"payload\":\"{\\\"total\\\":12}\"}\n";
    let ended = Ended::of(&command.write_stdin(input).output().expect("the command starts"));
    ended.expect_status(0);
    let lines = lines(&ended);
    let keyed = lines.iter().find(|line| line["key"] == "k").unwrap_or_else(|| panic!("{ended:#?}"));
    assert_eq!((&keyed["headers"], &keyed["timestamp_ms"]), (&json!([["a", "1"], ["a", null]]), &json!(7)));
    assert_eq!(keyed["payload"], "{\"total\":11}");
    let offsets = &lines.last().expect("a last line")["offsets"]["in"];
    assert_eq!(offsets.as_object().map(serde_json::Map::len), Some(3), "{offsets}");
    assert_eq!(offsets["2"]["committed"].as_i64().unwrap_or_default().min(1), 1, "{offsets}");
}

#[test]
fn an_input_that_is_wrong_is_named_with_its_line() {
    let folder = Folder::with(&[
        ("flow.yaml", SOUND.as_bytes()),
        ("in.jsonl", b"{\"payload\":{\"total\":11}}\n{\"payloud\":1}\n"),
    ]);
    let gone = folder.run(&["dev", "flow.yaml", "--input", "gone.jsonl"]);
    gone.expect_status(4).expect_one_error(&["gone.jsonl", "no such file"]);
    let arguments = ["dev", "flow.yaml", "--input", "in.jsonl", "--envelope"];
    let wrong = folder.run(&arguments);
    wrong.expect_status(4);
    let message = "in.jsonl:2: no envelope: there is no field `payloud`; did you mean `payload`?";
    wrong.expect_one_error(&[message]);
    assert_eq!(payloads(&lines(&wrong), "out").len(), 1, "what came before it was run: {wrong:#?}");
    // It is told once, however many partitions and workers cannot be read any further.
    let several = ["--partitions", "3", "-w", "2"];
    let wrong = folder.run(&arguments.iter().chain(&several).copied().collect::<Vec<_>>());
    wrong.expect_status(4).expect_one_error(&[message]);
}

#[test]
fn what_is_unresolved_after_the_timeout_is_listed_with_node_and_sink() {
    let sink = guest("probe-sink");
    let plugins = format!(
        "plugins:\n  store: {{ component: {sink:?}, config: {{ fail_flushes: 1000000, fail_with: retry }} }}\nprocess:\n"
    );
    let flow = SOUND.replace("process:\n", &plugins).replace("into_topic: out", "into_sink: store");
    let folder = Folder::with(&[("flow.yaml", flow.as_bytes()), ("in.jsonl", b"{\"total\":11}\n")]);
    let ended = folder.run(&["dev", "flow.yaml", "--input", "in.jsonl", "--timeout", "300ms"]);
    ended.expect_status(4);
    let errors = ended.errors().join("\n");
    for part in ["process[1]", "store", "in/0", "0"] {
        assert!(errors.contains(part), "{part}: {ended:#?}");
    }
}

#[test]
fn security_is_not_resolved() {
    let flow = SOUND.replace(
        "delivery: at_least_once",
        "delivery: at_least_once\n    security: { protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u, sasl_password: \"${file:/no/such/secret}\" }",
    );
    let folder = Folder::with(&[("flow.yaml", flow.as_bytes()), ("in.jsonl", INPUT)]);
    folder.run(&["dev", "flow.yaml", "--input", "in.jsonl"]).expect_status(0);
    folder.run(&["run", "flow.yaml"]).expect_status(1).expect_one_error(&["${file:/no/such/secret}"]);
}

#[test]
fn no_value_the_text_null_and_nothing_at_all_stay_three_things() {
    let flow = SOUND
        .replace("topics: [in]", "topics: [in]\n    tombstones: forward")
        .replace("  - filter: payload.total > 10\n", "  - map: payload\n")
        .replace("default: [", "wire: [");
    let input = b"{\"payload\":{\"a\":1}}\n{\"payload\":null}\n{\"payload\":\"null\"}\n{\"payload\":\"\"}\n";
    let folder = Folder::with(&[("flow.yaml", flow.as_bytes()), ("in.jsonl", input)]);
    let ended = folder.run(&["dev", "flow.yaml", "--input", "in.jsonl", "--envelope"]);
    ended.expect_status(0);
    let lines = lines(&ended);
    let written: Vec<&Value> =
        lines.iter().filter(|line| line["topic"] == "out").map(|line| &line["payload"]).collect();
    assert_eq!(written, [&json!("{\"a\":1}"), &Value::Null, &json!("null")]);
    let failed = payloads(&lines, "failed");
    assert_eq!(failed.len(), 1, "{lines:#?}");
    let envelope: Value = serde_json::from_str(failed[0]).expect("the envelope is JSON");
    assert_eq!((&envelope["kind"], &envelope["record"]["offset"]), (&json!("wire"), &json!(3)));
}

#[test]
fn a_line_that_is_wrong_keeps_no_earlier_line_of_any_partition_back() {
    let mut input = Vec::new();
    for n in 0..3000 {
        input.extend_from_slice(
            format!("{{\"partition\":{},\"payload\":{{\"total\":{}}}}}\n", n % 3, 11 + n).as_bytes(),
        );
    }
    input.extend_from_slice(b"{\"payloud\":1}\n");
    let folder = Folder::with(&[("flow.yaml", SOUND.as_bytes()), ("in.jsonl", &input)]);
    let ended = folder.run(&["dev", "flow.yaml", "--input", "in.jsonl", "--envelope", "--partitions", "3"]);
    ended.expect_status(4).expect_one_error(&["in.jsonl:3001"]);
    assert_eq!(payloads(&lines(&ended), "out").len(), 3000);
}

/// A flow of a topic and a sink that keeps its rows in a folder.
fn into_both(folder: &str) -> String {
    let sink = guest("probe-sink");
    let plugins = format!(
        "plugins:\n  store: {{ component: {sink:?}, config: {{ folder: /out }}, allow: {{ dirs: [ {{ host: {folder:?}, guest: /out, mode: rw }} ] }} }}\nprocess:\n"
    );
    SOUND
        .replace("process:\n", &plugins)
        .replace("into_topic: out", "broadcast: [ [ { into_topic: out } ], [ { into_sink: store } ] ]")
}

#[test]
fn a_dry_run_prints_what_sinks_would_write() {
    let folder = Folder::with(&[("in.jsonl", INPUT)]);
    let out = folder.path().join("kept");
    std::fs::create_dir(&out).expect("a folder");
    std::fs::write(folder.path().join("flow.yaml"), into_both("kept")).expect("a flow");
    let files = || std::fs::read_dir(&out).expect("the folder").count();
    let ended = folder.run(&["dev", "flow.yaml", "--input", "in.jsonl", "--dry-run"]);
    ended.expect_status(0);
    let lines = lines(&ended);
    let sunk: Vec<&str> = lines
        .iter()
        .filter(|line| line["sink"] == "store")
        .filter_map(|line| line["payload"].as_str())
        .collect();
    assert_eq!(sunk, ["{\"id\":2,\"total\":12.50}", "{\"id\":3,\"total\":70}"]);
    assert_eq!(payloads(&lines, "out").len(), 2);
    let last = lines.last().expect("a last line");
    assert_eq!((&last["ledger"]["ended"]["sink"], files()), (&json!(2), 0), "nothing was written: {last}");
    let real = folder.run(&["dev", "flow.yaml", "--input", "in.jsonl"]);
    real.expect_status(0);
    assert_eq!(files(), 1, "without --dry-run the sink writes");
    folder.run(&["dev", "flow.yaml", "--input", "in.jsonl", "--allow-effects"]).expect_status(2);
}

#[test]
fn a_watched_flow_runs_again_when_a_file_has_changed() {
    let folder = Folder::with(&[("flow.yaml", SOUND.as_bytes()), ("in.jsonl", INPUT)]);
    let mut running = Running::start(&folder, &["dev", "flow.yaml", "--input", "in.jsonl", "--watch"]);
    running.wait_for("waiting for a change");
    std::fs::write(folder.path().join("flow.yaml"), SOUND.replace("filter", "fliter")).expect("a flow");
    running.wait_for("UNKNOWN_KEY");
    running.wait_for("waiting for a change");
    std::fs::write(
        folder.path().join("flow.yaml"),
        SOUND.replace("into_topic: out", "into_topic: elsewhere"),
    )
    .expect("a flow");
    running.wait_for("\"stopped\"");
    running.wait_for("waiting for a change");
    std::fs::write(folder.path().join("in.jsonl"), b"{\"total\":99}\n").expect("an input");
    running.wait_for("\"stopped\"");
    running.wait_for("waiting for a change");
    running.signal(Signal::INT);
    let mut output = String::new();
    running.child.stdout.take().expect("it is piped").read_to_string(&mut output).expect("text");
    assert_eq!(running.status(), Some(130));
    let topics: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let count = |topic: &str| topics.iter().filter(|line| line["topic"] == topic).count();
    assert_eq!((count("out"), count("elsewhere"), count("failed")), (2, 3, 2), "{output}");
    let piped = folder.run(&["dev", "flow.yaml", "--input", "-", "--watch"]);
    piped.expect_status(2).expect_one_error(&["--watch", "standard input"]);
}
