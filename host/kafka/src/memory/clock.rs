//! Time, given from outside: the broker reads it, never waits for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loom_types::Moment;

/// Tells the present moment; called under the broker's lock, so it must not call the broker.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// The process's own monotonic clock, counted from this call.
#[must_use]
pub fn system_clock() -> Clock {
    let start = Instant::now();
    Arc::new(move || Moment(start.elapsed()))
}

/// A clock that moves only when it is told to. Clones show the same time.
#[derive(Clone, Debug, Default)]
pub struct ManualClock {
    nanos: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at [`Moment::START`].
    #[must_use]
    pub fn new() -> Self {
        ManualClock::default()
    }

    /// The present moment.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(Duration::from_nanos(self.nanos.load(Ordering::Acquire)))
    }

    /// Moves on.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(by, Ordering::AcqRel);
    }

    /// As the broker takes it.
    #[must_use]
    pub fn clock(&self) -> Clock {
        let this = self.clone();
        Arc::new(move || this.now())
    }
}
