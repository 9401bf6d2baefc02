//! One line of an input as a record: a payload as it stands, or, with `--envelope`, an object that names the record's
//! parts. What an envelope's value means for bytes: a string is its text, `{"base64": "…"}` the bytes, null none, any
//! other JSON its own text without insignificant white space (digits, order and duplicates stay).

use std::borrow::Cow;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_kafka::memory::{Record, partition_of_key};
use serde::Deserialize;
use serde_json::error::Category;
use serde_json::value::RawValue;

/// A topic that records can go to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub topic: String,
    /// How many partitions it has, at least one.
    pub partitions: i32,
}

/// A record and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parsed {
    /// Index into the targets.
    pub topic: usize,
    pub partition: i32,
    pub record: Record,
}

/// Turns lines into records.
pub struct Lines {
    envelope: bool,
    targets: Vec<Target>,
    /// The next partition of each target for a record without key.
    turns: Vec<i32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    topic: Option<Cow<'a, str>>,
    #[serde(default)]
    partition: Option<i32>,
    #[serde(borrow, default)]
    key: Option<&'a RawValue>,
    #[serde(borrow, default)]
    headers: Option<Vec<(Cow<'a, str>, Option<&'a RawValue>)>>,
    #[serde(default)]
    timestamp_ms: Option<i64>,
    #[serde(borrow, deserialize_with = "required")]
    payload: Option<&'a RawValue>,
}

/// An option whose key must be there all the same: leaving the payload out is a slip, null is a tombstone.
fn required<'de, D: serde::Deserializer<'de>>(value: D) -> Result<Option<&'de RawValue>, D::Error> {
    Option::deserialize(value)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Base64<'a> {
    #[serde(borrow)]
    base64: &'a RawValue,
}

impl Lines {
    /// Records without a topic of their own go to the first of `targets`, of which there is at least one.
    pub fn new(envelope: bool, targets: Vec<Target>) -> Self {
        assert!(!targets.is_empty(), "an input has a topic to go to");
        let turns = vec![0; targets.len()];
        Lines { envelope, targets, turns }
    }

    /// The record of a line.
    ///
    /// # Errors
    /// What is wrong with the line, for people.
    pub fn parse(&mut self, line: &[u8]) -> Result<Parsed, String> {
        let (topic, partition, mut record) =
            if self.envelope { self.envelope(line)? } else { (0, None, Record::value(line)) };
        record.timestamp_ms = record.timestamp_ms.or_else(|| Some(now_ms()));
        let partition = match (partition, &record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_of_key(key, self.targets[topic].partitions),
            (None, None) => self.turn(topic),
        };
        Ok(Parsed { topic, partition, record })
    }

    fn envelope(&self, line: &[u8]) -> Result<(usize, Option<i32>, Record), String> {
        let text = std::str::from_utf8(line).map_err(|error| {
            format!("not UTF-8, from byte {} on; bytes go into {BASE64}", error.valid_up_to() + 1)
        })?;
        if text.trim().is_empty() {
            return Err("the line is empty; with --envelope each line is an object".to_owned());
        }
        let Envelope { topic, partition, key, headers, timestamp_ms, payload } =
            serde_json::from_str(text).map_err(|error| format!("no envelope: {}", plainly(&error)))?;
        let topic = self.topic(topic.as_deref())?;
        if let Some(partition) = partition {
            self.check_partition(topic, partition)?;
        }
        let mut record = Record {
            key: bytes("key", key)?,
            payload: bytes("payload", payload)?,
            headers: Vec::new(),
            timestamp_ms,
        };
        for (name, value) in headers.unwrap_or_default() {
            let value = bytes("a header", value)?;
            record.headers.push((name.into_owned().into_bytes(), value));
        }
        Ok((topic, partition, record))
    }

    fn topic(&self, name: Option<&str>) -> Result<usize, String> {
        let Some(name) = name else { return Ok(0) };
        let found = self.targets.iter().position(|target| target.topic == name);
        found.ok_or_else(|| {
            let names: Vec<_> = self.targets.iter().map(|target| format!("`{}`", target.topic)).collect();
            format!("the flow does not read a topic `{name}`; it reads {}", names.join(", "))
        })
    }

    fn check_partition(&self, topic: usize, partition: i32) -> Result<(), String> {
        let Target { topic, partitions } = &self.targets[topic];
        if (0..*partitions).contains(&partition) {
            return Ok(());
        }
        Err(match partitions {
            1 => format!(
                "there is no partition {partition}: `{topic}` has partition 0 only; --partitions sets how many"
            ),
            n => format!(
                "there is no partition {partition}: `{topic}` has 0 to {}; --partitions sets how many",
                n - 1
            ),
        })
    }

    fn turn(&mut self, topic: usize) -> i32 {
        let turn = self.turns[topic];
        self.turns[topic] = (turn + 1) % self.targets[topic].partitions;
        turn
    }
}

