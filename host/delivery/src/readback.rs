//! What it means that the group has this offset for a partition, read back while the flow runs.
//!
//! The group has no members, so anybody may set or delete its offsets at any time. What we wrote is told by the run's id
//! in the mark, not by comparing offsets: our own commits may arrive between a reading and the look at it.
//!
//! Kafka cannot set an offset only where it still is what it was. So a commit is [guarded](Guard): what is there is looked
//! at before it is sent.

use loom_types::CommitOffset;

use crate::mark::{Mark, RunId};
use crate::mutations::{Mutation, mutated};

/// An offset of the group as it lies at the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The offset.
    pub offset: CommitOffset,
    /// The text beside it.
    pub metadata: String,
}

impl Stored {
    fn run(&self) -> Option<RunId> {
        Mark::parse(&self.metadata)?.run
    }
}

/// What was known of a partition before its offset was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// What the group had when the flow started; none = nothing.
    pub initial: Option<Stored>,
    /// The run that owned the group before this one, as the lease says: its last commit can have come after the initial
    /// reading. A short run leaves no entry of the lease, and is known by the initial offset's own mark.
    pub predecessor: Option<RunId>,
    /// The offset that the broker last acknowledged to this run; none = nothing yet.
    pub acknowledged: Option<CommitOffset>,
}

/// What is to be done about an offset that was read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is as it should be.
    Fine,
    /// Nothing was written by this run yet, and its predecessor's last commit came late: from now on that is the initial
    /// one, and what this run stands at is committed over it.
    Predecessor,
    /// It is gone: commit again, with a warning.
    Vanished,
    /// It is one that this run, or one before it, wrote earlier: an acknowledged commit was lost, or an old one came late.
    /// Commit again.
    Behind,
    /// Somebody else wrote it: the flow stops, and does not overwrite it.
    Foreign,
}

/// What must hold of the group's offset where a commit is to go over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Who commits.
    pub run: RunId,
    /// What it knows.
    pub expected: Expected,
}

impl Guard {
    /// Whether a commit may go over what the group has.
    #[must_use]
    pub fn lets(&self, seen: Option<&Stored>) -> bool {
        judge(self.run, &self.expected, seen) != Finding::Foreign
    }
}

impl Expected {
    /// What is said of an offset that somebody else set, beside the partition's name: both offsets.
    #[must_use]
    pub fn told(&self, seen: CommitOffset) -> String {
        match (self.acknowledged, &self.initial) {
            (Some(committed), _) => format!("to {seen}, where this run had committed {committed}"),
            (None, Some(initial)) => format!("to {seen}, where this run had started at {}", initial.offset),
            (None, None) => format!("to {seen}, where there was none"),
        }
    }
}

