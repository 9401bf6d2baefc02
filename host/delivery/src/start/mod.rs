//! Where a partition starts, and where it goes on, decided from observed facts.
//!
//! `asked for > resume > replay under way > committed > reset`. What cannot be known is not guessed: the caller comes here
//! only with answers. A log that was cut (an unclean leader election) is told from a topic that was made again by the
//! topic's id, which commits carry; where nobody knows the id, an offset beyond the end counts as a topic made again. The end
//! that decides is the log's, not that of what can be read: an open transaction moves the latter below what was committed.
//!
//! The floor is the committed offset seen at start: nothing below it is ever committed. It is lowered where the log was
//! cut, and dropped where the topic was made again, since a floor above the end would hold back every commit for ever.

mod running;
#[cfg(test)]
mod tests;

use loom_types::{CommitOffset, TopicId};

pub use running::{Onward, OutOfRange, Why, onward};

/// Where a topic without any committed offset starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reset {
    /// At the beginning.
    Earliest,
    /// At the end.
    Latest,
}

/// What the group has for a partition, and what its mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOffset {
    /// The offset.
    pub offset: CommitOffset,
    /// The topic that it was written for, if that was written.
    pub topic: Option<TopicId>,
    /// How far a replay below the offset had come, if one was under way.
    pub replay: Option<CommitOffset>,
}

impl GroupOffset {
    /// An offset of which nothing else is known.
    #[must_use]
    pub fn plain(offset: CommitOffset) -> Self {
        GroupOffset { offset, topic: None, replay: None }
    }
}

/// What a person asked for, instead of going on where the group stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// At the committed offset, whatever replay was under way.
    Committed,
    /// At this offset of the partition.
    At(CommitOffset),
}

/// What was observed about a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What a person asked for, if anything.
    pub asked: Option<Asked>,
    /// A restored position, if the flow resumes from a recovery.
    pub resume: Option<CommitOffset>,
    /// What the group has.
    pub committed: Option<GroupOffset>,
    /// Whether the group has an offset for another partition of the topic.
    pub siblings_committed: bool,
    /// The topic's id, where the broker says.
    pub topic: Option<TopicId>,
    /// The first offset that can be read.
    pub low: CommitOffset,
    /// The offset after the last that can be read now: a transaction may be open there.
    pub high: CommitOffset,
    /// The offset after the log's last. Only what lies beyond it is outside: an offset between the two was committed
    /// before the transaction was opened, or by somebody who reads what is not committed.
    pub log_end: CommitOffset,
    /// For a topic that the group has no offset for.
    pub reset: Reset,
    /// Whether an offset outside the partition is refused.
    pub refuse_out_of_range: bool,
}

/// What people are told about a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warning {
    /// The position lies behind the group's offset: records are processed again.
    Replay {
        /// Where reading starts.
        from: CommitOffset,
        /// The group's offset.
        committed: CommitOffset,
        /// Whether it was asked for; else it was restored.
        asked: bool,
    },
    /// An earlier run died while it replayed; the replay goes on.
    ReplayGoesOn {
        /// Where it was cut.
        at: CommitOffset,
        /// The group's offset.
        committed: CommitOffset,
    },
    /// The position that was asked for lies ahead of the group's offset: records are left out.
    Skip {
        /// The group's offset.
        committed: CommitOffset,
        /// Where reading starts.
        to: CommitOffset,
    },
    /// Retention removed records that were not processed.
    Expired {
        /// Where reading would have gone on.
        committed: CommitOffset,
        /// The partition's beginning.
        low: CommitOffset,
    },
    /// The topic was deleted and made again: its id is another, or, where ids are not known, the offset lies beyond the
    /// end.
    MadeAgain {
        /// The group's offset, of the topic that is gone.
        committed: CommitOffset,
        /// The end of the log.
        log_end: CommitOffset,
    },
    /// The topic is the same and the offset lies beyond its end: the log was cut.
    Cut {
        /// Where reading would have gone on.
        committed: CommitOffset,
        /// The log's new end.
        log_end: CommitOffset,
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
    /// What the group has is not what this start stands on: commit before the first record, so that a crash does not
    /// choose again.
    pub commit_first: bool,
    /// What to tell.
    pub warnings: Vec<Warning>,
}

/// The committed offset is outside the partition, and the flow refuses that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the group's offset {committed} is outside the partition, which holds {low} to {log_end}{}; `offset_out_of_range: reset` \
     goes on by itself, `run --from` says where",
    if *.made_again { ", or belongs to a topic that was deleted and made again" } else { "" }
)]
pub struct Refused {
    /// The group's offset.
    pub committed: CommitOffset,
    /// The partition's beginning.
    pub low: CommitOffset,
    /// The end of its log.
    pub log_end: CommitOffset,
    /// Whether the topic is another one.
    pub made_again: bool,
}

