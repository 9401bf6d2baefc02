//! The edge's only clock. Everything behind it gets its time as an argument.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use loom_types::Moment;

/// Where a worker gets its time and its randomness from.
pub trait Clock: Send {
    /// Monotonic time.
    fn now(&self) -> Moment;

    /// Milliseconds since 1970-01-01 UTC.
    fn wall_ms(&self) -> i64;

    /// A random number in 0..1.
    fn random(&mut self) -> f64;

    /// Lets that much time pass. Only who may block does: assembly, never a worker.
    fn sleep(&mut self, wait: Duration);
}

/// The machine's clock, and randomness of the operating system's seed.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    random: fastrand::Rng,
}

impl SystemClock {
    /// With `start` as the zero of monotonic time.
    #[must_use]
    pub fn since(start: Instant) -> Self {
        SystemClock { start, random: fastrand::Rng::new() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment(self.start.elapsed())
    }

    fn wall_ms(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn random(&mut self) -> f64 {
        self.random.f64()
    }

    fn sleep(&mut self, wait: Duration) {
        std::thread::sleep(wait);
    }
}
