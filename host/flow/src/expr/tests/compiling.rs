//! What is found before any record is seen, and where.

use super::super::{Expr, ResultKind};
use super::compile;

/// (expression, the text that the issue points at, its message, its hint)
fn issues(rows: &[(&str, &str, &str, &str)]) {
    let mut wrong = Vec::new();
    for (text, place, message, hint) in rows {
        match Expr::compile(text) {
            Ok(_) => wrong.push(format!("`{text}` compiles")),
            Err(issue) => {
                let found =
                    (&text[issue.span.clone()], issue.message.as_str(), issue.hint.as_deref().unwrap_or(""));
                if found != (*place, *message, *hint) {
                    wrong.push(format!(
                        "`{text}`\n  gave     {found:?}\n  expected {:?}",
                        (place, message, hint)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn syntax() {
    issues(&[
        ("", "", "the expression is empty", ""),
        ("  \n", "  \n", "the expression is empty", ""),
        ("payload.a =", "=", "syntax error: unexpected `=`", "equality is `==`"),
        ("payload.a = 1", "=", "syntax error: unexpected `=`", "equality is `==`"),
        (
            "payload.é and payload.b",
            "payload.é",
            "a name such as `é` cannot stand behind a dot",
            "write `payload['é']`",
        ),
        ("payload.a and payload.b", "and", "syntax error: unexpected `and`", "and is `&&`"),
        ("payload.a ==", "", "syntax error: the expression ends too early", ""),
        ("(payload.a", "", "syntax error: the expression ends too early", ""),
        (
            "payload.a == 'x",
            "'x",
            "syntax error: unexpected `'x`",
            "a string must be closed with the quote that opens it",
        ),
        ("'é' == 'ü' or true", "or", "syntax error: unexpected `or`", "or is `||`"),
        ("99999999999999999999", "99999999999999999999", "syntax error: invalid int literal", ""),
    ]);
}

#[test]
fn names() {
    issues(&[
        ("payloda.total > 1", "payloda", "unknown variable `payloda`", "did you mean `payload`?"),
        (
            "total > 1",
            "total",
            "unknown variable `total`",
            "a field of the record is `payload.total`, a text is `'total'`",
        ),
        (
            "size == '50'",
            "size",
            "unknown variable `size`",
            "`size` is a function; a field is `payload.size`, a text `'size'`",
        ),
        (
            "payload.a.map(x, y)",
            "y",
            "unknown variable `y`",
            "a field of the record is `payload.y`, a text is `'y'`",
        ),
        (
            "x + payload.a.map(x, x)",
            "x",
            "unknown variable `x`",
            "a field of the record is `payload.x`, a text is `'x'`",
        ),
        ("msg.ofset > 1", "msg.ofset", "`msg` has no field `ofset`", "did you mean `msg.offset`?"),
        (
            "msg.zzz",
            "msg.zzz",
            "`msg` has no field `zzz`",
            "its fields are key, topic, partition, offset, timestamp_ms, headers, row, type",
        ),
        ("env == 'x'", "env", "`env` alone is no value", "name the variable: `env.NAME`"),
        (
            "payload.a.startWith('x')",
            "payload.a.startWith('x')",
            "unknown method `startWith`",
            "did you mean `startsWith`?",
        ),
        ("true && sizeof(payload)", "sizeof(payload)", "unknown function `sizeof`", "did you mean `size`?"),
        ("Foo{a: 1}", "{", "messages of a named type are not supported", "write a map: `{'name': value}`"),
    ]);
}

#[test]
fn arities_and_forms() {
    issues(&[
        ("size()", "size()", "`size` takes one argument, not 0", "write `x.size()`"),
        ("size(payload, 1)", "size(payload, 1)", "`size` takes one argument, not 2", "write `x.size()`"),
        (
            "payload.a.contains()",
            "payload.a.contains()",
            "`contains` takes one argument, not 0",
            "write `x.contains(y)`",
        ),
        (
            "contains(payload.a, 'x')",
            "contains(payload.a, 'x')",
            "`contains` is not called like this",
            "write `x.contains(y)`",
        ),
        ("payload.a.int()", "payload.a.int()", "`int` is not called like this", "write `int(x)`"),
        ("has(payload)", "payload", "`has` takes a field", "write `has(payload.field)`"),
        (
            "payload.a.exists(x)",
            "payload.a.exists(x)",
            "this macro takes a variable and a condition",
            "write `list.exists(x, x.field > 0)`",
        ),
    ]);
}

#[test]
fn kinds() {
    issues(&[
        (
            "'a' + 1",
            "'a' + 1",
            "`+` does not work on a string and an int",
            "convert the other operand: `string(x)`",
        ),
        ("'a' * payload.b", "'a' * payload.b", "`*` does not work on a string and a value of the record", ""),
        (
            "msg.topic == 5",
            "msg.topic == 5",
            "a string and an int are never equal: `==` decides nothing here",
            "",
        ),
        ("msg.offset > 'a'", "msg.offset > 'a'", "an int and a string cannot be ordered", ""),
        ("[1] < payload.a", "[1] < payload.a", "a list has no order", ""),
        ("msg.topic && true", "msg.topic", "an operand of `&&` must be a boolean, not a string", ""),
        ("!1", "1", "the operand of `!` must be a boolean, not an int", ""),
        ("1 ? 2 : 3", "1", "what is before `?` must be a boolean, not an int", ""),
        (
            "payload.a in 'abc'",
            "'abc'",
            "`in` needs a list or a map, not a string",
            "a part of a text is found with `text.contains(part)`",
        ),
        ("msg.topic.x", "msg.topic.x", "a string has no field `x`", ""),
        ("msg.topic[0]", "msg.topic[0]", "a string cannot be indexed with an int", ""),
        ("[1]['a']", "[1]['a']", "a list has no field `a`", ""),
        ("size(5)", "5", "`size` does not take an int", ""),
        ("payload.a.matches('a(')", "'a('", "the pattern is not valid: unclosed group", ""),
        (
            "payload.a.map(x, true, x) && true",
            "payload.a.map(x, true, x)",
            "an operand of `&&` must be a boolean, not a list",
            "",
        ),
        ("{'a': 1, 'a': 2}", "'a'", "the map has this key already", ""),
        (
            "{1.5: 1}",
            "1.5",
            "a double cannot be the key of a map",
            "a key is a string, a whole number or a boolean",
        ),
        ("-'a'", "-'a'", "`-` needs a number, not a string", ""),
    ]);
}

#[test]
fn result_kinds() {
    for (text, kind) in [
        ("payload.a > 1", ResultKind::Bool),
        ("payload.a", ResultKind::Unknown),
        ("payload.a + 1", ResultKind::Unknown),
        ("payload.a + 'x'", ResultKind::String),
        ("1 + 2", ResultKind::Int),
        ("1 + 2.0", ResultKind::Double),
        ("1u", ResultKind::UInt),
        ("msg.topic", ResultKind::String),
        ("msg.key", ResultKind::Unknown),
        ("env.X", ResultKind::String),
        ("{'a': payload}", ResultKind::Map),
        ("payload.map(x, x)", ResultKind::List),
        ("payload.all(x, x)", ResultKind::Bool),
        ("payload.a ? 'x' : 'y'", ResultKind::String),
        ("payload.a ? 'x' : 1", ResultKind::Unknown),
        ("string(payload.a)", ResultKind::String),
        ("timestamp(payload.t) - timestamp(payload.u)", ResultKind::Duration),
        ("null", ResultKind::Null),
        ("true", ResultKind::Bool),
    ] {
        assert_eq!(compile(text).result_kind(), kind, "{text}");
    }
    let text = "payload.total > 1000.0";
    assert_eq!(format!("{:?}", compile(text)), text);
    assert_eq!(compile(text).source(), text);
}
