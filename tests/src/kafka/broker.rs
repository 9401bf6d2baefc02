//! Getting at a broker: the one that all tests of a program share, or one that a test may kill. A cluster of several is
//! used as one broker is; what is done to one of its brokers alone stands in `nodes`.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use xtask::kafka::{Kafka, Options, jars, tool};

use super::space::Space;
use crate::PATIENCE;

/// A broker, or a cluster of several, with what tests ask of it.
pub struct Broker {
    /// The plain addresses, in the order of the brokers' ids.
    addresses: Vec<String>,
    /// None where the broker is not ours.
    processes: Option<Mutex<Vec<Kafka>>>,
    /// The ids of those that are paused or down: nobody need ask them.
    away: Mutex<BTreeSet<i32>>,
    /// Where Kafka's own tools can be run.
    pub(super) jars: Option<PathBuf>,
}

/// The broker that the tests of this program share, or None where no Kafka can be had: the test then returns, and is
/// counted as skipped by its name. Under `CI=true` that is a failure instead.
///
/// # Panics
/// If the broker does not start: no test can do anything about it.
pub fn shared() -> Option<&'static Broker> {
    static SHARED: OnceLock<Result<Broker, String>> = OnceLock::new();
    if std::env::var_os("LOOM_TEST_KAFKA").is_none() && !can_start() {
        return None;
    }
    let broker = SHARED.get_or_init(|| match std::env::var("LOOM_TEST_KAFKA") {
        Ok(address) => Broker::existing(address).map_err(|e| format!("LOOM_TEST_KAFKA: {e:#}")),
        Err(_) => Broker::start_own(&[]).map_err(|e| format!("{e:#}")),
    });
    match broker {
        Ok(broker) => Some(broker),
        Err(error) => panic!("no broker: {error}"),
    }
}

/// Whether this machine can run a Kafka. If not, the test that asks is noted as skipped.
fn can_start() -> bool {
    let missing = jars::missing_programs();
    if missing.is_empty() {
        return true;
    }
    let advice = jars::advice(&missing);
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{advice}");
    skip(&advice);
    false
}

/// Says that this test is skipped, and why, where it is seen although the test passes, and where `cargo xtask test` counts
/// it.
pub fn skip(advice: &str) {
    // libtest names the thread of a test after it.
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    // Written directly: what `eprintln!` prints in a passing test is not shown.
    let _ = writeln!(std::io::stderr(), "skipped: {name}: {advice}");
    if let Some(path) = std::env::var_os("LOOM_SKIPPED_TESTS") {
        let file = File::options().append(true).create(true).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "{name}"));
    }
}

impl Broker {
    fn existing(address: String) -> Result<Self> {
        // Kafka's own tools are optional here: the machine may have no Java.
        let jars = jars::missing_programs().is_empty().then(|| jars::ensure(tell)).transpose()?;
        let broker = Self { addresses: vec![address], processes: None, away: Mutex::default(), jars };
        broker.wait_until_answering()?;
        Ok(broker)
    }

    /// Starts a broker for one test alone, which may kill it, also where `LOOM_TEST_KAFKA` names another. None as for
    /// `shared`.
    ///
    /// # Errors
    /// If it does not start.
    pub fn own() -> Result<Option<Self>> {
        if can_start() { Self::start_own(&[]).map(Some) } else { Ok(None) }
    }

    /// The same with brokers that are set up as the options say, so many of them.
    ///
    /// # Errors
    /// If they do not start.
    pub fn own_with(brokers: usize, options: &Options) -> Result<Option<Self>> {
        if can_start() { Self::start_with(brokers, options).map(Some) } else { Ok(None) }
    }

    /// Starts a broker with further lines of `server.properties`.
    ///
    /// # Errors
    /// If Java is missing, the jars cannot be fetched, or it does not start.
    pub fn start_own(properties: &[(&str, &str)]) -> Result<Self> {
        let properties =
            properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Self::start_with(1, &Options { properties, ..Options::default() })
    }

    fn start_with(brokers: usize, options: &Options) -> Result<Self> {
        let jars = jars::ensure(tell)?;
        let processes = Kafka::cluster(&jars, brokers, options)?;
        let addresses = processes.iter().map(Kafka::address).collect();
        let processes = Some(Mutex::new(processes));
        let broker = Self { addresses, processes, away: Mutex::default(), jars: Some(jars) };
        broker.wait_until_answering()?;
        Ok(broker)
    }

    /// `host:port` of the plain listener; of a cluster, those of all brokers with commas between them.
    pub fn address(&self) -> String {
        self.addresses.join(",")
    }

    /// The same for a listener that the options named; one address a broker.
    ///
    /// # Errors
    /// If the broker is not ours, or has no such listener.
    pub fn listener(&self, name: &str) -> Result<Vec<String>> {
        let processes = self.processes()?;
        let address =
            |kafka: &Kafka| kafka.listener(name).with_context(|| format!("there is no listener {name}"));
        processes.iter().map(address).collect()
    }

    /// How many brokers there are.
    pub fn size(&self) -> usize {
        self.addresses.len()
    }

    /// How many copies topics have.
    pub(super) fn replicas(&self) -> i32 {
        self.size().min(3) as i32
    }