/// How the group's offset stands to the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Inside,
    Expired,
    Cut,
    MadeAgain,
}

fn standing(committed: &GroupOffset, facts: &Facts) -> Standing {
    let same = committed.topic.zip(facts.topic).map(|(one, other)| one == other);
    if same == Some(false) {
        Standing::MadeAgain
    } else if committed.offset > facts.log_end {
        if same == Some(true) { Standing::Cut } else { Standing::MadeAgain }
    } else if committed.offset < facts.low {
        Standing::Expired
    } else {
        Standing::Inside
    }
}

/// Decides where a partition starts.
///
/// # Errors
/// The group's offset is outside the partition, the flow refuses that, and nobody asked for another place.
pub fn choose(facts: &Facts) -> Result<Start, Refused> {
    let Some(committed) = facts.committed else { return Ok(without_offset(facts)) };
    let standing = standing(&committed, facts);
    let asked_for_another = matches!(facts.asked, Some(Asked::At(_)));
    if facts.refuse_out_of_range && standing != Standing::Inside && !asked_for_another {
        return Err(Refused {
            committed: committed.offset,
            low: facts.low,
            log_end: facts.log_end,
            made_again: standing == Standing::MadeAgain,
        });
    }
    Ok(match standing {
        Standing::MadeAgain => made_again(facts, committed.offset),
        Standing::Cut => of_the_same_log(facts, committed, facts.log_end),
        Standing::Inside | Standing::Expired => of_the_same_log(facts, committed, committed.offset),
    })
}

/// The group has nothing for the partition.
fn without_offset(facts: &Facts) -> Start {
    let mut warnings = Vec::new();
    let position = if let Some(Asked::At(offset)) = facts.asked {
        inside(offset, facts)
    } else if let Some(resume) = facts.resume {
        onto(resume, facts, &mut warnings)
    } else if facts.siblings_committed {
        warnings.push(Warning::Added);
        facts.low
    } else if facts.reset == Reset::Earliest {
        facts.low
    } else {
        facts.high
    };
    Start { position, floor: None, commit_first: true, warnings }
}

/// What the group and a recovery know is of a topic that is gone.
fn made_again(facts: &Facts, committed: CommitOffset) -> Start {
    let position = match facts.asked {
        Some(Asked::At(offset)) => inside(offset, facts),
        _ => facts.low,
    };
    let warnings = vec![Warning::MadeAgain { committed, log_end: facts.log_end }];
    Start { position, floor: None, commit_first: true, warnings }
}

fn of_the_same_log(facts: &Facts, committed: GroupOffset, floor: CommitOffset) -> Start {
    let mut warnings = Vec::new();
    let was_cut = floor < committed.offset;
    if was_cut {
        warnings.push(Warning::Cut { committed: committed.offset, log_end: facts.log_end });
    }
    let position = match (facts.asked, facts.resume, committed.replay) {
        (Some(Asked::At(offset)), ..) => {
            let position = inside(offset, facts);
            if position < floor {
                warnings.push(Warning::Replay { from: position, committed: floor, asked: true });
            } else if position == facts.low && floor < position {
                warnings.push(Warning::Expired { committed: floor, low: position });
            } else if position > floor {
                warnings.push(Warning::Skip { committed: floor, to: position });
            }
            position
        }
        (None, Some(resume), _) => {
            let position = onto(resume, facts, &mut warnings);
            if position < floor {
                warnings.push(Warning::Replay { from: position, committed: floor, asked: false });
            }
            position
        }
        (None, None, Some(replay)) if replay < floor => {
            let position = onto(replay, facts, &mut warnings);
            warnings.push(Warning::ReplayGoesOn { at: position, committed: floor });
            position
        }
        _ if was_cut => floor,
        _ => onto(committed.offset, facts, &mut warnings),
    };
    // A deliberate move ahead must not be undone by a crash before the first commit.
    let moved_ahead = matches!(facts.asked, Some(Asked::At(_))) && position > floor;
    Start { position, floor: Some(floor), commit_first: moved_ahead, warnings }
}

/// The offset that was asked for, or the end of the partition that is nearest.
fn inside(offset: CommitOffset, facts: &Facts) -> CommitOffset {
    offset.min(facts.log_end).max(facts.low)
}

/// Where reading can go on that was to go on here; what is missing is told.
fn onto(wanted: CommitOffset, facts: &Facts, warnings: &mut Vec<Warning>) -> CommitOffset {
    if wanted > facts.log_end {
        warnings.push(Warning::Cut { committed: wanted, log_end: facts.log_end });
        facts.log_end
    } else if wanted < facts.low {
        warnings.push(Warning::Expired { committed: wanted, low: facts.low });
        facts.low
    } else {
        wanted
    }
}
