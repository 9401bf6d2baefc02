//! What can be done to one broker of a cluster, and where the cluster has put what it leads.
//!
//! Brokers are named by their ids, from 1. Questions are only asked of brokers that can answer: one that is paused takes
//! connections and leaves them waiting.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::metadata::Metadata;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use xtask::kafka::Kafka;

use super::read::retry;
use super::{Broker, REQUEST};
use crate::PATIENCE;

/// Between two looks at what nobody announces.
const LOOK: Duration = Duration::from_millis(50);

impl Broker {
    /// `kill -9` of one broker.
    ///
    /// # Errors
    /// If it is not ours.
    pub fn kill_one(&self, id: i32) -> Result<()> {
        self.away().insert(id);
        self.one(id, Kafka::kill)
    }

    /// Starts one broker again. Returns when it accepts connections, which is before its copies have caught up.
    ///
    /// # Errors
    /// If it is not ours, or does not start.
    pub fn resume_one(&self, id: i32) -> Result<()> {
        self.one(id, |kafka| {
            kafka.has_ended()?;
            kafka.resume()
        })?;
        self.away().remove(&id);
        Ok(())
    }

    /// SIGSTOP: the system goes on taking connections for it, and nobody answers.
    ///
    /// # Errors
    /// If it is not ours, or down.
    pub fn pause(&self, id: i32) -> Result<()> {
        self.away().insert(id);
        self.one(id, |kafka| Ok(kill_process(pid(kafka)?, Signal::STOP)?))
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// If it is not ours, or down.
    pub fn unpause(&self, id: i32) -> Result<()> {
        self.one(id, |kafka| Ok(kill_process(pid(kafka)?, Signal::CONT)?))?;
        self.away().remove(&id);
        Ok(())
    }

    /// Lets every write to a broker's files fail, as on a disk that is full, and waits for what Kafka does then: a broker
    /// whose only disk fails ends itself. The room is there again when it is started again.
    ///
    /// A limit on the size of its files does it, which needs no right and no file system of its own; the error is then
    /// "file too large" instead of "no space left", which Kafka treats alike.
    ///
    /// # Errors
    /// If it is not ours, or does not end although it cannot write.
    pub fn fill_disk(&self, id: i32) -> Result<()> {
        self.away().insert(id);
        self.one(id, |kafka| {
            let full = Rlimit { current: Some(1), maximum: None };
            prlimit(Some(pid(kafka)?), Resource::Fsize, full)
                .context("cannot limit the size of Kafka's files")?;
            Ok(())
        })?;
        let start = Instant::now();
        while !self.one(id, Kafka::has_ended)? {
            ensure!(start.elapsed() < PATIENCE, "broker {id} lives on although it cannot write");
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    /// The broker that leads a partition; waits while there is none.
    ///
    /// # Errors
    /// If the partition is not there, or nobody leads it in time.
    pub fn leader(&self, topic: &str, partition: i32) -> Result<i32> {
        let start = Instant::now();
        loop {
            let metadata = self.metadata()?;
            let found = metadata.topics().iter().find(|found| found.name() == topic);
            let found = found.and_then(|found| found.partitions().iter().find(|p| p.id() == partition));
            let leader = found.with_context(|| format!("there is no {topic}/{partition}"))?.leader();
            if leader > 0 {
                return Ok(leader);
            }
            ensure!(start.elapsed() < PATIENCE, "{topic}/{partition} has no leader");
            std::thread::sleep(LOOK);
        }
    }

    /// The broker that coordinates a group, which has to have offsets.
    ///
    /// # Errors
    /// As for `leader`.
    pub fn coordinator(&self, group: &str) -> Result<i32> {
        const OFFSETS: &str = "__consumer_offsets";
        let metadata = self.metadata()?;
        let offsets = metadata.topics().iter().find(|topic| topic.name() == OFFSETS);
        let partitions = offsets.map_or(0, |topic| topic.partitions().len());
        ensure!(partitions > 0, "no group has offsets yet");
        self.leader(OFFSETS, java_hash(group) % partitions as i32)
    }

    /// Ends whatever was done to brokers, and waits until all are there and every copy has caught up.
    ///
    /// # Errors
    /// If one does not start, or copies do not catch up in time.
    pub fn heal(&self) -> Result<()> {
        for kafka in self.processes()?.iter_mut() {
            if !kafka.has_ended()? {
                kill_process(pid(kafka)?, Signal::CONT)?;
            }
        }
        self.resume()?;
        let start = Instant::now();
        loop {
            let behind = self.behind()?;
            if behind.is_empty() {
                return Ok(());
            }
            ensure!(start.elapsed() < 2 * PATIENCE, "these copies do not catch up: {}", behind.join(", "));
            std::thread::sleep(LOOK);
        }
    }

    /// The partitions that have no leader, or fewer copies in sync than they have.
    fn behind(&self) -> Result<Vec<String>> {
        let metadata = self.metadata()?;
        if metadata.brokers().len() < self.size() {
            return Ok(vec![format!("{} of {} brokers", metadata.brokers().len(), self.size())]);
        }
        let mut behind = Vec::new();
        for topic in metadata.topics() {
            for partition in topic.partitions() {
                if partition.leader() < 1 || partition.isr().len() < partition.replicas().len() {
                    behind.push(format!("{}/{}", topic.name(), partition.id()));
                }
            }
        }
        Ok(behind)
    }

    /// What the brokers that can answer say of the cluster.
    fn metadata(&self) -> Result<Metadata> {
        let consumer: BaseConsumer = self.client().create()?;
        retry(|| consumer.fetch_metadata(None, REQUEST))
    }

    fn one<T>(&self, id: i32, work: impl FnOnce(&mut Kafka) -> Result<T>) -> Result<T> {
        let mut processes = self.processes()?;
        let kafka = usize::try_from(id - 1).ok().and_then(|at| processes.get_mut(at));
        let Some(kafka) = kafka else { bail!("there is no broker {id}") };
        work(kafka).with_context(|| format!("broker {id}"))
    }
}

fn pid(kafka: &Kafka) -> Result<Pid> {
    let pid = kafka.pid().context("it is down")?;
    i32::try_from(pid).ok().and_then(Pid::from_raw).context("no process id")
}

/// The hash by which a group finds its coordinator: Java's of a text, without its sign.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
        & i32::MAX
}

#[cfg(test)]
mod tests {
    use super::java_hash;

    #[test]
    fn the_hash_is_javas() {
        // From `"…".hashCode() & 0x7fffffff`.
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("abc"), 96_354);
        assert_eq!(java_hash("polygenelubricants"), 0);
        assert_eq!(java_hash("t1f2e3d4c-drill"), 816_103_498);
    }
}