    /// A random prefix for names, which removes what carries it when dropped.
    pub fn space(&self) -> Space<'_> {
        Space::new(self)
    }

    /// `kill -9`, of all brokers; data and addresses stay.
    ///
    /// # Errors
    /// If the broker is not ours, or cannot be killed.
    pub fn kill(&self) -> Result<()> {
        let mut processes = self.processes()?;
        self.away().extend(1..=processes.len() as i32);
        processes.iter_mut().try_for_each(Kafka::kill)
    }

    /// Starts all that are down. Returns when they answer; none may be paused.
    ///
    /// # Errors
    /// If the broker is not ours, or does not start.
    pub fn resume(&self) -> Result<()> {
        {
            let mut processes = self.processes()?;
            for kafka in processes.iter_mut() {
                kafka.has_ended()?;
                kafka.launch()?;
            }
            processes.iter_mut().try_for_each(Kafka::wait_until_ready)?;
            self.away().clear();
        }
        self.wait_until_answering()
    }

    /// The first broker's process id, for signals.
    ///
    /// # Errors
    /// If the broker is not ours, or is down.
    pub fn pid(&self) -> Result<u32> {
        self.processes()?.first().and_then(Kafka::pid).context("the broker is down")
    }

    pub(super) fn processes(&self) -> Result<MutexGuard<'_, Vec<Kafka>>> {
        let Some(processes) = &self.processes else { bail!("the broker at {} is not ours", self.address()) };
        // A test that panicked while it held the lock leaves nothing half done.
        Ok(processes.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    pub(super) fn away(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.away.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The addresses of the brokers that may answer.
    fn awake(&self) -> String {
        let away = self.away();
        let awake = (1..).zip(&self.addresses).filter(|(id, _)| !away.contains(id));
        awake.map(|(_, address)| address.as_str()).collect::<Vec<_>>().join(",")
    }

    /// A client configuration with the address and what all clients of the tests have in common.
    pub(super) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.awake())
            .set("client.id", "loom-tests")
            .set("reconnect.backoff.ms", "20")
            .set("reconnect.backoff.max.ms", "500")
            // A broker that is paused takes connections and answers nothing; another may have its place meanwhile.
            .set("socket.timeout.ms", "10000")
            .set("socket.connection.setup.timeout.ms", "5000")
            .set("topic.metadata.refresh.interval.ms", "5000")
            // An outage is part of some tests; what the client says of it belongs into nobody's output.
            .set("log_level", "2");
        config
    }

    fn wait_until_answering(&self) -> Result<()> {
        let consumer: BaseConsumer = self.client().create()?;
        let start = Instant::now();
        loop {
            let answer = consumer.fetch_metadata(None, Duration::from_secs(5));
            let problem = match answer {
                Ok(metadata) if !metadata.brokers().is_empty() => return Ok(()),
                Ok(_) => "it knows of no broker".to_owned(),
                Err(error) => error.to_string(),
            };
            if start.elapsed() > PATIENCE {
                bail!("the broker at {} does not answer: {problem}", self.address());
            }
        }
    }

    /// What Kafka's own `kafka-consumer-groups --describe` says of a group: its table, a row a partition.
    ///
    /// # Errors
    /// If the tool fails, as it does for a group that is not there, or no Java is there to run it.
    pub fn describe_group(&self, group: &str) -> Result<Vec<GroupRow>> {
        const CLASS: &str = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand";
        let jars = self.jars.as_ref().context("Kafka's tools need Java and Maven")?;
        let address = self.address();
        let text = tool(jars, CLASS, &["--bootstrap-server", &address, "--describe", "--group", group])?;
        let rows = text.lines().filter_map(|line| GroupRow::parse(line, group)).collect::<Vec<_>>();
        if rows.is_empty() {
            bail!("the consumer-group tool knows no offsets of {group}:\n{text}");
        }
        Ok(rows)
    }
}

/// One line of the consumer-group tool's table; None where it prints a dash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupRow {
    /// The topic.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The committed offset.
    pub committed: Option<i64>,
    /// The partition's end.
    pub end: Option<i64>,
    /// What is between them.
    pub lag: Option<i64>,
    /// The member that reads the partition.
    pub member: Option<String>,
}

impl GroupRow {
    /// GROUP TOPIC PARTITION CURRENT-OFFSET [LEADER-EPOCH] LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID
    fn parse(line: &str, group: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first() != Some(&group) {
            return None;
        }
        let [_, topic, partition, committed, end, lag, member, ..] = words.as_slice() else { return None };
        let number = |word: &str| word.parse().ok();
        Some(Self {
            topic: (*topic).to_owned(),
            partition: partition.parse().ok()?,
            committed: number(committed),
            end: number(end),
            lag: number(lag),
            member: (*member != "-").then(|| (*member).to_owned()),
        })
    }
}

fn tell(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::GroupRow;

    #[test]
    fn the_tools_table_is_read() {
        let line = "g1              in              0          40              42              2               -               -               -";
        let row = GroupRow {
            topic: "in".into(),
            partition: 0,
            committed: Some(40),
            end: Some(42),
            lag: Some(2),
            member: None,
        };
        assert_eq!(GroupRow::parse(line, "g1"), Some(row));
        assert_eq!(
            GroupRow::parse("GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST", "g1"),
            None
        );
    }
}
