//! Memory stays bounded by what is read ahead, whatever a topic holds.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::PATIENCE;
use crate::guests::component;
use crate::host::{Folder, Host};
use crate::kafka::{Access, Broker, Record};

pub(super) const MIB: u64 = 1 << 20;

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
pub(super) fn at_rest(host: &Host) -> Result<u64> {
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
