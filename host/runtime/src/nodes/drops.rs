//! What is told and counted of rows that are dropped: a few log lines a second for each cause, with how many were left out,
//! and how many rows there were lately.
//!
//! A cause is a node and a kind of error: a field that is misspelt fails every record of a topic, and one line says as much
//! as a million. What was left out is told when its second is over, so that every dropped row is in one line or in a count.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use loom_types::{ErrorKind, Moment};

/// Lines of one cause that all workers of a process write in a second, about.
const LINES: u32 = 5;

/// For how long [`LINES`] are counted.
const WINDOW: Duration = Duration::from_secs(1);

/// Parts of the time for which drops are counted: what is older is forgotten a part at a time.
const TICKS: u32 = 60;

/// The node, or the output, where rows fail, and how.
type Cause = (Arc<str>, ErrorKind);

/// See the module's description.
#[derive(Debug)]
pub(crate) struct Drops {
    /// Lines that this worker writes of one cause in a window.
    lines: u32,
    causes: BTreeMap<Cause, Window>,
    /// The time for which drops are counted; none where nobody asks.
    per: Option<Duration>,
    /// Drops by the number of their tick, the oldest first.
    lately: VecDeque<(u128, u64)>,
}

#[derive(Debug)]
struct Window {
    until: Moment,
    told: u32,
    left_out: u64,
}

impl Drops {
    /// Of one of so many workers; `per` is the time of the flow's bound.
    pub(crate) fn new(workers: usize, per: Option<Duration>) -> Drops {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        Drops { lines: (LINES / workers).max(1), causes: BTreeMap::new(), per, lately: VecDeque::new() }
    }

    /// Whether a line of rows that fail for this cause is written; if not, they are counted.
    pub(crate) fn may_tell(&mut self, at: &Arc<str>, kind: ErrorKind, rows: u64, now: Moment) -> bool {
        let fresh = Window { until: now + WINDOW, told: 0, left_out: 0 };
        let window = self.causes.entry((at.clone(), kind)).or_insert(fresh);
        if window.told < self.lines {
            window.told += 1;
            return true;
        }
        window.left_out += rows;
        false
    }

    /// Causes whose window is over at this moment, with the rows that were left out, if any.
    pub(crate) fn over(&mut self, now: Moment) -> Vec<(Cause, u64)> {
        self.take(|window| window.until <= now)
    }

    /// The same, of all: nothing more comes.
    pub(crate) fn all(&mut self) -> Vec<(Cause, u64)> {
        self.take(|_| true)
    }

    fn take(&mut self, is_over: impl Fn(&Window) -> bool) -> Vec<(Cause, u64)> {
        let mut over = Vec::new();
        self.causes.retain(|cause, window| {
            let is_over = is_over(window);
            if is_over && window.left_out > 0 {
                over.push((cause.clone(), window.left_out));
            }
            !is_over
        });
        over
    }

    /// When the next window is over; none where nothing waits to be told.
    pub(crate) fn due(&self) -> Option<Moment> {
        let untold = self.causes.values().filter(|window| window.left_out > 0);
        untold.map(|window| window.until).min()
    }

    /// Counts a row that is dropped.
    pub(crate) fn count(&mut self, now: Moment) {
        let Some(tick) = self.tick(now) else { return };
        match self.lately.back_mut() {
            Some((last, rows)) if *last == tick => *rows += 1,
            _ => {
                while self.lately.front().is_some_and(|(old, _)| old + u128::from(TICKS) <= tick) {
                    self.lately.pop_front();
                }
                self.lately.push_back((tick, 1));
            }
        }
    }

    /// Rows that were dropped in the time of the bound; none without one.
    pub(crate) fn lately(&self, now: Moment) -> Option<u64> {
        let tick = self.tick(now)?;
        let recent = self.lately.iter().filter(|(old, _)| old + u128::from(TICKS) > tick);
        Some(recent.map(|(_, rows)| rows).sum())
    }

    fn tick(&self, now: Moment) -> Option<u128> {
        let length = self.per? / TICKS;
        Some(now.0.as_nanos() / length.as_nanos().max(1))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use loom_types::{ErrorKind, Moment};

    use super::Drops;

    fn at(ms: u64) -> Moment {
        Moment(Duration::from_millis(ms))
    }

    #[test]
    fn a_cause_has_a_few_lines_a_second_and_the_rest_is_a_count() {
        let (first, second): (Arc<str>, Arc<str>) = ("process[0]".into(), "process[1]".into());
        let mut drops = Drops::new(1, None);
        let told = (0..1000).filter(|_| drops.may_tell(&first, ErrorKind::Task, 1, at(10))).count();
        assert_eq!(told, 5);
        assert!(drops.may_tell(&first, ErrorKind::Business, 1, at(10)), "another cause");
        assert!(drops.may_tell(&second, ErrorKind::Task, 1, at(10)), "another node");
        assert_eq!((drops.due(), drops.over(at(1009))), (Some(at(1010)), Vec::new()));
        assert_eq!(drops.over(at(1010)), [((first.clone(), ErrorKind::Task), 995)]);
        assert_eq!(drops.due(), None);
        assert!(drops.may_tell(&first, ErrorKind::Task, 1, at(1010)), "the next second has lines again");
    }

    #[test]
    fn rows_of_a_line_that_is_left_out_are_all_counted_and_the_end_tells_them() {
        let node: Arc<str> = "process[0]".into();
        let mut drops = Drops::new(8, None);
        assert!(drops.may_tell(&node, ErrorKind::Task, 10, at(0)), "each of many workers has a line");
        assert!(!drops.may_tell(&node, ErrorKind::Task, 10, at(1)));
        assert!(!drops.may_tell(&node, ErrorKind::Task, 7, at(2)));
        assert_eq!(drops.all(), [((node, ErrorKind::Task), 17)]);
        assert_eq!(drops.all(), Vec::new());
    }

    #[test]
    fn what_was_dropped_lately_is_forgotten_with_time() {
        let minute = Duration::from_secs(60);
        let mut drops = Drops::new(1, Some(minute));
        assert_eq!(drops.lately(at(0)), Some(0));
        for second in 0..90 {
            drops.count(at(second * 1000));
        }
        assert_eq!(drops.lately(at(89_999)), Some(60), "one a second");
        assert_eq!(drops.lately(at(119_000)), Some(30));
        assert_eq!(drops.lately(at(150_000)), Some(0));
        assert_eq!(Drops::new(1, None).lately(at(0)), None);
    }
}
