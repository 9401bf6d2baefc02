//! Settings as librdkafka's keys.
//!
//! Keys that carry a guarantee are ours (`keys` has them all, and the flow language refuses them in `extra`); prefetch,
//! linger and batch keys are defaults, and `extra`, applied last, may set them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::classify::configuration;
use super::raw::Conf;
use crate::error::KafkaError;
use crate::settings::{ConsumerSettings, CredentialSettings, ProducerSettings, Sensitive};

/// Which side a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientKind {
    /// A consumer.
    Consumer,
    /// A producer.
    Producer,
}

/// A consumer's keys. `sharing`: partitions of the process that share the prefetch.
pub(super) fn consumer(settings: &ConsumerSettings, sharing: usize) -> Result<Conf, KafkaError> {
    let prefetch = Prefetch::new(settings, sharing);
    let mut keys = Keys::new(&settings.brokers, &settings.credentials, &settings.extra);
    keys.set("group.id", &settings.group_id);
    keys.set("enable.auto.commit", false);
    keys.set("enable.auto.offset.store", false);
    keys.set("enable.partition.eof", true);
    keys.set("auto.offset.reset", "error");
    keys.set("isolation.level", "read_committed");
    // A batch that was damaged is read as whatever its bytes say otherwise: a length that was overwritten is a tombstone.
    keys.set("check.crcs", true);
    keys.set("queued.max.messages.kbytes", prefetch.queue_kbytes);
    keys.set("queued.min.messages", prefetch.queue_messages);
    keys.set("fetch.message.max.bytes", prefetch.fetch_partition);
    keys.set("fetch.max.bytes", prefetch.fetch);
    keys.set("fetch.queue.backoff.ms", 10);
    // Batches are unpacked into buffers that grow threefold up to this bound, and a batch that needs more can never be
    // read. What is not needed is not touched. librdkafka refuses less than a fetch and its frame.
    keys.set("receive.message.max.bytes", (prefetch.fetch + 512).max(1_000_000_000));
    // A client has one fetch on its way to a broker: the wait for an empty partition holds back the others' next.
    keys.set("fetch.wait.max.ms", settings.poll_backoff.as_millis().clamp(1, 500));
    keys.apply(&settings.extra)
}

/// A producer's keys.
pub(super) fn producer(settings: &ProducerSettings) -> Result<Conf, KafkaError> {
    let mut keys = Keys::new(&settings.brokers, &settings.credentials, &settings.extra);
    keys.set("acks", "all");
    keys.set("enable.idempotence", settings.idempotence);
    if !settings.idempotence {
        // What idempotence brings along: an outage is waited out, and one request in flight keeps the order.
        keys.set("max.in.flight.requests.per.connection", 1);
        keys.set("retries", i32::MAX);
        // A batch that is only acknowledged late would be written twice.
        keys.set("socket.timeout.ms", 60_000);
    }
    keys.set("message.timeout.ms", 0);
    // What waits is bounded by the writer, which counts keys and headers as well: see `queue.rs`.
    keys.set("queue.buffering.max.messages", 0);
    keys.set("queue.buffering.max.kbytes", i32::MAX);
    keys.set("partitioner", "murmur2_random");
    keys.set("linger.ms", 5);
    keys.set("batch.size", BATCH_BYTES);
    // The topic's limit decides what is too large, not the client's own, which is lower than a broker's default. Batches
    // stay small all the same.
    keys.set("message.max.bytes", 64 << 20);
    // How long a topic that is not there for a while is waited for is the runtime's business. This is no more than that:
    // the client also takes so long to believe that a topic is there again.
    keys.set("topic.metadata.propagation.max.ms", 5_000);
    if let Some(compression) = &settings.compression {
        keys.set("compression.type", compression);
    }
    let Some(largest) = settings.largest_batch else { return keys.apply(&settings.extra) };
    // What `extra` says of a batch's size is bounded too: a broker refuses the whole batch.
    let mut extra = settings.extra.clone();
    let theirs = extra.get("batch.size").and_then(|size| size.0.trim().parse().ok());
    let size = theirs.unwrap_or(BATCH_BYTES).min(largest).max(1);
    extra.insert("batch.size".to_owned(), Sensitive(size.to_string()));
    keys.apply(&extra)
}

/// How long a broker may leave a request unanswered; the client's own default is a minute.
const SILENCE: Duration = Duration::from_secs(20);

/// The size of a batch, where no output's limit is below it.
const BATCH_BYTES: usize = 1_000_000;

