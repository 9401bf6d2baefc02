//! What waits keeps no more memory than is documented, whatever it waits for: an output's partition that is away, a sink, a
//! step, or more records for a batch.
//!
//! One record in fifty waits, and its neighbours go on: so what waits is little, and what it could keep is much. Half of each
//! record's bytes are headers.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::bounded::{CONSTANT, MIB, at_rest};
use crate::guests::component;
use crate::host::{Folder, Host};
use crate::kafka::{Access, Broker, Record, Space};

/// The broker that is stopped.
const AWAY: i32 = 3;

/// Partitions of the output. The first has its only copy on the broker that is stopped.
const OUTPUTS: i32 = 50;

/// Bytes of a record's payload, and of all its headers.
const PAYLOAD: usize = 10_000;
const HEADERS: usize = 20;

/// How long the records that need not wait may take, and the time between two looks.
const THROUGH: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(200);

/// A flow in which something waits, on a cluster of which a broker is stopped.
#[derive(Clone, Debug)]
pub struct KeptRows {
    /// Records of the input, 20 kB each.
    pub records: u32,
    /// Partitions of the input.
    pub partitions: i32,
    /// `runtime.prefetch`, in MiB.
    pub prefetch: u64,
    /// Bytes of `runtime.max_outstanding`, in MiB.
    pub outstanding: u64,
}

impl Default for KeptRows {
    fn default() -> Self {
        Self { records: 12_000, partitions: 4, prefetch: 8, outstanding: 8 }
    }
}

/// The most that a process had, by what its records waited for, in bytes.
#[derive(Clone, Debug)]
pub struct KeptReport {
    /// The documented bounds together, and what is stated to come on top.
    pub bound: u64,
    /// What was waited for, and the peak.
    pub peaks: Vec<(&'static str, u64)>,
}

impl fmt::Display for KeptReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "within {} MiB:", self.bound / MIB)?;
        self.peaks.iter().try_for_each(|(what, peak)| write!(f, " {what} {} MiB,", peak / MIB))
    }
}

impl KeptRows {
    /// Holds the drill.
    ///
    /// # Errors
    /// If a process had more than is documented, or records that need not wait did.
    pub fn hold(&self, broker: &Broker) -> Result<KeptReport> {
        let space = broker.space();
        let input = space.topic("in", self.partitions)?;
        let brokers = (0..OUTPUTS).map(|partition| if partition == 0 { [AWAY] } else { [1 + partition % 2] });
        let output = space.topic_at("out", &brokers.collect::<Vec<_>>())?;
        let mut pen = broker.pen(&input)?;
        let header = vec![b'h'; PAYLOAD / HEADERS];
        let mut record = Record::new(vec![b'x'; PAYLOAD]);
        for name in 0..HEADERS {
            record = record.header(&format!("h{name}"), Some(&header));
        }
        for number in 0..self.records {
            let partition = (number % self.partitions as u32) as i32;
            pen.write(&record.clone().key(format!("{number}")).partition(partition))?;
        }
        pen.finish()?;
        let names = ["a-slow-output-partition", "a-slow-sink", "a-slow-step", "a-wide-batch"];
        let groups = names.map(|name| coordinated_elsewhere(broker, &space, &input, name));
        let groups: Vec<String> = groups.into_iter().collect::<Result<_>>()?;
        broker.kill_one(AWAY)?;

        let some = "{ filter: msg.offset % 50 == 7 }";
        let cases = [
            ("a slow output partition", String::new(), format!("{{ into_topic: {output} }}")),
            (
                "a slow sink",
                plugin("probe-sink", "{ complete: flush }")?,
                format!("{some}, {{ into_sink: p, flush: {{ records: 100000, interval: 1h }} }}"),
            ),
            (
                "a slow step",
                plugin("probe-step", "{ command: sleep }")?,
                format!("{some}, {{ step: p, concurrency: 64, ordered: false, timeout: 10m }}, drain"),
            ),
            (
                "a wide batch",
                plugin("probe-roles", "{ command: 'retry:not yet' }")?,
                "{ collect_batch: { max_records: 1000000, max_bytes: 512MiB } }, { batch_step: p }, drain"
                    .to_owned(),
            ),
        ];
        let producer = format!("producer: {{ {} }}", Access::plain(broker).keys());
        let mut report = KeptReport { bound: self.bound(), peaks: Vec::new() };
        for ((what, plugins, process), group) in cases.into_iter().zip(groups) {
            let consumer = Access::plain(broker).keys();
            let producer = if process.contains("into_topic") { producer.as_str() } else { "" };
            let flow = format!(
                "name: kept\nkafka:\n  consumer: {{ {consumer}, group_id: {group}, topics: [{input}], delivery: at_least_once, \
                 auto_offset_reset: earliest }}\n  {producer}\n\
                 runtime: {{ prefetch: {}MiB, max_outstanding: {{ records: 100000, bytes: {}MiB }}, shutdown_timeout: 2s }}\n\
                 {plugins}process: [ {process} ]\n",
                self.prefetch, self.outstanding,
            );
            let writes = (!producer.is_empty()).then_some(output.as_str());
            let peak = self.run(broker, &flow, writes).with_context(|| what.to_owned())?;
            report.peaks.push((what, peak));
        }
        broker.resume_one(AWAY)?;
        for (what, peak) in &report.peaks {
            ensure!(*peak <= report.bound, "the host had {} MiB behind {what}; {report}", peak / MIB);
        }
        Ok(report)
    }

