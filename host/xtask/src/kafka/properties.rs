//! What a test broker is configured with, and the ports that it gets.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::net::TcpListener;
use std::path::Path;

use anyhow::{Result, bail};

use super::options::Options;

/// The ports of a broker that is a controller, too.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    pub(super) broker: u16,
    pub(super) controller: u16,
    /// One for each further listener, in the order of the options.
    pub(super) more: Vec<u16>,
}

impl Ports {
    /// Ports that are free now, for so many brokers with so many further listeners each.
    ///
    /// They lie below the range from which systems give ports to outgoing connections: while a broker is down, a
    /// client's connection must not take the port that the broker comes back to.
    pub(super) fn choose(brokers: usize, listeners: usize) -> Result<Vec<Self>> {
        let needed = brokers * (2 + listeners);
        let mut free = Vec::with_capacity(needed);
        for port in (0..1000 + 20 * needed).map(|_| 15_000 + (random() % 17_000) as u16) {
            if free.len() == needed {
                break;
            }
            if !free.contains(&port) && is_free(port) {
                free.push(port);
            }
        }
        if free.len() < needed {
            bail!("found no {needed} free ports between 15000 and 32000 on 127.0.0.1");
        }
        let of = |ports: &[u16]| Self { broker: ports[0], controller: ports[1], more: ports[2..].to_vec() };
        Ok(free.chunks(2 + listeners).map(of).collect())
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

/// The text of `server.properties` of one of a cluster's brokers, whose ids are their places in `all`, from 1. The
/// options' properties are added, and win.
pub(super) fn server(id: usize, all: &[Ports], data: &Path, options: &Options) -> String {
    let Ports { broker, controller, more } = &all[id - 1];
    let text = |value: &str| value.to_owned();
    let further = || options.listeners.iter().zip(more);
    let addresses = || further().map(|(listener, port)| format!(",{}://127.0.0.1:{port}", listener.name));
    let protocols = further().map(|(listener, _)| format!(",{}:{}", listener.name, listener.protocol));
    let replicas = all.len().min(3).to_string();
    let in_sync = all.len().min(3).div_ceil(2).to_string();
    let mut properties: BTreeMap<String, String> = [
        ("process.roles", text("broker,controller")),
        ("node.id", id.to_string()),
        (
            "listeners",
            format!(
                "PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}{}",
                addresses().collect::<String>()
            ),
        ),
        (
            "advertised.listeners",
            format!("PLAINTEXT://127.0.0.1:{broker}{}", addresses().collect::<String>()),
        ),
        ("controller.listener.names", text("CONTROLLER")),
        (
            "listener.security.protocol.map",
            format!("CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT{}", protocols.collect::<String>()),
        ),
        ("inter.broker.listener.name", text("PLAINTEXT")),
        ("log.dirs", data.display().to_string()),
        ("default.replication.factor", replicas.clone()),
        ("min.insync.replicas", in_sync.clone()),
        ("offsets.topic.replication.factor", replicas.clone()),
        ("offsets.topic.num.partitions", text("4")),
        ("transaction.state.log.replication.factor", replicas.clone()),
        ("transaction.state.log.min.isr", in_sync.clone()),
        ("transaction.state.log.num.partitions", text("2")),
        ("share.coordinator.state.topic.replication.factor", replicas),
        ("share.coordinator.state.topic.min.isr", in_sync),
        ("group.initial.rebalance.delay.ms", text("0")),
        // A killed broker registers again only once its old session has run out; a cluster moves what it led then.
        ("broker.session.timeout.ms", text(if all.len() == 1 { "2000" } else { "3000" })),
        ("broker.heartbeat.interval.ms", text("300")),
        // What leads stays where a test put it.
        ("auto.leader.rebalance.enable", text("false")),
        // Tests of compaction wait for the cleaner.
        ("log.cleaner.backoff.ms", text("200")),
        ("log.initial.task.delay.ms", text("500")),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    if let [alone] = all {
        let quorum = format!("127.0.0.1:{}", alone.controller);
        properties.insert("controller.quorum.bootstrap.servers".into(), quorum);
    } else {
        let voter = |(at, ports): (usize, &Ports)| format!("{}@127.0.0.1:{}", at + 1, ports.controller);
        let voters: Vec<String> = all.iter().enumerate().map(voter).collect();
        properties.insert("controller.quorum.voters".into(), voters.join(","));
    }
    for listener in &options.listeners {
        let prefix = format!("listener.name.{}", listener.name.to_ascii_lowercase());
        for (key, value) in &listener.properties {
            properties.insert(format!("{prefix}.{key}"), value.clone());
        }
    }
    properties.extend(options.properties.iter().cloned());
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
    use super::{Options, Ports, cluster_id, server};
    use crate::kafka::Listener;

    fn ports(first: u16) -> Ports {
        Ports { broker: first, controller: first + 1, more: vec![first + 2] }
    }

    #[test]
    fn cluster_ids_are_22_characters_and_differ() {
        let (one, other) = (cluster_id(), cluster_id());
        assert_eq!(one.len(), 22);
        assert_ne!(one, other);
        assert!(one.ends_with(['A', 'Q', 'g', 'w']), "{one}");
    }

    #[test]
    fn a_callers_property_wins() {
        let more = [("offsets.topic.num.partitions".to_owned(), "7".to_owned())];
        let options = Options { properties: more.into(), ..Options::default() };
        let text = server(1, &[ports(1)], "data".as_ref(), &options);
        assert!(text.contains("offsets.topic.num.partitions=7\n"), "{text}");
        assert_eq!(text.matches("offsets.topic.num.partitions").count(), 1);
    }

    #[test]
    fn brokers_of_a_cluster_know_each_other_and_replicate() {
        let listener = Listener {
            name: "SAFE".into(),
            protocol: "SSL".into(),
            properties: vec![("ssl.keystore.type".into(), "PEM".into())],
        };
        let options = Options { listeners: vec![listener], ..Options::default() };
        let text = server(2, &[ports(10), ports(20), ports(30)], "data".as_ref(), &options);
        for line in [
            "node.id=2",
            "controller.quorum.voters=1@127.0.0.1:11,2@127.0.0.1:21,3@127.0.0.1:31",
            "listeners=PLAINTEXT://127.0.0.1:20,CONTROLLER://127.0.0.1:21,SAFE://127.0.0.1:22",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SAFE:SSL",
            "listener.name.safe.ssl.keystore.type=PEM",
            "min.insync.replicas=2",
            "offsets.topic.replication.factor=3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in:\n{text}");
        }
        assert!(!text.contains("bootstrap.servers"), "{text}");
    }

    #[test]
    fn ports_differ_from_each_other() {
        let all = Ports::choose(3, 2).unwrap();
        let mut numbers: Vec<u16> = all
            .iter()
            .flat_map(|one| [one.broker, one.controller].into_iter().chain(one.more.clone()))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 12);
    }
}
