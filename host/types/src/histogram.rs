//! How often something took how long.

use std::time::Duration;

/// Counts of lengths of time, by upper bounds that are fixed when it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bounds: &'static [Duration],
    /// One for each bound, and one for what is above the last.
    counts: Vec<u64>,
    sum: Duration,
}

impl Histogram {
    /// Nothing was counted yet. The bounds ascend.
    #[must_use]
    pub fn new(bounds: &'static [Duration]) -> Self {
        Histogram { bounds, counts: vec![0; bounds.len() + 1], sum: Duration::ZERO }
    }

    /// Counts one that took so long.
    pub fn observe(&mut self, took: Duration) {
        let at = self.bounds.partition_point(|bound| *bound < took);
        self.counts[at] += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// Each bound with how many took no longer.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut sum = 0;
        self.bounds.iter().zip(&self.counts).map(move |(bound, count)| {
            sum += count;
            (*bound, sum)
        })
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long they took together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Histogram;

    #[test]
    fn each_bucket_has_all_that_took_no_longer() {
        static BOUNDS: [Duration; 2] = [Duration::from_millis(10), Duration::from_secs(1)];
        let mut histogram = Histogram::new(&BOUNDS);
        for ms in [0, 10, 11, 1000, 1001] {
            histogram.observe(Duration::from_millis(ms));
        }
        let counts: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!((counts, histogram.count()), (vec![2, 4], 5));
        assert_eq!(histogram.sum(), Duration::from_millis(2022));
    }
}
