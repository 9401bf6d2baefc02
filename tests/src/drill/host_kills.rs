//! The host is killed with `kill -9` at random moments under load, and started again each time.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::account::{Account, Death, account, count};
use super::dice::Dice;
use super::stage::Stage;
use super::tail::Tail;
use crate::kafka::{Access, Broker};

/// A host that is killed while it starts lives at most so long.
const EARLY: Duration = Duration::from_millis(400);

/// How the drill is held.
#[derive(Clone, Debug)]
pub struct HostKills {
    /// How often the host is killed.
    pub kills: u32,
    /// Records a second.
    pub rate: u32,
    /// Partitions of source and output.
    pub partitions: u32,
    /// Workers of the host.
    pub workers: u32,
    /// The host lives at most so long after its first output. One in four dies before it.
    pub life: Duration,
    /// For the lengths of its lives; None = any.
    pub seed: Option<u64>,
}

impl Default for HostKills {
    fn default() -> Self {
        Self {
            kills: 5,
            rate: 2000,
            partitions: 3,
            workers: 2,
            life: Duration::from_millis(1500),
            seed: None,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct HostReport {
    /// The seed that was used.
    pub seed: u64,
    /// The output topic's account.
    pub topic: Account,
    /// The sink's account.
    pub sink: Account,
    /// From a start after a kill to the first new output, for each that lived to see it; sorted.
    pub to_first_output: Vec<Duration>,
}

impl HostReport {
    /// A percentile, of 0 to 100, of the times to the first output.
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let last = self.to_first_output.len().checked_sub(1)?;
        self.to_first_output.get((last * percent).div_ceil(100)).copied()
    }
}

impl HostKills {
    /// Holds the drill; `progress` is told the number of each kill.
    ///
    /// # Errors
    /// If a record is lost, out of order, or repeated although it was committed; if a host does not start, or gives no
    /// output in time.
    pub fn hold(&self, broker: &Broker, progress: impl Fn(u32)) -> Result<HostReport> {
        let seed = self.seed.unwrap_or_else(Dice::any_seed);
        self.hold_seeded(broker, seed, progress).with_context(|| format!("the drill with seed {seed}"))
    }

    fn hold_seeded(&self, broker: &Broker, seed: u64, progress: impl Fn(u32)) -> Result<HostReport> {
        let mut dice = Dice::new(seed);
        let stage = Stage::new(broker, &Access::plain(broker), self.partitions, self.workers)?;
        let tail = Tail::start(broker, &stage.output)?;
        let writer = stage.load(self.rate)?;

        let (mut topic_deaths, mut sink_deaths) = (Vec::new(), Vec::new());
        let mut to_first_output = Vec::new();
        let mut start = Instant::now();
        let mut begun = 0;
        let mut host = stage.start()?;
        for kill in 1..=self.kills {
            if kill > 1 && dice.one_in(4) {
                std::thread::sleep(dice.up_to(EARLY));
            } else {
                let first = tail.await_len(begun + 1, &host)?;
                if kill > 1 {
                    to_first_output.push(first.saturating_duration_since(start));
                }
                std::thread::sleep(dice.up_to(self.life));
            }
            host.kill()?;
            // What the dead host had sent already must not pass for the next one's.
            begun = stage.settled_output()?;
            let seen = tail.first(begun)?;
            let committed = stage.committed()?;
            topic_deaths.push(Death { committed: committed.clone(), seen: count(&seen, self.partitions) });
            sink_deaths.push(Death { committed, seen: count(&stage.kept()?, self.partitions) });

            start = Instant::now();
            host = stage.start()?;
            progress(kill);
        }
        let first = tail.await_len(begun + 1, &host)?;
        to_first_output.push(first.saturating_duration_since(start));
        let written = writer.stop()?;
        stage.finish(host, &written)?;
        let came = tail.first(stage.settled_output()?)?;

        to_first_output.sort();
        let topic = account(&came, &written, &topic_deaths).context("in the output topic")?;
        let sink = account(&stage.kept()?, &written, &sink_deaths).context("in the sink's files")?;
        Ok(HostReport { seed, topic, sink, to_first_output })
    }
}
