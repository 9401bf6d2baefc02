//! Back-pressure at length: one record that cannot get through for an hour, at full input.

use std::time::Duration;

use fastrand::Rng;

use super::Report;
use super::acts::{Act, At, Event};
use super::executor;
use super::fates::Fates;
use super::scenario::Scenario;

/// How long the record is stuck, in simulated time.
pub const STUCK: Duration = Duration::from_secs(3600);

/// Records for each partition and second.
const FEED: usize = 10;

/// Four partitions that get records all the time, through a step that asks for one record of the first partition again
/// and again. The report's gauges tell what each partition held meanwhile.
#[must_use]
pub fn stuck(seed: u64) -> Report {
    let feed = Event { at: At::Step(0), act: Act::Feed { records: FEED, until: STUCK } };
    // The first partition's records are the first of each feed.
    let fates = Fates::stuck(4 * FEED as u64 + 3, STUCK);
    let events = vec![feed, Event { at: At::Time(STUCK), act: Act::Calm }];
    let plain = Scenario::one_step(fates, false, events);
    let scenario =
        Scenario { topics: vec![("in0".to_owned(), 4)], outputs: vec![2], most_workers: 2, ..plain };
    executor::run(seed, scenario, Rng::with_seed(seed), false)
}