/// Keys and values in the order in which they are set.
struct Keys(Vec<(&'static str, String)>);

impl Keys {
    fn new(
        brokers: &[String],
        credentials: &CredentialSettings,
        extra: &BTreeMap<String, Sensitive>,
    ) -> Keys {
        let mut keys = Keys(Vec::with_capacity(24));
        keys.set("client.id", "loom-host");
        keys.set("bootstrap.servers", brokers.join(","));
        // Asking for a topic never creates it; a producer's default would.
        keys.set("allow.auto.create.topics", false);
        // For the hints in the lines about them; others are no news, since brokers close idle connections.
        keys.set("log.connection.close", true);
        keys.set("reconnect.backoff.max.ms", 2000);
        // How long a leader that hangs holds its partitions after another was elected: the client asks nobody else before a
        // request has run out of time. Longer than an election, and than a broker's wait for a copy mostly takes.
        keys.set("socket.timeout.ms", SILENCE.as_millis());
        if let Some(protocol) = &credentials.protocol {
            keys.set("security.protocol", protocol);
            let tls = protocol.to_ascii_lowercase().ends_with("ssl");
            if tls && !extra.keys().any(|key| key.starts_with("ssl.ca.")) {
                // The linked OpenSSL looks for root certificates where no distribution has them.
                keys.set("ssl.ca.location", "probe");
            }
        }
        for (key, value) in [
            ("sasl.mechanisms", credentials.sasl_mechanism.as_deref()),
            ("sasl.username", credentials.sasl_username.as_deref()),
            ("sasl.password", credentials.sasl_password.as_ref().map(|secret| secret.0.as_str())),
        ] {
            if let Some(value) = value {
                keys.set(key, value);
            }
        }
        keys
    }

    fn set(&mut self, key: &'static str, value: impl ToString) {
        self.0.push((key, value.to_string()));
    }

    fn apply(self, extra: &BTreeMap<String, Sensitive>) -> Result<Conf, KafkaError> {
        let mut conf = Conf::new();
        let ours = self.0.iter().map(|(key, value)| (*key, value.as_str()));
        let theirs = extra.iter().map(|(key, value)| (key.as_str(), value.0.as_str()));
        for (key, value) in ours.chain(theirs) {
            conf.set(key, value).map_err(|why| configuration(redacted(key, value, why)))?;
        }
        Ok(conf)
    }
}

/// librdkafka repeats some values in its sentences; a secret must not be among them.
fn redacted(key: &str, value: &str, why: String) -> String {
    let secret = ["password", "secret", "key", "username", "jaas"].iter().any(|word| key.contains(word));
    if secret && !value.is_empty() { why.replace(value, "***") } else { why }
}

/// How much is read ahead: a budget for the process, divided among its partitions, each of which has a queue of its own
/// that librdkafka bounds by itself. A quarter of a share is the queue's bound, since that bound counts values only and
/// may be passed by a fetch.
#[derive(Debug, PartialEq, Eq)]
struct Prefetch {
    queue_kbytes: u64,
    queue_messages: u64,
    fetch_partition: u64,
    fetch: u64,
}

impl Prefetch {
    fn new(settings: &ConsumerSettings, sharing: usize) -> Prefetch {
        let quarter = settings.prefetch / 4;
        let share = quarter / sharing.max(1) as u64;
        // librdkafka refuses a fetch that is smaller than a message may be.
        let largest = settings
            .extra
            .get("message.max.bytes")
            .and_then(|value| value.0.trim().parse::<u64>().ok())
            .unwrap_or(1_000_000);
        Prefetch {
            queue_kbytes: (share >> 10).clamp(1, 2_097_151),
            queue_messages: (share >> 10).clamp(100, 100_000),
            fetch_partition: share.clamp(16 << 10, 1 << 20),
            fetch: quarter.max(largest).min(2_147_483_135),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::{Keys, Prefetch, consumer, producer};
    use crate::librdkafka::raw::{Client, Role};
    use crate::settings::{ConsumerSettings, CredentialSettings, ProducerSettings, Sensitive};

    fn settings(prefetch: u64) -> ConsumerSettings {
        ConsumerSettings {
            brokers: vec!["127.0.0.1:1".into()],
            group_id: "g".into(),
            credentials: CredentialSettings::default(),
            forward_tombstones: false,
            prefetch,
            poll_backoff: Duration::from_millis(50),
            extra: BTreeMap::new(),
        }
    }

    #[test]
    fn the_prefetch_is_divided_among_the_partitions_within_what_librdkafka_takes() {
        let even = Prefetch::new(&settings(256 << 20), 4);
        let share = 16 << 20;
        assert_eq!(
            even,
            Prefetch {
                queue_kbytes: share >> 10,
                queue_messages: 16_384,
                fetch_partition: 1 << 20,
                fetch: 64 << 20
            }
        );
        for (prefetch, partitions) in [(0, 0), (1 << 20, 5000), (u64::MAX, 1), (256 << 20, 100)] {
            let settings = settings(prefetch);
            let conf = consumer(&settings, partitions).unwrap();
            assert!(Client::new(Role::Consumer, conf).is_ok(), "{prefetch} over {partitions}");
        }
    }

    #[test]
    fn extra_keys_come_last_and_the_fetch_follows_the_largest_message() {
        let mut settings = settings(1 << 20);
        settings.extra.insert("message.max.bytes".into(), Sensitive("5000000".into()));
        settings.extra.insert("queued.min.messages".into(), Sensitive("7".into()));
        let conf = consumer(&settings, 1).unwrap();
        assert_eq!(conf.get("socket.timeout.ms").as_deref(), Some("20000"));
        assert!(Client::new(Role::Consumer, conf).is_ok());
        settings.extra.insert("socket.timeout.ms".into(), Sensitive("45000".into()));
        let conf = consumer(&settings, 1).unwrap();
        assert_eq!(conf.get("socket.timeout.ms").as_deref(), Some("45000"));
    }

    #[test]
    fn producers_are_accepted_with_and_without_idempotence() {
        for idempotence in [true, false] {
            let settings = ProducerSettings {
                brokers: vec!["127.0.0.1:1".into()],
                credentials: CredentialSettings::default(),
                compression: Some("zstd".into()),
                idempotence,
                largest_batch: None,
                extra: BTreeMap::from([("linger.ms".to_owned(), Sensitive("20".into()))]),
            };
            let conf = producer(&settings).unwrap();
            let silence = if idempotence { "20000" } else { "60000" };
            assert_eq!(conf.get("socket.timeout.ms").as_deref(), Some(silence));
            assert!(Client::new(Role::Producer, conf).is_ok());
        }
    }

    #[test]
    fn only_credentials_that_are_set_become_keys() {
        let keys = |credentials: &CredentialSettings| {
            let keys = Keys::new(&["b:1".to_owned()], credentials, &BTreeMap::new()).0;
            let ours = |key: &str| ["security.", "sasl.", "ssl."].iter().any(|start| key.starts_with(start));
            keys.into_iter().filter(|(key, _)| ours(key)).collect::<Vec<_>>()
        };
        assert_eq!(keys(&CredentialSettings::default()), []);
        let some = CredentialSettings {
            protocol: Some("SASL_PLAINTEXT".into()),
            sasl_username: Some("u".into()),
            ..CredentialSettings::default()
        };
        let set = |key, value: &str| (key, value.to_owned());
        assert_eq!(keys(&some), [set("security.protocol", "SASL_PLAINTEXT"), set("sasl.username", "u")]);
        let all = CredentialSettings {
            protocol: Some("SASL_SSL".into()),
            sasl_mechanism: Some("SCRAM-SHA-512".into()),
            sasl_username: Some("u".into()),
            sasl_password: Some(Sensitive("p".into())),
        };
        assert_eq!(
            keys(&all),
            [
                set("security.protocol", "SASL_SSL"),
                set("ssl.ca.location", "probe"),
                set("sasl.mechanisms", "SCRAM-SHA-512"),
                set("sasl.username", "u"),
                set("sasl.password", "p"),
            ]
        );
    }

    #[test]
    fn batches_stay_below_the_smallest_limit_whatever_extra_says() {
        for (largest, theirs, size) in [
            (None, None, "1000000"),
            (None, Some("300000"), "300000"),
            (Some(1_048_588), None, "1000000"),
            (Some(1_048_588), Some("2000000"), "1048588"),
            (Some(5000), None, "5000"),
            (Some(5000), Some("100"), "100"),
        ] {
            let theirs = theirs.map(|size: &str| ("batch.size".to_owned(), Sensitive(size.into())));
            let settings = ProducerSettings {
                brokers: vec!["127.0.0.1:1".into()],
                credentials: CredentialSettings::default(),
                compression: None,
                idempotence: true,
                largest_batch: largest,
                extra: theirs.into_iter().collect(),
            };
            assert_eq!(producer(&settings).unwrap().get("batch.size").as_deref(), Some(size));
        }
    }

    #[test]
    fn a_refused_secret_is_not_repeated() {
        let mut settings = settings(1 << 20);
        settings.extra.insert("ssl.key.pem".into(), Sensitive("hunter2".into()));
        settings.extra.insert("no.such.password".into(), Sensitive("hunter2".into()));
        let Err(error) = consumer(&settings, 1) else { panic!("it was accepted") };
        assert!(!error.message.contains("hunter2"), "{error}");
        assert!(error.message.contains("no.such.password"), "{error}");
    }
}
