//! Where a partition goes on whose position is no longer inside it, while the flow runs.

use loom_types::{CommitOffset, TopicId};

/// What was observed about a partition whose reader says that its position is outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The next offset to read.
    pub position: CommitOffset,
    /// The first offset that can be read.
    pub low: CommitOffset,
    /// The offset after the log's last, also where an open transaction ends what can be read before that.
    pub log_end: CommitOffset,
    /// Up to where the log is the one that was read, where an election cut it below the position.
    pub cut_at: Option<CommitOffset>,
    /// The topic's id at the start.
    pub topic_then: Option<TopicId>,
    /// The topic's id now.
    pub topic_now: Option<TopicId>,
    /// Whether an offset outside the partition is refused.
    pub refuse: bool,
}

/// How to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// The position is inside again: read on there.
    There,
    /// Retention passed the position: on at the beginning.
    Beginning {
        /// The first offset that can be read.
        low: CommitOffset,
    },
    /// The log was cut: on where it was, and the floor is lowered to it.
    Cut {
        /// Where: its new end, or the first of the other records that stand there now.
        at: CommitOffset,
    },
    /// The flow stops.
    Stop(Why),
}

/// Why a flow cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The topic was deleted and made again while the flow ran, or may have been: ids are not known.
    AnotherTopic,
    /// The flow refuses offsets outside the partition.
    Refused,
}

/// Decides how a partition goes on.
#[must_use]
pub fn onward(facts: &OutOfRange) -> Onward {
    let same = facts.topic_then.zip(facts.topic_now).map(|(then, now)| then == now);
    let inside = facts.position >= facts.low && facts.position <= facts.log_end;
    let cut_at = facts.cut_at.map(|at| at.min(facts.log_end).max(facts.low));
    match (same, cut_at) {
        (Some(false), _) => Onward::Stop(Why::AnotherTopic),
        (_, None) if inside => Onward::There,
        _ if facts.refuse => Onward::Stop(Why::Refused),
        (_, Some(at)) => Onward::Cut { at },
        _ if facts.position < facts.low => Onward::Beginning { low: facts.low },
        (Some(true), None) => Onward::Cut { at: facts.log_end },
        (None, None) => Onward::Stop(Why::AnotherTopic),
    }
}

#[cfg(test)]
mod tests {
    use loom_types::{CommitOffset, TopicId};

    use super::{Onward, OutOfRange, Why, onward};

    fn facts(position: i64) -> OutOfRange {
        OutOfRange {
            position: CommitOffset(position),
            low: CommitOffset(100),
            log_end: CommitOffset(500),
            cut_at: None,
            topic_then: Some(TopicId([1; 16])),
            topic_now: Some(TopicId([1; 16])),
            refuse: false,
        }
    }

    #[test]
    fn retention_goes_on_at_the_beginning_and_a_cut_log_at_its_end() {
        assert_eq!(onward(&facts(40)), Onward::Beginning { low: CommitOffset(100) });
        assert_eq!(onward(&facts(501)), Onward::Cut { at: CommitOffset(500) });
        for position in [100, 300, 500] {
            assert_eq!(onward(&OutOfRange { refuse: true, ..facts(position) }), Onward::There);
        }
        for position in [99, 501] {
            assert_eq!(onward(&OutOfRange { refuse: true, ..facts(position) }), Onward::Stop(Why::Refused));
        }
    }

    #[test]
    fn a_log_that_was_cut_and_has_grown_goes_on_where_it_was_cut() {
        let cut = |position, at| OutOfRange { cut_at: Some(CommitOffset(at)), ..facts(position) };
        assert_eq!(onward(&cut(300, 250)), Onward::Cut { at: CommitOffset(250) });
        assert_eq!(onward(&cut(501, 250)), Onward::Cut { at: CommitOffset(250) }, "beyond the end likewise");
        assert_eq!(onward(&cut(300, 40)), Onward::Cut { at: CommitOffset(100) }, "retention came after it");
        let unknown = OutOfRange { topic_then: None, ..cut(300, 250) };
        assert_eq!(onward(&unknown), Onward::Cut { at: CommitOffset(250) });
        assert_eq!(onward(&OutOfRange { refuse: true, ..cut(300, 250) }), Onward::Stop(Why::Refused));
        let other = OutOfRange { topic_now: Some(TopicId([2; 16])), ..cut(300, 250) };
        assert_eq!(onward(&other), Onward::Stop(Why::AnotherTopic));
    }

    #[test]
    fn another_topic_stops_the_flow_wherever_the_position_lies() {
        for position in [40, 300, 501] {
            let other = OutOfRange { topic_now: Some(TopicId([2; 16])), ..facts(position) };
            assert_eq!(onward(&other), Onward::Stop(Why::AnotherTopic));
        }
        let unknown = |position| OutOfRange { topic_then: None, ..facts(position) };
        assert_eq!(onward(&unknown(40)), Onward::Beginning { low: CommitOffset(100) });
        assert_eq!(onward(&unknown(501)), Onward::Stop(Why::AnotherTopic), "a cut log cannot be told apart");
    }
}
