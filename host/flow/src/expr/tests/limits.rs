//! Bounds: of the text, and of an evaluation.

use std::panic::catch_unwind;

use proptest::prelude::*;

use super::super::Expr;
use super::{compile, value, with};

#[test]
fn nested_macros_over_a_long_list_end_as_a_task_error() {
    let list = format!("[{}]", vec!["1"; 3000].join(","));
    let spent = "task: it takes too long for this record (cost limit)";
    for text in [
        "payload.all(x, payload.all(y, payload.all(z, x + y + z >= 0)))",
        "payload.map(x, payload.map(y, payload.map(z, z)))",
        "payload.exists(x, payload.exists(y, payload.exists(z, z.a == 1))) || true",
        "payload.map(x, payload) == payload.map(x, payload)",
        "payload.map(x, 'abcdefghabcdefghabcdefghabcdefgh').map(x, payload.map(y, x + x)).size() > 0",
    ] {
        assert_eq!(value(text, &list), spent, "{text}");
    }
    assert_eq!(value("payload.all(x, x >= 0 && x < 2)", &list), "true");
    let long = format!("[{}]", vec!["1"; 100_000].join(","));
    assert_eq!(value("payload.filter(x, x > 1)", &long), "[]");
}

#[test]
fn a_text_that_grows_is_bounded() {
    let grow = (0..40).fold("'0123456789012345678901234567890123456789'".to_owned(), |text, _| {
        format!("[{text}].map(s, s + s)[0]")
    });
    match Expr::compile(&grow) {
        Ok(expr) => panic!("{expr:?}"),
        Err(issue) => assert_eq!(issue.message, "the expression is nested too deeply"),
    }
    let grow = (0..19).fold("payload".to_owned(), |text, _| format!("[{text}].map(s, s + s + s + s)[0]"));
    let outcome = with(Some(b"\"0123456789\""), |scope| compile(&grow).json(scope, &mut Vec::new()));
    let error = outcome.unwrap_err().to_string();
    assert!(error.starts_with("it takes too long for this record (cost limit) (in `"), "{error}");
    assert!(error.ends_with("…`)"), "{error}");
}

#[test]
fn long_and_deep_texts_are_refused_before_parsing() {
    let long = format!("payload.a == '{}'", "x".repeat(5000));
    let issue = Expr::compile(&long).unwrap_err();
    assert!(issue.message.starts_with("the expression has 5015 bytes"), "{}", issue.message);
    for text in [
        "(".repeat(4000),
        "[".repeat(4000),
        "1".to_owned() + &"+1".repeat(2000),
        "a".to_owned() + &".a".repeat(2000),
        "true ? 1 : ".repeat(300) + "2",
        "!(".repeat(1000) + "true" + &")".repeat(1000),
    ] {
        let issue = Expr::compile(&text).unwrap_err();
        assert_eq!(issue.message, "the expression is nested too deeply");
    }
}

/// The deepest texts that are allowed compile and evaluate on the stack of a test's thread.
#[test]
fn the_deepest_texts_that_are_allowed() {
    for (text, expected) in [
        ("(".repeat(24) + "1" + &")".repeat(24), "1"),
        ("[".repeat(24) + &"]".repeat(24), ""),
        ("1".to_owned() + &"+1".repeat(110), "111"),
        ("true ? 1 : ".repeat(110) + "2", "1"),
        ("!".repeat(101) + "true", "false"),
        ("-(".repeat(24) + "1" + &")".repeat(24), "1"),
        (vec!["payload"; 300].join(" && "), "true"),
        ("{1:".repeat(23) + "1" + &"}".repeat(23), ""),
        ("[1].map(a,".repeat(20) + "1" + &")".repeat(20), ""),
        ("size([".repeat(11) + &"])".repeat(11), ""),
    ] {
        match Expr::compile(&text) {
            Ok(_) => {
                let found = value(&text, "true");
                assert!(expected.is_empty() || found == expected, "`{text}` gave {found}");
            }
            Err(issue) => assert!(expected.is_empty(), "`{text}`: {issue}"),
        }
    }
}

const PIECES: &[&str] = &[
    "payload",
    ".a",
    ".b",
    "[0]",
    "['a']",
    "msg",
    ".key",
    ".headers",
    "env.X",
    "1",
    "2u",
    "1.5",
    "'s'",
    "b'x'",
    "true",
    "null",
    "[",
    "]",
    "{",
    "}",
    ":",
    "(",
    ")",
    ",",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " == ",
    " < ",
    " in ",
    " && ",
    " || ",
    " ? ",
    "!",
    "-",
    "has(",
    "size(",
    ".all(x, ",
    ".map(x, ",
    ".filter(x, ",
    ".exists_one(x, ",
    "x",
    "int(",
    "string(",
    "type(",
    ".matches(",
    "timestamp(",
    "\\",
    "'",
    "\"",
    "é",
    "`",
    ".?",
    "[?",
    "//",
    "\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No text makes compiling or evaluating panic, and every span is inside the text.
    #[test]
    fn texts_of_pieces_never_panic(
        pieces in proptest::collection::vec(prop::sample::select(PIECES), 0..14),
        payload in prop::sample::select(vec!["{\"a\":1,\"b\":[true,\"x\"]}", "[1,2.5,\"é\"]", "null", "\"s\"", "x"]),
    ) {
        let text = pieces.concat();
        match catch_unwind(|| Expr::compile(&text)) {
            Ok(Ok(_)) => {
                let found = value(&text, payload);
                prop_assert!(!found.contains("panicked"), "`{}`: {}", text, found);
            }
            Ok(Err(issue)) => {
                prop_assert!(text.get(issue.span.clone()).is_some(), "`{}`: {:?}", text, issue);
                prop_assert!(!issue.message.contains("cannot be compiled"), "`{}`: {:?}", text, issue);
            }
            Err(_) => prop_assert!(false, "`{}` panics", text),
        }
    }

    #[test]
    fn any_text_gives_an_issue_or_an_expression(text in "\\PC{0,40}") {
        if let Err(issue) = Expr::compile(&text) {
            prop_assert!(text.get(issue.span.clone()).is_some(), "`{}`: {:?}", text, issue);
        }
    }
}

#[test]
fn an_expression_can_be_shared_by_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&compile("payload.a.matches('x')"));
}
