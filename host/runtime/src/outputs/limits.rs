//! What a topic takes, and whether it takes a row: decided before the row is sent.
//!
//! A broker refuses whole batches, so it would blame a row's neighbours; and it answers a keyless row for a compacted
//! topic with an error that clients try again for ever.

use std::fmt;
use std::time::Duration;

use loom_kafka::OutputInfo;
use loom_types::{Batch, Moment};

use super::codec::Codec;
use super::size;

/// What was read this long ago is believed without another question.
const FRESH: Duration = Duration::from_secs(2);

/// A topic's configuration, as far as rows are judged by it, and when it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    max_bytes: usize,
    compacted: bool,
    /// See [`OutputInfo::keeps`].
    keeps: Option<Duration>,
    read_at: Moment,
}

/// Why a topic does not take a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objection {
    /// It has no key, and the topic is compacted.
    Keyless,
    /// As a batch of its own it has so many bytes, and the topic takes so many.
    TooLarge { bytes: usize, limit: usize, compressed: bool },
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objection::Keyless => f.write_str("the topic is compacted, and takes no record without a key"),
            Objection::TooLarge { bytes, limit, compressed } => {
                let compressed = if *compressed { " when compressed" } else { "" };
                write!(f, "it has {bytes} bytes{compressed}, and the topic's max.message.bytes is {limit}")
            }
        }
    }
}

impl Limits {
    pub(crate) fn new(info: &OutputInfo, read_at: Moment) -> Self {
        let (max_bytes, compacted, keeps) = (info.max_message_bytes, info.compacted, info.keeps);
        Limits { max_bytes, compacted, keeps, read_at }
    }

    /// Nothing newer will be told: they count as read now.
    pub(super) fn confirm(&mut self, now: Moment) {
        self.read_at = now;
    }

    /// How long the topic keeps a record by the time that it carries.
    pub(super) fn keeps(&self) -> Option<Duration> {
        self.keeps
    }

    pub(super) fn max_bytes(&self) -> usize {
        self.max_bytes
    }

    /// Whether a record without a key is refused.
    pub(super) fn is_compacted(&self) -> bool {
        self.compacted
    }

    /// Whether they were read so lately that an objection counts; the topic may have been configured anew.
    pub(super) fn are_fresh(&self, now: Moment) -> bool {
        now.since(self.read_at) < FRESH
    }

    /// Whether every row of the batch is taken, without a look at any of them; false when that cannot be told.
    pub(super) fn take_all(&self, batch: &Batch) -> bool {
        !self.compacted && size::upper_bound(batch) <= self.max_bytes
    }

    /// Whether the topic takes a row.
    pub(super) fn judge(&self, batch: &Batch, row: u32, codec: Option<Codec>) -> Result<(), Objection> {
        if self.compacted && batch.key(row).is_none() {
            return Err(Objection::Keyless);
        }
        let limit = self.max_bytes;
        let plain = size::of_row(batch, row);
        if plain <= limit {
            return Ok(());
        }
        let Some(codec) = codec else {
            return Err(Objection::TooLarge { bytes: plain, limit, compressed: false });
        };
        let bytes = size::compressed(batch, row, codec);
        // The client's library may do better than ours by a little. What is near the limit is sent, and is alone in its
        // batch; so if the broker refuses it, nobody else is blamed.
        if bytes <= limit + limit / 8 {
            return Ok(());
        }
        Err(Objection::TooLarge { bytes, limit, compressed: true })
    }
}
