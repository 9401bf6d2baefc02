//! What only Kafka's own tools can see or do: members of a group, producers that a partition knows, and how one of them is
//! fenced. Each call starts a Java machine.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use xtask::kafka::tool;

use super::Broker;
use crate::PATIENCE;

/// A producer that a partition knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownProducer {
    id: i64,
    epoch: i32,
}

impl Broker {
    /// Waits until a client of this name is a member of a group.
    ///
    /// # Errors
    /// If it is not in time; says what the tool says.
    pub fn await_member(&self, group: &str, client_id: &str) -> Result<()> {
        const CLASS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
        let arguments = ["--describe", "--members", "--group", group];
        self.await_tool(CLASS, &arguments, |text| text.contains(client_id).then_some(()))
    }

    /// Waits until the producers that a partition knows are as wanted, and returns them.
    ///
    /// # Errors
    /// If they are not in time; says what the tool says.
    pub fn await_producers(
        &self,
        topic: &str,
        partition: i32,
        wanted: impl Fn(&[KnownProducer]) -> bool,
    ) -> Result<Vec<KnownProducer>> {
        let partition = partition.to_string();
        let arguments = ["describe-producers", "--topic", topic, "--partition", &partition];
        self.await_tool(TRANSACTIONS, &arguments, |text| {
            let known: Vec<_> = text.lines().filter_map(KnownProducer::parse).collect();
            wanted(&known).then_some(known)
        })
    }

    /// Writes the marker of an aborted transaction of a later epoch of a producer, as who repairs a hanging transaction
    /// does: what the producer sends after that is refused.
    ///
    /// # Errors
    /// If the tool fails.
    pub fn fence(&self, topic: &str, partition: i32, producer: KnownProducer) -> Result<()> {
        let numbers = [partition, producer.epoch + 5].map(|number| number.to_string());
        let id = producer.id.to_string();
        let arguments = ["abort", "--topic", topic, "--partition", &numbers[0], "--producer-id", &id];
        let later = ["--producer-epoch", &numbers[1], "--coordinator-epoch", "0"];
        self.ask_tool(TRANSACTIONS, &[&arguments[..], &later[..]].concat()).map(drop)
    }

    fn await_tool<T>(
        &self,
        class: &str,
        arguments: &[&str],
        wanted: impl Fn(&str) -> Option<T>,
    ) -> Result<T> {
        let start = Instant::now();
        loop {
            // What is asked about may not be there yet.
            let answer = self.ask_tool(class, arguments);
            if let Some(found) = answer.as_ref().ok().and_then(|text| wanted(text)) {
                return Ok(found);
            }
            if start.elapsed() > PATIENCE {
                bail!("{class} {arguments:?} does not say what is waited for:\n{}", answer?);
            }
        }
    }

    fn ask_tool(&self, class: &str, arguments: &[&str]) -> Result<String> {
        let jars = self.jars.as_ref().context("Kafka's tools need Java and Maven")?;
        let address = self.address();
        tool(jars, class, &[&["--bootstrap-server", &address], arguments].concat())
    }
}

const TRANSACTIONS: &str = "org.apache.kafka.tools.TransactionsCommand";

impl KnownProducer {
    /// A line of the tool's table: the producer's id, its epoch, and more that is not looked at.
    fn parse(line: &str) -> Option<KnownProducer> {
        let mut columns = line.split_whitespace();
        Some(KnownProducer { id: columns.next()?.parse().ok()?, epoch: columns.next()?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::KnownProducer;

    #[test]
    fn the_tools_table_is_read() {
        let line = "1001\t0\t-1\t9\t1700000000000\tNone ";
        assert_eq!(KnownProducer::parse(line), Some(KnownProducer { id: 1001, epoch: 0 }));
        assert_eq!(KnownProducer::parse("ProducerId\tProducerEpoch\tLatestCoordinatorEpoch"), None);
    }
}
