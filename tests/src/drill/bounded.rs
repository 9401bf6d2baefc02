//! Memory stays bounded: by what is read ahead, whatever a topic holds, and while one record is stuck at full input.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::tail::Tail;
use super::writer::Writer;
use crate::PATIENCE;
use crate::guests::component;
use crate::host::{Folder, Host};
use crate::kafka::{Access, Broker, Record};

const MIB: u64 = 1 << 20;

/// What a host may need beside `runtime.prefetch` and `runtime.max_outstanding`: itself, its clients, compiled plugins.
pub const CONSTANT: u64 = 160 * MIB;

/// Many partitions hold far more than may be read ahead, and nothing flows.
#[derive(Clone, Debug)]
pub struct HeldFlow {
    /// Partitions of the topic.
    pub partitions: i32,
    /// `runtime.prefetch`, in MiB.
    pub prefetch: u64,
    /// The topic holds so many times that.
    pub times: u64,
}

impl Default for HeldFlow {
    fn default() -> Self {
        Self { partitions: 100, prefetch: 16, times: 10 }
    }
}

impl HeldFlow {
    /// Bytes of `runtime.max_outstanding`.
    const OUTSTANDING: u64 = 8 * MIB;

    /// Runs a flow whose sink never completes anything until its memory is at rest. Returns the most that it had.
    ///
    /// # Errors
    /// If that was more than prefetch, outstanding rows and [`CONSTANT`].
    pub fn hold(&self, broker: &Broker) -> Result<u64> {
        const PAYLOAD: usize = 4096;
        let space = broker.space();
        let (input, group) = (space.topic("in", self.partitions)?, space.group("g"));
        let records = self.prefetch * MIB * self.times / PAYLOAD as u64;
        let mut pen = broker.pen(&input)?;
        let record = Record::new(vec![b'x'; PAYLOAD]);
        for number in 0..records {
            pen.write(&record.clone().partition((number % self.partitions as u64) as i32))?;
        }
        pen.finish()?;

        let (folder, sink) = (Folder::new()?, component("probe-sink")?);
        folder.write(
            "flow.yaml",
            format!(
                "name: held\nkafka: {{ consumer: {{ {}, group_id: {group}, topics: [{input}], delivery: at_least_once, \
                 auto_offset_reset: earliest }} }}\n\
                 runtime: {{ prefetch: {}MiB, max_outstanding: {{ records: 100000, bytes: {}MiB }}, shutdown_timeout: 5s }}\n\
                 plugins: {{ k: {{ component: {}, config: {{ fail_writes: 4000000000, fail_with: retry }} }} }}\nprocess: [ {{ into_sink: k }} ]\n",
                Access::plain(broker).keys(),
                self.prefetch,
                Self::OUTSTANDING / MIB,
                sink.display()
            ),
        )?;
        let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
        let peak = at_rest(&host).with_context(|| format!("the host logged:\n{}", host.log_text()))?;
        let ended = host.stop()?;
        let stopped = ended.stopped()?;
        stopped.balances()?;
        ensure!(stopped.ended("sink") == 0, "something was completed: {stopped:?}");
        ensure!(
            stopped.ledger["outstanding"].as_u64() >= Some(self.partitions as u64),
            "not every partition was read: {stopped:?}"
        );
        let bound = self.prefetch * MIB + Self::OUTSTANDING + CONSTANT;
        ensure!(peak <= bound, "the host had {} MiB, above {} MiB", peak / MIB, bound / MIB);
        Ok(peak)
    }
}

/// Waits until memory has not grown for a while. Returns its peak.
fn at_rest(host: &Host) -> Result<u64> {
    const QUIET: Duration = Duration::from_secs(3);
    host.wait_for("that it runs", |line| line.message() == "running")?;
    let start = Instant::now();
    let (mut last, mut since) = (0, Instant::now());
    while since.elapsed() < QUIET {
        ensure!(start.elapsed() < PATIENCE, "memory grows on and on: {} MiB", last / MIB);
        // The system does not say when a process grows.
        std::thread::sleep(Duration::from_millis(100));
        let peak = host.memory()?.peak;
        if peak > last + MIB {
            (last, since) = (peak, Instant::now());
        }
    }
    Ok(host.memory()?.peak)
}

