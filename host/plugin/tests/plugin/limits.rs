//! Guests that misbehave. Host and neighbours live on, and the failure names the limit.

use std::time::{Duration, Instant};

use loom_plugin::{
    Cause, DirGrant, DirMode, Grants, Limits, NodeContext, PluginSpec, SinkInstance, StartError, StepNode,
};
use serde_json::{Value, json};

use crate::common::{STEPS, all, load, logged, node, payloads, quick, spec, step, texts};

#[test]
fn a_poison_row_is_found_and_its_neighbours_get_their_answers() {
    for (poison, cause, told) in [
        ("trap", Cause::Trap, "trapped"),
        ("loop", Cause::Timeout, "ran longer than its limit of 30"),
        ("sleep", Cause::Timeout, "ran longer than its limit of 30"),
        ("recurse", Cause::Trap, "endless recursion can look like this"),
        ("alloc", Cause::Trap, "reached its memory limit of 32 MiB"),
        ("huge-output:20000000", Cause::Trap, "handed over more than its output limit of 16 MiB"),
        ("invalid-utf8", Cause::Trap, "utf-8"),
    ] {
        for name in STEPS {
            let spec = spec(name, Value::Null);
            let spec = if cause == Cause::Timeout { quick(spec) } else { spec };
            let limits = Limits { output: 16 << 20, memory: 32 << 20, ..spec.limits.clone() };
            // An output above its limit needs room in the guest first.
            let limits =
                if poison.starts_with("huge") { Limits { memory: 256 << 20, ..limits } } else { limits };
            let mut step = StepNode::new(&load(&PluginSpec { limits, ..spec }), node()).unwrap();
            let batch =
                payloads((0..50).map(|row| if row == 30 { poison.to_owned() } else { format!("set:{row}") }));
            for _ in 0..2 {
                let answers = step.call(&batch, &all(&batch));
                assert_eq!(answers.answered, 50);
                let [failure] = &answers.failures[..] else {
                    panic!("{name}, {poison}: one row failed, not {:?}", answers.failures)
                };
                assert_eq!(
                    (failure.position, failure.cause),
                    (30, cause),
                    "{name}, {poison}: {}",
                    failure.reason
                );
                assert!(failure.reason.contains(told), "{name}, {poison}: {}", failure.reason);
                for (row, text) in texts(&batch, &all(&batch), answers.changes).into_iter().enumerate() {
                    if row != 30 {
                        assert_eq!(text.unwrap(), row.to_string(), "{name}, {poison}");
                    }
                }
            }
        }
    }
}

#[test]
fn an_hours_sleep_holds_the_worker_no_longer_than_its_time_out() {
    let batch = payloads(["sleep"]);
    for name in STEPS {
        let mut step = StepNode::new(&load(&quick(spec(name, Value::Null))), node()).unwrap();
        let start = Instant::now();
        let answers = step.call(&batch, &[0]);
        assert_eq!(answers.failures[0].cause, Cause::Timeout, "{name}");
        assert!(start.elapsed() < Duration::from_secs(10), "{name}: {:?}", start.elapsed());
        let answers = step.call(&payloads(["sleep:1"]), &[0]);
        assert!(answers.failures.is_empty(), "{name}: a short sleep is no fault: {:?}", answers.failures);
    }
}

#[test]
fn a_nodes_own_time_out_goes_before_the_plugins() {
    let plugin = load(&quick(spec("probe-step", Value::Null)));
    let context = NodeContext { timeout: Some(Duration::from_secs(20)), ..node() };
    let answers = StepNode::new(&plugin, context).unwrap().call(&payloads(["sleep:400"]), &[0]);
    assert!(answers.failures.is_empty(), "{:?}", answers.failures);
}

#[test]
fn a_trapped_instance_is_never_used_again() {
    for name in STEPS {
        let mut step = step(name, Value::Null);
        let count = |step: &mut StepNode| {
            let batch = payloads(["calls"]);
            let answers = step.call(&batch, &[0]);
            texts(&batch, &[0], answers.changes).remove(0).unwrap()
        };
        assert_eq!(count(&mut step), "1", "{name}");
        assert_eq!(count(&mut step), "2", "{name}");
        step.call(&payloads(["trap"]), &[0]);
        assert_eq!(count(&mut step), "1", "{name}: a fresh one");
    }
}

#[test]
fn a_call_ends_early_when_its_allowance_of_traps_is_used_up() {
    let batch = payloads((0..300).map(|row| if row < 20 { "ok" } else { "trap" }));
    for name in STEPS {
        let answers = step(name, Value::Null).call_until(&batch, &all(&batch), 100);
        assert_eq!(answers.answered, 120, "{name}");
        assert_eq!(answers.failures.len(), 100, "{name}");
        let answers = step(name, Value::Null).call(&batch, &all(&batch));
        assert_eq!((answers.answered, answers.failures.len()), (300, 280), "{name}");
    }
}

