//! Kafka to Kafka through one column step, beside a bare rdkafka loop that does the same: CPU seconds per million
//! records, as ratios.
//!
//! `cargo xtask bench kafka [-- --records N --rounds N --partitions N]`. All four variants read the same topic from its
//! beginning, write to a new one, and commit; they take turns, and the median of the rounds counts. The bare loops are
//! this program, started again, so that each variant is a process whose CPU time the system counts.

mod bare;
mod measure;
#[path = "../../guests/json-column-step/src/transform.rs"]
mod transform;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use loom_tests::guests::component;
use loom_tests::host::{Folder, Host};
use loom_tests::kafka::{Broker, Record, Space};
use measure::{Cost, cpu_time, median};

/// How the bench is held.
struct Settings {
    records: u64,
    rounds: usize,
    partitions: u32,
}

/// One way to get every record from the input to the output.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variant {
    /// The bare loop, handing records on.
    BareNop,
    /// The host with a column step that changes nothing.
    HostNop,
    /// The bare loop with the transform compiled in.
    BareJson,
    /// The host with the transform as a column step.
    HostJson,
}

const VARIANTS: [Variant; 4] = [Variant::BareNop, Variant::HostNop, Variant::BareJson, Variant::HostJson];

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Self::BareNop => "bare loop",
            Self::HostNop => "host, column step that changes nothing",
            Self::BareJson => "bare loop, typed JSON natively",
            Self::HostJson => "host, the same as a column step",
        }
    }

    /// What it is compared with, and the ratio that is allowed.
    fn budget(self) -> Option<(Self, f64)> {
        match self {
            Self::HostNop => Some((Self::BareNop, 1.3)),
            Self::HostJson => Some((Self::BareJson, 1.4)),
            Self::BareNop | Self::BareJson => None,
        }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some("--bare") = arguments.first().map(String::as_str) {
        return bare::run(&arguments[1..]);
    }
    let mut settings = Settings { records: 2_000_000, rounds: 5, partitions: 4 };
    for option in arguments.chunks(2) {
        let [name, value] = option else { bail!("{} needs a number", option[0]) };
        let value: u32 = value.parse().with_context(|| format!("{name} {value}"))?;
        match name.as_str() {
            "--records" => settings.records = value.into(),
            "--rounds" => settings.rounds = value as usize,
            "--partitions" => settings.partitions = value,
            other => bail!("{other} is not known; there are --records, --rounds and --partitions"),
        }
    }
    bench(&settings)
}

fn bench(settings: &Settings) -> Result<()> {
    ensure!(settings.records > 0 && settings.rounds > 0 && settings.partitions > 0, "nothing to measure");
    let Some(broker) = Broker::own()? else { bail!("the bench needs a Kafka of its own") };
    let space = broker.space();
    let input = space.topic("in", i32::try_from(settings.partitions)?)?;
    eprintln!("writing {} orders", settings.records);
    let bytes = fill(&broker, &input, settings)?;
    let folder = Folder::new()?;

    let mut costs = vec![Vec::new(); VARIANTS.len()];
    for round in 1..=settings.rounds {
        for (variant, costs) in VARIANTS.into_iter().zip(&mut costs) {
            let cost = run(variant, &broker, &space, &folder, &input, settings)?;
            let (cpu, wall) = (cost.cpu_per_million(settings.records), cost.wall.as_secs_f64());
            eprintln!(
                "round {round}: {:<40} {cpu:>6.2} CPU s per million, {wall:>6.1} s in all",
                variant.name()
            );
            costs.push(cost);
        }
    }
    report(settings, bytes, &costs);
    Ok(())
}

/// Writes the orders; returns their mean size in bytes.
fn fill(broker: &Broker, topic: &str, settings: &Settings) -> Result<u64> {
    let mut pen = broker.pen(topic)?;
    let mut bytes = 0;
    for number in 0..settings.records {
        let order = order(number);
        bytes += order.len() as u64;
        pen.write(&Record::new(order).partition((number % u64::from(settings.partitions)) as i32))?;
    }
    pen.finish()?;
    Ok(bytes / settings.records)
}

