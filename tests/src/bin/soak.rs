//! The drills at full scale: `cargo xtask soak`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use loom_tests::drill::{BrokerKills, ClusterFaults, Fault, HeldFlow, HostKills, StuckRecord};
use loom_tests::kafka::{Broker, Secured};

const HELP: &str = "\
Kills the host, and then its broker, under load, hurts a cluster of three in every way, and accounts for every record;
then looks at memory.

Usage: cargo xtask soak [OPTIONS]

  --kills N         How often the host is killed (100)
  --broker-kills N  How often the broker is killed (10)
  --rate N          Records a second (5000)
  --partitions N    Partitions of source and output (4)
  --workers N       Workers of the host (2)
  --life MS         The host lives at most so long after its first output (2000)
  --outage MS       The broker stays down so long (3000)
  --sequences N     Random sequences of faults of a cluster (50)
  --faults N        Faults of each sequence (5)
  --pause MS        A broker of the cluster is paused so long (60000)
  --stuck MS        One record is stuck so long at full input (60000)
  --prefetch MIB    runtime.prefetch where a topic holds ten times that (64); 0 = leave it out
  --seed N          For the random moments (any)

0 leaves a part out.
";

/// What is held, each part at full scale.
struct Soak {
    host: HostKills,
    broker: BrokerKills,
    sequences: u32,
    faults: u32,
    cluster: ClusterFaults,
    stuck: StuckRecord,
    held: HeldFlow,
}

impl Default for Soak {
    fn default() -> Self {
        let (rate, partitions) = (5000, 4);
        Self {
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
            faults: 5,
            cluster: ClusterFaults {
                rate: 2000,
                partitions,
                life: Duration::from_secs(5),
                pause: Duration::from_secs(60),
                outage: Duration::from_secs(10),
                ..ClusterFaults::default()
            },
            stuck: StuckRecord { time: Duration::from_secs(60), rate: 10_000, ..StuckRecord::default() },
            held: HeldFlow { prefetch: 64, ..HeldFlow::default() },
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
        let value: u32 = match arguments.next().map(|text| text.parse()) {
            Some(Ok(value)) => value,
            _ => bail!("{option} takes a number\n\n{HELP}"),
        };
        match option.as_str() {
            "--kills" => soak.host.kills = value,
            "--broker-kills" => soak.broker.kills = value,
            "--rate" => (soak.host.rate, soak.broker.rate) = (value, value),
            "--partitions" => (soak.host.partitions, soak.broker.partitions) = (value, value),
            "--workers" => (soak.host.workers, soak.broker.workers) = (value, value),
            "--life" => soak.host.life = Duration::from_millis(value.into()),
            "--outage" => soak.broker.outage = Duration::from_millis(value.into()),
            "--sequences" => soak.sequences = value,
            "--faults" => soak.faults = value,
            "--pause" => soak.cluster.pause = Duration::from_millis(value.into()),
            "--stuck" => soak.stuck.time = Duration::from_millis(value.into()),
            "--prefetch" => soak.held.prefetch = value.into(),
            "--seed" => {
                let seed = Some(value.into());
                (soak.host.seed, soak.broker.seed, soak.cluster.seed) = (seed, seed, seed);
            }
            other => bail!("there is no option {other}\n\n{HELP}"),
        }
    }
    if soak.host.kills > 0 || soak.broker.kills > 0 || !soak.stuck.time.is_zero() || soak.held.prefetch > 0 {
        let Some(broker) = Broker::own()? else { bail!("the soak needs a Kafka that it may kill") };
        kills(&soak.host, &soak.broker, &broker)?;
        memory(&soak.stuck, &soak.held, &broker)?;
    }
    cluster(&soak.cluster, soak.sequences, soak.faults)
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

fn cluster(drill: &ClusterFaults, sequences: u32, faults: u32) -> Result<()> {
    if sequences == 0 {
        return Ok(());
    }
    let Some(cluster) = Secured::start(3)? else { bail!("the soak needs a Kafka that it may kill") };
    // Each fault once for sure, before chance decides.
    let first = ClusterFaults { faults: Fault::ALL.to_vec(), ..drill.clone() };
    for sequence in 0..=sequences {
        let drill = if sequence == 0 {
            first.clone()
        } else {
            // A seed that was given is the first sequence's; the others follow from it.
            let seed = drill.seed.map(|seed| seed + u64::from(sequence) - 1);
            ClusterFaults { seed, ..drill.clone() }.random(faults as usize)
        };
        let report = drill.hold(&cluster, |_| ())?;
        println!("sequence {sequence} of {sequences} (seed {}): nothing lost, order kept", report.seed);
        for (fault, time) in &report.recoveries {
            println!("  {fault:?}: went on after {time:.1?}");
        }
        println!("  output topic: {:?}\n  sink:         {:?}", report.topic, report.sink);
    }
    Ok(())
}

fn count(what: &str, kill: u32, of: u32) {
    let mut terminal = std::io::stderr();
    // Progress that cannot be shown is no reason to stop.
    let _ = write!(terminal, "\r{what} {kill} of {of} times").and_then(|()| terminal.flush());
}
