//! A cluster of three is hurt in every way that is in the books, under load, while the host lives; some faults end the
//! host, and another one goes on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::account::{Account, Death, account, count};
use super::dice::Dice;
use super::stage::Stage;
use super::tail::Tail;
use crate::PATIENCE;
use crate::host::Host;
use crate::kafka::{Broker, Secured};

/// So many records of each partition have to come through after a fault before the flow counts as going on.
const MORE: u64 = 100;

/// What is done to the cluster or the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9` of the broker that leads a partition of input or output. It stays down until another leads.
    LeaderKilled,
    /// `kill -9` of the broker that coordinates the group. It stays down until another does.
    CoordinatorKilled,
    /// SIGSTOP of the broker that leads a partition, for the drill's pause.
    LeaderPaused,
    /// SIGSTOP of the group's coordinator, for the drill's pause.
    CoordinatorPaused,
    /// SIGSTOP of the broker that leads a partition, until the flow has gone on without it: another one is elected, and
    /// clients give up the request that hangs.
    LeaderHangs,
    /// `kill -9` of all brokers, which come back after a pause.
    AllRestarted,
    /// Every write of a leader to its disk fails. Kafka ends such a broker; it is started again when another leads.
    DiskFull,
    /// The right to read the input or to write the output is taken away. The host ends with status 4; the right is given
    /// back, and the next host goes on.
    RightsTaken,
    /// `kill -9` of the host; the next one goes on.
    HostKilled,
}

impl Fault {
    /// All there are.
    pub const ALL: [Fault; 9] = [
        Fault::LeaderKilled,
        Fault::CoordinatorKilled,
        Fault::LeaderPaused,
        Fault::CoordinatorPaused,
        Fault::LeaderHangs,
        Fault::AllRestarted,
        Fault::DiskFull,
        Fault::RightsTaken,
        Fault::HostKilled,
    ];
}

/// How the drill is held.
#[derive(Clone, Debug)]
pub struct ClusterFaults {
    /// One after the other; each begins when every copy has caught up after the one before.
    pub faults: Vec<Fault>,
    /// Records a second.
    pub rate: u32,
    /// Partitions of source and output.
    pub partitions: u32,
    /// Workers of the host.
    pub workers: u32,
    /// There is load for up to so long before each fault.
    pub life: Duration,
    /// How long a broker is paused.
    pub pause: Duration,
    /// How long all brokers stay down together.
    pub outage: Duration,
    /// For the moments and the places; None = any.
    pub seed: Option<u64>,
}

