//! What a drill runs in: topics, a group, and a flow that sends every record through a component, to a topic and to a
//! sink.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail, ensure};

use super::account::Sighting;
use super::writer::Writer;
use crate::guests::component;
use crate::host::{Folder, Host};
use crate::kafka::{Access, Broker, Space};

pub(super) struct Stage<'a> {
    pub(super) broker: &'a Broker,
    pub(super) input: String,
    pub(super) output: String,
    pub(super) partitions: u32,
    pub(super) group: String,
    folder: Folder,
    workers: u32,
    /// What is on the broker is removed with it.
    space: Space<'a>,
}

impl<'a> Stage<'a> {
    /// The flow comes to the broker as `access` says; the drill itself takes the plain way.
    pub(super) fn new(broker: &'a Broker, access: &Access, partitions: u32, workers: u32) -> Result<Self> {
        let space = broker.space();
        let count = i32::try_from(partitions)?;
        let (input, output) = (space.topic("in", count)?, space.topic("out", count)?);
        let group = space.group("drill");
        let folder = Folder::new()?;
        folder.make("kept")?;
        let (step, sink) = (component("nop-column-step")?, component("probe-sink")?);
        folder.write("flow.yaml", flow(&access.keys(), &group, &input, &output, &step, &sink))?;
        Ok(Self { broker, input, output, partitions, group, folder, workers, space })
    }

    /// What the names of all topics and groups begin with.
    pub(super) fn prefix(&self) -> String {
        self.space.name("")
    }

    /// Starts the load: so many records a second.
    pub(super) fn load(&self, rate: u32) -> Result<Writer> {
        Ok(Writer::start(self.broker.pen(&self.input)?, self.partitions, rate))
    }

    /// Starts the host on the flow.
    pub(super) fn start(&self) -> Result<Host> {
        let (workers, cache) = (self.workers.to_string(), self.folder.join("cache"));
        let arguments = ["run", "flow.yaml", "-w", &workers, "--cache-dir", &cache.to_string_lossy()];
        Host::start(self.folder.path(), arguments)
    }

    /// The committed offset of each partition; 0 where there is none.
    pub(super) fn committed(&self) -> Result<Vec<u64>> {
        let committed = self.broker.committed(&self.group, &self.input)?;
        let of = |partition: u32| committed.get(&(partition as i32)).map_or(0, |offset| *offset as u64);
        Ok((0..self.partitions).map(of).collect())
    }

    /// How many records the output has.
    pub(super) fn output_len(&self) -> Result<usize> {
        Ok(usize::try_from(self.broker.ends(&self.output)?.values().sum::<i64>())?)
    }

    /// The same once nothing more is being appended: what a host that is dead had sent may still be in the broker's
    /// buffers. Only for when no host runs; with one, it would wait for a pause in the load.
    pub(super) fn settled_output(&self) -> Result<usize> {
        let mut last = self.output_len()?;
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let now = self.output_len()?;
            if now == last {
                return Ok(now);
            }
            last = now;
        }
    }

    /// Waits until everything that was written is committed, ends the host, and looks at its books.
    pub(super) fn finish(&self, host: Host, written: &[u64]) -> Result<()> {
        let ends: Vec<(i32, i64)> = (0..).zip(written.iter().map(|count| *count as i64)).collect();
        if let Err(error) = self.broker.await_committed(&self.group, &self.input, &ends) {
            bail!("{error:#}\nThe host logged:\n{}", host.kill()?.log_text());
        }
        let ended = host.stop()?;
        ended.expect_status(0)?;
        let stopped = ended.stopped()?;
        stopped.balances()?;
        ensure!(
            stopped.counter("violations") == 0,
            "the sink spoke of tokens that were not open: {stopped:?}"
        );
        Ok(())
    }

    /// What the sink has made durable, in the order of its files. Each worker has one, and a partition one worker.
    pub(super) fn kept(&self) -> Result<Vec<Sighting>> {
        let lines = self.folder.lines("kept", ".jsonl")?;
        // A line that a kill has torn is of records that were not completed; they come again.
        Ok(lines.iter().filter_map(|line| Sighting::from_sink_line(line)).collect())
    }
}

fn flow(access: &str, group: &str, input: &str, output: &str, step: &Path, sink: &Path) -> String {
    let (step, sink) = (step.display(), sink.display());
    format!(
        r#"
name: drill
kafka:
  consumer:
    {{ {access}, group_id: {group}, topics: [{input}], delivery: at_least_once, auto_offset_reset: earliest }}
  producer: {{ {access} }}
plugins:
  step: {{ component: {step} }}
  keep:
    component: {sink}
    config: {{ complete: flush, folder: /kept }}
    allow: {{ dirs: [{{ host: kept, guest: /kept, mode: rw }}] }}
process:
  - step: step
  - broadcast:
      - [ {{ into_topic: {output} }} ]
      - [ {{ into_sink: keep, flush: {{ records: 500, interval: 100ms }} }} ]
"#
    )
}
