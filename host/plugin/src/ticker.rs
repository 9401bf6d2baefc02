//! The clock of guest calls: a thread that advances the engine's epoch every 5 ms while a guest call is in flight, and
//! rests otherwise.
//!
//! A call's time is counted in these ticks, not by the wall clock. A host that was paused or throttled loses ticks
//! along with everything else, so that no record is charged for it.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, Thread};
use std::time::Duration;

use wasmtime::Engine;

use crate::node::Interrupt;

/// The length of a tick.
pub(crate) const TICK: Duration = Duration::from_millis(5);

/// Ticks without a call before the thread rests. Calls that follow each other closely then find it awake, and wake
/// nobody.
const LINGER: u32 = 20;

/// Ticks that a call has in any case before the host's stop ends it: what is quick, such as closing a sink that has written
/// everything, comes through also when it is called late.
const UNCUT: u64 = 20;

/// Owns the ticking thread; it ends with this value.
#[derive(Debug)]
pub(crate) struct Ticker {
    beat: Arc<Beat>,
    thread: Option<JoinHandle<()>>,
}

/// What callers share with the thread.
#[derive(Debug)]
pub(crate) struct Beat {
    ticks: AtomicU64,
    in_flight: AtomicU64,
    resting: AtomicBool,
    stopped: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Ticker {
    pub(crate) fn start(engine: Engine) -> std::io::Result<Ticker> {
        let beat = Arc::new(Beat {
            ticks: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            resting: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            thread: OnceLock::new(),
        });
        let shared = beat.clone();
        let thread = std::thread::Builder::new()
            .name("plugin-ticker".to_owned())
            .spawn(move || shared.run(&engine))?;
        // The thread may have begun to rest already; it looks again after saying so, and `enter` unparks by this handle.
        let _ = beat.thread.set(thread.thread().clone());
        Ok(Ticker { beat, thread: Some(thread) })
    }

    pub(crate) fn beat(&self) -> &Arc<Beat> {
        &self.beat
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.beat.stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread does not panic; were it to, there is nothing to be told here.
            let _ = thread.join();
        }
    }
}

impl Beat {
    fn run(&self, engine: &Engine) {
        let mut idle = 0;
        while !self.stopped.load(Ordering::SeqCst) {
            idle = if self.in_flight.load(Ordering::Relaxed) == 0 { idle + 1 } else { 0 };
            if idle > LINGER {
                self.rest();
                idle = 0;
                continue;
            }
            std::thread::sleep(TICK);
            self.ticks.fetch_add(1, Ordering::Relaxed);
            engine.increment_epoch();
        }
    }

    /// Parks until a call enters. Either the call sees `resting`, or this sees the call.
    fn rest(&self) {
        self.resting.store(true, Ordering::SeqCst);
        while self.in_flight.load(Ordering::SeqCst) == 0 && !self.stopped.load(Ordering::SeqCst) {
            std::thread::park();
        }
        self.resting.store(false, Ordering::SeqCst);
    }

    /// Keeps the ticker going as long as the guard lives.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        if self.resting.load(Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
        InFlight { beat: self.clone() }
    }

    /// Ticks since the start.
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }
}

/// A guest call, or a run of them, in flight.
#[derive(Debug)]
pub(crate) struct InFlight {
    beat: Arc<Beat>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.beat.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The ticks that a limit stands for. One more than fit, since the first is cut short.
pub(crate) fn ticks_of(limit: Duration) -> u64 {
    let ticks = limit.as_micros().div_ceil(TICK.as_micros());
    u64::try_from(ticks).unwrap_or(u64::MAX / 2).min(u64::MAX / 2) + 1
}

/// How long so many ticks take.
pub(crate) fn span_of(ticks: u64) -> Duration {
    TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
}

/// How long the call that is running may still run.
#[derive(Clone, Debug)]
pub(crate) struct CallClock {
    beat: Arc<Beat>,
    begun: u64,
    deadline: u64,
    /// What ends calls before their time: the host stops.
    cut: Option<Interrupt>,
}

impl CallClock {
    pub(crate) fn new(beat: Arc<Beat>) -> Self {
        CallClock { beat, begun: 0, deadline: 0, cut: None }
    }

    /// Ends calls from now on when this is set.
    pub(crate) fn cut_by(&mut self, interrupt: Option<Interrupt>) {
        self.cut = interrupt;
    }

    /// Whether calls may end before their time.
    pub(crate) fn may_be_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// Whether the call is to end now, although it has time left.
    pub(crate) fn is_cut(&self) -> bool {
        let begun = self.beat.ticks() - self.begun >= UNCUT;
        begun && self.cut.as_ref().is_some_and(Interrupt::is_set)
    }

    /// The ticks that it counts.
    pub(crate) fn beat(&self) -> &Arc<Beat> {
        &self.beat
    }

    /// Starts a call of so many ticks.
    pub(crate) fn set(&mut self, ticks: u64) {
        self.begun = self.beat.ticks();
        self.deadline = self.begun.saturating_add(ticks);
    }

    /// What is left of the call, in whole ticks.
    pub(crate) fn left(&self) -> Duration {
        span_of(self.deadline.saturating_sub(self.beat.ticks()))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use super::{CallClock, Ticker, ticks_of};

    #[test]
    fn a_limit_is_never_cut_short_by_a_tick() {
        assert_eq!(ticks_of(Duration::from_millis(250)), 51);
        assert_eq!(ticks_of(Duration::from_millis(1)), 2);
        assert_eq!(ticks_of(Duration::MAX), u64::MAX / 2 + 1);
    }

    #[test]
    fn the_ticker_rests_without_calls_and_wakes_with_one() {
        let ticker = Ticker::start(wasmtime::Engine::default()).unwrap();
        let beat = ticker.beat().clone();
        let start = Instant::now();
        while !beat.resting.load(Ordering::SeqCst) {
            assert!(start.elapsed() < Duration::from_secs(30), "never rested");
            std::thread::yield_now();
        }
        let before = beat.ticks();
        let call = beat.enter();
        let mut clock = CallClock::new(beat.clone());
        clock.set(4);
        while !clock.left().is_zero() {
            assert!(start.elapsed() < Duration::from_secs(60), "never ticked");
            std::thread::yield_now();
        }
        assert!(beat.ticks() >= before + 4);
        drop(call);
        assert_eq!(beat.in_flight.load(Ordering::SeqCst), 0);
    }
}
