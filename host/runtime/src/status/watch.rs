//! What only time shows: partitions that have data and make no progress, outputs that acknowledge nothing.
//!
//! Pure: what is seen, again and again, and the moment go in, what it means comes out. A partition that is held, at its
//! bound, or not started yet makes no progress for a reason that status shows otherwise; it is not stalled. What is
//! missing is never taken for a gap: nothing here moves a position.

use std::collections::BTreeMap;
use std::time::Duration;

use loom_types::Moment;

/// Data and no progress for so long is a stall. With a look every [`LOOK`], and an end that is asked for at each, it is
/// told within ten seconds.
const STALLS_AFTER: Duration = Duration::from_secs(5);

/// How often to look.
pub(super) const LOOK: Duration = Duration::from_secs(2);

/// Rows that have waited so long without one acknowledgement make an output unready.
const WAITS_AFTER: Duration = Duration::from_secs(10);

/// A partition, as it is seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    /// The next offset to read.
    pub position: i64,
    /// The offset after the last record, if it is known.
    pub end: Option<i64>,
    /// There is a reason not to read it.
    pub excused: bool,
    /// What its client keeps saying instead of giving records.
    pub trouble: Option<&'a str>,
}

/// An output, as it is seen.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutputLook {
    /// Rows that wait for anything.
    pub rows: u64,
    /// Rows acknowledged or refused so far.
    pub answered: u64,
}

/// What is remembered of a thing that should move: where it was, and since when it has stood there for no reason.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: i128,
    since: Moment,
}

impl Mark {
    /// Whether it has stood still for no reason, and since when.
    fn stands(&mut self, at: i128, reason: bool, now: Moment, patience: Duration) -> Option<Moment> {
        if self.at != at || reason {
            *self = Mark { at, since: now };
        }
        (now.since(self.since) >= patience).then_some(self.since)
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Watch {
    partitions: BTreeMap<(String, i32), Mark>,
    outputs: BTreeMap<String, Mark>,
}

impl Watch {
    /// Looks at a partition; since when it is stalled, if it is.
    pub(super) fn partition(&mut self, name: &(String, i32), look: Look<'_>, now: Moment) -> Option<Moment> {
        let at = i128::from(look.position);
        let waits = look.trouble.is_some() || look.end.is_some_and(|end| end > look.position);
        let mark = self.partitions.entry(name.clone()).or_insert(Mark { at, since: now });
        mark.stands(at, look.excused || !waits, now, STALLS_AFTER)
    }

    /// Looks at an output; since when it acknowledges nothing, if so.
    pub(super) fn output(&mut self, topic: &str, look: OutputLook, now: Moment) -> Option<Moment> {
        let at = i128::from(look.answered);
        let mark = self.outputs.entry(topic.to_owned()).or_insert(Mark { at, since: now });
        mark.stands(at, look.rows == 0, now, WAITS_AFTER)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loom_types::Moment;

    use super::{LOOK, Look, OutputLook, Watch};

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    const STILL: Look<'_> = Look { position: 7, end: Some(9), excused: false, trouble: None };

    fn looks(watch: &mut Watch, look: Look<'_>, from: u64, to: u64) -> Option<Moment> {
        let name = ("in".to_owned(), 0);
        let every = usize::try_from(LOOK.as_secs()).unwrap();
        (from..=to).step_by(every).map(|second| watch.partition(&name, look, at(second))).last().flatten()
    }

    #[test]
    fn data_without_progress_is_told_within_ten_seconds() {
        let mut watch = Watch::default();
        assert_eq!(looks(&mut watch, Look { end: Some(7), ..STILL }, 0, 100), None, "at its end");
        // Data comes right after a look, and its end is learnt at the one after the next.
        assert_eq!(looks(&mut watch, Look { end: Some(7), ..STILL }, 102, 102), None);
        assert_eq!(looks(&mut watch, STILL, 104, 106), None, "not at once");
        assert_eq!(looks(&mut watch, STILL, 108, 110), Some(at(102)));
    }

    #[test]
    fn progress_or_a_reason_begins_it_anew() {
        for other in
            [Look { position: 8, ..STILL }, Look { excused: true, ..STILL }, Look { end: None, ..STILL }]
        {
            let mut watch = Watch::default();
            assert_eq!(looks(&mut watch, STILL, 0, 4), None);
            assert_eq!(looks(&mut watch, other, 6, 6), None);
            assert_eq!(looks(&mut watch, STILL, 8, 10), None);
            assert!(looks(&mut watch, STILL, 12, 14).is_some());
        }
    }

    #[test]
    fn one_that_is_held_or_bounded_is_never_stalled() {
        assert_eq!(looks(&mut Watch::default(), Look { excused: true, ..STILL }, 0, 3600), None);
    }

    #[test]
    fn what_the_client_repeats_counts_though_no_end_is_known() {
        let look = Look { end: None, trouble: Some("bad batch"), ..STILL };
        assert_eq!(looks(&mut Watch::default(), look, 0, 8), Some(at(0)));
    }

    #[test]
    fn an_output_that_answers_anything_does_not_wait() {
        let mut watch = Watch::default();
        let mut look =
            |rows, answered, second| watch.output("out", OutputLook { rows, answered }, at(second));
        assert_eq!(look(5, 0, 0), None);
        assert_eq!(look(5, 1, 8), None);
        assert_eq!(look(5, 1, 17), None);
        assert_eq!(look(5, 1, 18), Some(at(8)));
        assert_eq!(look(0, 1, 19), None);
        assert_eq!(look(5, 1, 28), None);
        assert_eq!(look(5, 1, 29), Some(at(19)));
    }
}
