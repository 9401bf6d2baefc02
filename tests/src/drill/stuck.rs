//! One record is stuck for good: memory stays flat, and the other partitions go on at full speed.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::bounded::MIB;
use super::tail::Tail;
use super::writer::Writer;
use crate::guests::component;
use crate::host::{Folder, Host};
use crate::kafka::{Access, Broker, Record};

/// Records behind the stuck one: more than may be outstanding.
const HELD: u32 = 20_000;

/// So many times the time without a stuck record may the others take beside one.
const SLOWER: f64 = 1.3;

/// Rounds that may be needed to see that: what else runs on the machine slows one run or another, and a host that is slow
/// beside a stuck record is so in every round.
const ROUNDS: usize = 6;

/// One record is stuck, while records keep coming for its partition and for others.
#[derive(Clone, Debug)]
pub struct StuckRecord {
    /// How long.
    pub time: Duration,
    /// Records a second, over all partitions.
    pub rate: u32,
    /// Partitions; the record is in the first.
    pub partitions: u32,
    /// Records that wait in each of the others when their speed is measured.
    pub backlog: u32,
}

impl Default for StuckRecord {
    fn default() -> Self {
        Self { time: Duration::from_secs(10), rate: 4000, partitions: 4, backlog: 100_000 }
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
    /// How long the others took for their backlog while the record was stuck.
    pub beside_it: Duration,
    /// How long they took without it.
    pub without_it: Duration,
}

impl StuckRecord {
    /// Holds the drill.
    ///
    /// # Errors
    /// If memory grows, if the other partitions fall behind or are slower than without the stuck record, or if the stuck
    /// one moves.
    pub fn hold(&self, broker: &Broker) -> Result<StuckReport> {
        let (passed, before, after) = self.beside_a_load(broker)?;
        let (beside_it, without_it) = self.through_a_backlog(broker)?;
        Ok(StuckReport { passed, before, after, beside_it, without_it })
    }

    /// Memory, while records come at a rate.
    fn beside_a_load(&self, broker: &Broker) -> Result<(u64, u64, u64)> {
        let space = broker.space();
        let count = i32::try_from(self.partitions)?;
        let (input, output, group) =
            (space.topic("in", count)?, space.topic("out", count)?, space.group("g"));
        broker.write(&input, [Record::new("retry:it is stuck").partition(0)])?;
        let folder = flow(broker, &group, &input, &output, "{}")?;
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
        Ok((passed, before, after))
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

    /// Speed: the same backlog is read in turn with a record that is stuck and with the same one let through, each time by
    /// a new group, at whatever speed the host can.
    fn through_a_backlog(&self, broker: &Broker) -> Result<(Duration, Duration)> {
        let space = broker.space();
        let count = i32::try_from(self.partitions)?;
        let input = space.topic("in", count)?;
        let mut pen = broker.pen(&input)?;
        let few = Record::new("held back").partition(0);
        pen.write(&Record::new("retry:it is stuck").partition(0))?;
        (0..HELD).try_for_each(|_| pen.write(&few))?;
        let filling = Record::new(vec![b'x'; 200]);
        for number in 0..self.backlog * (self.partitions - 1) {
            pen.write(&filling.clone().partition(1 + (number % (self.partitions - 1)) as i32))?;
        }
        pen.finish()?;
        let mut best = [Duration::MAX; 2];
        // The best runs count.
        for round in 0..ROUNDS {
            for (stuck, best) in [true, false].into_iter().zip(&mut best) {
                let name = format!("{round}-{stuck}");
                let (group, output) = (space.group(&name), space.topic(&format!("out-{name}"), count)?);
                // What is no command lets everything through.
                let config = if stuck { "{}" } else { "{ command: pass }" };
                let folder = flow(broker, &group, &input, &output, config)?;
                let host = Host::start(folder.path(), ["run", "flow.yaml", "-w", "2"])?;
                host.wait_for("that it runs", |line| line.message() == "running")?;
                let begun = Instant::now();
                let first = if stuck { 0 } else { i64::from(HELD) + 1 };
                let others = (1..count).map(|partition| (partition, i64::from(self.backlog)));
                let due: Vec<_> = std::iter::once((0, first)).chain(others).collect();
                if let Err(error) = broker.await_committed(&group, &input, &due) {
                    bail!("{error:#}\nThe host logged:\n{}", host.log_text());
                }
                *best = (*best).min(begun.elapsed());
                host.stop()?.stopped()?.balances()?;
            }
            let [beside_it, without_it] = best;
            if beside_it <= without_it.mul_f64(SLOWER) + Duration::from_millis(500) {
                return Ok((beside_it, without_it));
            }
        }
        let [beside_it, without_it] = best;
        bail!("the other partitions took {beside_it:?} beside a stuck record, and {without_it:?} without it")
    }
}

fn flow(broker: &Broker, group: &str, input: &str, output: &str, config: &str) -> Result<Folder> {
    let (folder, step) = (Folder::new()?, component("probe-column-step")?);
    let access = Access::plain(broker).keys();
    folder.write(
        "flow.yaml",
        format!(
            "name: stuck\nkafka: {{ consumer: {{ {access}, group_id: {group}, topics: [{input}], delivery: at_least_once, \
             auto_offset_reset: earliest }}, producer: {{ {access} }} }}\n\
             runtime: {{ prefetch: 16MiB, max_outstanding: {{ records: 8000, bytes: 16MiB }}, shutdown_timeout: 5s }}\n\
             plugins: {{ s: {{ component: {}, config: {config} }} }}\nprocess: [ {{ step: s }}, {{ into_topic: {output} }} ]\n",
            step.display()
        ),
    )?;
    Ok(folder)
}