/// The fields of an envelope.
const FIELDS: [&str; 6] = ["topic", "partition", "key", "headers", "timestamp_ms", "payload"];

const BASE64: &str = "`{\"base64\": \"…\"}`";

/// The bytes that a value of an envelope stands for.
fn bytes(what: &str, value: Option<&RawValue>) -> Result<Option<Vec<u8>>, String> {
    let Some(value) = value else { return Ok(None) };
    let text = value.get();
    match text.as_bytes()[0] {
        b'n' => Ok(None),
        b'"' => string(what, text).map(|text| Some(text.into_bytes())),
        b'{' => match serde_json::from_str::<Base64<'_>>(text) {
            Ok(Base64 { base64 }) => decoded(what, base64.get()).map(Some),
            Err(_) => Ok(Some(compact(text))),
        },
        _ => Ok(Some(compact(text))),
    }
}

fn string(what: &str, text: &str) -> Result<String, String> {
    serde_json::from_str(text).map_err(|error| format!("{what} is no string: {}", plainly(&error)))
}

fn decoded(what: &str, text: &str) -> Result<Vec<u8>, String> {
    if !text.starts_with('"') {
        return Err(format!("{what}: `base64` takes a string"));
    }
    STANDARD.decode(string(what, text)?).map_err(|error| format!("{what} is not base64: {error}"))
}

/// Valid JSON without white space between its parts.
fn compact(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    for byte in text.bytes() {
        if quoted {
            quoted = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            continue;
        } else {
            quoted = byte == b'"';
        }
        out.push(byte);
    }
    out
}

/// A JSON error in plain words, with its column; the line is the input's, which the parser does not know.
fn plainly(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text);
    let plain = match error.classify() {
        Category::Eof => "the JSON ends too early".to_owned(),
        // Two messages that speak of the parser's grammar and not of the line.
        Category::Syntax if matches!(what, "expected ident" | "expected value") => {
            "it is not JSON".to_owned()
        }
        Category::Syntax if what == "recursion limit exceeded" => {
            "it is nested deeper than 128 levels, which is as deep as the host reads".to_owned()
        }
        Category::Syntax | Category::Io => format!("it is not JSON: {what}"),
        Category::Data => of_data(what),
    };
    match error.column() {
        0 => plain,
        column => format!("{plain} (column {column})"),
    }
}

