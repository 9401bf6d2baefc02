//! `test`: cases of flows. What passes, what fails and how that is told, and each fault that can be scripted.

use std::fs;

use crate::support::{Ended, Folder, SOUND, flow_with_step, guest};

/// A folder with this flow and these cases of it.
fn folder(flow: &str, cases: &str) -> Folder {
    Folder::with(&[("flow.yaml", flow.as_bytes()), ("flow.test.yaml", cases.as_bytes())])
}

/// Plays cases that must pass.
#[track_caller]
fn passes(flow: &str, cases: &str) -> Ended {
    let ended = folder(flow, cases).run(&["test"]);
    ended.expect_status(0);
    assert!(ended.stderr.is_empty(), "what a flow logs is silent: {ended:#?}");
    ended
}

/// Plays cases that must fail, and gives what is printed.
#[track_caller]
fn fails(flow: &str, cases: &str) -> String {
    folder(flow, cases).run(&["test"]).expect_status(1).stdout.clone()
}

/// A flow whose sink is a component that completes at a flush.
fn with_sink(config: &str) -> String {
    let sink = guest("probe-sink");
    let plugins = format!("plugins:\n  store: {{ component: {sink:?}{config} }}\nprocess:\n");
    SOUND.replace("process:\n", &plugins).replace("into_topic: out", "into_sink: store")
}

const CASES: &str = r#"
cases:
  - name: large ones go out, small ones end, others fail
    records:
      - { key: a, headers: { trace: "7" }, timestamp_ms: 5, json: { id: 1, total: 12.50 } }
      - json: { id: 2, total: 5 }
      - value: not JSON
      - value: null
    expect:
      topics:
        out: [ { key: a, headers: { trace: "7" }, timestamp_ms: 5, json: { total: 12.5, id: 1 } } ]
        failed: [ { fields: { kind: wire, record: { offset: 2, payload: not JSON } } } ]
      ledger: { registered: 3, resolved: 3, outstanding: 0, skipped: 1, ended: { topic: 1, filtered: 1, error_route(wire): 1 } }
      offsets: { in: { 0: 4 } }
  - name: several partitions and workers
    workers: 2
    records:
      - { partition: 1, json: { total: 11 } }
      - { partition: 0, json: { total: 12 } }
      - { partition: 1, json: { total: 13 } }
    expect:
      order: any
      topics: { out: [ { json: { total: 13 } }, { json: { total: 12 } }, { json: { total: 11 } } ] }
      offsets: { in: { 0: 1, 1: 2 } }
"#;

#[test]
fn cases_that_hold_pass() {
    let ended = passes(SOUND, CASES);
    assert_eq!(
        ended.stdout,
        "./flow.test.yaml\n  ok   large ones go out, small ones end, others fail\n  ok   several partitions and workers\n\n\
         2 passed, 0 failed\n"
    );
}

#[test]
fn what_differs_is_told_with_its_place() {
    let cases = r#"
cases:
  - name: everything is other than expected
    records:
      - { key: a, json: { id: 1, total: 12 } }
      - json: { id: 2, total: 13 }
      - value: not JSON
    expect:
      topics:
        out:
          - { key: b, json: { id: 1, total: 12.5 } }
          - fields: { id: 2 }
          - fields: { id: 3 }
      errors: [ { kind: task } ]
      ledger: { registered: 4, ended: { topic: 3 } }
      offsets: { in: { 0: 4 } }
      stops: refused
    faults:
      - { refuse: out, at: 2 }
"#;
    let printed = fails(SOUND, cases);
    let expected = r#"./flow.test.yaml
  FAIL everything is other than expected
    ./flow.test.yaml:8:5: topic `failed` has 1 record, and none was expected
    ./flow.test.yaml:11:13: topic `out`: record 0 is not as expected
      key is "a", expected "b"
      payload.total is 12, expected 12.5
      it is {"json":{"id":1,"total":12},"key":"a"}
    ./flow.test.yaml:13:13: topic `out`: record 2 is missing
    ./flow.test.yaml:14:17: this failure did not happen
    ./flow.test.yaml:15:29: the ledger has registered 3, expected 4
    ./flow.test.yaml:15:48: the ledger has topic 2, expected 3
    ./flow.test.yaml:16:27: in/0 is committed at 3, expected 4
    ./flow.test.yaml:17:14: the flow ended well, expected it to stop: refused
    ./flow.test.yaml:19:9: this fault never happened

0 passed, 1 failed
"#;
    // The envelope that `failed` has holds the time of the failure.
    let (envelopes, shown): (Vec<&str>, Vec<&str>) =
        printed.lines().partition(|line| line.contains("loom-error-kind"));
    assert_eq!(shown.join("\n") + "\n", expected);
    // What has failed, and how, is read first.
    assert!(envelopes[0].starts_with("      process[0] wire: in/0 at 2: "), "{envelopes:?}");
}

