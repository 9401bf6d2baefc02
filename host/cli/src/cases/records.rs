//! Records that were made, held against those that were expected, one by one. JSON is compared as expressions compare it,
//! and shown with the digits that it has.

use std::cell::OnceCell;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_flow::cases::{Body, Header, OutputRecord};
use loom_flow::expr::{ExactJson, same_number};
use loom_kafka::memory::Record;
use serde_json::{Value, json};

use super::error_row::ErrorRow;

/// Of one record no more differences are told.
const MOST: usize = 8;

/// Bytes of a record that are shown.
const SHOWN: usize = 400;

/// A record that was made; its payload is read as JSON once, however many it is held against.
pub struct Actual<'r> {
    pub record: &'r Record,
    json: OnceCell<Result<ExactJson, String>>,
}

impl<'r> Actual<'r> {
    pub fn new(record: &'r Record) -> Self {
        Actual { record, json: OnceCell::new() }
    }

    /// The payload as JSON, or why it is none. None for a tombstone.
    pub fn json(&self) -> Option<&Result<ExactJson, String>> {
        let payload = self.record.payload.as_deref()?;
        Some(self.json.get_or_init(|| ExactJson::parse(payload)))
    }
}

/// How a record differs from what was expected; nothing where it is as expected.
pub fn differences(expected: &OutputRecord, made: &Actual<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let actual = made.record;
    if let Some(key) = &expected.key
        && *key != actual.key
    {
        found.push(format!("key is {}, expected {}", text(actual.key.as_deref()), text(key.as_deref())));
    }
    headers(&expected.headers, &actual.headers, &mut found);
    if let Some(time) = expected.timestamp_ms
        && actual.timestamp_ms != Some(time)
    {
        let is = actual.timestamp_ms.map_or_else(|| "none".to_owned(), |time| time.to_string());
        found.push(format!("timestamp_ms is {is}, expected {time}"));
    }
    match &expected.body {
        Body::Any => {}
        Body::Bytes(bytes) if *bytes == actual.payload => {}
        Body::Bytes(bytes) => found.push(format!(
            "the payload is {}, expected {}",
            text(actual.payload.as_deref()),
            text(bytes.as_deref())
        )),
        Body::Json(expected) => payload(expected, made, true, &mut found),
        Body::Fields(expected) => payload(expected, made, false, &mut found),
    }
    if found.len() > MOST {
        let more = found.len() - MOST;
        found.truncate(MOST);
        found.push(format!("and {more} more"));
    }
    found
}

fn headers(expected: &[Header], actual: &[Header], found: &mut Vec<String>) {
    let mut names: Vec<&[u8]> = expected.iter().map(|(name, _)| &name[..]).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of = |all: &[Header]| -> Vec<Option<Vec<u8>>> {
            all.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone()).collect()
        };
        let (wanted, is) = (of(expected), of(actual));
        if wanted != is {
            let shown = |values: &[Option<Vec<u8>>]| match values {
                [] => "missing".to_owned(),
                some => some.iter().map(|value| text(value.as_deref())).collect::<Vec<_>>().join(", "),
            };
            let name = String::from_utf8_lossy(name);
            found.push(format!("header `{name}` is {}, expected {}", shown(&is), shown(&wanted)));
        }
    }
}

fn payload(expected: &ExactJson, actual: &Actual<'_>, whole: bool, found: &mut Vec<String>) {
    match actual.json() {
        None => found.push("there is no payload".to_owned()),
        Some(Ok(json)) => values("payload", expected, json, whole, found),
        Some(Err(why)) => found.push(format!("{why}: {}", text(actual.record.payload.as_deref()))),
    }
}

/// `whole`: an object has no fields beside the expected ones.
fn values(path: &str, expected: &ExactJson, actual: &ExactJson, whole: bool, found: &mut Vec<String>) {
    match (expected, actual) {
        (ExactJson::Object(wanted), ExactJson::Object(is)) => {
            for (name, wanted) in wanted {
                match is.get(name) {
                    Some(is) => values(&format!("{path}.{name}"), wanted, is, whole, found),
                    None => {
                        found.push(format!("{path}.{name} is missing, expected {}", cut(&wanted.to_string())))
                    }
                }
            }
            for (name, is) in is.iter().filter(|(name, _)| whole && !wanted.contains_key(*name)) {
                found.push(format!("{path}.{name} is {}, and was not expected", cut(&is.to_string())));
            }
        }
        (ExactJson::List(wanted), ExactJson::List(is)) if wanted.len() == is.len() => {
            for (index, (wanted, is)) in wanted.iter().zip(is).enumerate() {
                values(&format!("{path}[{index}]"), wanted, is, whole, found);
            }
        }
        (ExactJson::Number(wanted), ExactJson::Number(is)) if same_number(wanted, is) => {}
        _ if expected == actual => {}
        _ => found.push(format!(
            "{path} is {}, expected {}",
            cut(&actual.to_string()),
            cut(&expected.to_string())
        )),
    }
}