/// One record is stuck, while records keep coming for its partition and for others.
#[derive(Clone, Debug)]
pub struct StuckRecord {
    /// How long.
    pub time: Duration,
    /// Records a second, over all partitions.
    pub rate: u32,
    /// Partitions; the record is in the first.
    pub partitions: u32,
}

impl Default for StuckRecord {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), rate: 4000, partitions: 4 }
    }
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct StuckReport {
    /// Records that came through the other partitions.
    pub passed: u64,
    /// Memory when the bounds were reached, in bytes.
    pub before: u64,
    /// Memory at the end.
    pub after: u64,
}

impl StuckRecord {
    /// Holds the drill.
    ///
    /// # Errors
    /// If memory grows, if the other partitions fall behind, or if the stuck one moves.
    pub fn hold(&self, broker: &Broker) -> Result<StuckReport> {
        let space = broker.space();
        let count = i32::try_from(self.partitions)?;
        let (input, output, group) =
            (space.topic("in", count)?, space.topic("out", count)?, space.group("g"));
        broker.write(&input, [Record::new("retry:it is stuck").partition(0)])?;
        let (folder, step) = (Folder::new()?, component("probe-column-step")?);
        let access = Access::plain(broker).keys();
        folder.write(
            "flow.yaml",
            format!(
                "name: stuck\nkafka: {{ consumer: {{ {access}, group_id: {group}, topics: [{input}], delivery: at_least_once, \
                 auto_offset_reset: earliest }}, producer: {{ {access} }} }}\n\
                 runtime: {{ prefetch: 16MiB, max_outstanding: {{ records: 8000, bytes: 16MiB }}, shutdown_timeout: 5s }}\n\
                 plugins: {{ s: {{ component: {} }} }}\nprocess: [ {{ step: s }}, {{ into_topic: {output} }} ]\n",
                step.display()
            ),
        )?;
        let tail = Tail::start(broker, &output)?;
        let load = Writer::start(broker.pen(&input)?, self.partitions, self.rate);
        let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
        let result = self.watch(broker, &input, &tail, &host, load);
        let (before, after, passed) = match result {
            Ok(result) => result,
            Err(error) => bail!("{error:#}\nThe host logged:\n{}", host.log_text()),
        };
        ensure!(broker.committed(&group, &input)?.get(&0) == Some(&0), "the stuck record was committed");
        let ended = host.stop()?;
        ended.stopped()?.balances()?;
        // What a process has is not counted to the byte: allocators keep what they may need again.
        ensure!(
            after <= before + 16 * MIB,
            "memory grew from {} to {} MiB in {:?}",
            before / MIB,
            after / MIB,
            self.time
        );
        Ok(StuckReport { passed, before, after })
    }

    fn watch(
        &self,
        broker: &Broker,
        input: &str,
        tail: &Tail,
        host: &Host,
        load: Writer,
    ) -> Result<(u64, u64, u64)> {
        // By then the stuck partition has filled what it may, and buffers have their sizes.
        let settled = self.time / 3;
        std::thread::sleep(settled);
        let before = host.memory()?.now;
        std::thread::sleep(self.time - settled);
        let after = host.memory()?.now;
        // What is there now has to be through within moments: the others were never behind.
        let ends = broker.ends(input)?;
        let mut marks: Vec<_> = ends.values().map(|end| Some((*end as u64).saturating_sub(1))).collect();
        marks[0] = None;
        let others = tail.await_marks(&marks, Duration::from_secs(2));
        let written = load.stop()?;
        ensure!(
            others.is_some(),
            "the other partitions fell behind: not all of {marks:?} came out within 2 s"
        );
        ensure!(tail.count(0) == 0, "records of the stuck partition came out");
        Ok((before, after, written[1..].iter().sum()))
    }
}
