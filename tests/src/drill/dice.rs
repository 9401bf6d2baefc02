//! Random pauses from a seed that is printed, so that a drill that found something can be held again. (Only nearly:
//! what the machine does in between is not ours.)

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

pub(super) struct Dice {
    state: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A seed that nobody has chosen.
    pub(super) fn any_seed() -> u64 {
        RandomState::new().hash_one(0) % 1_000_000
    }

    /// A time up to a bound.
    pub(super) fn up_to(&mut self, bound: Duration) -> Duration {
        bound.mul_f64(self.next())
    }

    /// One of them.
    pub(super) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        let at = (self.next() * of.len() as f64) as usize;
        of[at.min(of.len() - 1)]
    }

    /// Yes, once in so many.
    pub(super) fn one_in(&mut self, many: u32) -> bool {
        self.next() * f64::from(many) < 1.0
    }

    /// From 0 to below 1.
    fn next(&mut self) -> f64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 40) as f64 / (1_u64 << 24) as f64
    }
}
