//! The reader against `serde_yaml`: whatever both accept, both understand alike.

use proptest::prelude::{ProptestConfig, any, prop, prop_oneof, proptest};
use proptest::strategy::{BoxedStrategy, Just, Strategy};
use serde_json::Value;

use super::{Part, read, to_json};
use crate::report::Report;
use crate::text::Text;

/// What our reader makes of a text; none if it has any issue.
fn ours(text: &str) -> Option<Value> {
    let (text, bad) = Text::decode(text.as_bytes());
    let mut report = Report::new(vec![("x".to_owned(), text)]);
    let root = read(&mut report, 0, Part::Flow)?;
    let mut faults = Vec::new();
    let value = to_json(&root, &mut |_, _| None, &mut faults);
    (bad.is_none() && faults.is_empty() && report.finish().is_empty()).then_some(value)
}

/// What `serde_yaml` makes of it; none if it refuses, or JSON cannot hold it.
fn theirs(text: &str) -> Option<Value> {
    let mut value: serde_yaml::Value = serde_yaml::from_str(text).ok()?;
    value.apply_merge().ok()?;
    json(value)
}

fn json(value: serde_yaml::Value) -> Option<Value> {
    Some(match value {
        serde_yaml::Value::Null => Value::Null,
        serde_yaml::Value::Bool(value) => Value::Bool(value),
        serde_yaml::Value::Number(number) => {
            serde_json::to_value(number).ok().filter(|value| !value.is_null())?
        }
        serde_yaml::Value::String(text) => Value::String(text),
        serde_yaml::Value::Sequence(items) => items.into_iter().map(json).collect::<Option<Vec<_>>>()?.into(),
        serde_yaml::Value::Mapping(entries) => {
            let entries =
                entries.into_iter().map(|(key, value)| Some((key.as_str()?.to_owned(), json(value)?)));
            Value::Object(entries.collect::<Option<_>>()?)
        }
        serde_yaml::Value::Tagged(_) => return None,
    })
}

#[test]
fn written_documents_mean_the_same() {
    for text in [
        "a: 1\nb: [x, 'y', \"z\\n\"]\n",
        "a: |\n  one\n  two\nb: >-\n  one\n  two\n\n  three\n",
        "a: &x { b: 1 }\nc: *x\nd: { <<: *x, b: 2, e: 3 }\nf: { <<: [ *x, { g: 4, b: 5 } ] }\n",
        "a: NO\nb: on\nc: yes\nd: True\ne: FALSE\nf: ~\ng: null\nh:\ni: Null\n",
        "a: 007\nb: 0510210600\nc: 0x1F\nd: 0o17\ne: 0b11\nf: -0x1F\ng: +5\nh: -0\ni: 1_000\nj: 1e3\nk: 1.\nl: .5\nm: -.5\nn: 1.5e-3\n",
        "a: 18446744073709551615\nb: -9223372036854775808\nc: 0.1\nd: 1e300\n",
        "a: inf\nb: nan\nc: infinity\nd: 1:30\ne: 2026-01-01\nf: '1'\ng: \"true\"\nh: !!str 12\n",
        "? a\n: b\n",
        "{a: [1, {b: c}], \"d\": e}\n",
        "- a\n- - b\n  - c\n-\n  d: e\n",
        "a: 'it''s'\nb: \"\\u00e9\\t\\\\\"\nc: plain text # comment\nd: \"two\n  lines\"\n",
        "--- # start\na: b\n...\n",
        "a:\r\n  - b\r\n  - c\r\n",
        "\u{feff}a: b\n",
        "a: é\nb: \"\u{1f600}\"\n",
    ] {
        let expected = theirs(text);
        assert!(expected.is_some(), "{text}");
        assert_eq!(ours(text), expected, "{text}");
    }
}

#[test]
fn what_json_cannot_hold_is_refused() {
    for text in [
        "a: .nan\n",
        "a: -.inf\n",
        "a: 18446744073709551616\n",
        "a: -9223372036854775809\n",
        "a: !x 1\n",
        "[a]: b\n",
        "a: 1e400\n",
        "a: 9007199254740993.5\n",
        "7: a\n",
        "a: { true: b }\n",
        "a: [ { ~: b } ]\n",
        "a: !!int \"7\"\n",
        "a: !!binary aGk=\n",
        "a: !!set { b: c }\n",
    ] {
        assert_eq!(ours(text), None, "{text}");
    }
}

fn values() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9_f64).prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 40, 6, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from);
        let map = prop::collection::btree_map(texts(), inner, 0..5)
            .prop_map(|map| Value::Object(map.into_iter().filter(|(key, _)| key != "<<").collect()));
        prop_oneof![list, map]
    })
}

/// Texts that a writer must quote, and others.
fn texts() -> BoxedStrategy<String> {
    const AWKWARD: [&str; 18] = [
        "", "~", "null", "true", "NO", "007", "0x1F", "1.0", "- a", "a: b", "a # b", "!x", "*x", "'", "\"",
        " lead", "trail ", "a\nb\n",
    ];
    prop_oneof![
        prop::sample::select(&AWKWARD[..]).prop_map(str::to_owned),
        "[ -~]{0,12}",
        "[a-zé\\n ]{0,30}",
    ]
    .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_serde_yaml_writes_is_read_back(value in values()) {
        let text = serde_yaml::to_string(&value).expect("JSON has a YAML form");
        assert_eq!(ours(&text), theirs(&text), "{}", text);
        assert_eq!(ours(&text), Some(value), "{}", text);
    }

    #[test]
    fn a_document_that_both_accept_means_the_same(
        lines in prop::collection::vec(
            ("(  ){0,2}", prop::sample::select(&["a: ", "b: ", "- ", "c:", "- d: ", "? ", "", "<<: "][..]),
             prop::sample::select(&["", "x", "1", "'y'", "\"z\"", "[p, q]", "{m: n}", "|", ">", "&k v", "*k", "# c", "1 2", "~"][..])),
            1..8,
        )
    ) {
        let text: String = lines.iter().map(|(indent, key, value)| format!("{indent}{key}{value}\n")).collect();
        if let (Some(ours), Some(theirs)) = (ours(&text), theirs(&text)) {
            assert_eq!(ours, theirs, "{}", text);
        }
    }
}
