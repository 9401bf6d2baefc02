//! Time as a value. Decisions take the moment they are made at as an argument; only the edge reads a clock, so a
//! simulation can own time.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A monotonic moment, counted from the start of the process (or of the simulation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub Duration);

impl Moment {
    /// The start of the process.
    pub const START: Moment = Moment(Duration::ZERO);

    /// How long ago `earlier` was; zero when it lies ahead.
    #[must_use]
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, rhs: Duration) -> Moment {
        Moment(self.0.saturating_add(rhs))
    }
}

impl Sub<Moment> for Moment {
    type Output = Duration;

    fn sub(self, rhs: Moment) -> Duration {
        self.since(rhs)
    }
}