/// A record on one line, its JSON as JSON. One that an error route made begins with the failing node and the kind.
pub fn shown(made: &Actual<'_>) -> String {
    let record = made.record;
    let bytes = |bytes: Option<&[u8]>| match bytes {
        None => Value::Null,
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
        },
    };
    let mut parts = Vec::new();
    if !record.headers.is_empty() {
        let headers = record.headers.iter();
        let headers =
            headers.map(|(name, value)| json!([String::from_utf8_lossy(name), bytes(value.as_deref())]));
        parts.push(format!("\"headers\":{}", headers.collect::<Value>()));
    }
    let payload = match made.json() {
        Some(Ok(json)) => format!("\"json\":{json}"),
        _ => format!("\"value\":{}", bytes(record.payload.as_deref())),
    };
    parts.push(payload);
    if record.key.is_some() {
        parts.push(format!("\"key\":{}", bytes(record.key.as_deref())));
    }
    // In the order of their names.
    parts.sort_unstable();
    let line = cut(&format!("{{{}}}", parts.join(",")));
    match ErrorRow::of(made) {
        Some(row) => format!("{row}; {line}"),
        None => line,
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    match bytes.map(std::str::from_utf8) {
        None => "none".to_owned(),
        Some(Ok(text)) => cut(&format!("{text:?}")),
        Some(Err(_)) => cut(&format!("base64 {}", STANDARD.encode(bytes.unwrap_or_default()))),
    }
}

/// The front of a long text.
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use loom_flow::Stretch;
    use loom_flow::cases::{Body, OutputRecord};
    use loom_flow::expr::ExactJson;
    use loom_kafka::memory::Record;

    use super::{Actual, differences as of_actual, shown};

    fn differences(expected: &OutputRecord, record: &Record) -> Vec<String> {
        of_actual(expected, &Actual::new(record))
    }

    fn json(text: &str) -> ExactJson {
        ExactJson::parse(text.as_bytes()).expect("it is JSON")
    }

    fn expected(body: Body) -> OutputRecord {
        let at = Stretch { line: 1, column: 1, offset: 0, len: 0 };
        OutputRecord { at, key: None, headers: Vec::new(), timestamp_ms: None, body }
    }

    #[test]
    fn json_is_compared_by_value_and_fields_among_others() {
        let record = Record::value(r#"{ "b": [1, {"c": 2}], "a": 290.0 }"#);
        let all = json(r#"{ "a": 290, "b": [1, { "c": 2 }] }"#);
        assert!(differences(&expected(Body::Json(all)), &record).is_empty());
        let some = json(r#"{ "b": [1, {}] }"#);
        assert!(differences(&expected(Body::Fields(some.clone())), &record).is_empty());
        let found = differences(&expected(Body::Json(some)), &record);
        assert_eq!(
            found,
            ["payload.b[1].c is 2, and was not expected", "payload.a is 290.0, and was not expected"]
        );
        let other = json(r#"{ "a": 291, "b": [1], "x": null }"#);
        assert_eq!(
            differences(&expected(Body::Fields(other)), &record),
            [
                "payload.a is 290.0, expected 291",
                r#"payload.b is [1,{"c":2}], expected [1]"#,
                "payload.x is missing, expected null"
            ]
        );
        for (wanted, is) in [
            ("9007199254740992", "9007199254740993"),
            ("9007199254740992.0", "9007199254740993"),
            ("9007199254740993", "9007199254740992.0"),
            ("18446744073709551616", "18446744073709551617"),
        ] {
            assert_eq!(
                differences(&expected(Body::Json(json(wanted))), &Record::value(is)),
                [format!("payload is {is}, expected {wanted}")]
            );
        }
    }

    #[test]
    fn bytes_keys_and_headers_are_compared_where_they_are_named() {
        let record = Record::value([255]).keyed("k").header("a", Some(b"1")).header("a", None);
        assert!(differences(&expected(Body::Any), &record).is_empty());
        let mut wanted = expected(Body::Bytes(Some(vec![254])));
        wanted.key = Some(None);
        wanted.headers = vec![(b"a".to_vec(), Some(b"1".to_vec())), (b"b".to_vec(), None)];
        wanted.timestamp_ms = Some(7);
        assert_eq!(
            differences(&wanted, &record),
            [
                "key is \"k\", expected none",
                "header `a` is \"1\", none, expected \"1\"",
                "header `b` is missing, expected none",
                "timestamp_ms is none, expected 7",
                "the payload is base64 /w==, expected base64 /g==",
            ]
        );
        assert_eq!(
            shown(&Actual::new(&record)),
            r#"{"headers":[["a","1"],["a",null]],"key":"k","value":{"base64":"/w=="}}"#
        );
    }

    #[test]
    fn what_is_shown_has_its_digits_and_a_row_of_an_error_route_begins_with_node_and_kind() {
        let exact = Record::value(r#"{"n": 9007199254740993.50}"#);
        assert_eq!(shown(&Actual::new(&exact)), r#"{"json":{"n":9007199254740993.50}}"#);
        let envelope = r#"{"loom_error":1,"kind":"wire","node":"process[0]","reason":"no JSON","record":{"topic":"in","partition":0,"offset":2}}"#;
        let row = Record::value(envelope);
        let line = shown(&Actual::new(&row));
        assert!(line.starts_with("process[0] wire: in/0 at 2: no JSON; {\"json\":"), "{line}");
    }
}
