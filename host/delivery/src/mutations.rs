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
    /// Commits: a second one is sent before the first is answered.
    CommitsOverlap,
    /// Commits: after one that failed nothing is committed any more.
    FailedCommitIsTheLast,
    /// Commits: a stop leaves the last one out.
    NoLastCommit,
    /// Start: a start that was chosen is not committed.
    StartIsNotCommitted,
    /// Retry: rows that were answered go past one that is tried again.
    AnsweredOvertake,
    /// Retry: what is left of a lane waits in the wrong order.
    LaneIsTurned,
    /// Errors: a row that has a route is dropped.
    RouteIsForgotten,
    /// Outputs: a row of which nothing is heard counts as written.
    UnknownCounts,
    /// Outputs: a row that is refused counts as written.
    RefusedCounts,
    /// Outputs: rows of several nodes are not put back in order.
    OrderIsNotRestored,
    /// Sinks: a flush that succeeds completes all that is open.
    FlushCompletes,
    /// Sinks: rows of a write that failed count as done.
    FailedWriteCounts,
    /// Sinks: rows go past those of their partition that wait to be written again.
    ParkedIsOvertaken,
}

impl Mutation {
    /// Every one.
    pub const ALL: [Mutation; 20] = [
        Mutation::AnyShareResolves,
        Mutation::OldestIsPassed,
        Mutation::GapsAreWaitedFor,
        Mutation::RestIsLost,
        Mutation::FloorIsIgnored,
        Mutation::PositionIsCommitted,
        Mutation::FailedCommitCounts,
        Mutation::CommitsOverlap,
        Mutation::FailedCommitIsTheLast,
        Mutation::NoLastCommit,
        Mutation::StartIsNotCommitted,
        Mutation::AnsweredOvertake,
        Mutation::LaneIsTurned,
        Mutation::RouteIsForgotten,
        Mutation::UnknownCounts,
        Mutation::RefusedCounts,
        Mutation::OrderIsNotRestored,
        Mutation::FlushCompletes,
        Mutation::FailedWriteCounts,
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
