//! A JSON text as a tree that keeps the digits of every number, and numbers compared as expressions compare them.
//!
//! It is for what is shown and held against an expectation; expressions themselves read the tape.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use super::number::Number;
use super::tape::{Kind, Tape, TapeIndex, unescape};

/// A JSON value. Of duplicate keys the last counts, as in expressions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExactJson {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as it is written.
    Number(String),
    /// A string.
    Text(String),
    /// An array.
    List(Vec<ExactJson>),
    /// An object.
    Object(BTreeMap<String, ExactJson>),
}

impl ExactJson {
    /// Reads a text.
    ///
    /// # Errors
    /// Why it is not JSON, in words.
    pub fn parse(text: &[u8]) -> Result<ExactJson, String> {
        let mut tape = Tape::default();
        let root = tape.decode(text).map_err(|problem| problem.to_string())?;
        Ok(value(&tape, text, root))
    }
}

/// Nested no deeper than a tape takes.
fn value(tape: &Tape, text: &[u8], at: TapeIndex) -> ExactJson {
    let entry = tape.entry(at);
    let written = |at| {
        let entry = tape.entry(at);
        String::from_utf8_lossy(&text[entry.start as usize..entry.end as usize]).into_owned()
    };
    let string = |at| if tape.entry(at).kind == Kind::Escaped { unescape(&written(at)) } else { written(at) };
    match entry.kind {
        Kind::Null => ExactJson::Null,
        Kind::True => ExactJson::Bool(true),
        Kind::False => ExactJson::Bool(false),
        Kind::Integer | Kind::Fraction => ExactJson::Number(written(at)),
        Kind::Plain | Kind::Escaped => ExactJson::Text(string(at)),
        Kind::Array => {
            let mut items = Vec::new();
            let mut item = at + 1;
            while item < entry.next {
                items.push(value(tape, text, item));
                item = tape.entry(item).next;
            }
            ExactJson::List(items)
        }
        Kind::Object => {
            let mut fields = BTreeMap::new();
            let mut key = at + 1;
            while key < entry.next {
                fields.insert(string(key), value(tape, text, key + 1));
                key = tape.entry(key + 1).next;
            }
            ExactJson::Object(fields)
        }
    }
}

/// Compact JSON.
impl fmt::Display for ExactJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        match self {
            ExactJson::Null => f.write_str("null"),
            ExactJson::Bool(value) => write!(f, "{value}"),
            ExactJson::Number(digits) => f.write_str(digits),
            ExactJson::Text(text) => f.write_str(&quoted(text)),
            ExactJson::List(items) => {
                f.write_str("[")?;
                for (place, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if place > 0 { "," } else { "" })?;
                }
                f.write_str("]")
            }
            ExactJson::Object(fields) => {
                f.write_str("{")?;
                for (place, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{}{}:{value}", if place > 0 { "," } else { "" }, quoted(name))?;
                }
                f.write_str("}")
            }
        }
    }
}

/// Whether two numbers of JSON, as written, are one number to an expression: `290` and `290.0` are, `9007199254740993`
/// and `9007199254740992.0` are not. Whole numbers beyond 64 bits, which expressions compute with as doubles, are
/// compared by their digits where both are written as whole numbers; a number beyond all doubles equals itself alone.
#[must_use]
pub fn same_number(one: &str, other: &str) -> bool {
    let is_whole = |text: &str| !text.contains(['.', 'e', 'E']);
    let read = |text: &str| {
        if is_whole(text) { Number::from_json_integer(text) } else { Number::from_json_fraction(text) }
    };
    if one == other {
        return true;
    }
    match (read(one), read(other)) {
        (Some(Number::Double(_)), Some(Number::Double(_))) if is_whole(one) && is_whole(other) => false,
        (Some(one), Some(other)) => one.compare(other) == Ordering::Equal,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{ExactJson, same_number};

    #[test]
    fn digits_strings_and_the_last_of_duplicates_are_kept() {
        let text =
            r#" {"b": [1.50, -0, 1e400, 123456789012345678901], "a": "\u00e9\n", "b": null, "a\"": {} } "#;
        let json = ExactJson::parse(text.as_bytes()).expect("it is JSON");
        assert_eq!(json.to_string(), r#"{"a":"é\n","a\"":{},"b":null}"#);
        let list = ExactJson::parse(b"[1.50,-0,1e400,123456789012345678901,true,[]]").expect("it is JSON");
        assert_eq!(list.to_string(), "[1.50,-0,1e400,123456789012345678901,true,[]]");
        assert!(ExactJson::parse(b"{\"a\":").is_err_and(|why| why.contains("not JSON")));
    }

    #[test]
    fn numbers_are_compared_as_expressions_compare_them() {
        for (one, other, same) in [
            ("290", "290.0", true),
            ("1e3", "1000", true),
            ("0", "-0.0", true),
            ("-0", "0", true),
            ("12.50", "12.5", true),
            ("9007199254740993", "9007199254740992.0", false),
            ("9007199254740993", "9.007199254740993e15", false),
            ("9007199254740992", "9007199254740992.0", true),
            ("-9007199254740993", "-9007199254740992.0", false),
            ("18446744073709551615", "18446744073709551616.0", false),
            ("9223372036854775808", "9223372036854775808.0", true),
            ("100000000000000000000", "1e20", true),
            ("100000000000000000001", "100000000000000000000", false),
            ("1e400", "1e400", true),
            ("1e400", "1e401", false),
            ("1", "2", false),
        ] {
            assert_eq!(same_number(one, other), same, "{one} {other}");
            assert_eq!(same_number(other, one), same, "{other} {one}");
        }
    }
}
