//! The drills at full scale: `cargo xtask soak`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use loom_tests::drill::{
    BrokerKills, ClusterFaults, ClusterReport, Fault, HeldFlow, HostKills, KeptRows, StuckRecord,
};
use loom_tests::kafka::{Broker, Secured};

const HELP: &str = "\
Kills the host, and then its broker, under load, hurts a cluster of three in every way, and accounts for every record;
then looks at memory.

Usage: cargo xtask soak [OPTIONS]

  --only PART       This part, and others that are named so: sim, documents, kills, broker-kills, stuck, prefetch, kept,
                    faults, sequences
  --kills N         How often the host is killed (100)
  --broker-kills N  How often the broker is killed (10)
  --rate N          Records a second (5000; 2000 to a cluster)
  --partitions N    Partitions of source and output (4)
  --workers N       Workers of the host (2)
  --life MS         The host lives at most so long after its first output (2000)
  --outage MS       The broker stays down so long (3000)
  --sequences N     Random sequences of faults of a cluster (50)
  --faults N        Faults of each sequence (5)
  --first N         Which random sequence comes first, so that a seed's can be held in pieces (1)
  --pause MS        A broker of the cluster is paused so long (60000)
  --stuck MS        One record is stuck so long at full input (60000)
  --prefetch MIB    runtime.prefetch where a topic holds ten times that (64); 0 = leave it out
  --kept N          So many records of 20 kB, a few of which wait, with a broker stopped (100000); 0 = leave it out
  --seed N          For the random moments (any)

0 leaves a part out.
";

/// The parts, in the order in which they are held. (The first two are other programs', and are left to `xtask`.)
const PARTS: [&str; 9] =
    ["sim", "documents", "kills", "broker-kills", "stuck", "prefetch", "kept", "faults", "sequences"];

/// What is held, each part at full scale.
struct Soak {
    /// None = all.
    only: Vec<String>,
    host: HostKills,
    broker: BrokerKills,
    sequences: u32,
    /// The number of the first one, from 1.
    first: u32,
    faults: u32,
    /// Each fault once for sure, before chance decides.
    each_fault: bool,
    cluster: ClusterFaults,
    stuck: StuckRecord,
    held: HeldFlow,
    kept: KeptRows,
}

impl Default for Soak {
    fn default() -> Self {
        let (rate, partitions) = (5000, 4);
        Self {
            only: Vec::new(),
            host: HostKills {
                kills: 100,
                rate,
                partitions,
                life: Duration::from_secs(2),
                ..HostKills::default()
            },
            broker: BrokerKills {
                kills: 10,
                rate,
                partitions,
                outage: Duration::from_secs(3),
                ..BrokerKills::default()
            },
            sequences: 50,
            first: 1,
            faults: 5,
            each_fault: true,
            cluster: ClusterFaults {
                rate: 2000,
                partitions,
                life: Duration::from_secs(5),
                pause: Duration::from_secs(60),
                outage: Duration::from_secs(10),
                ..ClusterFaults::default()
            },
            stuck: StuckRecord {
                time: Duration::from_secs(60),
                rate: 10_000,
                backlog: 500_000,
                ..StuckRecord::default()
            },
            held: HeldFlow { prefetch: 64, ..HeldFlow::default() },
            kept: KeptRows { records: 100_000, prefetch: 64, outstanding: 64, ..KeptRows::default() },
        }
    }
}

fn main() -> Result<()> {
    let mut soak = Soak::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        if matches!(option.as_str(), "-h" | "--help") {
            print!("{HELP}");
            return Ok(());
        }
        let text = arguments.next();
        if option == "--only" {
            match text.filter(|part| PARTS.contains(&&**part)) {
                Some(part) => soak.only.push(part),
                None => bail!("--only takes one of {}\n\n{HELP}", PARTS.join(", ")),
            }
            continue;
        }
        let value: u32 = match text.map(|text| text.parse()) {
            Some(Ok(value)) => value,
            _ => bail!("{option} takes a number\n\n{HELP}"),
        };
        match option.as_str() {
            "--kills" => soak.host.kills = value,
            "--broker-kills" => soak.broker.kills = value,
            "--rate" => (soak.host.rate, soak.broker.rate, soak.cluster.rate) = (value, value, value),
            "--partitions" => (soak.host.partitions, soak.broker.partitions) = (value, value),
            "--workers" => (soak.host.workers, soak.broker.workers) = (value, value),
            "--life" => soak.host.life = Duration::from_millis(value.into()),
            "--outage" => soak.broker.outage = Duration::from_millis(value.into()),
            "--sequences" => soak.sequences = value,
            "--faults" => soak.faults = value,
            "--first" => soak.first = value,
            "--pause" => soak.cluster.pause = Duration::from_millis(value.into()),
            "--stuck" => soak.stuck.time = Duration::from_millis(value.into()),
            "--prefetch" => soak.held.prefetch = value.into(),
            "--kept" => soak.kept.records = value,
            "--seed" => {
                let seed = Some(value.into());
                (soak.host.seed, soak.broker.seed, soak.cluster.seed) = (seed, seed, seed);
            }
            other => bail!("there is no option {other}\n\n{HELP}"),
        }
    }
    soak.leave_out();
    soak.hold()
}

