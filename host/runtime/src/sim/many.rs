//! Many seeds, on some threads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use loom_delivery::{Mutation, mutate};

use super::{Focus, Report};

/// What many seeds came to.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Seeds that were run.
    pub seeds: u64,
    /// Records produced in them.
    pub records: u64,
    /// Steps of workers.
    pub steps: u64,
    /// Processes started.
    pub runs: u64,
    /// Time that passed in them.
    pub simulated: Duration,
    /// Time that it took.
    pub took: Duration,
    /// The first seeds that failed, ascending.
    pub failed: Vec<Failed>,
}

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// What did not hold.
    pub why: String,
}

impl Tally {
    fn add(&mut self, report: Report) {
        self.seeds += 1;
        self.records += report.records as u64;
        self.steps += report.steps;
        self.runs += u64::from(report.runs);
        self.simulated += report.simulated;
        if let Some(why) = report.failure {
            self.failed.push(Failed { seed: report.seed, why });
        }
    }

    fn merge(&mut self, other: Tally) {
        self.seeds += other.seeds;
        self.records += other.records;
        self.steps += other.steps;
        self.runs += other.runs;
        self.simulated += other.simulated;
        self.failed.extend(other.failed);
    }
}

/// Which seeds to run, and how.
#[derive(Clone, Copy, Debug)]
pub struct Seeds {
    /// The first one.
    pub from: u64,
    /// How many.
    pub count: u64,
    /// On so many threads.
    pub threads: usize,
    /// It ends early once so many have failed.
    pub enough: u64,
    /// On what.
    pub focus: Focus,
    /// With this deliberate fault in the product.
    pub mutation: Option<Mutation>,
}

/// Runs many seeds; `watch` is called now and then with how many are done.
pub fn many(seeds: Seeds, watch: impl Fn(u64) + Sync) -> Tally {
    let Seeds { from, count, threads, enough, focus, mutation } = seeds;
    let start = Instant::now();
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        mutate(mutation);
        let mut tally = Tally::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count || failed.load(Ordering::Relaxed) >= enough {
                return tally;
            }
            let report = super::run(from + seed, focus);
            failed.fetch_add(u64::from(report.failure.is_some()), Ordering::Relaxed);
            tally.add(report);
            if seed % 1000 == 999 {
                watch(seed + 1);
            }
        }
    };
    let mut total = Tally::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            match thread.join() {
                Ok(tally) => total.merge(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    total.failed.sort_by_key(|failed| failed.seed);
    total.took = start.elapsed();
    total
}
