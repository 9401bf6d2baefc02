//! Sinks: raw calls, and the verdicts that come of them.

use std::time::Duration;

use loom_plugin::{
    Cause, DirGrant, DirMode, Grants, Interrupt, Limits, PluginSpec, SinkInstance, StartError, Verdict,
};
use loom_types::Batch;
use serde_json::{Value, json};

use crate::common::{load, node, payloads, spec};

fn sink(config: Value) -> SinkInstance {
    SinkInstance::new(&load(&spec("probe-sink", config)), node()).unwrap_or_else(|error| panic!("{error}"))
}

fn verdicts(sink: &mut SinkInstance) -> Vec<(u32, Verdict)> {
    let mut out = Vec::new();
    sink.verdicts(&mut out);
    out
}

fn three() -> Batch {
    payloads(["a", "b", "c"])
}

const DONE: Verdict = Verdict::Complete;

#[test]
fn tokens_come_back_when_the_sink_completes_them() {
    let mut sink = sink(Value::Null);
    assert!(sink.is_tracked());
    sink.write(&three(), &[0, 1], &[10, 11]).unwrap();
    assert_eq!(verdicts(&mut sink), []);
    sink.write(&three(), &[2], &[7]).unwrap();
    sink.flush().unwrap();
    assert_eq!(verdicts(&mut sink), [(10, DONE), (11, DONE), (7, DONE)]);
    assert_eq!(verdicts(&mut sink), [], "taken once");
    sink.close().unwrap();
    assert!(sink.is_usable() && !sink.wants_recycling());
}

#[test]
fn duplicates_and_foreign_handles_are_passed_on() {
    let mut twice = sink(json!({"complete": "twice"}));
    twice.write(&three(), &[0], &[5]).unwrap();
    twice.flush().unwrap();
    assert_eq!(verdicts(&mut twice), [(5, DONE), (5, DONE)]);
    let mut foreign = sink(json!({"complete": "foreign"}));
    foreign.write(&three(), &[0], &[5]).unwrap();
    foreign.flush().unwrap();
    assert_eq!(verdicts(&mut foreign), [(0xdead_beef, DONE), (5, DONE)]);
}

#[test]
fn a_verdict_can_be_a_failure_of_one_row() {
    let mut sink = sink(json!({"complete": "write"}));
    sink.write(&payloads(["a", "verdict:no such table", "c"]), &[0, 1, 2], &[1, 2, 3]).unwrap();
    let failed = Verdict::Fail(Cause::Reject, "no such table".to_owned());
    assert_eq!(verdicts(&mut sink), [(2, failed), (1, DONE), (3, DONE)]);
}

#[test]
fn calls_that_fail_tell_how() {
    let batch = payloads(["reject:bad", "retry:busy", "fail:broken"]);
    let mut sink = sink(Value::Null);
    for (row, cause, reason) in
        [(0, Cause::Reject, "bad"), (1, Cause::Retry, "busy"), (2, Cause::Fail, "broken")]
    {
        let failure = sink.write(&batch, &[row], &[row]).unwrap_err();
        assert_eq!((failure.cause, &*failure.reason), (cause, reason));
        assert!(sink.is_usable());
    }
    let mut sink = self::sink(json!({"fail_flushes": 1, "fail_with": "retry", "close_error": "disk full"}));
    assert_eq!(sink.flush().unwrap_err().cause, Cause::Retry);
    sink.flush().unwrap();
    let failure = sink.close().unwrap_err();
    assert_eq!((failure.cause, &*failure.reason), (Cause::Fail, "disk full"));
}

#[test]
fn after_a_trap_the_instance_is_not_usable_and_verdicts_before_it_count() {
    let mut sink = sink(json!({"complete": "write"}));
    sink.write(&three(), &[0], &[1]).unwrap();
    let failure = sink.write(&payloads(["trap"]), &[0], &[2]).unwrap_err();
    assert_eq!(failure.cause, Cause::Trap, "{failure}");
    assert!(!sink.is_usable());
    assert_eq!(verdicts(&mut sink), [(1, DONE)]);
}

#[test]
fn a_call_on_an_instance_that_trapped_is_a_failure_and_no_panic() {
    let mut sink = sink(json!({"fail_flushes": 1, "fail_with": "trap"}));
    assert_eq!(sink.flush().unwrap_err().cause, Cause::Trap);
    assert!(!sink.is_usable());
    assert_eq!(sink.flush().unwrap_err().cause, Cause::Trap);
}

#[test]
fn what_is_durable_is_in_the_granted_folder() {
    let dir = tempfile::tempdir().unwrap();
    let grant = DirGrant { host: dir.path().to_owned(), guest: "/out".to_owned(), mode: DirMode::ReadWrite };
    let spec = spec("probe-sink", json!({"folder": "/out"}));
    let spec = PluginSpec { grants: Grants { dirs: vec![grant], ..Grants::default() }, ..spec };
    let mut sink = SinkInstance::new(&load(&spec), node()).unwrap();
    let batch = payloads((0..2000).map(|row| format!("row {row}")));
    let rows: Vec<u32> = (0..2000).collect();
    let mut left = &rows[..];
    while !left.is_empty() {
        let (now, later) = left.split_at(sink.next_write(&batch, left));
        assert!(now.len() <= 512);
        sink.write(&batch, now, now).unwrap();
        left = later;
    }
    sink.flush().unwrap();
    let done: Vec<u32> = verdicts(&mut sink).into_iter().map(|(handle, _)| handle).collect();
    assert_eq!(done, rows);
    let text = std::fs::read_to_string(dir.path().join("3.jsonl")).unwrap();
    assert_eq!(text.lines().count(), 2000);
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&last["payload"], &last["offset"], &last["key"]),
        (&json!("row 1999"), &json!(1999), &json!("key"))
    );
}

#[test]
fn a_sink_without_the_tracker_runs_and_gives_no_verdict() {
    let mut sink = SinkInstance::new(&load(&spec("untracked-sink", Value::Null)), node()).unwrap();
    assert!(!sink.is_tracked());
    sink.write(&three(), &[0, 1, 2], &[1, 2, 3]).unwrap();
    sink.flush().unwrap();
    assert_eq!(verdicts(&mut sink), []);
    assert!(!sink.tracker_dropped());
}

#[test]
fn a_step_is_no_sink() {
    let error = SinkInstance::new(&load(&spec("nop-step", Value::Null)), node()).unwrap_err();
    assert!(matches!(error, StartError::RoleMissing { role: "sink", .. }), "{error}");
}

#[test]
fn a_call_under_way_is_ended_by_the_interrupt_and_one_that_is_quick_is_not() {
    let limits = Limits { timeout: Duration::from_secs(3600), memory: 2 << 30, ..Limits::default() };
    let spec = PluginSpec { limits, ..spec("probe-sink", json!({"complete": "write"})) };
    let stopped = Interrupt::new(|| true);
    let mut sink = SinkInstance::interrupted_by(&load(&spec), node(), &stopped).unwrap();
    sink.write(&three(), &[0, 1, 2], &[1, 2, 3]).unwrap();
    assert_eq!(verdicts(&mut sink), [(1, DONE), (2, DONE), (3, DONE)]);
    // More than any machine writes in the moment that a call has in any case.
    let many = payloads(vec!["a"; 300_000]);
    let rows = crate::common::all(&many);
    let failure = sink.write(&many, &rows, &rows).unwrap_err();
    assert_eq!((failure.cause, sink.is_usable()), (Cause::Stopped, false), "{failure}");
}
