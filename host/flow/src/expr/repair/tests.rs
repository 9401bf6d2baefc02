use super::super::Expr;
use super::repaired;

/// The issue of a text, in words: what it points at, what it says, what to write.
fn told(text: &str) -> (String, String, String) {
    let issue = Expr::compile(text).expect_err(text);
    (text[issue.span.clone()].to_owned(), issue.message, issue.hint.unwrap_or_default())
}

/// The form in a hint that says `write …`.
fn form(hint: &str) -> &str {
    hint.strip_prefix("write `").and_then(|rest| rest.strip_suffix('`')).unwrap_or(hint)
}

#[test]
fn the_hint_for_a_name_that_no_dot_can_stand_before_is_the_whole_name_in_a_form_that_compiles() {
    for (text, place, written) in [
        ("payload.user-id == 5", "payload.user-id", "payload['user-id']"),
        ("msg.headers.content-type == 'json'", "msg.headers.content-type", "msg.headers['content-type']"),
        ("payload.in == 1", "payload.in", "payload['in']"),
        ("payload.null == 1", "payload.null", "payload['null']"),
        ("payload.a.in.b == 1", "payload.a.in.b", "payload.a['in'].b"),
        ("payload.@timestamp > 1", "payload.@timestamp", "payload['@timestamp']"),
        ("@timestamp > 1", "@timestamp", "payload['@timestamp']"),
        (
            "payload.user-id.first-name == 'x'",
            "payload.user-id.first-name",
            "payload['user-id']['first-name']",
        ),
        ("true && payload.x-y > 3", "payload.x-y", "payload['x-y']"),
        ("payload.$ref == 'x'", "payload.$ref", "payload['$ref']"),
        ("payload.items.0.id == 1", "payload.items.0.id", "payload.items[0].id"),
        ("payload.items[0].unit-price > 1", "payload.items[0].unit-price", "payload.items[0]['unit-price']"),
        ("payload.\"user-id\" == 1", "payload.\"user-id\"", "payload['user-id']"),
        ("payload.größe > 1", "payload.größe", "payload['größe']"),
        ("env.MY-VAR == 'x'", "env.MY-VAR", "env['MY-VAR']"),
        ("user-id == 5", "user-id", "payload['user-id']"),
        ("has(payload[\"user-id\"])", "has(payload[\"user-id\"])", "('user-id' in payload)"),
        ("has(payload.user-id)", "has(payload.user-id)", "('user-id' in payload)"),
        (
            "!has(msg.headers['content-type'])",
            "has(msg.headers['content-type'])",
            "('content-type' in msg.headers)",
        ),
        ("has(payload.in)", "has(payload.in)", "('in' in payload)"),
        ("has(payload.items[0])", "has(payload.items[0])", "(size(payload.items) > 0)"),
        ("has(payload.user-id.name)", "payload.user-id.name", "payload['user-id'].name"),
        ("payload.user-id.startsWith('x')", "payload.user-id", "payload['user-id']"),
    ] {
        let (at, message, hint) = told(text);
        assert_eq!((at.as_str(), form(&hint)), (place, written), "{text}: {message}");
        let whole = text.replace(place, written);
        assert!(Expr::compile(&whole).is_ok(), "{whole}: {:?}", Expr::compile(&whole));
        assert_eq!(repaired(text).as_deref(), Some(whole.as_str()), "{text}");
    }
}

#[test]
fn a_difference_is_no_name_with_a_dash() {
    for text in ["payload.a - payload.b > 1", "payload.a-payload.b > 1", "payload.a-1 > 1"] {
        assert!(Expr::compile(text).is_ok(), "{text}");
    }
    let (_, message, hint) = told("payload.items.exists(x, x-y > 1)");
    assert!(message.contains("unknown variable `y`") && hint.contains("payload.y"), "{message} {hint}");
    let (_, message, hint) = told("payload.total - discount > 1");
    assert!(message.contains("variable `discount`") && hint.contains("payload.discount"), "{message} {hint}");
}

#[test]
fn words_of_other_languages_are_known() {
    let mut wrong = Vec::new();
    for (text, hint) in [
        ("payload.a ?? 'none'", "has(payload.x) ? payload.x : 'none'"),
        ("payload?.a == 1", "has(payload.field)"),
        ("payload.items.exists(x => x > 1)", "list.map(x, x.field)"),
        ("payload.items.map(x -> x.id)", "list.map(x, x.field)"),
        ("this.total > 1", "write `payload.total`"),
        ("payload.a.toUpperCase() == 'X'", "step: NAME"),
        ("payload.a.includes('x')", "text.contains('x')"),
        ("payload.items.length() > 1", "size(x)"),
        ("payload.items.some(x, payload.a > 1)", "list.exists"),
        ("payload.a === 1", "`==`"),
        ("payload.a !== 1", "`!=`"),
        ("payload.a <> 1", "`!=`"),
        ("payload.a == None", "`null`"),
        ("payload.a is null", "x == null"),
        ("payload.a like 'x%'", "text.contains"),
        ("payload.a =~ '^x'", "text.matches"),
        ("payload.a in (1, 2)", "x in [1, 2]"),
        ("if payload.a then 1 else 2", "condition ? a : b"),
        ("payload.a == 1;", "one value"),
        ("metadata.x == 'y'", "msg.headers"),
        ("parseInt(payload.a) > 1", "int(x)"),
        ("payload.a.or('x') == 'y'", "has(payload.x)"),
        ("$.total > 1", "payload"),
    ] {
        let (_, message, found) = told(text);
        if !found.contains(hint) {
            wrong.push(format!("{text}: {message}: {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_repaired_compiles_and_what_is_not_known_is_left() {
    for (text, expected) in [
        ("payload.a = 1 and payload.user-id = 2", Some("payload.a == 1 && payload['user-id'] == 2")),
        ("this.total > 1 or this.in", Some("payload.total > 1 || payload['in']")),
        ("payload.a", Some("payload.a")),
        ("payload.a like 'x'", None),
        ("nobody > 1", None),
        ("", None),
    ] {
        assert_eq!(repaired(text).as_deref(), expected, "{text}");
    }
}

#[test]
fn no_message_has_words_of_the_parser() {
    for text in [
        "payload.",
        ".",
        "(",
        ")",
        "payload..a",
        "a b",
        "1 2",
        "payload[",
        "payload[]",
        "{",
        "{1",
        "[1,",
        "f(",
        "f(,)",
        "@",
        "payload ? 1",
        "payload ? 1 :",
        "0x",
        "1e",
        "99999999999999999999u",
        "'\\q'",
        "b'\\xq'",
        "let x = 1",
        "if",
        "as",
        "payload.?a",
        "payload[?0]",
        "payload.`a",
        "Foo{",
        "Foo{a",
        "a.b.c{d: 1}",
        "\u{0}",
        "'",
        "'''",
        "r'",
        "\\",
        "#",
        "a => b",
        "payload.while.in",
        "in",
        "null.null",
        "-",
        "!",
        "!!",
        "--",
        "1..2",
        "a?b",
        "a?.b",
        "x.map(",
        "has()",
        "has(1)",
        "size(,",
    ] {
        let Err(issue) = Expr::compile(text) else { continue };
        for word in [
            "viable",
            "mismatched",
            "extraneous",
            "token",
            "EOF",
            "expecting",
            "Context",
            "recognition",
            "rule",
            "reserved identifier",
            "argument to",
            "missing '",
        ] {
            assert!(!issue.message.contains(word), "{text}: {}", issue.message);
        }
        assert!(issue.span.end <= text.len() && text.is_char_boundary(issue.span.start), "{text}");
    }
}
