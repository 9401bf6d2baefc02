//! The envelope as JSON, written and read.
//!
//! Bytes are null, a string where they are UTF-8, else `{"base64": …}`, so that every byte can be had back. What is read
//! back is written again byte for byte.

use std::borrow::Cow;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_types::Batch;
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Optional bytes, such as a payload: none is a tombstone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bytes<'a>(pub Option<Cow<'a, [u8]>>);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            None => serializer.serialize_none(),
            Some(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => serializer.serialize_str(text),
                Err(_) => {
                    let mut map = serializer.serialize_map(Some(1))?;
                    map.serialize_entry("base64", &STANDARD.encode(bytes))?;
                    map.end()
                }
            },
        }
    }
}

impl<'de> Deserialize<'de> for Bytes<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Text(String),
            Encoded { base64: String },
        }
        let bytes = match Option::<Written>::deserialize(deserializer)? {
            None => None,
            Some(Written::Text(text)) => Some(text.into_bytes()),
            Some(Written::Encoded { base64 }) => Some(STANDARD.decode(base64).map_err(D::Error::custom)?),
        };
        Ok(Bytes(bytes.map(Cow::Owned)))
    }
}

/// The plugin of a failing node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PluginName<'a> {
    pub name: Cow<'a, str>,
    pub digest: Cow<'a, str>,
}

/// See the module's description; fields in the order in which they are written.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Envelope<'a> {
    pub loom_error: u32,
    pub kind: Cow<'a, str>,
    pub reason: Cow<'a, str>,
    pub flow: Cow<'a, str>,
    pub node: Cow<'a, str>,
    /// Only of a node that has a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Cow<'a, str>>,
    pub plugin: Option<PluginName<'a>>,
    pub attempt: u32,
    pub failed_at_ms: i64,
    pub record: Record<'a>,
}

/// The record as the failing node received it, without headers that tell of failures.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record<'a> {
    pub topic: Cow<'a, str>,
    pub partition: i32,
    pub offset: i64,
    pub row: Cow<'a, str>,
    pub timestamp_ms: Option<i64>,
    pub key: Bytes<'a>,
    pub headers: Vec<(Bytes<'a>, Bytes<'a>)>,
    pub payload: Bytes<'a>,
}

impl<'a> Record<'a> {
    /// The record of a row.
    pub fn of(batch: &'a Batch, id: u32) -> Self {
        let bytes = |bytes: Option<&'a [u8]>| Bytes(bytes.map(Cow::Borrowed));
        let source = batch.source(id);
        Record {
            topic: Cow::Borrowed(source.topic),
            partition: source.partition,
            offset: source.offset.0,
            row: Cow::Borrowed(source.row),
            timestamp_ms: source.timestamp_ms,
            key: bytes(batch.key(id)),
            headers: super::own_headers(batch, id)
                .map(|(name, value)| (bytes(Some(name)), bytes(value)))
                .collect(),
            payload: bytes(batch.payload(id)),
        }
    }
}

/// What every envelope says of itself.
const MARK: &[u8] = b"\"loom_error\"";

impl Envelope<'static> {
    /// The envelope that a payload is; none if it is anything else.
    pub fn read(payload: &[u8]) -> Option<Self> {
        // Most failing records are none, and need not be parsed to see it.
        let begins = payload.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
        if !begins || memchr::memmem::find(payload, MARK).is_none() {
            return None;
        }
        let envelope: Envelope<'static> = serde_json::from_slice(payload).ok()?;
        (envelope.loom_error == 1).then_some(envelope)
    }
}

impl Envelope<'_> {
    /// Appends the envelope; false, with a part of it, where it would have more bytes than this.
    pub fn write(&self, out: &mut Vec<u8>, most: usize) -> bool {
        // An envelope is plain data: nothing but its end can fail.
        serde_json::to_writer(Bounded { out, left: most }, self).is_ok()
    }
}

/// Takes so many bytes more, and fails then.
struct Bounded<'o> {
    out: &'o mut Vec<u8>,
    left: usize,
}

impl io::Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.out.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
