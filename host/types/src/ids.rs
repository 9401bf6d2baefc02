//! One newtype a noun. What is read and what is committed are different types, so that "commit the offset that was
//! read" (one too low) does not compile.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The offset of one record in its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordOffset(pub i64);

impl RecordOffset {
    /// The offset to commit once this record and all before it are done.
    #[must_use]
    pub fn next(self) -> CommitOffset {
        CommitOffset(self.0 + 1)
    }
}

impl fmt::Display for RecordOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The next offset to read: a position, a committed offset, a floor or a partition's end. Everything below it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommitOffset(pub i64);

impl CommitOffset {
    /// Committing so that exactly this record is read next.
    #[must_use]
    pub fn at(record: RecordOffset) -> Self {
        CommitOffset(record.0)
    }
}

impl fmt::Display for CommitOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A source partition's dense number within one worker: an index into its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u32);

impl PartitionId {
    /// As an index into a table with one entry for each partition.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A worker's number within the cluster, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerIndex(pub u32);

impl fmt::Display for WorkerIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A cut of the whole flow that a recovery can resume, numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Kafka's own id of a topic: a topic that is deleted and made again has another. Written as Kafka prints it, in 22
/// characters of URL-safe base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub [u8; 16]);

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        // 128 bits are 21 groups of 6 and 2 bits, which the last character has at its top.
        for place in 0..TOPIC_ID_CHARS as u32 {
            let shift = 122_i32 - 6 * place as i32;
            let group = if shift >= 0 { bits >> shift } else { bits << -shift };
            write!(f, "{}", char::from(URL_SAFE[(group & 63) as usize]))?;
        }
        Ok(())
    }
}

/// A text that is no topic's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotATopicId;

impl fmt::Display for NotATopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a topic's id has 22 characters of URL-safe base64")
    }
}

impl std::error::Error for NotATopicId {}

impl FromStr for TopicId {
    type Err = NotATopicId;

    fn from_str(text: &str) -> Result<Self, NotATopicId> {
        if text.len() != TOPIC_ID_CHARS {
            return Err(NotATopicId);
        }
        let mut bits = 0_u128;
        for (place, character) in text.bytes().enumerate() {
            let group = URL_SAFE.iter().position(|other| *other == character).ok_or(NotATopicId)? as u128;
            if place == TOPIC_ID_CHARS - 1 {
                if group & 15 != 0 {
                    return Err(NotATopicId);
                }
                bits = bits << 2 | group >> 4;
            } else {
                bits = bits << 6 | group;
            }
        }
        Ok(TopicId(bits.to_be_bytes()))
    }
}

const TOPIC_ID_CHARS: usize = 22;

const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A partition as Kafka names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number within the topic, from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// Of a topic's name and a partition's number.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::TopicId;

    #[test]
    fn a_topic_s_id_is_written_as_kafka_prints_it() {
        let id = TopicId(*b"\xfb\xff\x00\x01 loom-host \xfe");
        assert_eq!(id.to_string(), "-_8AASBsb29tLWhvc3Qg_g");
        for id in [id, TopicId([0; 16]), TopicId([255; 16]), TopicId(std::array::from_fn(|at| 17 * at as u8))]
        {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(id.to_string().len(), 22);
        }
        assert_eq!(TopicId([0; 16]).to_string(), "A".repeat(22));
    }

    #[test]
    fn other_texts_are_no_ids() {
        for text in [
            "",
            "AAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAAAA",
            "AAAAAAAAAAAAAAAAAAAAA=",
            "AAAAAAAAAAAAAAAAAAAAAB",
        ] {
            assert!(text.parse::<TopicId>().is_err(), "{text}");
        }
    }
}