#[test]
fn numbers_are_exact_and_records_have_the_digits_of_the_file() {
    let passing = r#"
cases:
  - name: digits are kept and values compared
    records:
      - json: { total: 9007199254740993, a: 12.50, b: 123456789012345678901234567890, c: 1e400, d: 0x10, e: +.5 }
    expect:
      topics:
        out: [ { value: '{"a":12.50,"b":123456789012345678901234567890,"c":1e400,"d":16,"e":0.5,"total":9007199254740993}' } ]
  - name: as expressions compare
    records: [ { value: '{"total": 9007199254740993, "a": 290.0, "b": 18446744073709551615, "c": -0.0}' } ]
    expect: { topics: { out: [ { json: { total: 9007199254740993, a: 290, b: 18446744073709551615, c: 0 } } ] } }
"#;
    passes(SOUND, passing);
    for (is, wanted) in [
        ("9007199254740993", "9007199254740992.0"),
        ("9007199254740993", "9007199254740992"),
        ("9007199254740992.0", "9007199254740993"),
        ("18446744073709551615", "18446744073709551616.0"),
        ("123456789012345678901234567891", "123456789012345678901234567890"),
        ("11.1", "11.10000000000001"),
    ] {
        for form in ["json", "fields"] {
            let case = format!(
                "cases:\n  - name: near\n    records: [ {{ json: {{ total: {is} }} }} ]\n    expect: {{ topics: {{ out: [ {{ {form}: {{ total: {wanted} }} }} ] }} }}\n"
            );
            let printed = fails(SOUND, &case);
            assert!(printed.contains(&format!("payload.total is {is}, expected {wanted}")), "{printed}");
        }
    }
}

#[test]
fn another_order_is_told_as_such() {
    let records = "[ { json: { total: 11 } }, { json: { total: 12 } }, { json: { total: 13 } } ]";
    let wanted = "[ { json: { total: 13 } }, { json: { total: 11 } }, { json: { total: 12 } } ]";
    let case = |order: &str| {
        format!(
            "cases:\n  - name: order\n    records: {records}\n    expect: {{ {order}topics: {{ out: {wanted} }} }}\n"
        )
    };
    let printed = fails(SOUND, &case(""));
    assert!(
        printed.contains("topic `out`: what was expected came in another order")
            && printed.contains("record 0 came as number 2 of 3")
            && printed.contains("order: any")
            && !printed.contains("missing")
            && !printed.contains("not expected"),
        "{printed}"
    );
    passes(SOUND, &case("order: any, "));
}

#[test]
fn a_mistyped_payload_has_a_suggestion_and_nothing_expected_is_no_expectation() {
    let printed = fails(SOUND, "cases:\n  - { name: x, records: [ { jsn: 1 } ], expect: {} }\n");
    assert!(printed.contains("did you mean `json`?") && !printed.contains("needs a payload"), "{printed}");
    let printed = fails(SOUND, "cases:\n  - name: x\n    records: [ { value: a } ]\n    expect:\n");
    assert!(printed.contains("`expect` says nothing") && printed.contains("--write"), "{printed}");
    let faults = "cases:\n  - { name: x, faults: [ { call: \"process[0]\", ends: trap } ], expect: {} }\n";
    let printed = fails(SOUND, faults);
    assert!(
        printed.contains("process[0] calls no plugin") && !printed.contains("never happened"),
        "{printed}"
    );
}

