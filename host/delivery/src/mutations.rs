//! Deliberate faults, each in one place of the product: what a simulation must find, or it proves nothing.
//!
//! They are switched on one at a time and for one thread. Without the feature `simulation` the switch is a constant that
//! says no, and nothing of them is compiled.

/// One deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Tracker: the first share that comes back resolves the record.
    AnyShareResolves,
    /// Tracker: the oldest unresolved record does not hold the watermark.
    OldestIsPassed,
    /// Tracker: what was not registered is waited for.
    GapsAreWaitedFor,
    /// Tokens: a split that does not come out even loses the rest.
    RestIsLost,
    /// Floor: a replay commits below it.
    FloorIsIgnored,
    /// Commits: the position is committed, not the watermark.
    PositionIsCommitted,
    /// Commits: one that failed counts as done.
    FailedCommitCounts,
    /// Commits: one that nobody answered counts as done.
    LostCommitCounts,
    /// Commits: what vanished from the group is not committed again.
    VanishedIsForgotten,
    /// Commits: what somebody else set is overwritten.
    ForeignIsOverwritten,
    /// Commits: a second one is sent before the first is answered.
    CommitsOverlap,
    /// Commits: after one that failed nothing is committed any more.
    FailedCommitIsTheLast,
    /// Commits: a stop leaves the last one out.
    NoLastCommit,
    /// Start: a start that was chosen is not committed.
    StartIsNotCommitted,
    /// Start: a newcomer commits while it watches another's lease.
    HeldIsCommitted,
    /// Stop: a newcomer that watches another's lease commits at its end.
    WatcherCommitsLast,
    /// Lease: another host's is read, and nothing follows.
    OtherHostIsIgnored,
    /// Reading: a log that was cut keeps its floor.
    CutKeepsFloor,
    /// Bounds: a partition at its bound is no reason to flush.
    BoundIsNoReason,
    /// Retry: rows go past those of their partition that wait.
    WaitingIsOvertaken,
    /// Retry: rows that were answered go past one that is tried again.
    AnsweredOvertake,
    /// Retry: what is left of a lane waits in the wrong order.
    LaneIsTurned,
    /// Routers: rows go past those of their partition that are late in another branch.
    BranchIsOvertaken,
    /// Errors: a row that has a route is dropped.
    RouteIsForgotten,
    /// Outputs: a row of which nothing is heard counts as written.
    UnknownCounts,
    /// Outputs: a row that is refused counts as written.
    RefusedCounts,
    /// Outputs: rows that a stop gave back count as written.
    GivenBackCounts,
    /// Outputs: where a batch is refused, each of its rows is taken for the culprit.
    BatchIsTheCulprit,
    /// Outputs: rows of several nodes are not put back in order.
    OrderIsNotRestored,
    /// Sinks: a flush that succeeds completes all that is open.
    FlushCompletes,
    /// Sinks: rows of a write that failed count as done.
    FailedWriteCounts,
    /// Sinks: rows that a sink had open when it was closed count as done.
    CloseCompletes,
    /// Sinks: rows go past those of their partition that wait to be written again.
    ParkedIsOvertaken,
}

impl Mutation {
    /// Every one.
    pub const ALL: [Mutation; 33] = [
        Mutation::AnyShareResolves,
        Mutation::OldestIsPassed,
        Mutation::GapsAreWaitedFor,
        Mutation::RestIsLost,
        Mutation::FloorIsIgnored,
        Mutation::PositionIsCommitted,
        Mutation::FailedCommitCounts,
        Mutation::LostCommitCounts,
        Mutation::VanishedIsForgotten,
        Mutation::ForeignIsOverwritten,
        Mutation::CommitsOverlap,
        Mutation::FailedCommitIsTheLast,
        Mutation::NoLastCommit,
        Mutation::StartIsNotCommitted,
        Mutation::HeldIsCommitted,
        Mutation::WatcherCommitsLast,
        Mutation::OtherHostIsIgnored,
        Mutation::CutKeepsFloor,
        Mutation::BoundIsNoReason,
        Mutation::WaitingIsOvertaken,
        Mutation::AnsweredOvertake,
        Mutation::LaneIsTurned,
        Mutation::BranchIsOvertaken,
        Mutation::RouteIsForgotten,
        Mutation::UnknownCounts,
        Mutation::RefusedCounts,
        Mutation::GivenBackCounts,
        Mutation::BatchIsTheCulprit,
        Mutation::OrderIsNotRestored,
        Mutation::FlushCompletes,
        Mutation::FailedWriteCounts,
        Mutation::CloseCompletes,
        Mutation::ParkedIsOvertaken,
    ];
}

#[cfg(feature = "simulation")]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutation>> = const { std::cell::Cell::new(None) };
}

/// Switches a fault on for this thread, and every other one off.
#[cfg(feature = "simulation")]
pub fn mutate(mutation: Option<Mutation>) {
    ACTIVE.set(mutation);
}

/// Whether this fault is on.
#[cfg(feature = "simulation")]
#[must_use]
pub fn mutated(mutation: Mutation) -> bool {
    ACTIVE.get() == Some(mutation)
}

/// Whether this fault is on: never.
#[cfg(not(feature = "simulation"))]
#[inline(always)]
#[must_use]
pub const fn mutated(_: Mutation) -> bool {
    false
}
