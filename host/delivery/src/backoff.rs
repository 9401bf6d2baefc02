//! How long to wait before trying again: exponential, with jitter, capped.

use std::time::Duration;

/// A wait that doubles with each attempt. Randomness is passed in, so that it can be repeated.
#[derive(Clone, Debug)]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    attempts: u32,
}

impl Backoff {
    /// From `base` on, never longer than `cap`.
    #[must_use]
    pub fn new(base: Duration, cap: Duration) -> Self {
        Backoff { base, cap, attempts: 0 }
    }

    /// Attempts that have failed so far.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Counts a failed attempt, and says how long to wait: between half and all of the doubled wait. `random` is in
    /// 0..1.
    pub fn failed(&mut self, random: f64) -> Duration {
        let full = self.base.saturating_mul(1 << self.attempts.min(24)).min(self.cap);
        self.attempts = self.attempts.saturating_add(1);
        full.mul_f64(0.5 + 0.5 * random.clamp(0.0, 1.0))
    }

    /// Starts over after a success.
    pub fn reset(&mut self) {
        self.attempts = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Backoff;

    #[test]
    fn waits_double_up_to_the_cap() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));
        let waits: Vec<_> = (0..6).map(|_| backoff.failed(1.0).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
        assert_eq!(backoff.failed(0.0).as_millis(), 500);
        backoff.reset();
        assert_eq!(backoff.failed(1.0).as_millis(), 100);
        for _ in 0..100 {
            assert!(backoff.failed(1.0) <= Duration::from_secs(1));
        }
    }
}
