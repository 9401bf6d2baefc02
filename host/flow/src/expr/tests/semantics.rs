//! Operators, macros, functions, `msg` and `env`.

use super::super::EvalError;
use super::{compile, problem, table, with};

const ORDER: &str = r#"{"id":"o-1","total":1200,"vip":true,"lines":[{"sku":"a","n":1},{"sku":"b","n":3}],
    "note":null,"name":"Zoë 😀","tags":{"x":1,"y":2}}"#;

#[test]
fn paths_and_presence() {
    table(&[
        ("payload.id", ORDER, r#""o-1""#),
        ("payload['id']", ORDER, r#""o-1""#),
        ("payload.lines[1].sku", ORDER, r#""b""#),
        ("payload.lines[1]['n']", ORDER, "3"),
        ("payload.`id`", ORDER, r#""o-1""#),
        ("has(payload.id)", ORDER, "true"),
        ("has(payload.note)", ORDER, "true"),
        ("has(payload.nothing)", ORDER, "false"),
        ("has(payload.tags.x) && !has(payload.tags.z)", ORDER, "true"),
        ("has(payload.nothing.x)", ORDER, "task: `payload.nothing` is missing"),
        ("payload.nothing", ORDER, "task: `payload.nothing` is missing"),
        ("payload.tags.nothing > 1", ORDER, "task: `payload.tags.nothing` is missing"),
        ("payload['a b']", ORDER, "task: `payload['a b']` is missing"),
        ("payload.id.x", ORDER, "task: `payload.id.x` cannot be read: `payload.id` is a string"),
        ("payload.note.x", ORDER, "task: `payload.note.x` cannot be read: `payload.note` is null"),
        ("payload.lines[2]", ORDER, "task: `payload.lines` has no element 2"),
        ("payload.lines[-1]", ORDER, "task: `payload.lines` has no element -1"),
        ("payload.lines[0].x", ORDER, "task: `payload.lines[0].x` is missing"),
        ("payload[payload.id]", ORDER, "task: `payload['o-1']` is missing"),
        ("payload.lines.exists(l, l.x == 1)", ORDER, "task: `l.x` is missing"),
        ("payload.a", "[1]", "task: `payload.a` cannot be read: `payload` is a list"),
        ("'id' in payload", ORDER, "true"),
        ("payload.d", r#"{"d":1,"d":2}"#, "2"),
        ("size(payload)", r#"{"d":1,"d":2,"e":3}"#, "2"),
        ("payload.map(k, payload[k])", r#"{"d":1,"e":3,"d":2}"#, "[2,3]"),
        ("payload['é']", "{\"\\u00e9\":1}", "1"),
    ]);
}

#[test]
fn logic_needs_only_the_side_that_decides() {
    table(&[
        ("payload.vip && payload.total > 1000", ORDER, "true"),
        ("payload.nothing > 1 || payload.vip", ORDER, "true"),
        ("payload.vip || payload.nothing > 1", ORDER, "true"),
        ("payload.nothing > 1 && !payload.vip", ORDER, "false"),
        ("payload.nothing > 1 && payload.vip", ORDER, "task: `payload.nothing` is missing"),
        ("payload.id && true", ORDER, "task: `payload.id` must be a boolean; it is a string"),
        ("payload.vip ? 'a' : payload.nothing", ORDER, r#""a""#),
        ("!payload.total", ORDER, "task: `payload.total` must be a boolean; it is an int"),
    ]);
}

#[test]
fn equality_and_order() {
    table(&[
        ("payload.id == 'o-1'", ORDER, "true"),
        ("payload.id == 1", ORDER, "false"),
        ("payload.note == null", ORDER, "true"),
        ("payload.id != null", ORDER, "true"),
        ("payload.id < 'o-2'", ORDER, "true"),
        ("payload.id < 5", ORDER, "task: a string and an int cannot be ordered"),
        ("payload.lines < payload.lines", ORDER, "task: a list and a list cannot be ordered"),
        ("payload.lines[0] == {'n': 1.0, 'sku': 'a'}", ORDER, "true"),
        ("payload.lines[0] == {'n': 1, 'sku': 'a', 'x': 1}", ORDER, "false"),
        ("payload.lines.map(l, l.n) == [1, 3]", ORDER, "true"),
        ("payload.tags in [{'x': 1, 'y': 2}]", ORDER, "true"),
        ("payload.total in [1200.0]", ORDER, "true"),
        ("payload.id in ['x', 'o-1']", ORDER, "true"),
        ("payload.id in []", ORDER, "false"),
        ("payload.id in payload.total", ORDER, "task: `in` needs a list or a map, not an int"),
        ("b'abc' < b'abd'", ORDER, "true"),
        ("false < true", ORDER, "true"),
    ]);
}

#[test]
fn macros() {
    table(&[
        ("payload.lines.all(l, l.n > 0)", ORDER, "true"),
        ("payload.lines.exists(l, l.n > 2)", ORDER, "true"),
        ("payload.lines.exists(l, l.x > 2 || l.n == 3)", ORDER, "true"),
        ("payload.lines.exists_one(l, l.n > 0)", ORDER, "false"),
        ("payload.lines.exists_one(l, l.n > 2)", ORDER, "true"),
        ("payload.lines.map(l, l.sku)", ORDER, r#"["a","b"]"#),
        ("payload.lines.map(l, l.n > 2, l.sku)", ORDER, r#"["b"]"#),
        ("payload.lines.filter(l, l.n > 2)", ORDER, r#"[{"sku":"b","n":3}]"#),
        ("payload.tags.map(k, k + '!')", ORDER, r#"["x!","y!"]"#),
        ("payload.lines.map(l, payload.lines.map(m, l.n * m.n))", ORDER, "[[1,3],[3,9]]"),
        ("payload.lines.map(l, [l.n].map(l, l + 1))", ORDER, "[[2],[4]]"),
        ("[1, 2, 3].filter(x, x > 1).map(x, x * 2)", ORDER, "[4,6]"),
        ("{'b': 1, 'a': 2}.map(k, k)", ORDER, r#"["b","a"]"#),
        (
            "payload.id.all(x, true)",
            ORDER,
            "task: a macro goes over a list or a map; `payload.id` is a string",
        ),
        ("payload.lines.all(l, l.sku)", ORDER, "task: `l.sku` must be a boolean; it is a string"),
        ("payload.lines.all(l, l.n < 2 && l.x)", ORDER, "false"),
    ]);
}

#[test]
fn functions() {
    table(&[
        ("size(payload.name)", ORDER, "5"),
        ("payload.name.size()", ORDER, "5"),
        ("size(payload.lines) + size(payload.tags) + size(b'ab')", ORDER, "6"),
        (
            "payload.id.startsWith('o-') && payload.id.endsWith('1') && payload.id.contains('-')",
            ORDER,
            "true",
        ),
        ("payload.id.matches('^o-[0-9]+$')", ORDER, "true"),
        ("matches(payload.id, payload.id)", ORDER, "true"),
        ("'a('.matches('a' + '(')", ORDER, "task: the pattern is not valid: unclosed group"),
        ("payload.total.startsWith('x')", ORDER, "task: `startsWith` does not take an int"),
        ("payload.id.contains(payload.total)", ORDER, "task: `contains` does not take an int"),
        ("size(payload.total)", ORDER, "task: `size` does not take an int"),
        ("string(bytes('é'))", ORDER, r#""é""#),
        ("string(b'\\xff')", ORDER, "task: the bytes are not UTF-8"),
        ("bytes('foo')", ORDER, r#""Zm9v""#),
        ("bool('true')", ORDER, "true"),
        ("'a' + 'b' + payload.id", ORDER, r#""abo-1""#),
        ("payload.id + payload.total", ORDER, "task: `+` does not work on a string and an int"),
        ("type(payload.note) == null_type && type(payload) == map", ORDER, "true"),
        ("type(payload)", ORDER, "task: a type has no JSON"),
        ("timestamp('2026-01-01T00:00:00Z') + duration('90m')", ORDER, r#""2026-01-01T01:30:00Z""#),
        ("timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z')", ORDER, r#""86400s""#),
        ("timestamp('2026-01-01T00:00:00Z').getFullYear('-01:00')", ORDER, "2025"),
        ("duration('90m').getHours()", ORDER, "1"),
        ("timestamp(payload.id)", ORDER, "task: \"o-1\" is no RFC 3339 time of the years 1 to 9999"),
        (
            "timestamp('2026-01-01T00:00:00Z').getHours('Mars')",
            ORDER,
            "task: the time zone \"Mars\" is not known: write `UTC` or an offset such as `+02:00`",
        ),
        ("{payload.id: 1, true: 2, 3: 4}", ORDER, r#"{"o-1":1,"true":2,"3":4}"#),
        ("{payload.id: 1, 'o-1': 2}", ORDER, "task: a map has the key `'o-1'` twice"),
        ("{1: 'a'}[1u]", ORDER, r#""a""#),
    ]);
}

#[test]
fn msg_and_env() {
    table(&[
        ("msg.key", "0", r#""k-1""#),
        ("has(msg.key) && has(msg.timestamp_ms) && !has(msg.type)", "0", "true"),
        ("msg.topic + '/' + string(msg.partition) + '/' + string(msg.offset)", "0", r#""orders.in/3/40""#),
        ("msg.timestamp_ms", "0", "1700000000123"),
        ("msg.row", "0", r#""""#),
        ("msg.type", "0", "null"),
        ("msg.headers.trace", "0", r#""last""#),
        ("msg.headers['trace']", "0", r#""last""#),
        ("msg.headers.none", "0", "null"),
        ("msg.headers.other", "0", "task: `msg.headers.other` is missing"),
        ("has(msg.headers.trace) && !has(msg.headers.other) && 'none' in msg.headers", "0", "true"),
        ("msg.headers", "0", r#"{"trace":"last","none":null}"#),
        (
            "msg",
            "0",
            r#"{"key":"k-1","topic":"orders.in","partition":3,"offset":40,"timestamp_ms":1700000000123,"headers":{"trace":"last","none":null},"row":"","type":null}"#,
        ),
        ("msg['topic']", "0", r#""orders.in""#),
        ("env.REGION == 'eu'", "0", "true"),
        ("env['REGION']", "0", r#""eu""#),
        ("env.NOT_THERE", "0", "task: the variable `env.NOT_THERE` is not set"),
    ]);
    assert_eq!(compile("env.B == env.A || env.B == 'x'").env_names().collect::<Vec<_>>(), ["A", "B"]);
}

#[test]
fn keys_and_labels() {
    let key = |text: &str, payload: &str| {
        with(Some(payload.as_bytes()), |scope| match compile(text).key(scope) {
            Ok(key) => key.map_or("none".to_owned(), |key| String::from_utf8_lossy(&key).into_owned()),
            Err(error) => problem(text, &error),
        })
    };
    let label = |text: &str, payload: &str| {
        with(Some(payload.as_bytes()), |scope| match compile(text).label(scope) {
            Ok(label) => label,
            Err(error) => problem(text, &error),
        })
    };
    let unfit_key = |kind: &str| {
        format!("task: a key is a string, bytes, an int, a boolean or null; the value is {kind}")
    };
    let unfit_label = |what: &str| {
        format!("task: a selector answers with a string, a whole number or a boolean; the value is {what}")
    };
    for (payload, as_key, as_label) in [
        (r#""eu""#, "eu".to_owned(), "eu".to_owned()),
        (r#""""#, String::new(), String::new()),
        (r#""a\n""#, "a\n".to_owned(), "a\n".to_owned()),
        ("-7", "-7".to_owned(), "-7".to_owned()),
        ("18446744073709551615", "18446744073709551615".to_owned(), "18446744073709551615".to_owned()),
        (
            "12345678901234567890123",
            "12345678901234567890123".to_owned(),
            "12345678901234567890123".to_owned(),
        ),
        ("true", "true".to_owned(), "true".to_owned()),
        ("null", "none".to_owned(), unfit_label("null")),
        ("2.0", unfit_key("a double"), "2".to_owned()),
        ("2.5", unfit_key("a double"), unfit_label("2.5")),
        ("[1]", unfit_key("a list"), unfit_label("a list")),
        ("{}", unfit_key("a map"), unfit_label("a map")),
    ] {
        assert_eq!(key("payload", payload), as_key, "{payload}");
        assert_eq!(label("payload", payload), as_label, "{payload}");
    }
    assert_eq!(key("b'\\x41B'", "0"), "AB");
    assert_eq!(key("msg.key", "0"), "k-1");
}

#[test]
fn a_predicate_gives_a_boolean_or_fails() {
    let text = "payload.total";
    let expr = compile(text);
    let found = with(Some(ORDER.as_bytes()), |scope| expr.test(scope));
    let message = "`payload.total` must be a boolean; it is an int (in `payload.total`)";
    assert_eq!(found, Err(EvalError::Task(message.to_owned())));
    assert_eq!(with(Some(ORDER.as_bytes()), |scope| compile("payload.vip").test(scope)), Ok(true));
}

#[test]
fn an_error_leaves_the_output_as_it_was() {
    with(Some(ORDER.as_bytes()), |scope| {
        let mut out = b"before".to_vec();
        assert!(compile("[payload.id, payload.nothing]").json(scope, &mut out).is_err());
        assert!(compile("[payload.id, type(payload.id)]").json(scope, &mut out).is_err());
        assert_eq!(out, b"before");
    });
}
