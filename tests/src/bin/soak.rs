//! The drills at full scale: `cargo xtask soak`.

use std::io::Write;
use std::time::Duration;

use anyhow::{Result, bail};
use loom_tests::drill::{BrokerKills, HostKills};
use loom_tests::kafka::Broker;

const HELP: &str = "\
Kills the host, and then its broker, under load, and accounts for every record.

Usage: cargo xtask soak [OPTIONS]

  --kills N         How often the host is killed (100)
  --broker-kills N  How often the broker is killed (10)
  --rate N          Records a second (5000)
  --partitions N    Partitions of source and output (4)
  --workers N       Workers of the host (2)
  --life MS         The host lives at most so long after its first output (2000)
  --outage MS       The broker stays down so long (3000)
  --seed N          For the random moments (any)
";

fn main() -> Result<()> {
    let (mut host, mut broker) = (
        HostKills {
            kills: 100,
            rate: 5000,
            partitions: 4,
            life: Duration::from_secs(2),
            ..HostKills::default()
        },
        BrokerKills {
            kills: 10,
            rate: 5000,
            partitions: 4,
            outage: Duration::from_secs(3),
            ..BrokerKills::default()
        },
    );
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
            "--kills" => host.kills = value,
            "--broker-kills" => broker.kills = value,
            "--rate" => (host.rate, broker.rate) = (value, value),
            "--partitions" => (host.partitions, broker.partitions) = (value, value),
            "--workers" => (host.workers, broker.workers) = (value, value),
            "--life" => host.life = Duration::from_millis(value.into()),
            "--outage" => broker.outage = Duration::from_millis(value.into()),
            "--seed" => (host.seed, broker.seed) = (Some(value.into()), Some(value.into())),
            other => bail!("there is no option {other}\n\n{HELP}"),
        }
    }
    soak(&host, &broker)
}

fn soak(host_kills: &HostKills, broker_kills: &BrokerKills) -> Result<()> {
    let Some(broker) = Broker::own()? else { bail!("the soak needs a Kafka that it may kill") };
    if host_kills.kills > 0 {
        let report = host_kills.hold(&broker, |kill| count("host killed", kill, host_kills.kills))?;
        println!("\nhost killed {} times (seed {}): nothing lost", host_kills.kills, report.seed);
        println!("  output topic: {:?}\n  sink:         {:?}", report.topic, report.sink);
        let times = [50, 95, 100].map(|percent| report.percentile(percent));
        let [median, most, worst] =
            times.map(|time| time.map_or("-".to_owned(), |time| format!("{time:.0?}")));
        println!("  restart to first new output: median {median}, 95 % within {most}, longest {worst}");
    }
    if broker_kills.kills > 0 {
        let report = broker_kills.hold(&broker, |kill| count("broker killed", kill, broker_kills.kills))?;
        println!(
            "\nbroker killed {} times (seed {}): nothing lost, nothing twice",
            broker_kills.kills, report.seed
        );
        println!("  output topic: {:?}\n  sink:         {:?}", report.topic, report.sink);
    }
    Ok(())
}

fn count(what: &str, kill: u32, of: u32) {
    let mut terminal = std::io::stderr();
    // Progress that cannot be shown is no reason to stop.
    let _ = write!(terminal, "\r{what} {kill} of {of} times").and_then(|()| terminal.flush());
}