/// What is wrong with JSON that is well formed.
fn of_data(what: &str) -> String {
    let quoted = |text: &str| text.split('`').nth(1).unwrap_or_default().to_owned();
    if what.starts_with("unknown field") {
        let field = quoted(what);
        let near = FIELDS.iter().map(|known| (strsim::jaro_winkler(&field, known), known));
        let near = near.filter(|(similar, _)| *similar > 0.8).max_by(|one, two| one.0.total_cmp(&two.0));
        return match near {
            Some((_, near)) => format!("there is no field `{field}`; did you mean `{near}`?"),
            None => format!("there is no field `{field}`; there are {}", FIELDS.join(", ")),
        };
    }
    if what.starts_with("missing field") {
        return format!("the field `{}` is missing", quoted(what));
    }
    if what.starts_with("duplicate field") {
        return format!("the field `{}` is there twice", quoted(what));
    }
    if what.starts_with("invalid length") && what.ends_with("a tuple of size 2") {
        return "a pair `[name, value]` is expected here".to_owned();
    }
    let Some((found, wanted)) = what
        .strip_prefix("invalid ")
        .and_then(|rest| rest.split_once(": "))
        .and_then(|(_, rest)| rest.split_once(", expected "))
    else {
        return what.to_owned();
    };
    let wanted = match wanted {
        "a sequence" => "a list",
        "a tuple of size 2" => "a pair `[name, value]`",
        "i32" | "i64" => "a whole number",
        wanted if wanted.starts_with("struct ") => "an object",
        wanted => wanted,
    };
    let found = match found {
        "map" => "an object",
        "sequence" => "a list",
        found => found,
    };
    format!("{wanted} is expected here, not {found}")
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use loom_kafka::memory::Record;

    use super::{Lines, Parsed, Target};

    fn lines(envelope: bool, partitions: i32) -> Lines {
        let target = |topic: &str, partitions| Target { topic: topic.to_owned(), partitions };
        Lines::new(envelope, vec![target("in", partitions), target("other", 2)])
    }

    fn envelope(line: &str) -> Result<Parsed, String> {
        lines(true, 4).parse(line.as_bytes())
    }

    fn payload(json: &str) -> Option<Vec<u8>> {
        envelope(&format!("{{\"payload\":{json}}}")).unwrap().record.payload
    }

    #[test]
    fn a_plain_line_is_the_payload_as_it_stands() {
        for line in [&b""[..], b" {\"a\": 1} ", b"\xff\x00", b"null"] {
            let parsed = lines(false, 1).parse(line).unwrap();
            assert_eq!(parsed.record.payload.as_deref(), Some(line));
            assert_eq!(parsed.record.key, None);
            assert!(parsed.record.timestamp_ms.is_some(), "records of Kafka have a time");
        }
    }

    #[test]
    fn records_without_key_take_turns_and_keys_stay_together() {
        let mut lines = lines(true, 3);
        let mut partition = |line: &str| lines.parse(line.as_bytes()).unwrap().partition;
        let turns: Vec<_> = (0..4).map(|_| partition(r#"{"payload":1}"#)).collect();
        assert_eq!(turns, [0, 1, 2, 0]);
        let keyed = partition(r#"{"key":"k","payload":1}"#);
        assert_eq!(partition(r#"{"key":"k","payload":2}"#), keyed);
        assert_eq!(partition(r#"{"key":"k","partition":2,"payload":2}"#), 2);
        assert_eq!(partition(r#"{"payload":1}"#), 1, "a key takes no turn");
    }

    #[test]
    fn all_parts_of_an_envelope_reach_the_record() {
        let line = r#"{"topic":"other","partition":1,"key":"ü","headers":[["b","1"],["a",null],["b",{"base64":"AP8="}],["n",[1, 2]]],"timestamp_ms":1700000000000,"payload":"text"}"#;
        let parsed = envelope(line).unwrap();
        let record = Record::value("text")
            .keyed("ü")
            .header("b", Some(b"1"))
            .header("a", None)
            .header("b", Some(&[0, 255]))
            .header("n", Some(b"[1,2]"))
            .at(1_700_000_000_000);
        assert_eq!(parsed, Parsed { topic: 1, partition: 1, record });
    }

    #[test]
    fn a_value_stands_for_bytes_that_nothing_rounds_or_reorders() {
        assert_eq!(payload("null"), None);
        assert_eq!(payload(r#""""#), Some(Vec::new()));
        assert_eq!(payload(r#""a\nb\u00fc""#), Some("a\nbü".into()));
        assert_eq!(payload(r#"{"base64":"/+8="}"#), Some(vec![255, 239]));
        let text = r#"{"z": 228930314431312345, "a" : [1.0, 1e400, -0.0], "d": 1, "d": 2, "s" : " \" \\" , "base64":"x"}"#;
        let kept = r#"{"z":228930314431312345,"a":[1.0,1e400,-0.0],"d":1,"d":2,"s":" \" \\","base64":"x"}"#;
        assert_eq!(payload(text), Some(kept.into()));
        assert_eq!(payload("  12.50 "), Some("12.50".into()));
        assert_eq!(payload("true"), Some("true".into()));
    }

    #[test]
    fn a_wrong_line_says_what_is_wrong() {
        for (line, what) in [
            ("", "the line is empty"),
            ("nonsense", "no envelope: it is not JSON (column 2)"),
            ("7", "no envelope: an object is expected here, not integer `7`"),
            (r#"{"payload":1"#, "no envelope: the JSON ends too early (column 12)"),
            (r#"{"paylod":1}"#, "there is no field `paylod`; did you mean `payload`?"),
            (r#"{"colour":1}"#, "there is no field `colour`; there are topic, partition"),
            (r#"{"key":"k"}"#, "the field `payload` is missing"),
            (r#"{"payload":1,"payload":2}"#, "the field `payload` is there twice"),
            (r#"{"payload":1,"headers":{"a":"b"}}"#, "a list is expected here, not an object"),
            (r#"{"payload":1,"headers":[["a"]]}"#, "a pair `[name, value]` is expected here"),
            (
                r#"{"payload":1,"topic":"inn"}"#,
                "the flow does not read a topic `inn`; it reads `in`, `other`",
            ),
            (r#"{"payload":1,"partition":4}"#, "there is no partition 4: `in` has 0 to 3"),
            (r#"{"payload":1,"partition":-1}"#, "there is no partition -1"),
            (
                r#"{"payload":1,"partition":5000000000}"#,
                "a whole number is expected here, not integer `5000000000`",
            ),
            (r#"{"payload":1,"partition":"1"}"#, "a whole number is expected here, not string \"1\""),
            (r#"{"payload":{"base64":"%"}}"#, "payload is not base64"),
            (r#"{"key":{"base64":7},"payload":1}"#, "key: `base64` takes a string"),
            (r#"{"payload":"\ud800"}"#, "payload is no string"),
        ] {
            let message = envelope(line).unwrap_err();
            assert!(message.contains(what), "{line}: {message}");
            assert!(!message.contains("at line"), "{line}: {message}");
        }
        let message = lines(true, 1).parse(b"{\"payload\":\"\xff\"}").unwrap_err();
        assert!(message.contains("not UTF-8, from byte 13 on"), "{message}");
    }
}
