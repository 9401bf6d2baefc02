//! What a call has used of its time.
//!
//! - *Computing* is the processor time of the thread, while it runs the call.
//! - *Waiting* is how long the guest itself waits in the host, such as a sleep or a poll: see [`Alarm`](crate::alarm::Alarm).
//!
//! Time in which the call could run and did not is neither: a quota that is used up, a process that is stopped, a machine
//! with more to do than it has processors. No record is charged for what its host lacks.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::node::Interrupt;

/// What a call may use in any case before the host's stop ends it: what is quick, such as closing a sink that has written
/// everything, comes through also when it is called late.
const UNCUT: Duration = Duration::from_millis(100);

/// The time of the call that is running on the worker's thread: computing and waiting together, as the worker is held by
/// both.
///
/// The processor time is looked at when guest code sees a tick, so that a short call costs no clock: what a call computes
/// before its first tick is not charged.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallClock {
    limit: Duration,
    /// The thread's processor time at the call's first tick.
    begun: Option<Duration>,
    computed: Duration,
    waited: Duration,
    /// What ends calls before their time: the host stops.
    cut: Option<Interrupt>,
}

impl CallClock {
    /// Ends calls from now on when this is set.
    pub(crate) fn cut_by(&mut self, interrupt: Option<Interrupt>) {
        self.cut = interrupt;
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self, limit: Duration) {
        (self.limit, self.begun) = (limit, None);
        (self.computed, self.waited) = (Duration::ZERO, Duration::ZERO);
    }

    /// Guest code saw a tick; `processor` is the thread's processor time.
    pub(crate) fn tick(&mut self, processor: Duration) {
        let begun = *self.begun.get_or_insert(processor);
        self.computed = processor.saturating_sub(begun);
    }

    /// The call waited in the host.
    pub(crate) fn wait(&mut self, waited: Duration) {
        self.waited += waited;
    }

    /// What is left of the call.
    pub(crate) fn left(&self) -> Duration {
        self.limit.saturating_sub(self.computed).saturating_sub(self.waited)
    }

    /// Whether the call, which waits for so long now, is to end although it has time left.
    pub(crate) fn is_cut(&self, waiting: Duration) -> bool {
        let used = self.computed + self.waited + waiting;
        used >= UNCUT && self.cut.as_ref().is_some_and(Interrupt::is_set)
    }
}

/// The processor time of this thread.
pub(crate) fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::CallClock;
    use crate::node::Interrupt;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_call_is_charged_for_processor_time_however_many_ticks_pass() {
        let mut clock = CallClock::default();
        clock.begin(ms(250));
        // A thread that is throttled sees a tick at each turn, and has little of the processor between them.
        for turn in 0..10_000_u64 {
            clock.tick(Duration::from_secs(7) + Duration::from_micros(20 * turn));
            assert!(!clock.left().is_zero(), "after {turn} ticks");
        }
        clock.tick(Duration::from_secs(7) + ms(249));
        assert_eq!(clock.left(), ms(1));
        clock.tick(Duration::from_secs(7) + ms(250));
        assert!(clock.left().is_zero());
    }

    #[test]
    fn computing_and_waiting_share_the_time_and_each_call_has_all_of_it() {
        let mut clock = CallClock::default();
        for since in [ms(0), ms(5000)] {
            clock.begin(ms(100));
            assert_eq!(clock.left(), ms(100));
            clock.tick(since);
            clock.tick(since + ms(30));
            clock.wait(ms(40));
            assert_eq!(clock.left(), ms(30));
            clock.wait(ms(31));
            assert!(clock.left().is_zero());
        }
    }

    #[test]
    fn a_stop_lets_a_call_use_a_little_before_it_ends_it() {
        let mut clock = CallClock::default();
        clock.begin(Duration::from_secs(30));
        clock.tick(ms(0));
        assert!(!clock.is_cut(Duration::from_secs(20)), "nothing stops");
        clock.cut_by(Some(Interrupt::new(|| true)));
        clock.tick(ms(60));
        assert!(!clock.is_cut(ms(0)));
        assert!(!clock.is_cut(ms(39)));
        assert!(clock.is_cut(ms(40)));
        clock.wait(ms(40));
        assert!(clock.is_cut(ms(0)));
    }
}
