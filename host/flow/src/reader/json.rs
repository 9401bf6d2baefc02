//! A tree as JSON: what a plugin gets as its configuration.
//!
//! Plain scalars mean what they mean to the YAML 1.2 core schema as `serde_yaml` reads it: `NO` and `on` are text, a
//! number with a leading zero is text, `0x10` is 16.

use serde_json::{Map, Number, Value};

use super::tree::{Content, Node, Scalar};
use crate::text::Span;

/// What JSON cannot hold.
pub(crate) struct NotJson {
    pub(crate) span: Span,
    pub(crate) message: String,
}

/// Turns a tree into JSON. `text` says what a scalar's text becomes: none leaves it to the core schema, some makes it
/// that string (an interpolated scalar stays text whatever its value looks like).
pub(crate) fn to_json(
    node: &Node,
    text: &mut dyn FnMut(&Scalar, Span) -> Option<String>,
    faults: &mut Vec<NotJson>,
) -> Value {
    if let Some(tag) = &node.tag {
        faults.push(NotJson {
            span: node.span,
            message: format!("the tag `{tag}` means nothing here; text that starts with `!` needs quotes"),
        });
        return Value::Null;
    }
    match &node.content {
        Content::Scalar(scalar) => match text(scalar, node.span) {
            Some(text) => Value::String(text),
            None if scalar.plain => plain(&scalar.text).unwrap_or_else(|message| {
                faults.push(NotJson { span: node.span, message });
                Value::Null
            }),
            None => Value::String(scalar.text.clone()),
        },
        Content::Sequence(items) => {
            Value::Array(items.iter().map(|item| to_json(item, text, faults)).collect())
        }
        Content::Mapping(entries) => {
            let mut map = Map::new();
            for entry in entries {
                map.insert(entry.key.text.clone(), to_json(&entry.value, text, faults));
            }
            Value::Object(map)
        }
    }
}

/// Whether a plain scalar looks like a number and is text, since it starts with a zero: a part number or a postcode
/// keeps its zeros so, where other readers take it for an octal number.
pub(crate) fn zero_led(scalar: &Scalar) -> bool {
    let text = scalar.text.as_str();
    scalar.plain && text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A plain scalar by the core schema; the error says why JSON cannot hold it.
fn plain(text: &str) -> Result<Value, String> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf" | "-.INF" | ".nan"
        | ".NaN" | ".NAN" => {
            return Err(format!("JSON has no number `{text}`; write it in quotes if the plugin takes text"));
        }
        _ => {}
    }
    let (negative, digits) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.starts_with(['+', '-']) {
        return Ok(Value::String(text.to_owned()));
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(rest) = digits.strip_prefix(prefix)
            && !rest.is_empty()
            && rest.chars().all(|c| c.is_digit(radix))
        {
            return whole(text, negative, u128::from_str_radix(rest, radix).ok());
        }
    }
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits {
        if digits.len() > 1 && digits.starts_with('0') {
            return Ok(Value::String(text.to_owned()));
        }
        return whole(text, negative, digits.parse().ok());
    }
    // Rust reads `inf` and `nan` as numbers; YAML spells them with a dot.
    let float = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match text.parse::<f64>() {
        Ok(value) if float => {
            Number::from_f64(value).map(Value::Number).map_or_else(|| Ok(Value::String(text.to_owned())), Ok)
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

fn whole(text: &str, negative: bool, magnitude: Option<u128>) -> Result<Value, String> {
    let too_large =
        || format!("the number `{text}` does not fit 64 bits; write it in quotes if the plugin takes text");
    let magnitude = magnitude.ok_or_else(too_large)?;
    if negative {
        let value = i128::try_from(magnitude).ok().and_then(|value| i64::try_from(-value).ok());
        value.map(|value| Value::Number(value.into())).ok_or_else(too_large)
    } else {
        u64::try_from(magnitude).map(|value| Value::Number(value.into())).map_err(|_| too_large())
    }
}