/// Expectations that are empty or differ are written, all else of the file stays, and what was written holds.
#[test]
fn expectations_are_written_from_what_came() {
    let cases = r#"# A comment.
cases:
  - name: empty
    records:
      - { key: "No", headers: [[a, "1"], [a, null]], json: { id: 1, total: 12.50, text: "a: \u001b\"b\"" } }
      - value: not JSON
      - { base64: /w== }
    expect:
  # Between cases.
  - { name: in braces, records: [ { json: { total: 9007199254740993 } } ], expect: {topics: {out: []}} }
  - name: a part of it
    records: [ { json: { id: 1, total: 11 } }, { json: { id: 2, total: 12 } } ]
    expect:
      order: any
      topics:
        out:
          - { fields: { id: 2 } } # gone
          - json: { id: 1 }
      ledger: { registered: 7 }
  - name: holds
    records: [ { json: { total: 11 } } ]
    expect: { topics: { out: [ { fields: { total: 11.0 } } ] } } # stays
  - name: fails though it should not
    timeout: 1s
    records: [ { json: { total: 11 } } ]
    faults: [ { kill: read, at: 0 }, { refuse: out, at: 0, times: 1 } ]
    expect: { stops: never }
"#;
    let folder = folder(SOUND, cases);
    let ended = folder.run(&["test", "--write"]);
    ended.expect_status(1);
    assert!(
        ended.stdout.contains(
            "  wrote empty\n  wrote in braces\n  wrote a part of it\n  ok   holds\n  FAIL fails though"
        ) && ended.stdout.contains("3 expectations were written from what came out"),
        "{ended:#?}"
    );
    let file = fs::read_to_string(folder.path().join("flow.test.yaml")).expect("the file");
    for part in [
        "# A comment.\ncases:\n",
        "    expect:\n      topics:\n        failed:\n          - { fields: { kind: wire, node: \"process[0]\", record: { offset: 1 } } }\n",
        "{ key: \"No\", headers: [ [a, \"1\"], [a, null] ], json: { id: 1, text: \"a: \\u001b\\\"b\\\"\", total: 12.50 } }\n",
        "      offsets: { in: { 0: 3 } }\n  # Between cases.\n",
        "expect: { topics: { out: [ { json: { total: 9007199254740993 } } ] } } }\n",
        "          - { fields: { id: 2 } }\n",
        "          - { json: { id: 1, total: 11 } }\n",
        "      order: any\n      ledger: { registered: 2 }\n",
        "expect: { topics: { out: [ { fields: { total: 11.0 } } ] } } # stays\n",
        "expect: { stops: never }\n",
    ] {
        assert!(file.contains(part), "{part}\n{file}");
    }
    let again = folder.run(&["test", "--filter", "empty"]);
    again.expect_status(0);
    let whole = folder.run(&["test", "--write"]);
    assert!(whole.stdout.contains("4 passed, 1 failed\n") && !whole.stdout.contains("wrote"), "{whole:#?}");
    assert_eq!(fs::read_to_string(folder.path().join("flow.test.yaml")).expect("the file"), file);
}

#[test]
fn what_is_written_is_a_cases_own_and_all_else_stays() {
    let cases = r#"cases:
  - &first
    name: shared
    records: [ { json: { total: 11 } } ]
    expect:
      topics:
        out: [ { value: z } ]
  - { <<: *first, name: also shared, workers: 2 }
  - name: own
    records: [ { json: { total: 12 } }, { value: "a} #c" } ]
    expect:
      topics:
        out:
          - { value: y }
        failed:
          - { fields: { kind: wire, record: { payload: "a} #c" } } }
"#;
    let folder = folder(SOUND, &format!("\u{feff}{cases}"));
    let ended = folder.run(&["test", "--write"]);
    ended.expect_status(1);
    assert!(ended.stdout.contains("  FAIL shared\n") && ended.stdout.contains("  wrote own\n"), "{ended:#?}");
    let file = fs::read_to_string(folder.path().join("flow.test.yaml")).expect("the file");
    let (before, _) = cases.split_once("  - name: own").expect("the case");
    assert!(file.starts_with(&format!("\u{feff}{before}")), "{file}");
    folder.run(&["test", "--filter", "own"]).expect_status(0);
}

#[test]
fn a_failing_case_shows_what_its_flow_logged() {
    let flow =
        SOUND.replace("errors:\n  default: [ { into_topic: failed } ]\n", "errors: { unrouted: drop }\n");
    let cases = "cases:\n  - { name: no route, records: [ { value: x } ], expect: {} }\n  - { name: known, records: [ { value: x } ], expect: { errors: [ { kind: wire, node: \"process[0]\", at: 0 } ] } }\n";
    let ended = folder(&flow, cases).run(&["test"]);
    ended.expect_status(1);
    assert!(
        ended.stdout.contains("process[0] wire: in/0 at 0 was dropped:")
            && ended.stdout.ends_with("1 passed, 1 failed\n"),
        "{ended:#?}"
    );
    assert!(
        ended.stderr.starts_with("what the flow logged in `no route`:\n")
            && ended.stderr.contains("record failed, dropped")
            && !ended.stderr.contains(" running ")
            && !ended.stderr.contains("`known`"),
        "{ended:#?}"
    );
}

#[test]
fn a_case_names_a_node_by_its_name() {
    let flow = flow_with_step(&guest("nop-step"))
        .replace("  - step: x\n", "  - { step: x, name: score }\n")
        .replace("errors:\n  default: [ { into_topic: failed } ]\n", "errors: { unrouted: drop }\n");
    passes(
        &flow,
        r#"
cases:
  - name: called by its name
    records: [ { value: a }, { value: b } ]
    faults: [ { call: score, at: 1, ends: reject, reason: no } ]
    expect: { topics: { out: [ { value: a } ] }, errors: [ { kind: business, node: score, at: 1 } ] }
"#,
    );
}

