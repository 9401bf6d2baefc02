//! The request to stop, and the wake-ups of workers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::Thread;
use std::time::{Duration, Instant};

use loom_kafka::Waker;
use loom_plugin::Interrupt;
use loom_types::Moment;

/// Asks every worker to stop gracefully. Cloning gives another handle to the same request.
#[derive(Clone)]
pub struct Stop {
    shared: Arc<Shared>,
}

struct Shared {
    now: Arc<dyn Fn() -> Moment + Send + Sync>,
    requested: AtomicBool,
    since: OnceLock<Moment>,
    /// The flow is to begin anew afterwards.
    anew: AtomicBool,
    /// It is to stop, whatever else was asked for.
    over: AtomicBool,
    /// Nothing more is done at all; shared with the rounds.
    killed: Arc<AtomicBool>,
    bells: Mutex<Vec<Arc<Bell>>>,
    /// Requests that are made with this one.
    rounds: Mutex<Vec<Weak<Shared>>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

impl Stop {
    /// Nothing requested yet.
    #[must_use]
    pub fn new() -> Self {
        let start = Instant::now();
        Self::timed_by(move || Moment(start.elapsed()))
    }

    /// The same, with the time since the request counted by this clock.
    pub(crate) fn timed_by(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self::clocked(Arc::new(now), Arc::default())
    }

    fn clocked(now: Arc<dyn Fn() -> Moment + Send + Sync>, killed: Arc<AtomicBool>) -> Self {
        let shared = Shared {
            now,
            requested: AtomicBool::new(false),
            since: OnceLock::new(),
            anew: AtomicBool::new(false),
            over: AtomicBool::new(false),
            killed,
            bells: Mutex::default(),
            rounds: Mutex::default(),
        };
        Stop { shared: Arc::new(shared) }
    }

    /// Asks for the graceful stop: intake ends, what is in flight is written, offsets are committed. Callable from any
    /// thread, any number of times.
    pub fn request(&self) {
        self.shared.over.store(true, Ordering::Release);
        self.end();
    }

    fn end(&self) {
        self.shared.since.get_or_init(|| (self.shared.now)());
        self.shared.requested.store(true, Ordering::Release);
        for bell in self.shared.bells.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            bell.ring();
        }
        let rounds = std::mem::take(&mut *self.shared.rounds.lock().unwrap_or_else(PoisonError::into_inner));
        rounds.iter().filter_map(Weak::upgrade).for_each(|shared| Stop { shared }.request());
    }

    /// Ends the flow as a process ends that is killed: workers drop what they hold, and write, commit and close nothing.
    /// Callable from within their calls; what a worker's step has begun it still does. For tests of flows.
    pub fn kill(&self) {
        self.shared.killed.store(true, Ordering::Release);
        self.request();
    }

    /// Whether it was killed.
    pub(crate) fn is_killed(&self) -> bool {
        self.shared.killed.load(Ordering::Acquire)
    }

    /// Asks for the end of this round alone, as after a crash: the flow begins anew from the committed offsets.
    pub(crate) fn request_anew(&self) {
        self.shared.anew.store(true, Ordering::Release);
        self.end();
    }

    /// Whether a worker asked for a new beginning, and nobody for the stop.
    pub(crate) fn begins_anew(&self) -> bool {
        self.shared.anew.load(Ordering::Acquire) && !self.shared.over.load(Ordering::Acquire)
    }

    /// A request of its own, which this one makes too: for one round of a flow that may begin anew.
    pub(crate) fn round(&self) -> Stop {
        let round = Stop::clocked(self.shared.now.clone(), self.shared.killed.clone());
        let mut rounds = self.shared.rounds.lock().unwrap_or_else(PoisonError::into_inner);
        rounds.retain(|other| other.strong_count() > 0);
        rounds.push(Arc::downgrade(&round.shared));
        drop(rounds);
        if self.is_requested() {
            round.request();
        }
        round
    }

    /// Whether the stop was asked for.
    #[must_use]
    pub fn is_requested(&self) -> bool {
        self.shared.requested.load(Ordering::Acquire)
    }

    /// How long ago the stop was asked for; zero when it was not.
    pub(crate) fn requested_for(&self) -> Duration {
        self.shared.requested_for()
    }

    /// Ends calls of plugins that are still under way so long after the request.
    pub(crate) fn interrupt(&self, grace: Duration) -> Interrupt {
        let shared = self.shared.clone();
        Interrupt::new(move || shared.requested.load(Ordering::Acquire) && shared.requested_for() >= grace)
    }

    /// A bell that rings at the request too.
    pub(crate) fn bell(&self) -> Arc<Bell> {
        let bell = Arc::new(Bell::default());
        self.shared.bells.lock().unwrap_or_else(PoisonError::into_inner).push(bell.clone());
        bell
    }
}

impl Shared {
    fn requested_for(&self) -> Duration {
        self.since.get().map_or(Duration::ZERO, |since| (self.now)().since(*since))
    }
}

/// What a stop ends when it will wait no longer.
#[derive(Clone)]
pub(crate) struct Interrupts {
    /// Calls of plugins.
    pub calls: Interrupt,
    /// Calls of sinks, which may take longer: they make durable what is there.
    pub sinks: Interrupt,
}

/// Wakes one worker's thread. Ringing only marks and unparks, so it is safe under a client's lock.
#[derive(Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    thread: Mutex<Option<Thread>>,
}

impl Bell {
    /// The thread that it wakes.
    pub(crate) fn belongs_to(&self, thread: Thread) {
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    }

    pub(crate) fn ring(&self) {
        // Only the first ring since the worker last looked has to unpark it.
        if !self.rung.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).as_ref()
        {
            thread.unpark();
        }
    }

    /// Whether it was rung since it was last taken.
    pub(crate) fn is_rung(&self) -> bool {
        self.rung.load(Ordering::Acquire)
    }

    /// Whether it was rung since this was last asked.
    pub(crate) fn take(&self) -> bool {
        self.rung.swap(false, Ordering::AcqRel)
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        let bell = self.clone();
        Arc::new(move || bell.ring())
    }
}
