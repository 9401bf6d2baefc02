//! Failures of other evaluators, kept as cases.

use super::super::{EvalError, Mapped};
use super::{compile, problem, table, value, with};

#[test]
fn division_overflow_and_odd_comparisons_fail_the_expression_only() {
    table(&[
        ("payload.a / payload.b > 0", r#"{"a":1,"b":0}"#, "task: division by zero"),
        ("payload.a % payload.b == 0", r#"{"a":1,"b":0}"#, "task: division by zero"),
        (
            "payload.a + payload.b > 0",
            r#"{"a":9223372036854775807,"b":1}"#,
            "task: the result is out of range (overflow)",
        ),
        (
            "payload.a % payload.b == 0",
            r#"{"a":-9223372036854775808,"b":-1}"#,
            "task: the result is out of range (overflow)",
        ),
        (
            "payload.a / payload.b > 0",
            r#"{"a":-9223372036854775808,"b":-1}"#,
            "task: the result is out of range (overflow)",
        ),
        ("-payload.a > 0", r#"{"a":-9223372036854775808}"#, "task: the result is out of range (overflow)"),
        ("payload.size == '50'", r#"{"size":50}"#, "false"),
        ("payload.a / payload.b > 0", r#"{"a":4,"b":2}"#, "true"),
    ]);
    let text = "timestamp(payload.t) + duration(payload.d) > timestamp(payload.t)";
    let with_length =
        |length: &str| value(text, &format!(r#"{{"t":"2026-01-01T00:00:00Z","d":"{length}"}}"#));
    assert!(
        with_length(&"2562047h".repeat(1000)).starts_with("task: \"2562047h"),
        "{}",
        with_length(&"2562047h".repeat(1000))
    );
    assert_eq!(with_length("1h"), "true");
    assert_eq!(
        value(text, r#"{"t":"9999-12-31T00:00:00Z","d":"2562047h"}"#),
        "task: the result is out of range (overflow)"
    );
}

#[test]
fn long_integers_keep_their_digits() {
    let payload =
        r#"{"long":228930314431312345,"x":1.0,"big":12345678901234567890123,"e":1e400,"z":-0.0,"d":1,"d":2}"#;
    let expected = format!(r#"{{"id":228930314431312345,"all":{payload}}}"#);
    assert_eq!(value("{'id': payload.long, 'all': payload}", payload), expected);
    let key = with(Some(payload.as_bytes()), |scope| compile("string(payload.long)").key(scope));
    assert_eq!(key, Ok(Some(b"228930314431312345".to_vec())));
}

#[test]
fn no_payload_empty_payload_and_null_are_three_things() {
    let map = |text: &str, payload: Option<&[u8]>| {
        with(payload, |scope| {
            let mut out = Vec::new();
            let mapped = compile(text).json(scope, &mut out);
            mapped.map(|mapped| (mapped, String::from_utf8(out).unwrap()))
        })
    };
    assert_eq!(map("payload", Some(br#"{"a":1}"#)), Ok((Mapped::Json, r#"{"a":1}"#.to_owned())));
    assert_eq!(map("payload", None), Ok((Mapped::Tombstone, String::new())));
    assert_eq!(map("payload", Some(b"null")), Ok((Mapped::Json, "null".to_owned())));
    assert!(matches!(map("payload", Some(b"")), Err(EvalError::Wire(_))));
    for payload in [None, Some(&b""[..]), Some(b"null"), Some(b"x")] {
        assert_eq!(map("null", payload), Ok((Mapped::Json, "null".to_owned())));
    }
}

#[test]
fn a_pattern_from_the_record_stays_linear() {
    let text = "payload.s.matches(payload.p)";
    let payload = format!(r#"{{"s":"{}b","p":"^(a+)+$"}}"#, "a".repeat(5000));
    assert_eq!(value(text, &payload), "false");
    assert_eq!(value(text, r#"{"s":"x","p":"(a{1000}){1000}"}"#), "task: the pattern is too large");
    let error = with(Some(b"{}"), |scope| compile(text).test(scope)).unwrap_err();
    assert_eq!(problem(text, &error), "task: `payload.s` is missing");
}