/// Judges an offset that was read back by run `me`.
#[must_use]
pub fn judge(me: RunId, expected: &Expected, seen: Option<&Stored>) -> Finding {
    let Some(seen) = seen else {
        let there_was_one = expected.acknowledged.is_some() || expected.initial.is_some();
        return if there_was_one { Finding::Vanished } else { Finding::Fine };
    };
    let run = seen.run();
    if run == Some(me) {
        let lost = expected.acknowledged.is_some_and(|acknowledged| seen.offset < acknowledged);
        return if lost { Finding::Behind } else { Finding::Fine };
    }
    let known = [expected.predecessor, expected.initial.as_ref().and_then(Stored::run)];
    let before = run.is_some() && known.contains(&run);
    let initial = expected.initial.as_ref() == Some(seen);
    if mutated(Mutation::ForeignIsOverwritten) {
        return Finding::Fine;
    }
    match expected.acknowledged {
        None if initial => Finding::Fine,
        None if before => Finding::Predecessor,
        // A host of ours wrote it before this run did. A tool's text has no run, so this is nobody's reset.
        Some(_) if before => Finding::Behind,
        _ => Finding::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use loom_types::CommitOffset;

    use super::{Expected, Finding, Stored, judge};
    use crate::mark::{Mark, RunId};

    const ME: RunId = RunId(2);
    const BEFORE: RunId = RunId(1);
    const OTHER: RunId = RunId(3);

    fn by(run: RunId, offset: i64) -> Stored {
        let mark = Mark { run: Some(run), ..Mark::default() };
        Stored { offset: CommitOffset(offset), metadata: mark.to_string() }
    }

    fn tool(offset: i64) -> Stored {
        Stored { offset: CommitOffset(offset), metadata: String::new() }
    }

    fn expected(initial: Option<Stored>, acknowledged: Option<i64>) -> Expected {
        Expected { initial, predecessor: Some(BEFORE), acknowledged: acknowledged.map(CommitOffset) }
    }

    #[test]
    fn what_this_run_wrote_is_fine_and_committed_again_where_a_commit_was_lost() {
        for initial in [None, Some(tool(3)), Some(by(BEFORE, 3))] {
            assert_eq!(judge(ME, &expected(initial.clone(), Some(5)), Some(&by(ME, 5))), Finding::Fine);
            assert_eq!(judge(ME, &expected(initial.clone(), Some(5)), Some(&by(ME, 9))), Finding::Fine);
            // Its answer was lost.
            assert_eq!(judge(ME, &expected(initial.clone(), None), Some(&by(ME, 9))), Finding::Fine);
            assert_eq!(judge(ME, &expected(initial, Some(5)), Some(&by(ME, 4))), Finding::Behind);
        }
        let initial = by(BEFORE, 3);
        assert_eq!(judge(ME, &expected(Some(initial.clone()), Some(5)), Some(&initial)), Finding::Behind);
    }

    #[test]
    fn an_offset_that_nobody_of_ours_wrote_is_foreign_even_where_it_is_the_first_one_again() {
        for seen in [tool(0), tool(5), by(OTHER, 5)] {
            assert_eq!(judge(ME, &expected(Some(tool(3)), Some(5)), Some(&seen)), Finding::Foreign);
            assert_eq!(judge(ME, &expected(Some(tool(3)), None), Some(&seen)), Finding::Foreign);
            assert_eq!(judge(ME, &expected(None, None), Some(&seen)), Finding::Foreign);
        }
        // A reset to 3, the flow, and the same reset again.
        assert_eq!(judge(ME, &expected(Some(tool(3)), Some(5)), Some(&tool(3))), Finding::Foreign);
    }

    #[test]
    fn what_was_there_at_the_start_is_fine_and_its_predecessor_s_last_word_too_until_we_wrote() {
        assert_eq!(judge(ME, &expected(Some(tool(3)), None), Some(&tool(3))), Finding::Fine);
        assert_eq!(
            judge(ME, &expected(Some(by(BEFORE, 3)), None), Some(&by(BEFORE, 4))),
            Finding::Predecessor
        );
        assert_eq!(judge(ME, &expected(Some(by(BEFORE, 3)), Some(6)), Some(&by(BEFORE, 4))), Finding::Behind);
    }

    #[test]
    fn a_late_commit_of_the_run_that_the_initial_offset_names_is_no_reset_without_an_entry_of_the_lease() {
        let of_a_short_run =
            |acknowledged| Expected { predecessor: None, ..expected(Some(by(BEFORE, 3)), acknowledged) };
        assert_eq!(judge(ME, &of_a_short_run(None), Some(&by(BEFORE, 2))), Finding::Predecessor);
        assert_eq!(judge(ME, &of_a_short_run(Some(6)), Some(&by(BEFORE, 4))), Finding::Behind);
        assert_eq!(judge(ME, &of_a_short_run(Some(6)), Some(&by(OTHER, 4))), Finding::Foreign);
        // A tool's text names no run.
        let of_a_tool = Expected { predecessor: None, ..expected(Some(tool(3)), None) };
        assert_eq!(judge(ME, &of_a_tool, Some(&tool(4))), Finding::Foreign);
    }

    #[test]
    fn an_offset_that_is_gone_is_told_from_one_that_never_was() {
        assert_eq!(judge(ME, &expected(None, None), None), Finding::Fine);
        assert_eq!(judge(ME, &expected(Some(tool(3)), None), None), Finding::Vanished);
        assert_eq!(judge(ME, &expected(None, Some(5)), None), Finding::Vanished);
    }
}
