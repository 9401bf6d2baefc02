use std::path::PathBuf;

use super::{Body, CallEnd, FaultKind, KillAt, ReadCases, read};
use crate::render::HumanStyle;
use crate::{SourceFile, case_schema};

fn of(text: &str) -> ReadCases {
    read(&SourceFile {
        name: "x.test.yaml".to_owned(),
        bytes: text.as_bytes().to_owned(),
        dir: PathBuf::from("."),
    })
}

/// Every key of a test file.
const FULL: &str = r#"
flow: orders.yaml
overlays: [staging.yaml]
cases:
  - name: everything
    workers: 2
    partitions: 3
    sinks: capture
    timeout: 2s
    records:
      - { topic: in, partition: 2, key: k, headers: { a: "1", b: null }, timestamp_ms: 7, value: "x: y" }
      - { key: { base64: /wA= }, headers: [[a, "1"], [a, { base64: AA== }]], json: { n: 10.0, l: [1, "007"] } }
      - { value: null }
      - { base64: AAEC }
    faults:
      - { call: enrich, at: 1, partition: 2, topic: in, ends: trap, times: 2, reason: because }
      - { flush: warehouse, ends: retry }
      - { refuse: out, at: 0 }
      - { kill: written, at: 3 }
    expect:
      topics:
        out:
          - { key: null, value: text }
          - { headers: { a: "1" }, timestamp_ms: 7, json: [1, 2] }
          - { fields: { a: { b: 1 } } }
          - { base64: AAEC }
        empty: []
      sinks: { warehouse: [ {} ] }
      order: any
      errors: [ { kind: task, node: "process[0]", at: 1, partition: 0, topic: in, reason: no } ]
      ledger: { registered: 4, resolved: 4, outstanding: 0, skipped: 1, minted: 4, consumed: 0, live: 0, ended: { topic: 3, "dropped(task)": 1 } }
      offsets: { in: { 0: 4, 2: 1 } }
      stops: refused
"#;