impl Soak {
    /// A part that is not held has nothing to do.
    fn leave_out(&mut self) {
        let out = |part: &str| !self.only.is_empty() && self.only.iter().all(|only| only != part);
        let [kills, brokers, stuck, prefetch] = ["kills", "broker-kills", "stuck", "prefetch"].map(out);
        let [kept, faults, sequences] = ["kept", "faults", "sequences"].map(out);
        self.kept.records *= u32::from(!kept);
        self.host.kills *= u32::from(!kills);
        self.broker.kills *= u32::from(!brokers);
        self.stuck.time *= u32::from(!stuck);
        self.held.prefetch *= u64::from(!prefetch);
        self.sequences *= u32::from(!sequences);
        self.each_fault &= !faults && (self.sequences > 0 || !self.only.is_empty());
    }

    fn hold(&self) -> Result<()> {
        if self.host.kills > 0
            || self.broker.kills > 0
            || !self.stuck.time.is_zero()
            || self.held.prefetch > 0
        {
            let Some(broker) = Broker::own()? else { bail!("the soak needs a Kafka that it may kill") };
            kills(&self.host, &self.broker, &broker)?;
            memory(&self.stuck, &self.held, &broker)?;
        }
        if !self.each_fault && self.sequences == 0 && self.kept.records == 0 {
            return Ok(());
        }
        let Some(cluster) = Secured::start(3)? else { bail!("the soak needs a Kafka that it may kill") };
        if self.kept.records > 0 {
            println!("what waits with a broker stopped: {}", self.kept.hold(&cluster.broker)?);
            cluster.broker.heal()?;
        }
        if self.each_fault {
            let drill = ClusterFaults { faults: Fault::ALL.to_vec(), ..self.cluster.clone() };
            report("each fault once", &drill.hold(&cluster, |_| ())?);
        }
        let last = self.first + self.sequences;
        for sequence in self.first..last {
            // A seed that was given is the first sequence's; the others follow from it.
            let seed = self.cluster.seed.map(|seed| seed + u64::from(sequence) - 1);
            let drill = ClusterFaults { seed, ..self.cluster.clone() }.random(self.faults as usize);
            report(&format!("sequence {sequence} of {}", last - 1), &drill.hold(&cluster, |_| ())?);
        }
        Ok(())
    }
}

fn kills(host_kills: &HostKills, broker_kills: &BrokerKills, broker: &Broker) -> Result<()> {
    if host_kills.kills > 0 {
        let report = host_kills.hold(broker, |kill| count("host killed", kill, host_kills.kills))?;
        println!("\nhost killed {} times (seed {}): nothing lost", host_kills.kills, report.seed);
        println!("  output topic: {:?}\n  sink:         {:?}", report.topic, report.sink);
        let times = [50, 95, 100].map(|percent| report.percentile(percent));
        let [median, most, worst] =
            times.map(|time| time.map_or("-".to_owned(), |time| format!("{time:.0?}")));
        println!("  restart to first new output: median {median}, 95 % within {most}, longest {worst}");
    }
    if broker_kills.kills > 0 {
        let report = broker_kills.hold(broker, |kill| count("broker killed", kill, broker_kills.kills))?;
        println!(
            "\nbroker killed {} times (seed {}): nothing lost, nothing twice",
            broker_kills.kills, report.seed
        );
        println!("  output topic: {:?}\n  sink:         {:?}", report.topic, report.sink);
    }
    Ok(())
}

fn memory(stuck: &StuckRecord, held: &HeldFlow, broker: &Broker) -> Result<()> {
    const MIB: u64 = 1 << 20;
    if !stuck.time.is_zero() {
        let report = stuck.hold(broker)?;
        println!(
            "a record stuck for {:?}: {} records passed it, memory {} MiB, then {} MiB",
            stuck.time,
            report.passed,
            report.before / MIB,
            report.after / MIB
        );
        println!(
            "  a backlog of {} records in each of the other partitions: {:.2?} beside it, {:.2?} without it",
            stuck.backlog, report.beside_it, report.without_it
        );
    }
    if held.prefetch > 0 {
        let peak = held.hold(broker)?;
        println!(
            "{} partitions with {} times {} MiB behind a held flow: at most {} MiB",
            held.partitions,
            held.times,
            held.prefetch,
            peak / MIB
        );
    }
    Ok(())
}

fn report(what: &str, report: &ClusterReport) {
    println!("{what} (seed {}): nothing lost, order kept", report.seed);
    for (fault, time) in &report.recoveries {
        println!("  {fault:?}: went on after {time:.1?}");
    }
    println!("  output topic: {:?}\n  sink:         {:?}", report.topic, report.sink);
}

fn count(what: &str, kill: u32, of: u32) {
    let mut terminal = std::io::stderr();
    // Progress that cannot be shown is no reason to stop.
    let _ = write!(terminal, "\r{what} {kill} of {of} times").and_then(|()| terminal.flush());
}
