//! What a test broker is configured with, and the ports that it gets.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::path::Path;

use anyhow::{Result, bail};

/// The two ports of a broker that is its own controller.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub(super) broker: u16,
    pub(super) controller: u16,
}

impl Ports {
    /// Two ports that are free now.
    ///
    /// They lie below the range from which systems give ports to outgoing connections: while a broker is down, a
    /// client's connection must not take the port that the broker comes back to.
    pub(super) fn choose() -> Result<Self> {
        let mut free = (0..1000).map(|_| 15_000 + (random() % 17_000) as u16).filter(|port| is_free(*port));
        match (free.next(), free.next()) {
            (Some(broker), Some(controller)) if broker != controller => Ok(Self { broker, controller }),
            _ => bail!("found no free ports between 15000 and 32000 on 127.0.0.1"),
        }
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// A number that another process does not draw: every `RandomState` is keyed by the system.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// A cluster id as Kafka writes them: sixteen bytes in URL-safe base64.
pub(super) fn cluster_id() -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = u128::from(random()) << 64 | u128::from(random());
    // The last character holds the two bits that are left of 128, so it is one of A, Q, g and w; the first must not be
    // a dash, which the tools would take for an option.
    let digit = |at: u32| ALPHABET[(bits >> (128 - 6 * (at + 1)) & 63) as usize] as char;
    let last = ALPHABET[((bits & 3) << 4) as usize] as char;
    std::iter::once('L').chain((1..21).map(digit)).chain([last]).collect()
}

/// The text of `server.properties`; `more` is added, and wins.
pub(super) fn server(ports: Ports, data: &Path, more: &[(String, String)]) -> String {
    let Ports { broker, controller } = ports;
    let text = |value: &str| value.to_owned();
    let mut properties = BTreeMap::from([
        ("process.roles", text("broker,controller")),
        ("node.id", text("1")),
        ("controller.quorum.bootstrap.servers", format!("127.0.0.1:{controller}")),
        ("listeners", format!("PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}")),
        ("advertised.listeners", format!("PLAINTEXT://127.0.0.1:{broker}")),
        ("controller.listener.names", text("CONTROLLER")),
        ("listener.security.protocol.map", text("CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT")),
        ("inter.broker.listener.name", text("PLAINTEXT")),
        ("log.dirs", data.display().to_string()),
        ("offsets.topic.replication.factor", text("1")),
        ("offsets.topic.num.partitions", text("4")),
        ("transaction.state.log.replication.factor", text("1")),
        ("transaction.state.log.min.isr", text("1")),
        ("transaction.state.log.num.partitions", text("2")),
        ("share.coordinator.state.topic.replication.factor", text("1")),
        ("share.coordinator.state.topic.min.isr", text("1")),
        ("group.initial.rebalance.delay.ms", text("0")),
        // A killed broker registers again only once its old session has run out.
        ("broker.session.timeout.ms", text("2000")),
        ("broker.heartbeat.interval.ms", text("300")),
        // Tests of compaction wait for the cleaner.
        ("log.cleaner.backoff.ms", text("200")),
        ("log.initial.task.delay.ms", text("500")),
    ]);
    properties.extend(more.iter().map(|(key, value)| (key.as_str(), value.clone())));
    properties.iter().map(|(key, value)| format!("{key}={value}\n")).collect()
}

/// Kafka's log at a level that says what went wrong and little else.
pub(super) const LOG4J: &str = "\
rootLogger.level=WARN
rootLogger.appenderRef.stdout.ref=stdout
appender.stdout.type=Console
appender.stdout.name=stdout
appender.stdout.layout.type=PatternLayout
appender.stdout.layout.pattern=%d %p %c: %m%n
";

#[cfg(test)]
mod tests {
    use super::{Ports, cluster_id, server};

    #[test]
    fn cluster_ids_are_22_characters_and_differ() {
        let (one, other) = (cluster_id(), cluster_id());
        assert_eq!(one.len(), 22);
        assert_ne!(one, other);
        assert!(one.ends_with(['A', 'Q', 'g', 'w']), "{one}");
    }

    #[test]
    fn a_callers_property_wins() {
        let ports = Ports { broker: 1, controller: 2 };
        let more = [("offsets.topic.num.partitions".to_owned(), "7".to_owned())];
        let text = server(ports, "data".as_ref(), &more);
        assert!(text.contains("offsets.topic.num.partitions=7\n"), "{text}");
        assert_eq!(text.matches("offsets.topic.num.partitions").count(), 1);
    }
}