#[test]
fn a_trap_on_a_record_is_its_own() {
    let flow = flow_with_step(&guest("nop-step"));
    passes(
        &flow,
        r#"
cases:
  - name: each time
    records: [ { value: a }, { value: b }, { value: c } ]
    faults: [ { call: x, at: 1, ends: trap } ]
    expect:
      topics: { out: [ { value: a }, { value: c } ], failed: [ { fields: { kind: task, node: "process[0]", record: { offset: 1 } } } ] }
      offsets: { in: { 0: 3 } }
  - name: retried until it works
    records: [ { value: a }, { value: b } ]
    faults: [ { call: "process[0]", at: 0, ends: retry, times: 2 } ]
    expect: { topics: { out: [ { value: a }, { value: b } ] }, offsets: { in: { 0: 2 } } }
  - name: rejected in its own words
    records: [ { value: a } ]
    faults: [ { call: x, ends: reject, reason: no such order } ]
    expect: { topics: { failed: [ { fields: { kind: business, reason: no such order } } ] } }
"#,
    );
}

#[test]
fn a_plugin_that_waits_traps_too() {
    let flow =
        flow_with_step(&guest("nop-step")).replace("  - step: x\n", "  - step: x\n    concurrency: 2\n");
    passes(
        &flow,
        "cases:\n  - name: beside the worker\n    records: [ { value: a }, { value: b } ]\n    faults: [ { call: x, at: 0, ends: trap } ]\n    expect: { topics: { out: [ { value: b } ], failed: [ { fields: { kind: task } } ] }, offsets: { in: { 0: 2 } } }\n",
    );
}

#[test]
fn sinks_write_fail_and_are_captured() {
    passes(
        &with_sink(""),
        r#"
cases:
  - name: written
    records: [ { key: k, json: { total: 11 } }, { json: { total: 1 } }, { json: { total: 12 } } ]
    expect: { sinks: { store: [ { key: k, json: { total: 11 } }, { json: { total: 12 } } ] }, offsets: { in: { 0: 3 } } }
  - name: a flush that fails once loses nothing
    records: [ { json: { total: 11 } }, { json: { total: 12 } } ]
    faults: [ { flush: store, times: 1 } ]
    expect: { order: any, sinks: { store: [ { json: { total: 11 } }, { json: { total: 12 } } ] }, offsets: { in: { 0: 2 } } }
  - name: a record that it cannot take is set aside
    records: [ { json: { total: 11 } }, { json: { total: 12 } } ]
    faults: [ { call: store, at: 0, ends: trap } ]
    expect:
      sinks: { store: [ { json: { total: 12 } } ] }
      topics: { failed: [ { fields: { kind: delivery, record: { offset: 0 } } } ] }
      offsets: { in: { 0: 2 } }
"#,
    );
    // A sink that would never complete anything is not even started.
    passes(
        &with_sink(", config: { refuse: \"the database is away\" }"),
        "cases:\n  - name: captured\n    sinks: capture\n    records: [ { json: { total: 11 } } ]\n    expect: { sinks: { store: [ { json: { total: 11 } } ] }, offsets: { in: { 0: 1 } } }\n",
    );
}

#[test]
fn a_refused_output_without_a_route_stops_the_flow() {
    let flow =
        SOUND.replace("errors:\n  default: [ { into_topic: failed } ]\n", "errors: { wire: [ drain ] }\n");
    passes(
        &flow,
        "cases:\n  - name: not committed\n    records: [ { json: { total: 11 } }, { json: { total: 12 } }, { json: { total: 13 } } ]\n    faults: [ { refuse: out, at: 1, reason: disk full } ]\n    expect: { stops: disk full, offsets: { in: { 0: 1 } } }\n",
    );
}

