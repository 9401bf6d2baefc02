//! Where a partition starts, decided from observed facts.
//!
//! `resume > committed > reset`. What cannot be known is not guessed: the caller comes here only with answers.

use loom_types::CommitOffset;

/// Where a topic without any committed offset starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// At the beginning.
    Earliest,
    /// At the end.
    Latest,
}

/// What was observed about a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// A restored position, if the flow resumes from a recovery.
    pub resume: Option<CommitOffset>,
    /// The group's offset.
    pub committed: Option<CommitOffset>,
    /// Whether the group has an offset for another partition of the topic.
    pub siblings_committed: bool,
    /// The first offset that can be read.
    pub low: CommitOffset,
    /// The offset after the last.
    pub high: CommitOffset,
    /// For a topic that the group has no offset for.
    pub reset: Reset,
    /// Whether an offset outside the partition is refused.
    pub refuse_out_of_range: bool,
}

/// What people are told about a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The restored position lies behind the group's offset: records are processed again.
    Replay {
        /// The restored position.
        resume: CommitOffset,
        /// The group's offset.
        committed: CommitOffset,
    },
    /// Retention removed records that were not processed.
    Expired {
        /// The group's offset.
        committed: CommitOffset,
        /// The partition's beginning.
        low: CommitOffset,
    },
    /// The group's offset lies beyond the end: the topic was deleted and made again, or its log was cut.
    BeyondEnd {
        /// The group's offset.
        committed: CommitOffset,
        /// The partition's end.
        high: CommitOffset,
    },
    /// The group knows the topic, but not this partition: it was added.
    Added,
}

/// Where to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The first offset to read.
    pub position: CommitOffset,
    /// Nothing below it is committed.
    pub floor: Option<CommitOffset>,
    /// The position was chosen for the group, which has no offset yet: commit it before the first record.
    pub commit_first: bool,
    /// What to tell.
    pub warnings: Vec<Warning>,
}

/// The committed offset is outside the partition, and the flow refuses that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the group's offset {committed} is outside the partition, which holds {low} to {high}; `offset_out_of_range: \
     reset` goes on from the beginning"
)]
pub struct Refused {
    /// The group's offset.
    pub committed: CommitOffset,
    /// The partition's beginning.
    pub low: CommitOffset,
    /// The partition's end.
    pub high: CommitOffset,
}

/// Decides where a partition starts.
pub fn choose(facts: &Facts) -> Result<Start, Refused> {
    let Facts { low, high, .. } = *facts;
    let Some(position) = facts.resume.or(facts.committed) else {
        let (position, warnings) = if facts.siblings_committed {
            (low, vec![Warning::Added])
        } else {
            (if facts.reset == Reset::Earliest { low } else { high }, vec![])
        };
        return Ok(Start { position, floor: None, commit_first: true, warnings });
    };
    let mut warnings = Vec::new();
    if let (Some(resume), Some(committed)) = (facts.resume, facts.committed)
        && resume < committed
    {
        warnings.push(Warning::Replay { resume, committed });
    }
    let refused = || Refused { committed: position, low, high };
    if position > high {
        if facts.refuse_out_of_range {
            return Err(refused());
        }
        // A floor above the end would hold back every commit for ever.
        warnings.push(Warning::BeyondEnd { committed: position, high });
        return Ok(Start { position: low, floor: None, commit_first: false, warnings });
    }
    if position < low {
        if facts.refuse_out_of_range {
            return Err(refused());
        }
        warnings.push(Warning::Expired { committed: position, low });
        return Ok(Start { position: low, floor: facts.committed, commit_first: false, warnings });
    }
    Ok(Start { position, floor: facts.committed, commit_first: false, warnings })
}

#[cfg(test)]
mod tests {
    use super::{CommitOffset, Facts, Refused, Reset, Start, Warning, choose};

    fn facts() -> Facts {
        Facts {
            resume: None,
            committed: None,
            siblings_committed: false,
            low: CommitOffset(0),
            high: CommitOffset(500),
            reset: Reset::Earliest,
            refuse_out_of_range: false,
        }
    }

    fn offset(value: i64) -> Option<CommitOffset> {
        Some(CommitOffset(value))
    }

    #[test]
    fn a_resumed_position_comes_before_the_committed_offset_before_the_reset() {
        let resumed = choose(&Facts { resume: offset(55), committed: offset(40), ..facts() }).unwrap();
        assert_eq!((resumed.position, resumed.floor), (CommitOffset(55), offset(40)));
        let committed = choose(&Facts { committed: offset(40), ..facts() }).unwrap();
        assert_eq!(
            committed,
            Start { position: CommitOffset(40), floor: offset(40), commit_first: false, warnings: vec![] }
        );
        let earliest = choose(&facts()).unwrap();
        assert_eq!((earliest.position, earliest.commit_first), (CommitOffset(0), true));
        let latest = choose(&Facts { reset: Reset::Latest, ..facts() }).unwrap();
        assert_eq!((latest.position, latest.commit_first), (CommitOffset(500), true));
    }

    #[test]
    fn a_partition_that_was_added_starts_at_its_beginning_whatever_the_reset() {
        let start = choose(&Facts { siblings_committed: true, reset: Reset::Latest, ..facts() }).unwrap();
        assert_eq!((start.position, start.commit_first), (CommitOffset(0), true));
        assert_eq!(start.warnings, [Warning::Added]);
    }

    #[test]
    fn a_replay_behind_the_committed_offset_is_warned_about() {
        let start = choose(&Facts { resume: offset(60), committed: offset(100), ..facts() }).unwrap();
        assert_eq!((start.position, start.floor), (CommitOffset(60), offset(100)));
        assert_eq!(
            start.warnings,
            [Warning::Replay { resume: CommitOffset(60), committed: CommitOffset(100) }]
        );
    }

    #[test]
    fn an_offset_that_retention_passed_goes_on_from_the_beginning() {
        let expired = Facts { committed: offset(40), low: CommitOffset(100), ..facts() };
        let start = choose(&expired).unwrap();
        assert_eq!((start.position, start.floor), (CommitOffset(100), offset(40)));
        assert_eq!(
            start.warnings,
            [Warning::Expired { committed: CommitOffset(40), low: CommitOffset(100) }]
        );
        assert_eq!(
            choose(&Facts { refuse_out_of_range: true, ..expired }),
            Err(Refused { committed: CommitOffset(40), low: CommitOffset(100), high: CommitOffset(500) })
        );
    }

    #[test]
    fn an_offset_beyond_the_end_drops_the_floor() {
        let beyond = Facts { committed: offset(1000), ..facts() };
        let start = choose(&beyond).unwrap();
        assert_eq!((start.position, start.floor, start.commit_first), (CommitOffset(0), None, false));
        assert_eq!(
            start.warnings,
            [Warning::BeyondEnd { committed: CommitOffset(1000), high: CommitOffset(500) }]
        );
        assert!(choose(&Facts { refuse_out_of_range: true, ..beyond }).is_err());
    }
}
