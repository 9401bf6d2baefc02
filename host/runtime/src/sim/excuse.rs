//! Why a run of the simulated flow may end in a failure, and in which: anything else is a find.

/// What happened to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excuse {
    /// Brokers could not be reached.
    Away,
    /// Answers to commits come late, or never.
    SlowCommits,
    /// A commit of an earlier run was still on its way when this one started.
    LateCommit,
    /// Somebody set the group's offsets.
    SetFromOutside,
    /// A commit is refused for good.
    CommitRefused,
    /// A record that has no route was refused by its output.
    Refused,
    /// Nobody knows what became of a row.
    Unknown,
    /// A sink failed for good at a record without route.
    SinkFailed,
    SinkClose,
    /// The retries of a node were used up at a record without route.
    Spent,
    /// A record without route, and `errors.unrouted: stop`.
    Unrouted,
    /// An input topic was made again.
    AnotherTopic,
    /// An output's topic is not known at the moment.
    Hidden,
    /// Others are in the group.
    Members,
    /// Another host owns the partitions.
    Rival,
    /// A producer's clients cannot go on.
    Fenced,
}

impl Excuse {
    /// Parts of messages, one of which a failure that it excuses has.
    fn told(self) -> &'static [&'static str] {
        match self {
            Excuse::Away => {
                &["the final commit", "did not answer", "not reachable", "no broker", "_WAIT_COORD"]
            }
            Excuse::SlowCommits => &["the final commit"],
            Excuse::LateCommit | Excuse::SetFromOutside => &["were set from outside"],
            Excuse::CommitRefused => &["the final commit failed", "commits fail for good"],
            Excuse::Refused => &["delivery error"],
            Excuse::Unknown | Excuse::Fenced => &["begins anew"],
            Excuse::SinkFailed => &["delivery error", "`errors.unrouted: stop`"],
            Excuse::Spent => &["delivery error"],
            Excuse::SinkClose => &["clos"],
            Excuse::Unrouted => &["`errors.unrouted: stop`"],
            Excuse::AnotherTopic => &["deleted and made again", "may be another one", "does not exist"],
            Excuse::Hidden => &["does not exist"],
            Excuse::Members => &["has live members", "takes no offsets from others"],
            Excuse::Rival => &["another host"],
        }
    }

    /// Whether one of these excuses a failure.
    pub(super) fn any(excuses: &[Excuse], message: &str) -> bool {
        excuses.iter().any(|excuse| excuse.told().iter().any(|part| message.contains(part)))
    }
}