#[test]
fn misbehaviour_in_configure_refuses_the_plugin() {
    for (command, told) in [
        ("loop", "ran longer in configure than its limit of 200ms (limits.lifecycle)"),
        ("sleep", "ran longer in configure than its limit of 200ms (limits.lifecycle)"),
        ("recurse", "failed in configure: it trapped: out of bounds memory access (endless recursion"),
        ("alloc", "failed in configure: it reached its memory limit of 32 MiB"),
        ("trap", "failed in configure: it trapped"),
    ] {
        for name in STEPS {
            let spec = spec(name, json!({"in_configure": command}));
            let limits = Limits { lifecycle: Duration::from_millis(200), ..spec.limits.clone() };
            let error = StepNode::new(&load(&PluginSpec { limits, ..spec }), node()).unwrap_err();
            assert!(error.to_string().contains(told), "{name}, {command}: {error}");
        }
    }
}

#[test]
fn a_refused_configuration_is_told_in_the_plugins_words() {
    for name in STEPS {
        let error =
            StepNode::new(&load(&spec(name, json!({"refuse": "no such currency"}))), node()).unwrap_err();
        assert!(matches!(error, StartError::Refused { .. }), "{name}: {error}");
        assert!(error.to_string().contains("no such currency"), "{name}: {error}");
    }
    let error =
        SinkInstance::new(&load(&spec("probe-sink", json!({"refuse": "no table"}))), node()).unwrap_err();
    assert!(matches!(error, StartError::Refused { .. }), "{error}");
}

#[test]
fn a_memory_limit_below_what_the_plugin_starts_with_is_told() {
    let spec = spec("probe-step", Value::Null);
    let limits = Limits { memory: 64 << 10, ..spec.limits.clone() };
    let error = StepNode::new(&load(&PluginSpec { limits, ..spec }), node()).unwrap_err();
    for part in ["memory limit of 64 KiB", "`limits.memory`"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn what_one_node_suffers_another_does_not_feel() {
    let plugin = load(&spec("probe-step", Value::Null));
    let mut quiet = StepNode::new(&plugin, node()).unwrap();
    let batch = payloads(["calls"]);
    std::thread::scope(|scope| {
        let noisy = scope.spawn(|| {
            let mut noisy = StepNode::new(&load(&quick(spec("probe-step", Value::Null))), node()).unwrap();
            let batch = payloads(["loop", "sleep", "alloc", "recurse", "trap"]);
            noisy.call(&batch, &all(&batch)).failures.len()
        });
        let mut calls = 0;
        while !noisy.is_finished() || calls == 0 {
            calls += 1;
            let answers = quiet.call(&batch, &[0]);
            assert!(answers.failures.is_empty(), "{:?}", answers.failures);
            assert_eq!(texts(&batch, &[0], answers.changes), [Some(calls.to_string())]);
        }
        assert_eq!(noisy.join().unwrap(), 5);
    });
}

#[test]
fn an_instance_that_leaks_memory_is_replaced_before_it_costs_a_record() {
    // 64 KiB a record: the limit is passed within a few hundred.
    let batch = payloads(vec!["leak:65536"; 500]);
    for name in STEPS {
        let spec = spec(name, Value::Null);
        let limits = Limits { memory: 16 << 20, ..spec.limits.clone() };
        let mut step = StepNode::new(&load(&PluginSpec { limits, ..spec }), node()).unwrap();
        for _ in 0..8 {
            let answers = step.call(&batch, &all(&batch));
            assert!(answers.failures.is_empty(), "{name}: {:?}", answers.failures.first());
        }
    }
}

#[test]
fn an_instance_that_grows_slowly_is_replaced_before_it_reaches_its_limit() {
    // 12 MiB in all, of 16: past half of the limit, and past twice what it had after its first 1,000 calls.
    let batch = payloads(vec!["leak:1024"; 512]);
    let count = payloads(["calls"]);
    let spec = spec("probe-step", Value::Null);
    let limits = Limits { memory: 16 << 20, ..spec.limits.clone() };
    let mut step = StepNode::new(&load(&PluginSpec { limits, ..spec }), node()).unwrap();
    let (calls, events) = logged(|| {
        for _ in 0..24 {
            assert!(step.call(&batch, &all(&batch)).failures.is_empty());
        }
        let answers = step.call(&count, &[0]);
        texts(&count, &[0], answers.changes).remove(0).unwrap().parse::<u32>().unwrap()
    });
    assert!(calls < 24 * 512, "{calls}: the first instance is still there");
    let trapped =
        |event: &Value| event["message"].as_str().is_some_and(|text| text.contains("a guest call ended"));
    assert!(!events.iter().any(trapped), "no call ran into the limit");
}

#[test]
fn an_instance_that_leaks_handles_is_replaced_and_costs_no_record() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("f"), b"x").unwrap();
    let grant = DirGrant { host: dir.path().to_owned(), guest: "/d".to_owned(), mode: DirMode::ReadOnly };
    let batch = payloads(vec!["keep-open:/d/f"; 500]);
    for name in STEPS {
        let spec = spec(name, Value::Null);
        let grants = Grants { dirs: vec![grant.clone()], ..Grants::default() };
        let mut step = StepNode::new(&load(&PluginSpec { grants, ..spec }), node()).unwrap();
        for _ in 0..40 {
            let answers = step.call(&batch, &all(&batch));
            assert!(answers.failures.is_empty(), "{name}: {:?}", answers.failures.first());
        }
    }
}