/// An order of about 200 bytes.
fn order(number: u64) -> String {
    let (customer, sku, cents) = (number % 5_000, number % 90, 100 + number % 99_900);
    format!(
        r#"{{"id":"o-{number:09}","customer":"c-{customer:05}","currency":"EUR","lines":[{{"sku":"A-{sku:02}","quantity":{},"price":{}.{:02}}},{{"sku":"B-{sku:02}","quantity":1,"price":19.99}},{{"sku":"C-7","quantity":2,"price":3.50}}]}}"#,
        1 + number % 5,
        cents / 100,
        cents % 100,
    )
}

fn run(
    variant: Variant,
    broker: &Broker,
    space: &Space<'_>,
    folder: &Folder,
    input: &str,
    settings: &Settings,
) -> Result<Cost> {
    let output = space.topic("out", i32::try_from(settings.partitions)?)?;
    let group = space.group("bench");
    let cost = match variant {
        Variant::BareNop => bare_process("nop", broker, &group, input, &output)?,
        Variant::BareJson => bare_process("json", broker, &group, input, &output)?,
        Variant::HostNop => host("nop-column-step", broker, folder, &group, input, &output)?,
        Variant::HostJson => host("json-column-step", broker, folder, &group, input, &output)?,
    };
    let written: i64 = broker.ends(&output)?.values().sum();
    ensure!(written as u64 == settings.records, "{}: {written} records came out", variant.name());
    // Each round writes as much again; and the next one's group starts without offsets.
    space.delete_topic(&output)?;
    space.delete_group(&group)?;
    Ok(cost)
}

fn bare_process(what: &str, broker: &Broker, group: &str, input: &str, output: &str) -> Result<Cost> {
    let start = Instant::now();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--bare", what, &broker.address(), group, input, output]).stdin(Stdio::null());
    let text = xtask::programs::output(&mut command)?;
    let cpu: f64 = text.trim().parse().with_context(|| format!("the bare loop printed {text:?}"))?;
    Ok(Cost { cpu: Duration::from_secs_f64(cpu), wall: start.elapsed() })
}

fn host(
    step: &str,
    broker: &Broker,
    folder: &Folder,
    group: &str,
    input: &str,
    output: &str,
) -> Result<Cost> {
    let name = format!("{step}.yaml");
    folder.write(&name, flow(&broker.address(), group, input, output, &component(step)?))?;
    let cache = folder.join("cache");
    let start = Instant::now();
    let host =
        Host::start(folder.path(), ["run", &name, "-w", "1", "--cache-dir", &cache.to_string_lossy()])?;
    let ends = broker.ends(input)?.into_iter().collect::<Vec<_>>();
    if let Err(error) = broker.await_committed_within(group, input, &ends, Duration::from_secs(600)) {
        bail!("{error:#}\nThe host logged:\n{}", host.log_text());
    }
    let cost = Cost { cpu: cpu_time(host.pid())?, wall: start.elapsed() };
    host.stop()?.expect_status(0)?;
    Ok(cost)
}

fn flow(brokers: &str, group: &str, input: &str, output: &str, step: &Path) -> String {
    format!(
        r#"
name: bench
kafka:
  consumer:
    brokers: ["{brokers}"]
    group_id: {group}
    topics: [{input}]
    delivery: at_least_once
    auto_offset_reset: earliest
  producer: {{ brokers: ["{brokers}"] }}
plugins:
  step: {{ component: {} }}
process:
  - step: step
  - into_topic: {output}
"#,
        step.display()
    )
}

fn report(settings: &Settings, bytes: u64, costs: &[Vec<Cost>]) {
    let Settings { records, rounds, partitions } = settings;
    println!(
        "{records} orders of {bytes} bytes, {partitions} partitions, median of {rounds} interleaved rounds\n"
    );
    println!("| what | CPU s per million | records/s | ratio | budget |");
    println!("|---|---|---|---|---|");
    let cpu = |variant: Variant| {
        let index = VARIANTS.iter().position(|other| *other == variant).unwrap_or_default();
        median(costs[index].iter().map(|cost| cost.cpu_per_million(*records)))
    };
    for (variant, costs) in VARIANTS.into_iter().zip(costs) {
        let rate = *records as f64 / median(costs.iter().map(|cost| cost.wall.as_secs_f64()));
        let (ratio, budget) = match variant.budget() {
            Some((base, budget)) => (format!("{:.2}", cpu(variant) / cpu(base)), format!("≤ {budget}")),
            None => ("1".to_owned(), String::new()),
        };
        println!("| {} | {:.2} | {rate:.0} | {ratio} | {budget} |", variant.name(), cpu(variant));
    }
}
