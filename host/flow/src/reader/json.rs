//! A tree as JSON: what a plugin gets as its configuration.
//!
//! Plain scalars mean what they mean to the YAML 1.2 core schema as `serde_yaml` reads it: `NO` and `on` are text, a
//! number with a leading zero is text, `0x10` is 16. One rule for what JSON, with numbers of 64 bits, cannot hold: it is
//! a fault, and quotes make text of it. No value changes on its way, keys included.

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
                if entry.key.plain && !matches!(plain(&entry.key.text), Ok(Value::String(_))) {
                    let written = &entry.key.text;
                    let message = format!(
                        "JSON has no key `{written}` that is not text; write it in quotes: `\"{written}\":`"
                    );
                    faults.push(NotJson { span: entry.key.span, message });
                }
                map.insert(entry.key.text.clone(), to_json(&entry.value, text, faults));
            }
            Value::Object(map)
        }
    }
}

/// Whether a plain scalar looks like a number and is text, since it starts with a zero: a part number or a postcode
/// keeps its zeros so, where other readers take it for an octal number.
pub(crate) fn zero_led(scalar: &Scalar) -> bool {
    let text = scalar.text.strip_prefix(['-', '+']).unwrap_or(&scalar.text);
    scalar.plain && text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a plain scalar is of a type of YAML's own without its tag.
pub(super) fn reads_as(text: &str, of: &str) -> bool {
    match plain(text) {
        Ok(Value::Null) => of == "null",
        Ok(Value::Bool(_)) => of == "bool",
        Ok(Value::Number(number)) => of == if number.is_f64() { "float" } else { "int" },
        _ => false,
    }
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
            match Number::from_f64(value).filter(|number| is_same(digits, &number.to_string())) {
                Some(number) => Ok(Value::Number(number)),
                None => Err(not_64_bits(text)),
            }
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

/// Whether two decimal numbers are the same, whatever their zeros and exponents; the sign is not looked at.
fn is_same(one: &str, other: &str) -> bool {
    decimal(one).is_some_and(|one| decimal(other) == Some(one))
}

/// The digits of a number without zeros at either end, and the power of ten of the last.
fn decimal(text: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = text.trim_start_matches('-').split_once(['e', 'E']).unwrap_or((text, "0"));
    let mantissa = mantissa.trim_start_matches('-');
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let short = digits.trim_end_matches('0');
    if short.trim_start_matches('0').is_empty() {
        return Some((String::new(), 0));
    }
    let cut = i64::try_from(digits.len() - short.len()).ok()?;
    let power = exponent.parse::<i64>().ok()?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    Some((short.trim_start_matches('0').to_owned(), power.checked_add(cut)?))
}

fn not_64_bits(text: &str) -> String {
    format!("the number `{text}` does not fit 64 bits; write it in quotes if the plugin takes text")
}

fn whole(text: &str, negative: bool, magnitude: Option<u128>) -> Result<Value, String> {
    let too_large = || not_64_bits(text);
    let magnitude = magnitude.ok_or_else(too_large)?;
    if negative {
        let value = i128::try_from(magnitude).ok().and_then(|value| i64::try_from(-value).ok());
        value.map(|value| Value::Number(value.into())).ok_or_else(too_large)
    } else {
        u64::try_from(magnitude).map(|value| Value::Number(value.into())).map_err(|_| too_large())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{decimal, is_same, plain};

    #[test]
    fn a_number_keeps_its_value_or_is_a_fault() {
        for (text, value) in [
            ("0.1", json!(0.1)),
            ("1.10", json!(1.1)),
            ("-0.25", json!(-0.25)),
            ("-0.0", json!(-0.0)),
            ("1e3", json!(1000.0)),
            ("1E+3", json!(1000.0)),
            ("1.", json!(1.0)),
            (".5", json!(0.5)),
            ("01.5", json!(1.5)),
            ("0.0e999", json!(0.0)),
            ("9007199254740992.0", json!(9_007_199_254_740_992.0)),
            ("1.7976931348623157e308", json!(f64::MAX)),
            ("5e-324", json!(5e-324)),
            ("18446744073709551615", json!(u64::MAX)),
        ] {
            assert_eq!(plain(text), Ok(value), "{text}");
        }
        for text in [
            "1e400",
            "-1e400",
            "1e-400",
            "9007199254740993.5",
            "9007199254740993.0",
            "-9007199254740993.5",
            "0.1000000000000000055511151231257827",
            "3.141592653589793238",
            "1e99999999999999999999",
            "18446744073709551616",
            ".inf",
            "-.INF",
            ".nan",
        ] {
            assert!(plain(text).is_err(), "{text}: {:?}", plain(text));
        }
        for text in ["1.2.3", "1e", "e3", "inf", "nan", "1_000", "2026-01-01", "12:30", "007", "-007", "."] {
            assert_eq!(plain(text), Ok(json!(text)), "{text}");
        }
    }

    #[test]
    fn decimals_are_compared_by_their_digits() {
        assert!(is_same("1e3", "1000.0") && is_same("0.00100", "1e-3") && is_same("000", "0.0e5"));
        assert!(!is_same("1e3", "1e4") && !is_same("1", "1.0000000000000000000001"));
        assert_eq!(decimal("12.300e5"), Some(("123".to_owned(), 4)));
    }
}