#[test]
fn every_key_is_read() {
    let read = of(FULL);
    let style = HumanStyle::default();
    let file = read.file.as_ref().unwrap_or_else(|| panic!("{}", read.render(&read.issues, style)));
    assert_eq!(file.flow.as_ref().map(|flow| (&*flow.value, flow.at.line)), Some(("orders.yaml", 2)));
    let case = &file.cases[0];
    assert_eq!((case.workers, case.partitions, case.captures_sinks), (Some(2), Some(3), true));
    let payloads: Vec<Option<&[u8]>> = case.records.iter().map(|record| record.payload.as_deref()).collect();
    assert_eq!(payloads, [Some(&b"x: y"[..]), Some(br#"{"l":[1,"007"],"n":10.0}"#), None, Some(&[0, 1, 2])]);
    assert_eq!(case.records[0].headers, [(b"a".to_vec(), Some(b"1".to_vec())), (b"b".to_vec(), None)]);
    assert_eq!(case.records[1].key, Some(vec![255, 0]));
    assert_eq!(case.records[1].headers[1], (b"a".to_vec(), Some(vec![0])));
    assert!(
        matches!(&case.faults[0].what, FaultKind::Call { whom, ends: CallEnd::Trap } if whom.value == "enrich")
    );
    assert_eq!(case.faults[0].record.as_ref().map(|at| (at.value.partition, at.value.offset)), Some((2, 1)));
    assert_eq!(case.faults[3].what, FaultKind::Kill(KillAt::Written));
    let topics = case.expect.topics.as_ref().expect("topics");
    let out = &topics["out"].value;
    assert_eq!((&out[0].key, &out[0].body), (&Some(None), &Body::Bytes(Some(b"text".to_vec()))));
    assert!(matches!(out[2].body, Body::Fields(_)) && topics["empty"].value.is_empty());
    assert!(case.expect.any_order);
    assert_eq!(case.expect.offsets[&("in".to_owned(), 2)].value, 1);
    assert_eq!(case.expect.ended["dropped(task)"].value, 1);
    let as_json: serde_json::Value = serde_yaml::from_str(FULL).expect("it is YAML");
    let schema = jsonschema::draft202012::new(&case_schema()).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(&as_json).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

/// What is wrong, and what is said of it; the JSON Schema refuses what JSON can express.
#[test]
fn what_is_wrong_is_told_at_its_place() {
    let case = |rest: &str| format!("cases:\n  - name: x\n    expect: {{}}\n{rest}");
    let schema = jsonschema::draft202012::new(&case_schema()).expect("a schema");
    for (text, said, in_schema) in [
        (String::new(), "the file holds no cases", false),
        ("- a\n".to_owned(), "a test file is a mapping, not a list", true),
        ("flow: x\n".to_owned(), "a test file needs `cases`", true),
        ("cases: []\n".to_owned(), "`cases` holds no case", true),
        ("case: []\ncases: [ { name: x, expect: {} } ]\n".to_owned(), "did you mean `cases`?", true),
        ("cases: [ { name: x } ]\n".to_owned(), "`cases[0]` needs `expect`", true),
        (case("    record: []\n"), "did you mean `records`?", true),
        (case("    records: [ { key: k } ]\n"), "needs a payload", true),
        (case("    records: [ { value: a, json: 1 } ]\n"), "`value` and `json` both say", true),
        (case("    records: [ { value: { a: 1 } } ]\n"), "write `json:` for it", false),
        (case("    records: [ { value: a, headers: [a] } ]\n"), "`[name, value]`", false),
        (case("    records: [ { base64: \"!\" } ]\n"), "is not base64", false),
        (case("    records: [ { value: a, partition: 1000 } ]\n"), "1000 partitions at most", true),
        (case("    workers: 65\n"), "64 at most", true),
        (case("    faults: [ { at: 1 } ]\n"), "a fault needs `call`", true),
        (case("    faults: [ { kill: read } ]\n"), "`kill` needs `at`", false),
        (case("    faults: [ { call: a, kill: read } ]\n"), "two faults", true),
        (case("    faults: [ { kill: raed, at: 1 } ]\n"), "did you mean `read`?", true),
        (case("    faults: [ { refuse: a, ends: trap } ]\n"), "`ends` has no meaning", false),
        (
            "cases:\n  - { name: x, expect: { topics: { t: { a: 1 } } } }\n".to_owned(),
            "a list of records",
            true,
        ),
        (
            "cases:\n  - { name: x, expect: { topics: { t: [ { fields: 1 } ] } } }\n".to_owned(),
            "fields",
            false,
        ),
        (
            "cases:\n  - { name: x, expect: { ledger: { ended: { topics: 1 } } } }\n".to_owned(),
            "did you mean `topic`?",
            false,
        ),
        (
            "cases:\n  - { name: x, expect: { offsets: { t: { a: 1 } } } }\n".to_owned(),
            "a partition is a number",
            false,
        ),
        (case("  - { name: x, expect: {} }\n"), "called `x` too", false),
        (
            case("    records: [ { value: \"${HOME}\", topic: \"${HOME}\" } ]\n"),
            "`${HOME}` has no value",
            false,
        ),
    ] {
        let read = of(&text);
        let shown = read.render(&read.issues, HumanStyle { width: 200, ..HumanStyle::default() });
        assert!(shown.contains(said), "{text}\n{shown}");
        assert!(read.file.is_none(), "{text}");
        if in_schema {
            let json: serde_json::Value = serde_yaml::from_str(&text).expect("it is YAML");
            assert!(!schema.is_valid(&json), "the schema takes {text}");
        }
    }
}

#[test]
fn bytes_of_any_kind_are_no_panic() {
    for bytes in [&b"\xff\xfe"[..], b"cases: [", b"\0", b"cases: *a", b"cases: [ { expect: [ ] } ]"] {
        let source = SourceFile { name: "x".to_owned(), bytes: bytes.to_vec(), dir: PathBuf::new() };
        let read = read(&source);
        assert!(read.file.is_none() && !read.issues.is_empty(), "{bytes:?}");
    }
}
