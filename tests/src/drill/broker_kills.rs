//! The broker is killed with `kill -9` under load, and started again each time, while the host lives.

use std::time::Duration;

use anyhow::{Context, Result};

use super::account::{Account, account};
use super::dice::Dice;
use super::stage::Stage;
use super::tail::Tail;
use crate::kafka::{Access, Broker};

/// How the drill is held.
#[derive(Clone, Debug)]
pub struct BrokerKills {
    /// How often the broker is killed.
    pub kills: u32,
    /// Records a second.
    pub rate: u32,
    /// Partitions of source and output.
    pub partitions: u32,
    /// Workers of the host.
    pub workers: u32,
    /// The broker lives at most so long after an output that came through it.
    pub life: Duration,
    /// The broker stays down so long.
    pub outage: Duration,
    /// For the lengths of its lives; None = any.
    pub seed: Option<u64>,
}

impl Default for BrokerKills {
    fn default() -> Self {
        Self {
            kills: 2,
            rate: 2000,
            partitions: 3,
            workers: 2,
            life: Duration::from_millis(1500),
            outage: Duration::from_secs(2),
            seed: None,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct BrokerReport {
    /// The seed that was used.
    pub seed: u64,
    /// The output topic's account.
    pub topic: Account,
    /// The sink's account.
    pub sink: Account,
}

impl BrokerKills {
    /// Holds the drill on a broker that may be killed; `progress` is told the number of each kill.
    ///
    /// # Errors
    /// If the host ends, or does not go on when the broker is back; if a record is lost, out of order, or repeated.
    pub fn hold(&self, broker: &Broker, progress: impl Fn(u32)) -> Result<BrokerReport> {
        let seed = self.seed.unwrap_or_else(Dice::any_seed);
        self.hold_seeded(broker, seed, progress).with_context(|| format!("the drill with seed {seed}"))
    }

    fn hold_seeded(&self, broker: &Broker, seed: u64, progress: impl Fn(u32)) -> Result<BrokerReport> {
        let mut dice = Dice::new(seed);
        let stage = Stage::new(broker, &Access::plain(broker), self.partitions, self.workers)?;
        let tail = Tail::start(broker, &stage.output)?;
        let writer = stage.load(self.rate)?;
        let host = stage.start()?;
        tail.await_len(1, &host)?;
        for kill in 1..=self.kills {
            std::thread::sleep(dice.up_to(self.life));
            broker.kill()?;
            std::thread::sleep(self.outage);
            broker.resume()?;
            // All that came before the kill, and one more: the flow goes on by itself.
            let before = stage.output_len()?;
            tail.await_len(before + 1, &host)?;
            progress(kill);
        }
        let written = writer.stop()?;
        stage.finish(host, &written)?;
        let came = tail.first(stage.settled_output()?)?;
        // The host never died, and its producers are idempotent: nothing may come twice.
        let topic = account(&came, &written, &[]).context("in the output topic")?;
        let sink = account(&stage.kept()?, &written, &[]).context("in the sink's files")?;
        Ok(BrokerReport { seed, topic, sink })
    }
}
