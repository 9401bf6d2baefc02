//! Records of a case: keys, payloads and headers, as bytes and as JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::read::{number, partition, placed_name, stretch};
use super::{Body, Header, InputRecord, OutputRecord};
use crate::expr::ExactJson;
use crate::issue::Code;
use crate::reader::{Content, Node, NotJson, Scalar, to_json};
use crate::report::{Place, Problem};
use crate::spec::Cx;
use crate::spec::fields::{Field, Fields, refuse_tag};

/// The payload in its forms, of which a record has one at most.
const FORMS: [&str; 4] = ["value", "json", "fields", "base64"];

pub(super) fn input(cx: &mut Cx<'_>, item: &Field<'_>) -> Option<InputRecord> {
    let mut fields = Fields::of(cx, item)?;
    let place = item.place();
    one_form(cx, &fields, &place);
    let topic = placed_name(cx, fields.take("topic"));
    let in_partition = fields.take("partition").and_then(|field| partition(cx, &field));
    let key = fields.take("key").and_then(|field| bytes(cx, &field)).flatten();
    let headers = fields.take("headers").map(|field| headers(cx, &field)).unwrap_or_default();
    let timestamp_ms = fields.take("timestamp_ms").and_then(|field| number(cx, &field));
    let value = fields.take("value").map(|field| value(cx, &field));
    let of_json = fields.take("json").map(|field| json(cx, &field).map(|json| json.to_string().into_bytes()));
    let coded = fields.take("base64").map(|field| base64(cx, field.node, &field.place()));
    let payload = match (value, of_json, coded) {
        (Some(value), _, _) => Some(value),
        (_, Some(bytes), _) | (_, _, Some(bytes)) => Some(bytes.map(Some)),
        (None, None, None) => None,
    };
    let (mistyped, has_form) = (fields.has_unknown(), FORMS.iter().any(|form| fields.has(form)));
    fields.finish(cx, "a record that is read");
    let payload = match payload {
        Some(payload) => payload?,
        // A mistyped key has its own hint, and most probably is the payload.
        None if mistyped || has_form => return None,
        None => {
            let problem = Problem::error(Code::MissingKey, "a record that is read needs a payload");
            cx.push(
                &place,
                problem.hint("write `json: { … }`, `value: TEXT`, or `value: null` for a tombstone"),
            );
            return None;
        }
    };
    Some(InputRecord {
        at: stretch(cx, &place),
        topic,
        partition: in_partition,
        key,
        payload,
        headers,
        timestamp_ms,
    })
}

pub(super) fn output(cx: &mut Cx<'_>, item: &Field<'_>) -> Option<OutputRecord> {
    let mut fields = Fields::of(cx, item)?;
    let place = item.place();
    one_form(cx, &fields, &place);
    let key = fields.take("key").and_then(|field| bytes(cx, &field));
    let headers = fields.take("headers").map(|field| headers(cx, &field)).unwrap_or_default();
    let timestamp_ms = fields.take("timestamp_ms").and_then(|field| number(cx, &field));
    let mut body = Body::Any;
    if let Some(field) = fields.take("value") {
        body = Body::Bytes(value(cx, &field)?);
    }
    if let Some(field) = fields.take("json") {
        body = Body::Json(json(cx, &field)?);
    }
    if let Some(field) = fields.take("fields") {
        let json = json(cx, &field)?;
        if !matches!(json, ExactJson::Object(_)) {
            field.wrong_type(cx, "a mapping of fields");
            return None;
        }
        body = Body::Fields(json);
    }
    if let Some(field) = fields.take("base64") {
        body = Body::Bytes(Some(base64(cx, field.node, &field.place())?));
    }
    fields.finish(cx, "a record that is written");
    Some(OutputRecord { at: stretch(cx, &place), key, headers, timestamp_ms, body })
}

/// A payload is said in one way.
fn one_form(cx: &mut Cx<'_>, fields: &Fields<'_>, place: &Place) {
    let given: Vec<&str> = FORMS.into_iter().filter(|form| fields.knows(form) && fields.has(form)).collect();
    if let [first, second, ..] = given[..] {
        let message = format!("`{first}` and `{second}` both say what the payload is");
        cx.push(place, Problem::error(Code::ConflictingKeys, message).hint("keep one of them"));
    }
}

