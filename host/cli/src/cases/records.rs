//! Records that were made, held against those that were expected: one by one, and as lists.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_flow::cases::{Body, Header, OutputRecord};
use loom_kafka::memory::Record;
use serde_json::{Value, json};

/// Of one record no more differences are told.
const MOST: usize = 8;

/// Bytes of a record that are shown.
const SHOWN: usize = 400;

/// Lists up to this long (one times the other) are aligned; longer ones are compared place by place.
const ALIGNED: usize = 1_000_000;

/// How a record differs from what was expected; nothing where it is as expected.
pub fn differences(expected: &OutputRecord, actual: &Record) -> Vec<String> {
    let mut found = Vec::new();
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
        Body::Json(expected) => payload(expected, actual, true, &mut found),
        Body::Fields(expected) => payload(expected, actual, false, &mut found),
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

fn payload(expected: &Value, actual: &Record, whole: bool, found: &mut Vec<String>) {
    let Some(bytes) = &actual.payload else {
        found.push("there is no payload".to_owned());
        return;
    };
    match serde_json::from_slice::<Value>(bytes) {
        Ok(actual) => values("payload", expected, &actual, whole, found),
        Err(_) => found.push(format!("the payload is not JSON: {}", text(Some(bytes)))),
    }
}

/// `whole`: an object has no fields beside the expected ones.
fn values(path: &str, expected: &Value, actual: &Value, whole: bool, found: &mut Vec<String>) {
    match (expected, actual) {
        (Value::Object(wanted), Value::Object(is)) => {
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
        (Value::Array(wanted), Value::Array(is)) if wanted.len() == is.len() => {
            for (index, (wanted, is)) in wanted.iter().zip(is).enumerate() {
                values(&format!("{path}[{index}]"), wanted, is, whole, found);
            }
        }
        (Value::Number(wanted), Value::Number(is)) if same_number(wanted, is) => {}
        _ if expected == actual => {}
        _ => found.push(format!(
            "{path} is {}, expected {}",
            cut(&actual.to_string()),
            cut(&expected.to_string())
        )),
    }
}

/// 290 and 290.0 are one number.
fn same_number(one: &serde_json::Number, other: &serde_json::Number) -> bool {
    let is_whole = |number: &serde_json::Number| number.is_i64() || number.is_u64();
    one == other || (!(is_whole(one) && is_whole(other)) && one.as_f64() == other.as_f64())
}

/// A record on one line, its JSON as JSON.
pub fn shown(record: &Record) -> String {
    let bytes = |bytes: Option<&[u8]>| match bytes {
        None => Value::Null,
        Some(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Value::String(text.to_owned()),
            Err(_) => json!({ "base64": STANDARD.encode(bytes) }),
        },
    };
    let mut line = serde_json::Map::new();
    if record.key.is_some() {
        line.insert("key".to_owned(), bytes(record.key.as_deref()));
    }
    if !record.headers.is_empty() {
        let headers = record.headers.iter();
        let headers =
            headers.map(|(name, value)| json!([String::from_utf8_lossy(name), bytes(value.as_deref())]));
        line.insert("headers".to_owned(), headers.collect());
    }
    let payload = record.payload.as_deref();
    match payload.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok()) {
        Some(json) => line.insert("json".to_owned(), json),
        None => line.insert("value".to_owned(), bytes(payload)),
    };
    cut(&Value::Object(line).to_string())
}

fn text(bytes: Option<&[u8]>) -> String {
    match bytes.map(std::str::from_utf8) {
        None => "none".to_owned(),
        Some(Ok(text)) => cut(&format!("{text:?}")),
        Some(Err(_)) => cut(&format!("base64 {}", STANDARD.encode(bytes.unwrap_or_default()))),
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What is at a place of two lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The expected one and the actual one belong together, though they may differ.
    Pair(usize, usize),
    /// The expected one is not there.
    Missing(usize),
    /// The actual one was not expected.
    Extra(usize),
}

/// Lists in their order: what fits is kept together, what differs between it is paired.
pub fn in_order(expected: usize, actual: usize, fits: impl Fn(usize, usize) -> bool) -> Vec<Step> {
    let kept = if expected.saturating_mul(actual) <= ALIGNED {
        longest(expected, actual, &fits)
    } else {
        (0..expected.min(actual)).map(|at| (at, at)).collect()
    };
    let mut steps = Vec::new();
    let (mut wanted, mut is) = (0, 0);
    for (to_wanted, to_is) in kept.into_iter().chain([(expected, actual)]) {
        while wanted < to_wanted && is < to_is {
            steps.push(Step::Pair(wanted, is));
            (wanted, is) = (wanted + 1, is + 1);
        }
        steps.extend((wanted..to_wanted).map(Step::Missing));
        steps.extend((is..to_is).map(Step::Extra));
        if to_wanted < expected {
            steps.push(Step::Pair(to_wanted, to_is));
        }
        (wanted, is) = (to_wanted + 1, to_is + 1);
    }
    steps
}

/// The longest common subsequence, as pairs.
fn longest(expected: usize, actual: usize, fits: &impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let width = actual + 1;
    let mut length = vec![0_u32; (expected + 1) * width];
    let mut same = vec![false; expected * actual];
    for wanted in (0..expected).rev() {
        for is in (0..actual).rev() {
            let fit = fits(wanted, is);
            same[wanted * actual + is] = fit;
            length[wanted * width + is] = if fit {
                length[(wanted + 1) * width + is + 1] + 1
            } else {
                length[(wanted + 1) * width + is].max(length[wanted * width + is + 1])
            };
        }
    }
    let mut pairs = Vec::new();
    let (mut wanted, mut is) = (0, 0);
    while wanted < expected && is < actual {
        if same[wanted * actual + is] {
            pairs.push((wanted, is));
            (wanted, is) = (wanted + 1, is + 1);
        } else if length[(wanted + 1) * width + is] >= length[wanted * width + is + 1] {
            wanted += 1;
        } else {
            is += 1;
        }
    }
    pairs
}

/// Lists whose order says nothing: as many pairs as can be made, then what is left.
pub fn in_any_order(expected: usize, actual: usize, fits: impl Fn(usize, usize) -> bool) -> Vec<Step> {
    let fitting: Vec<Vec<usize>> =
        (0..expected).map(|wanted| (0..actual).filter(|is| fits(wanted, *is)).collect()).collect();
    let mut taken_by: Vec<Option<usize>> = vec![None; actual];
    for wanted in 0..expected {
        let mut tried = vec![false; actual];
        augment(wanted, &fitting, &mut taken_by, &mut tried);
    }
    let mut steps: Vec<Step> = Vec::new();
    for wanted in 0..expected {
        let is = taken_by.iter().position(|by| *by == Some(wanted));
        steps.push(is.map_or(Step::Missing(wanted), |is| Step::Pair(wanted, is)));
    }
    steps.extend((0..actual).filter(|is| taken_by[*is].is_none()).map(Step::Extra));
    steps
}

/// Finds a record for an expected one, and others for those that had it. A record that fits several is so given to the
/// one that nothing else fits.
fn augment(first: usize, fitting: &[Vec<usize>], taken_by: &mut [Option<usize>], tried: &mut [bool]) {
    // Breadth first, with the way back, so that no list is deep enough to overflow a stack.
    let mut came_from: Vec<Option<usize>> = vec![None; taken_by.len()];
    let mut queue = std::collections::VecDeque::from([first]);
    while let Some(wanted) = queue.pop_front() {
        for is in &fitting[wanted] {
            if std::mem::replace(&mut tried[*is], true) {
                continue;
            }
            came_from[*is] = Some(wanted);
            match taken_by[*is] {
                Some(other) => queue.push_back(other),
                None => {
                    let mut free = Some(*is);
                    while let Some(is) = free {
                        let Some(wanted) = came_from[is] else { return };
                        free = taken_by.iter().position(|by| *by == Some(wanted));
                        taken_by[is] = Some(wanted);
                    }
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use loom_flow::Stretch;
    use loom_flow::cases::{Body, OutputRecord};
    use loom_kafka::memory::Record;
    use serde_json::json;

    use super::Step::{Extra, Missing, Pair};
    use super::{differences, in_any_order, in_order, shown};

    fn expected(body: Body) -> OutputRecord {
        let at = Stretch { line: 1, column: 1, offset: 0, len: 0 };
        OutputRecord { at, key: None, headers: Vec::new(), timestamp_ms: None, body }
    }

    #[test]
    fn json_is_compared_by_value_and_fields_among_others() {
        let record = Record::value(r#"{ "b": [1, {"c": 2}], "a": 290.0 }"#);
        let all = json!({ "a": 290, "b": [1, { "c": 2 }] });
        assert!(differences(&expected(Body::Json(all)), &record).is_empty());
        let some = json!({ "b": [1, {}] });
        assert!(differences(&expected(Body::Fields(some.clone())), &record).is_empty());
        let found = differences(&expected(Body::Json(some)), &record);
        assert_eq!(
            found,
            ["payload.b[1].c is 2, and was not expected", "payload.a is 290.0, and was not expected"]
        );
        let other = json!({ "a": 291, "b": [1], "x": null });
        assert_eq!(
            differences(&expected(Body::Fields(other)), &record),
            [
                "payload.a is 290.0, expected 291",
                r#"payload.b is [1,{"c":2}], expected [1]"#,
                "payload.x is missing, expected null"
            ]
        );
        let big = |number: u64| Body::Json(json!(number));
        let near = Record::value("9007199254740993");
        assert!(!differences(&expected(big(9_007_199_254_740_992)), &near).is_empty());
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
            shown(&record),
            r#"{"headers":[["a","1"],["a",null]],"key":"k","value":{"base64":"/w=="}}"#
        );
    }

    #[test]
    fn lists_are_aligned() {
        let of = |expected: &str, actual: &str| {
            let (one, other): (Vec<char>, Vec<char>) = (expected.chars().collect(), actual.chars().collect());
            in_order(one.len(), other.len(), |wanted, is| one[wanted] == other[is])
        };
        assert_eq!(of("abc", "abc"), [Pair(0, 0), Pair(1, 1), Pair(2, 2)]);
        assert_eq!(of("abc", "ac"), [Pair(0, 0), Missing(1), Pair(2, 1)]);
        assert_eq!(of("ac", "abc"), [Pair(0, 0), Extra(1), Pair(1, 2)]);
        assert_eq!(of("abc", "axc"), [Pair(0, 0), Pair(1, 1), Pair(2, 2)]);
        assert_eq!(of("", "a"), [Extra(0)]);
        assert_eq!(of("ab", ""), [Missing(0), Missing(1)]);
    }

    #[test]
    fn without_order_a_record_that_fits_several_is_given_where_it_is_needed() {
        // The first expected one fits both, the second only the first of them.
        let fits = |wanted: usize, is: usize| wanted == 0 || is == 0;
        assert_eq!(in_any_order(2, 2, fits), [Pair(0, 1), Pair(1, 0)]);
        assert_eq!(in_any_order(2, 1, |_, _| true), [Pair(0, 0), Missing(1)]);
        assert_eq!(in_any_order(1, 2, |_, is| is == 1), [Pair(0, 1), Extra(0)]);
    }
}