impl Default for ClusterFaults {
    fn default() -> Self {
        Self {
            faults: Vec::new(),
            rate: 1000,
            partitions: 3,
            workers: 2,
            life: Duration::from_secs(1),
            pause: Duration::from_secs(8),
            outage: Duration::from_secs(2),
            seed: None,
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct ClusterReport {
    /// The seed that was used.
    pub seed: u64,
    /// The output topic's account.
    pub topic: Account,
    /// The sink's account.
    pub sink: Account,
    /// Each fault, and the time from it until every partition had new output and had it committed.
    pub recoveries: Vec<(Fault, Duration)>,
}

impl ClusterFaults {
    /// So many faults in random order, the same for the same seed.
    #[must_use]
    pub fn random(mut self, count: usize) -> Self {
        let seed = self.seed.unwrap_or_else(Dice::any_seed);
        let mut dice = Dice::new(seed ^ 0x5eed);
        self.seed = Some(seed);
        self.faults = (0..count).map(|_| dice.pick(&Fault::ALL)).collect();
        self
    }

    /// Holds the drill; `progress` is told each fault when it is over.
    ///
    /// # Errors
    /// If the host ends where it should not, or with another status; if the flow does not go on; if a record is lost, out
    /// of order, or repeated without a host's end.
    pub fn hold(&self, cluster: &Secured, progress: impl Fn(Fault)) -> Result<ClusterReport> {
        let seed = self.seed.unwrap_or_else(Dice::any_seed);
        self.hold_seeded(cluster, seed, progress)
            .with_context(|| format!("the drill of {:?} with seed {seed}", self.faults))
    }

    fn hold_seeded(&self, cluster: &Secured, seed: u64, progress: impl Fn(Fault)) -> Result<ClusterReport> {
        let broker = &cluster.broker;
        broker.heal()?;
        let stage = Stage::new(broker, &cluster.safely()?, self.partitions, self.workers)?;
        cluster.allow(&stage.prefix())?;
        let tail = Tail::start(broker, &stage.output)?;
        let writer = stage.load(self.rate)?;
        let mut run = Run {
            drill: self,
            cluster,
            broker,
            host: Some(stage.start()?),
            stage,
            tail,
            dice: Dice::new(seed),
            topic_deaths: Vec::new(),
            sink_deaths: Vec::new(),
        };
        run.goes_on(PATIENCE).context("before the first fault")?;
        let mut recoveries = Vec::new();
        for fault in &self.faults {
            std::thread::sleep(run.dice.up_to(self.life));
            recoveries.push((*fault, run.suffer(*fault).with_context(|| format!("{fault:?}"))?));
            progress(*fault);
        }
        let written = writer.stop()?;
        let host = run.host.take().context("the host is gone")?;
        run.stage.finish(host, &written)?;
        let came = run.tail.first(run.stage.settled_output()?)?;
        let topic = account(&came, &written, &run.topic_deaths).context("in the output topic")?;
        let sink = account(&run.stage.kept()?, &written, &run.sink_deaths).context("in the sink's files")?;
        Ok(ClusterReport { seed, topic, sink, recoveries })
    }
}

/// A drill under way.
struct Run<'a> {
    drill: &'a ClusterFaults,
    cluster: &'a Secured,
    broker: &'a Broker,
    stage: Stage<'a>,
    tail: Tail,
    host: Option<Host>,
    dice: Dice,
    topic_deaths: Vec<Death>,
    sink_deaths: Vec<Death>,
}

impl Run<'_> {
    /// One fault from its beginning until all is well again. Returns how long the flow took to go on.
    fn suffer(&mut self, fault: Fault) -> Result<Duration> {
        let begun = Instant::now();
        let went_on = match fault {
            Fault::LeaderKilled | Fault::CoordinatorKilled | Fault::DiskFull => {
                let id =
                    if fault == Fault::CoordinatorKilled { self.coordinator()? } else { self.a_leader()? };
                if fault == Fault::DiskFull {
                    self.broker.fill_disk(id)?;
                } else {
                    self.broker.kill_one(id)?;
                }
                let went_on =
                    self.goes_on(PATIENCE).with_context(|| format!("while broker {id} was down"))?;
                self.broker.resume_one(id)?;
                went_on
            }
            Fault::LeaderPaused | Fault::CoordinatorPaused => {
                let id = if fault == Fault::LeaderPaused { self.a_leader()? } else { self.coordinator()? };
                self.broker.pause(id)?;
                std::thread::sleep(self.drill.pause);
                self.broker.unpause(id)?;
                self.goes_on(2 * PATIENCE).with_context(|| format!("after broker {id} was paused"))?
            }
            Fault::LeaderHangs => {
                let id = self.a_leader()?;
                self.broker.pause(id)?;
                let went_on = self.goes_on(PATIENCE).with_context(|| format!("while broker {id} hung"))?;
                self.broker.unpause(id)?;
                went_on
            }
            Fault::AllRestarted => {
                self.broker.kill()?;
                std::thread::sleep(self.drill.outage);
                self.broker.resume()?;
                self.goes_on(PATIENCE)?
            }
            Fault::RightsTaken => self.without_rights()?,
            Fault::HostKilled => {
                self.host.take().context("the host is gone")?.kill()?;
                self.next_host()?
            }
        };
        self.broker.heal()?;
        Ok(went_on.saturating_duration_since(begun))
    }

    /// Takes a right from the host, which ends, gives it back, and starts the next.
    fn without_rights(&mut self) -> Result<Instant> {
        let (operation, topic) =
            self.dice.pick(&[("Read", &self.stage.input), ("Write", &self.stage.output)]);
        self.cluster.deny(operation, "topic", topic)?;
        let ended = self.host.take().context("the host is gone")?.wait();
        self.cluster.permit(operation, "topic", topic)?;
        let ended = ended.with_context(|| format!("without the right to {operation} {topic}"))?;
        ended.expect_status(4)?;
        ended.stopped()?.balances()?;
        let log = ended.log_text();
        if !log.contains(topic) || !log.contains("AUTHORIZATION_FAILED") {
            bail!("the log does not say that {topic} may not be used:\n{log}");
        }
        self.next_host()
    }

    /// Books the death of a host, and starts the next. Returns when it went on.
    fn next_host(&mut self) -> Result<Instant> {
        // What the dead host had sent already must not pass for the next one's.
        let seen = self.tail.first(self.stage.settled_output()?)?;
        let committed = self.stage.committed()?;
        let partitions = self.drill.partitions;
        let kept = count(&self.stage.kept()?, partitions);
        self.topic_deaths.push(Death { committed: committed.clone(), seen: count(&seen, partitions) });
        self.sink_deaths.push(Death { committed, seen: kept });
        self.host = Some(self.stage.start()?);
        self.goes_on(PATIENCE)
    }

    /// Waits until every partition has new records in the output, and has them committed. Returns when the last came out.
    fn goes_on(&self, within: Duration) -> Result<Instant> {
        let start = Instant::now();
        let left = || within.saturating_sub(start.elapsed());
        let ends = self.broker.ends(&self.stage.input)?;
        let marks: Vec<u64> = ends.values().map(|end| *end as u64 + MORE).collect();
        let result = match self.tail.await_marks(&marks.iter().copied().map(Some).collect::<Vec<_>>(), left())
        {
            None => Err(anyhow::anyhow!("not all partitions came to {marks:?} within {within:?}")),
            Some(at) => self.await_commits(&marks, left()).map(|()| at),
        };
        result.map_err(|error| match &self.host {
            Some(host) => error.context(format!("the host logged:\n{}", host.log_text())),
            None => error,
        })
    }

    fn await_commits(&self, marks: &[u64], within: Duration) -> Result<()> {
        let start = Instant::now();
        loop {
            let committed = self.stage.committed()?;
            if committed.iter().zip(marks).all(|(committed, mark)| committed >= mark) {
                return Ok(());
            }
            if start.elapsed() > within {
                bail!("{committed:?} are committed within {within:?}, not {marks:?}");
            }
            // A coordinator tells nobody of a commit.
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The broker that leads one of the partitions.
    fn a_leader(&mut self) -> Result<i32> {
        let topic = self.dice.pick(&[&self.stage.input, &self.stage.output]);
        let partitions: Vec<i32> = (0..self.drill.partitions as i32).collect();
        let partition = self.dice.pick(&partitions);
        self.broker.leader(topic, partition)
    }

    fn coordinator(&self) -> Result<i32> {
        self.broker.coordinator(&self.stage.group)
    }
}