    /// What is documented: both settings, what is outstanding once more in producers' clients, and what comes on top.
    fn bound(&self) -> u64 {
        (self.prefetch + 2 * self.outstanding) * MIB + CONSTANT
    }

    /// Runs a flow until what need not wait has come through and its memory is at rest. Returns the most that it had.
    fn run(&self, broker: &Broker, flow: &str, output: Option<&str>) -> Result<u64> {
        let folder = Folder::new()?;
        folder.write("flow.yaml", flow)?;
        let host = Host::start(folder.path(), ["run", "flow.yaml"])?;
        if let Some(output) = output {
            let come = self.come_through(broker, output);
            come.with_context(|| format!("the host logged:\n{}", host.log_text()))?;
        }
        let peak = at_rest(&host).with_context(|| format!("the host logged:\n{}", host.log_text()))?;
        // What waits waits on: nothing would come of a graceful stop.
        host.kill()?;
        Ok(peak)
    }

    /// Waits for the records that need not wait for the partition that is away.
    fn come_through(&self, broker: &Broker, output: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let through: i64 = broker.ends_of(output, 1..OUTPUTS)?.values().sum();
            if through >= i64::from(self.records) * 9 / 10 {
                return Ok(());
            }
            let of = self.records;
            ensure!(
                begun.elapsed() < THROUGH,
                "{through} of {of} records came through beside a partition that is away"
            );
            std::thread::sleep(LOOK);
        }
    }
}

/// A group that the broker which is stopped does not coordinate, nor its lease's: what it leads is not what waits here.
fn coordinated_elsewhere(broker: &Broker, space: &Space<'_>, input: &str, name: &str) -> Result<String> {
    // A group that has offsets: only then is there a topic for them.
    broker.commit(&space.group("first"), input, 0, 0)?;
    for number in 0..100 {
        let group = space.group(&format!("{name}-{number}"));
        if broker.coordinator(&group)? != AWAY && broker.coordinator(&format!("{group}.owner"))? != AWAY {
            return Ok(group);
        }
    }
    bail!("broker {AWAY} coordinates every group")
}

fn plugin(name: &str, config: &str) -> Result<String> {
    Ok(format!("plugins: {{ p: {{ component: {}, config: {config} }} }}\n", component(name)?.display()))
}