/// What a payload's text, or null, stands for.
fn value(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Option<Vec<u8>>> {
    if refuse_tag(cx, field) {
        return None;
    }
    if field.node.is_null() {
        return Some(None);
    }
    let Content::Scalar(Scalar { text, .. }) = &field.node.content else {
        let message = format!("`value` takes a text or null, not {}", field.node.what());
        cx.push(&field.place(), Problem::error(Code::WrongType, message).hint("write `json:` for it"));
        return None;
    };
    Some(Some(text.clone().into_bytes()))
}

/// Bytes that are none, a text, or `{ base64: … }`.
fn bytes(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Option<Vec<u8>>> {
    if refuse_tag(cx, field) {
        return None;
    }
    bytes_of(cx, field.key, field.node, &field.place())
}

fn bytes_of(cx: &mut Cx<'_>, name: &str, node: &Node, place: &Place) -> Option<Option<Vec<u8>>> {
    match &node.content {
        _ if node.is_null() => return Some(None),
        Content::Scalar(Scalar { text, .. }) => return Some(Some(text.clone().into_bytes())),
        Content::Mapping(entries) => {
            if let [entry] = &entries[..]
                && entry.key.text == "base64"
            {
                return base64(cx, &entry.value, place).map(Some);
            }
        }
        Content::Sequence(_) => {}
    }
    let message = format!("`{name}` takes a text, null or `{{ base64: … }}`, not {}", node.what());
    cx.error(place, Code::WrongType, message);
    None
}

fn base64(cx: &mut Cx<'_>, node: &Node, place: &Place) -> Option<Vec<u8>> {
    let Content::Scalar(Scalar { text, .. }) = &node.content else {
        cx.error(place, Code::WrongType, format!("`base64` takes a text, not {}", node.what()));
        return None;
    };
    match STANDARD.decode(text.trim()) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            cx.error(place, Code::ValueInvalid, format!("`{text}` is not base64: {error}"));
            None
        }
    }
}

fn json(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<ExactJson> {
    let mut faults = Vec::new();
    let json = exact(field.node, &mut faults);
    if faults.is_empty() {
        return Some(json);
    }
    for fault in faults {
        let place = Place { span: fault.span, path: field.path.clone() };
        cx.error(&place, Code::ValueInvalid, fault.message);
    }
    None
}

/// A tree as JSON, with every digit of its numbers. The tree's own bound on nesting holds here too.
fn exact(node: &Node, faults: &mut Vec<NotJson>) -> ExactJson {
    match &node.content {
        Content::Sequence(items) if node.tag.is_none() => {
            ExactJson::List(items.iter().map(|item| exact(item, faults)).collect())
        }
        Content::Mapping(entries) if node.tag.is_none() => {
            let fields = entries.iter().map(|entry| (entry.key.text.clone(), exact(&entry.value, faults)));
            ExactJson::Object(fields.collect())
        }
        Content::Scalar(scalar) if node.tag.is_none() && scalar.plain => match number_text(&scalar.text) {
            Some(digits) => ExactJson::Number(digits),
            None => other(node, faults),
        },
        _ => other(node, faults),
    }
}

/// What is no list, no mapping and no decimal number.
fn other(node: &Node, faults: &mut Vec<NotJson>) -> ExactJson {
    match to_json(node, &mut |_, _| None, faults) {
        Json::Bool(value) => ExactJson::Bool(value),
        Json::String(text) => ExactJson::Text(text),
        Json::Number(number) => ExactJson::Number(number.to_string()),
        _ => ExactJson::Null,
    }
}

/// A decimal number of YAML in JSON's form; none for what is no number. Digits with a zero before them are text.
fn number_text(text: &str) -> Option<String> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) = rest.split_at(rest.find(['e', 'E']).unwrap_or(rest.len()));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let power = exponent.get(1..).map(|power| power.strip_prefix(['+', '-']).unwrap_or(power));
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let is_number = digits(whole)
        && fraction.is_none_or(digits)
        && power.is_none_or(|power| !power.is_empty() && digits(power))
        && !(whole.is_empty() && fraction.is_none_or(str::is_empty));
    let is_part_number = fraction.is_none() && power.is_none() && whole.len() > 1 && whole.starts_with('0');
    if !is_number || is_part_number {
        return None;
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        some => some,
    };
    Some(match fraction {
        None => format!("{sign}{whole}{exponent}"),
        Some("") => format!("{sign}{whole}.0{exponent}"),
        Some(fraction) => format!("{sign}{whole}.{fraction}{exponent}"),
    })
}

/// Headers as a mapping, or as a list of pairs where a name comes twice.
fn headers(cx: &mut Cx<'_>, field: &Field<'_>) -> Vec<Header> {
    let place = field.place();
    let mut headers = Vec::new();
    match &field.node.content {
        Content::Mapping(entries) => {
            for entry in entries {
                if let Some(value) = bytes_of(cx, &entry.key.text, &entry.value, &place) {
                    headers.push((entry.key.text.clone().into_bytes(), value));
                }
            }
        }
        Content::Sequence(items) => {
            for item in items {
                let place = Place { span: item.span, path: place.path.clone() };
                if let Content::Sequence(pair) = &item.content
                    && let [name, value] = &pair[..]
                    && let Content::Scalar(Scalar { text, .. }) = &name.content
                {
                    if let Some(value) = bytes_of(cx, text, value, &place) {
                        headers.push((text.clone().into_bytes(), value));
                    }
                } else {
                    cx.error(&place, Code::WrongType, "a header in a list is `[name, value]`");
                }
            }
        }
        Content::Scalar(_) => field.wrong_type(cx, "a mapping, or a list of `[name, value]`"),
    }
    headers
}
