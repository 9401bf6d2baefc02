//! The number rules, from payload to result.

use super::table;

#[test]
fn the_number_rules() {
    table(&[
        // The same formula over a whole number and a broken one.
        ("payload.total * 2", r#"{"total":10}"#, "20"),
        ("payload.total * 2", r#"{"total":10.5}"#, "21.0"),
        ("payload.total * 2", r#"{"total":10.0}"#, "20.0"),
        ("payload.total * 2.0", r#"{"total":10}"#, "20.0"),
        ("payload.total + 0.5", r#"{"total":10}"#, "10.5"),
        ("payload.a - payload.b", r#"{"a":1,"b":0.5}"#, "0.5"),
        ("payload.total > 1000.0", r#"{"total":1001}"#, "true"),
        ("payload.total > 1000.0", r#"{"total":1000}"#, "false"),
        ("payload.total == 10", r#"{"total":10.0}"#, "true"),
        ("payload.total in [10, 20]", r#"{"total":10.0}"#, "true"),
        // Whole numbers divide as whole numbers.
        ("payload.a / 4", r#"{"a":10}"#, "2"),
        ("payload.a / 4", r#"{"a":10.0}"#, "2.5"),
        ("payload.a % 4", r#"{"a":-10}"#, "-2"),
        ("payload.a % 4", r#"{"a":10.5}"#, "2.5"),
        // Kinds.
        ("type(payload) == int", "9223372036854775807", "true"),
        ("type(payload) == uint", "9223372036854775808", "true"),
        ("type(payload) == uint", "18446744073709551615", "true"),
        ("type(payload) == double", "18446744073709551616", "true"),
        ("type(payload) == double", "-9223372036854775809", "true"),
        ("type(payload) == int", "-9223372036854775808", "true"),
        ("type(payload) == double", "1.0", "true"),
        ("type(payload) == double", "1e2", "true"),
        ("type(payload) == int", "-0", "true"),
        // Exact above 2^53.
        ("payload.a == payload.b", r#"{"a":9007199254740993,"b":9007199254740992.0}"#, "false"),
        ("payload.a > payload.b", r#"{"a":9007199254740993,"b":9007199254740992.0}"#, "true"),
        ("payload.a > payload.b", r#"{"a":9223372036854775807,"b":9223372036854775808}"#, "false"),
        ("payload.a < payload.b", r#"{"a":18446744073709551615,"b":18446744073709551616}"#, "true"),
        ("payload.a in payload.b", r#"{"a":9007199254740993,"b":[9007199254740992.0]}"#, "false"),
        ("payload.a == payload.b", r#"{"a":18446744073709551615,"b":-1}"#, "false"),
        // Int and uint mix exactly.
        ("payload - 1", "9223372036854775808", "9223372036854775807"),
        ("payload + 1", "9223372036854775808", "9223372036854775809"),
        // Never wrapped, never infinite.
        ("payload + 1", "9223372036854775807", "task: the result is out of range (overflow)"),
        ("-payload", "-9223372036854775808", "task: the result is out of range (overflow)"),
        ("payload * 10", "1e308", "task: the result is out of range (overflow)"),
        ("payload / 0", "1", "task: division by zero"),
        ("payload / 0", "1.5", "task: division by zero"),
        ("1 / payload", "0.0", "task: division by zero"),
        ("payload % 0", "1", "task: division by zero"),
        ("payload + 1", "1e400", "task: the number 1e400 is out of range"),
        // Negative zero.
        ("payload", "-0.0", "-0.0"),
        ("payload == 0", "-0.0", "true"),
        ("payload + 0.0", "-0.0", "0.0"),
        // Conversions.
        ("int(payload)", "10.9", "10"),
        ("int(payload)", "-10.9", "-10"),
        ("int(payload)", "9223372036854775808.0", "task: the number is out of the range of int"),
        ("int(payload)", r#""12""#, "12"),
        ("int(payload)", r#""1.5""#, "task: \"1.5\" is no int"),
        ("uint(payload)", "-1", "task: the number is out of the range of uint"),
        ("double(payload)", "3", "3.0"),
        ("double(payload)", r#""inf""#, "task: \"inf\" is no finite double"),
        ("string(payload)", "1.50", r#""1.5""#),
        ("string(payload)", "228930314431312345", r#""228930314431312345""#),
        ("string(payload)", "12345678901234567890123", r#""12345678901234567890123""#),
        ("string(payload)", "true", r#""true""#),
    ]);
}

#[test]
fn numbers_pass_through_with_every_digit() {
    for number in [
        "1.10",
        "1E5",
        "1e400",
        "12345678901234567890123",
        "-0",
        "-0.0",
        "0.1000000000000000055511151231257827",
    ] {
        table(&[
            ("payload", number, number),
            ("[payload][0]", number, number),
            ("true ? payload : 0", number, number),
            ("dyn(payload)", number, number),
        ]);
    }
    table(&[
        ("payload.a.filter(x, x > 1.0)", r#"{"a":[1.00, 2.00, 3]}"#, "[2.00,3]"),
        ("payload.a + payload.a", r#"{"a":[1.00]}"#, "[1.00,1.00]"),
        ("{'id': payload.id}.id", r#"{"id":1.00}"#, "1.00"),
    ]);
}
