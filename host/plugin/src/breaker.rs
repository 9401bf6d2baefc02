//! Tells a bad plugin from bad records. Records are bad one by one, among good ones; a broken release traps on all of
//! them, and would send a whole topic to its error route.
//!
//! A hundred rows in a row that ended in a trap or time-out open the breaker: the node is held, and probed with single
//! rows, each time the *next* row, with growing pauses. A probe that comes back closes it. Counted for a node and a
//! worker. Pure: what happened and the moment go in, what to do comes out.

use std::time::Duration;

use loom_types::Moment;

use crate::answers::RowFailure;

/// Rows in a row that open the breaker.
pub const OPENS_AT: u32 = 100;

/// The pause before the first probe; it doubles with each probe that traps.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two probes.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The state of one node on one worker.
#[derive(Clone, Debug)]
pub struct Breaker {
    on: bool,
    streak: u32,
    open: Option<Open>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    probe_at: Moment,
    pause: Duration,
}

/// What the node may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Call on any rows; after so many rows in a row that trap, stop.
    Rows {
        /// For [`StepNode::call_until`](crate::StepNode::call_until).
        allowance: u32,
    },
    /// Call on the next row alone.
    Probe,
    /// Hold the node until then.
    Wait {
        /// When the next probe is due.
        until: Moment,
    },
}

impl Breaker {
    /// Closed. One that is off never opens.
    #[must_use]
    pub fn new(on: bool) -> Self {
        Breaker { on, streak: 0, open: None }
    }

    /// Whether the node is held.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// What the node may do now.
    #[must_use]
    pub fn permit(&self, now: Moment) -> Permit {
        match self.open {
            None if self.on => Permit::Rows { allowance: OPENS_AT - self.streak },
            None => Permit::Rows { allowance: u32::MAX },
            Some(open) if now >= open.probe_at => Permit::Probe,
            Some(open) => Permit::Wait { until: open.probe_at },
        }
    }

    /// A call answered so many rows, with these failures, ascending by position. Whether the breaker is open now.
    pub fn record(&mut self, answered: u32, failures: &[RowFailure], now: Moment) -> bool {
        if !self.on || answered == 0 {
            return self.is_open();
        }
        let mut next = 0;
        for failure in failures {
            if failure.position > next || !failure.cause.is_trap() {
                self.streak = 0;
            }
            if failure.cause.is_trap() {
                self.streak = self.streak.saturating_add(1);
            }
            next = failure.position + 1;
        }
        if next < answered {
            self.streak = 0;
        }
        if self.streak == 0 {
            self.open = None;
        } else if self.open.is_some() || self.streak >= OPENS_AT {
            let pause = self.open.map_or(FIRST_PAUSE, |open| (open.pause * 2).min(LONGEST_PAUSE));
            self.open = Some(Open { probe_at: now + pause, pause });
        }
        self.is_open()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loom_types::Moment;

    use super::{Breaker, OPENS_AT, Permit};
    use crate::answers::{Cause, RowFailure};

    const NOW: Moment = Moment::START;

    fn failures(positions: impl IntoIterator<Item = u32>, cause: Cause) -> Vec<RowFailure> {
        positions.into_iter().map(|position| RowFailure { position, cause, reason: String::new() }).collect()
    }

    #[test]
    fn a_hundred_traps_in_a_row_open_it_over_several_calls_and_time_outs_count() {
        let mut breaker = Breaker::new(true);
        assert!(!breaker.record(60, &failures(0..60, Cause::Trap), NOW));
        assert_eq!(breaker.permit(NOW), Permit::Rows { allowance: 40 });
        assert!(!breaker.record(39, &failures(0..39, Cause::Timeout), NOW));
        assert!(breaker.record(1, &failures([0], Cause::Trap), NOW));
        assert!(breaker.is_open());
    }

    #[test]
    fn bad_rows_among_good_ones_never_open_it() {
        let mut breaker = Breaker::new(true);
        for _ in 0..10 {
            assert!(!breaker.record(
                199,
                &failures((0..199).filter(|row| row % 100 != 50), Cause::Trap),
                NOW
            ));
        }
        let mut breaker = Breaker::new(true);
        for _ in 0..10 {
            assert!(!breaker.record(99, &failures(0..99, Cause::Trap), NOW));
            assert!(!breaker.record(1, &[], NOW));
        }
        assert!(!breaker.record(500, &failures(0..500, Cause::Reject), NOW));
        assert!(!breaker.record(500, &failures(0..500, Cause::Protocol), NOW));
    }

    #[test]
    fn probes_come_at_growing_pauses_until_one_comes_back() {
        let mut breaker = Breaker::new(true);
        breaker.record(OPENS_AT, &failures(0..OPENS_AT, Cause::Trap), NOW);
        let (mut now, mut pauses) = (NOW, Vec::new());
        for _ in 0..8 {
            let Permit::Wait { until } = breaker.permit(now) else { panic!("held") };
            pauses.push((until - now).as_millis());
            now = until;
            assert_eq!(breaker.permit(now), Permit::Probe);
            assert!(breaker.record(1, &failures([0], Cause::Trap), now));
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let now = now + Duration::from_secs(5);
        assert!(!breaker.record(1, &failures([0], Cause::Reject), now), "an answer, if not a good one");
        assert_eq!(breaker.permit(now), Permit::Rows { allowance: OPENS_AT });
    }

    #[test]
    fn one_that_is_off_never_opens() {
        let mut breaker = Breaker::new(false);
        assert!(!breaker.record(1000, &failures(0..1000, Cause::Trap), NOW));
        assert_eq!(breaker.permit(NOW), Permit::Rows { allowance: u32::MAX });
    }
}