#[test]
fn a_killed_process_is_followed_by_another_and_nothing_is_lost() {
    let cases = r#"
cases:
  - name: as a record is read
    records: [ { json: { total: 11 } }, { json: { total: 12 } }, { json: { total: 13 } } ]
    faults: [ { kill: read, at: 1 } ]
    expect: { topics: { out: [ { json: { total: 11 } }, { json: { total: 12 } }, { json: { total: 13 } } ] }, offsets: { in: { 0: 3 } } }
  - name: when one was written and nobody heard so, twice
    records: [ { json: { total: 11 } }, { json: { total: 12 } }, { json: { total: 13 } } ]
    faults: [ { kill: written, at: 0 }, { kill: written, at: 2 } ]
    expect: { topics: { out: [ { json: { total: 11 } }, { json: { total: 12 } }, { json: { total: 13 } } ] }, offsets: { in: { 0: 3 } } }
"#;
    passes(SOUND, cases);
    passes(
        &with_sink(""),
        "cases:\n  - name: with rows in a sink\n    workers: 2\n    records: [ { partition: 0, json: { total: 11 } }, { partition: 1, json: { total: 12 } } ]\n    faults: [ { kill: written, at: 0 } ]\n    expect: { order: any, sinks: { store: [ { json: { total: 11 } }, { json: { total: 12 } } ] }, offsets: { in: { 0: 1, 1: 1 } } }\n",
    );
}

#[test]
fn a_test_file_that_is_wrong_is_told_as_check_tells_it() {
    let printed = fails(SOUND, "cases:\n  - name: x\n    record: []\n    expect: {}\n");
    assert!(
        printed.contains("error[UNKNOWN_KEY]: a case has no key `record`")
            && printed.contains("did you mean `records`?"),
        "{printed}"
    );
    let printed = fails(
        SOUND,
        "cases:\n  - name: x\n    records: [ { topic: ni, value: a } ]\n    faults: [ { refuse: outt }, { kill: read, at: 3 }, { flush: store } ]\n    expect: { topics: { fail: [] }, offsets: { in: { 2: 1 } } }\n",
    );
    for part in [
        "the flow reads no topic `ni`",
        "the flow has no output `outt`",
        "did you mean `out`?",
        "there is no record in/0 at 3: the case has 0 in that partition",
        "the flow has no sink `store`",
        "the flow writes to no topic `fail`",
        "there is no partition 2: the case has 1",
    ] {
        assert!(printed.contains(part), "{part}\n{printed}");
    }
    let printed = fails(&SOUND.replace("filter", "fliter"), CASES);
    assert!(printed.contains("UNKNOWN_KEY") && printed.contains("flow.yaml"), "{printed}");
    let gone = Folder::with(&[("a.test.yaml", CASES.as_bytes())]).run(&["test"]);
    assert!(gone.expect_status(1).stdout.contains("flow.yaml: no such file"), "{gone:#?}");
    let none = Folder::with(&[]).run(&["test"]);
    none.expect_status(1).expect_one_error(&["there is no test file in the folder"]);
}

#[test]
fn files_are_found_below_and_cases_by_their_name() {
    let folder = Folder::with(&[("orders.yaml", SOUND.as_bytes()), ("orders.test.yaml", CASES.as_bytes())]);
    fs::create_dir(folder.path().join("deep")).expect("a folder");
    let other = "flow: ../orders.yaml\ncases:\n  - { name: nothing in, expect: { topics: {} } }\n";
    fs::write(folder.path().join("deep/other.test.yaml"), other).expect("a file");
    let all = folder.run(&["test"]);
    assert!(all.expect_status(0).stdout.ends_with("3 passed, 0 failed\n"), "{all:#?}");
    let one = folder.run(&["test", "--filter", "nothing"]);
    assert_eq!(
        one.expect_status(0).stdout,
        "./deep/other.test.yaml\n  ok   nothing in\n\n1 passed, 0 failed\n"
    );
    folder.run(&["test", "--filter", "nobody"]).expect_status(1).expect_one_error(&["`nobody`"]);
}

#[test]
fn build_servers_get_junit_and_tap() {
    let cases =
        "cases:\n  - { name: holds, expect: {} }\n  - { name: \"a < b\", expect: { stops: never } }\n";
    let folder = folder(SOUND, cases);
    let junit = folder.run(&["test", "--format", "junit"]);
    let text = &junit.expect_status(1).stdout;
    assert!(
        text.starts_with("<?xml version=\"1.0\"")
            && text.contains("tests=\"2\" failures=\"1\"")
            && text.contains("a &lt; b"),
        "{text}"
    );
    let tap = folder.run(&["test", "--format", "tap"]);
    let text = &tap.expect_status(1).stdout;
    assert!(
        text.starts_with(
            "TAP version 14\n1..2\nok 1 - ./flow.test.yaml: holds\nnot ok 2 - ./flow.test.yaml: a < b\n"
        ),
        "{text}"
    );
}

#[test]
fn security_is_not_resolved_and_secrets_are_not_shown() {
    let flow = SOUND.replace(
        "delivery: at_least_once",
        "delivery: at_least_once\n    security: { protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u, sasl_password: \"${file:/no/such/secret}\" }",
    );
    passes(&flow, CASES);
}
