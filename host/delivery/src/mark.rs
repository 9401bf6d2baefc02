//! What is written beside a committed offset, so that a later start can tell what the offset means.
//!
//! The text is `loom1 topic=ID run=ID` and, while a replay is under way, ` replay=OFFSET`: the committed offset is then the
//! floor, and the replay has come to the offset named. Words that are not known are skipped, so that a later version may
//! add some; a text that does not begin with `loom1` was written by somebody else.

use std::fmt;
use std::str::FromStr;

use loom_types::{CommitOffset, TopicId};

/// The first word: the format's name and version.
const HEAD: &str = "loom1";

/// Names one run of a host: drawn at random at its start. Of two, one is the lower.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A text that is no run's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run's id has 16 hexadecimal digits")]
pub struct NotARunId;

impl FromStr for RunId {
    type Err = NotARunId;

    fn from_str(text: &str) -> Result<Self, NotARunId> {
        if text.len() != 16 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotARunId);
        }
        u64::from_str_radix(text, 16).map(RunId).map_err(|_| NotARunId)
    }
}

/// The words behind the head, as names and values; a word without `=` has an empty value. None when somebody else wrote
/// the text.
pub(crate) fn words(text: &str) -> Option<impl Iterator<Item = (&str, &str)>> {
    let mut words = text.split_ascii_whitespace();
    (words.next() == Some(HEAD)).then(|| words.map(|word| word.split_once('=').unwrap_or((word, ""))))
}

/// See the module's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The topic that the offset belongs to, where the broker says.
    pub topic: Option<TopicId>,
    /// The run that wrote it.
    pub run: Option<RunId>,
    /// How far a replay below the committed offset has come.
    pub replay: Option<CommitOffset>,
}

impl Mark {
    /// Reads a text; none for one that somebody else wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Mark> {
        let mut mark = Mark::default();
        for (name, value) in words(text)? {
            match name {
                "topic" => mark.topic = value.parse().ok(),
                "run" => mark.run = value.parse().ok(),
                "replay" => mark.replay = value.parse().ok().map(CommitOffset),
                _ => {}
            }
        }
        Some(mark)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        if let Some(topic) = self.topic {
            write!(f, " topic={topic}")?;
        }
        if let Some(run) = self.run {
            write!(f, " run={run}")?;
        }
        if let Some(replay) = self.replay {
            write!(f, " replay={replay}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use loom_types::{CommitOffset, TopicId};
    use proptest::prelude::*;

    use super::{Mark, RunId};

    #[test]
    fn it_reads_as_people_see_it() {
        let mark = Mark { topic: Some(TopicId([0; 16])), run: Some(RunId(255)), replay: None };
        assert_eq!(mark.to_string(), "loom1 topic=AAAAAAAAAAAAAAAAAAAAAA run=00000000000000ff");
        let replay = Mark { replay: Some(CommitOffset(400)), ..mark };
        assert!(replay.to_string().ends_with(" run=00000000000000ff replay=400"));
    }

    #[test]
    fn a_foreign_text_is_no_mark_and_unknown_words_are_skipped() {
        for text in ["", "loom", "loom2 run=00000000000000ff", "run=00000000000000ff", "checkpoint 7"] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
        let later = Mark::parse("loom1 colour=blue run=00000000000000ff flag").unwrap();
        assert_eq!(later, Mark { run: Some(RunId(255)), ..Mark::default() });
        let broken = Mark::parse("loom1 topic=short run=0xff replay=many").unwrap();
        assert_eq!(broken, Mark::default());
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            topic in any::<Option<[u8; 16]>>(), run in any::<Option<u64>>(), replay in proptest::option::of(0..i64::MAX)
        ) {
            let mark =
                Mark { topic: topic.map(TopicId), run: run.map(RunId), replay: replay.map(CommitOffset) };
            prop_assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
        }
    }
}
