//! Components that trap or do not come back: the poison row is found, its neighbours go on, a broken plugin is told from
//! bad records.

use crate::harness::{broker, endings, envelopes, flow, payloads, produce, start};

fn through(component: &str, options: &str) -> String {
    format!(
        "plugins: {{ s: {{ component: '{{guests}}/{component}.wasm' }} }}
process: [ {{ step: s{options} }}, {{ into_topic: out }} ]
errors: {{ task: [ {{ into_topic: t }} ] }}
"
    )
}

#[test]
fn a_row_that_traps_fails_alone_and_its_neighbours_go_on_in_order() {
    for component in ["probe-step", "probe-column-step"] {
        let broker = broker(&["out", "t"]);
        let records: Vec<String> =
            (0..30).map(|n| if n % 10 == 7 { format!("trap:{n}") } else { n.to_string() }).collect();
        produce(&broker, &records.iter().map(|text| &**text).collect::<Vec<_>>());
        let running = start(&flow("", &through(component, "")), &broker);
        running.until_committed(30);
        let outcome = running.stop();
        let good: Vec<&String> = records.iter().filter(|text| !text.starts_with("trap")).collect();
        assert_eq!(payloads(&broker, "out").iter().collect::<Vec<_>>(), good, "{component}");
        let failed: Vec<_> =
            envelopes(&broker, "t").iter().map(|e| e["record"]["offset"].as_i64().unwrap()).collect();
        assert_eq!(failed, [7, 17, 27], "{component}");
        assert_eq!(
            endings(&outcome).into_iter().collect::<Vec<_>>(),
            [("error_route(task)", 3), ("topic", 27)]
        );
    }
}

#[test]
fn a_step_that_misbehaves_is_a_task_error_that_names_its_limit_and_the_flow_goes_on() {
    let kinds = [
        ("loop", "ran longer than its limit of 15"),
        ("sleep", "ran longer than its limit of 15"),
        ("recurse", "the stack that the plugin's build gave it is used up"),
        ("alloc", "reached its memory limit of 32 MiB"),
    ];
    for component in ["probe-step", "probe-column-step"] {
        let broker = broker(&["out", "t"]);
        produce(&broker, &["a", "loop", "b", "sleep", "c", "recurse", "d", "alloc", "e"]);
        let rest =
            through(component, ", timeout: 150ms").replace(".wasm' }", ".wasm', limits: { memory: 32MiB } }");
        let running = start(&flow("", &rest), &broker);
        running.until_committed(9);
        running.stop();
        assert_eq!(payloads(&broker, "out"), ["a", "b", "c", "d", "e"], "{component}");
        let failed = envelopes(&broker, "t");
        assert_eq!(failed.len(), kinds.len());
        for ((envelope, (payload, told)), offset) in failed.iter().zip(kinds).zip([1, 3, 5, 7]) {
            assert_eq!((&envelope["kind"], &envelope["plugin"]["name"]), (&"task".into(), &"s".into()));
            let record = &envelope["record"];
            assert_eq!(
                (&record["topic"], &record["partition"], &record["offset"], &record["payload"]),
                (&"in".into(), &0.into(), &offset.into(), &payload.into())
            );
            let reason = envelope["reason"].as_str().unwrap();
            assert!(reason.contains(told), "{component}, {payload}: {reason}");
        }
    }
}

#[test]
fn a_plugin_that_traps_on_every_row_holds_its_node_and_nothing_is_lost_or_reordered_when_it_recovers() {
    for component in ["probe-step", "probe-column-step"] {
        let broker = broker(&["out", "t"]);
        let mut records = vec!["trap"; 103];
        let good: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        records.extend(good.iter().map(|text| &**text));
        produce(&broker, &records);
        let running = start(&flow("", &through(component, "")), &broker);
        running.until_committed(303);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(payloads(&broker, "out"), good, "{component}");
        let failed: Vec<_> =
            envelopes(&broker, "t").iter().map(|e| e["record"]["offset"].as_i64().unwrap()).collect();
        assert_eq!(failed, (0..103).collect::<Vec<_>>());
    }
}

#[test]
fn a_breaker_that_opens_while_a_row_waits_for_its_next_attempt_does_not_forget_it() {
    let broker = broker(&["out", "t"]);
    let mut records = vec!["a", "retry-n:1"];
    records.extend(["trap"; 100]);
    produce(&broker, &records);
    let running = start(&flow("", &through("probe-step", "")), &broker);
    running.until_committed(102);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "retry-n:1"]);
    assert_eq!(payloads(&broker, "t").len(), 100);
}

#[test]
fn rows_that_the_breaker_held_stay_behind_one_that_waits_for_its_next_attempt() {
    let broker = broker(&["out", "t"]);
    let mut records = vec!["a", "retry-n:1"];
    records.extend(["trap"; 102]);
    records.extend(["b", "retry-n:1", "c", "d"]);
    produce(&broker, &records);
    let running = start(&flow("", &through("probe-column-step", "")), &broker);
    running.until_committed(108);
    assert_eq!(running.stop().failures, []);
    assert_eq!(payloads(&broker, "out"), ["a", "retry-n:1", "b", "retry-n:1", "c", "d"]);
    assert_eq!(payloads(&broker, "t").len(), 102);
}

#[test]
fn a_step_whose_effects_must_not_be_repeated_fails_its_batch_as_a_whole() {
    for (component, passed) in [("probe-column-step", &["later"][..]), ("probe-step", &["a", "b", "later"])] {
        let broker = broker(&["out", "t"]);
        produce(&broker, &["a", "trap", "b"]);
        let running = start(&flow("", &through(component, ", on_trap: fail_batch")), &broker);
        running.until_committed(3);
        produce(&broker, &["later"]);
        running.until_committed(4);
        let outcome = running.stop();
        assert_eq!(outcome.failures, []);
        assert_eq!(payloads(&broker, "out"), passed, "{component}");
        assert_eq!(payloads(&broker, "t").len(), 4 - passed.len());
    }
}

#[test]
fn a_predicate_that_traps_fails_the_row_and_tests_its_neighbours() {
    for component in ["probe-predicate", "probe-column-predicate"] {
        let broker = broker(&["out", "t"]);
        produce(&broker, &["yes", "trap", "no", "yes"]);
        let rest = format!(
            "plugins: {{ p: {{ component: '{{guests}}/{component}.wasm' }} }}
process: [ {{ filter: {{ plugin: p }} }}, {{ into_topic: out }} ]
errors: {{ task: [ {{ into_topic: t }} ] }}
"
        );
        let running = start(&flow("", &rest), &broker);
        running.until_committed(4);
        let outcome = running.stop();
        assert_eq!(payloads(&broker, "out").len(), 2, "{component}");
        let ends = [("error_route(task)", 1), ("filtered", 1), ("topic", 2)];
        assert_eq!(endings(&outcome).into_iter().collect::<Vec<_>>(), ends);
    }
}
