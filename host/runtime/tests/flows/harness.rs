//! Runs a flow in this process: YAML in, the memory broker around it, an outcome out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use loom_flow::{
    ClientKind, CompileOptions, ComponentFacts, Components, Environment, KafkaKeys, KeyRefusal, Mode, Plan,
    Role, SourceFile, compile,
};
use loom_kafka::memory::{MemoryBroker, Record, View, system_clock};
use loom_kafka::{KafkaError, Kind};
use loom_plugin::{CacheDir, HostOptions, PluginHost, read_facts};
use loom_runtime::{AssemblyError, KeeperBoard, Options, Outcome, Stop, assemble, consumer_settings};
use loom_types::{CommitOffset, TopicPartition};
use serde_json::Value;

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long a flow may take to end: its own bound for that is 25 s.
const ENDS_WITHIN: Duration = Duration::from_secs(90);

struct Nothing;

impl Environment for Nothing {
    fn var(&self, _name: &str) -> Option<String> {
        None
    }

    fn file(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

impl KafkaKeys for Nothing {
    fn check(&self, _client: ClientKind, _key: &str, _value: &str) -> Result<(), KeyRefusal> {
        Ok(())
    }
}

struct Files;

impl Components for Files {
    fn facts(&self, path: &Path) -> Result<ComponentFacts, String> {
        let facts = read_facts(path).map_err(|error| error.to_string())?;
        let mut roles = std::collections::BTreeSet::new();
        for (has, role) in [
            (facts.roles.is_step(), Role::Step),
            (facts.roles.is_expander(), Role::Expand),
            (facts.roles.typed_expand, Role::TypedExpander),
            (facts.roles.batch_step, Role::BatchStep),
            (facts.roles.batch_expand, Role::BatchExpand),
            (facts.roles.is_predicate(), Role::Predicate),
            (facts.roles.sink, Role::Sink),
        ] {
            if has {
                roles.insert(role);
            }
        }
        Ok(ComponentFacts { roles, tracked: facts.roles.tracked })
    }
}

/// The folder of built guests.
pub fn guests() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/guests");
    assert!(folder.is_dir(), "the guests are not built: run `cargo xtask guests` ({})", folder.display());
    folder
}

/// The plan of a flow given from `kafka:` on; `{guests}` in it stands for the folder of built guests.
pub fn plan(yaml: &str) -> Arc<Plan> {
    let text = yaml.replace("{guests}", guests().to_str().unwrap());
    let source = SourceFile { name: "flow.yaml".into(), bytes: text.into_bytes(), dir: PathBuf::from(".") };
    let options = CompileOptions { mode: Mode::Run, require_env: true, plugins: false };
    let compiled = compile(&source, &Nothing, &Files, &Nothing, options);
    let issues: Vec<String> = compiled.issues.iter().map(|issue| format!("{issue:?}")).collect();
    Arc::new(compiled.plan.unwrap_or_else(|| panic!("the flow is wrong:\n{}", issues.join("\n"))))
}

/// A flow on one topic `in`, under at least once: `consumer` is added to the consumer, `rest` follows the `kafka`
/// section and starts at `plugins:`, `process:` or so.
pub fn flow(consumer: &str, rest: &str) -> String {
    let consumer: String = consumer.lines().map(|line| format!("    {}\n", line.trim_start())).collect();
    format!(
        "name: test\nkafka:\n  consumer:\n    brokers: [memory]\n    group_id: g\n    topics: [in]\n{}{consumer}  producer: \
         {{ brokers: [memory] }}\n{rest}",
        if consumer.contains("delivery:") { "" } else { "    delivery: at_least_once\n" }
    )
}

/// One broker for one test, with topic `in` of one partition.
pub fn broker(topics: &[&str]) -> MemoryBroker {
    let broker = MemoryBroker::new(system_clock());
    broker.create_topic("in", 1);
    for topic in topics {
        broker.create_topic(topic, 1);
    }
    broker
}

/// A broker whose topic `in` has more than one partition.
pub fn wide_broker(partitions: i32, topics: &[&str]) -> MemoryBroker {
    let broker = MemoryBroker::new(system_clock());
    broker.create_topic("in", partitions);
    for topic in topics {
        broker.create_topic(topic, 1);
    }
    broker
}

pub fn produce(broker: &MemoryBroker, payloads: &[&str]) {
    for payload in payloads {
        broker.produce("in", 0, Record::value(*payload));
    }
}

/// The payloads of a topic, by partition and offset; a tombstone is `null`.
pub fn payloads(broker: &MemoryBroker, topic: &str) -> Vec<String> {
    let texts = broker.view(|view| view.payloads(topic));
    texts.into_iter().map(|text| text.unwrap_or_else(|| "null".to_owned())).collect()
}

/// The payloads of an error topic, as JSON; each as the published schema says.
pub fn envelopes(broker: &MemoryBroker, topic: &str) -> Vec<Value> {
    let all: Vec<Value> =
        payloads(broker, topic).iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    for envelope in &all {
        if let Err(error) = envelope_schema().validate(envelope) {
            panic!("{error} (at {}): {envelope}", error.instance_path);
        }
    }
    all
}

/// The schema of the documentation.
fn envelope_schema() -> &'static jsonschema::Validator {
    static SCHEMA: OnceLock<jsonschema::Validator> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/envelope.schema.json");
        let schema = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        jsonschema::draft202012::options().should_validate_formats(true).build(&schema).unwrap()
    })
}

/// The value of a header that a record has once.
pub fn header(record: &Record, name: &str) -> Option<String> {
    let mut found = record.headers.iter().filter(|(other, _)| other == name.as_bytes());
    let (_, value) = found.next()?;
    assert!(found.next().is_none(), "{name} is there once");
    Some(String::from_utf8(value.clone()?).unwrap())
}

pub fn kafka_error(kind: Kind, code: &'static str) -> KafkaError {
    KafkaError { kind, code, message: "scripted".into() }
}

pub fn place(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

pub fn committed_at(broker: &MemoryBroker, place: &TopicPartition) -> Option<i64> {
    broker.committed("g", place).map(|committed| committed.offset.0)
}

/// The offsets that were asked for, in the order of the requests.
pub fn commit_history(broker: &MemoryBroker, place: &TopicPartition) -> Vec<i64> {
    let requests = broker.commits("g");
    let entries = requests.iter().flat_map(|request| &request.entries);
    entries.filter(|entry| entry.partition == *place).map(|entry| entry.offset.0).collect()
}

pub fn in0() -> TopicPartition {
    TopicPartition::new("in", 0)
}

pub fn committed(broker: &MemoryBroker) -> Option<i64> {
    broker.committed("g", &in0()).map(|committed| committed.offset.0)
}

pub fn set_committed(broker: &MemoryBroker, offset: i64) {
    broker.set_committed("g", &in0(), CommitOffset(offset), "");
}

/// A flow that runs.
pub struct Running {
    pub broker: MemoryBroker,
    pub keeper: KeeperBoard,
    stop: Stop,
    outcome: Receiver<Outcome>,
}

/// One host for all tests: each component is compiled once.
fn host() -> PluginHost {
    static HOST: OnceLock<PluginHost> = OnceLock::new();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("loom-runtime-cache");
    HOST.get_or_init(|| PluginHost::new(HostOptions { cache_dir: CacheDir::At(folder) }).unwrap()).clone()
}

/// Assembles a flow; what was refused.
pub fn refused(yaml: &str, broker: &MemoryBroker) -> Vec<AssemblyError> {
    refused_with(yaml, broker, Options::default())
}

pub fn refused_with(yaml: &str, broker: &MemoryBroker, options: Options) -> Vec<AssemblyError> {
    let plan = plan(yaml);
    let client = Arc::new(broker.as_broker(consumer_settings(&plan)));
    match assemble(plan, client, &host(), options, &Stop::new()) {
        Ok(_) => panic!("the flow was accepted"),
        Err(errors) => errors,
    }
}

/// Starts a flow on one worker.
pub fn start(yaml: &str, broker: &MemoryBroker) -> Running {
    start_with(yaml, broker, Options::default())
}

pub fn start_with(yaml: &str, broker: &MemoryBroker, options: Options) -> Running {
    let plan = plan(yaml);
    let client = Arc::new(broker.as_broker(consumer_settings(&plan)));
    let stop = Stop::new();
    let assembled = assemble(plan, client, &host(), options, &stop)
        .unwrap_or_else(|errors| panic!("the flow was refused: {errors:?}"));
    let keeper = assembled.keeper_board();
    let (ended, outcome) = channel();
    std::thread::spawn(move || {
        // Nobody waits for it any more where a test has failed.
        let _ = ended.send(assembled.run());
    });
    Running { broker: broker.clone(), keeper, stop, outcome }
}

impl Running {
    /// Waits until the broker looks so.
    pub fn until(&self, what: &str, look: impl FnMut(&View<'_>) -> bool) {
        assert!(self.broker.wait_until(PATIENCE, look), "in {PATIENCE:?} it did not come to: {what}");
    }

    /// Waits until the group's offset is this.
    pub fn until_committed(&self, offset: i64) {
        self.until_committed_at(&in0(), offset);
    }

    pub fn until_committed_at(&self, place: &TopicPartition, offset: i64) {
        self.until(&format!("C={offset} of {place}"), |view| {
            view.committed("g", place).is_some_and(|committed| committed.offset.0 == offset)
        });
    }

    /// Waits until a topic has so many records.
    pub fn until_count(&self, topic: &str, count: usize) {
        self.until(&format!("{count} records in {topic}"), |view| view.count(topic) >= count);
    }

    /// Asks for the graceful stop, and does not wait for it.
    pub fn request_stop(&self) {
        self.stop.request();
    }

    /// Stops gracefully; how it ended. Checks what holds for every run.
    pub fn stop(self) -> Outcome {
        self.stop.request();
        self.outcome("the end of the flow after the request to stop")
    }

    /// Waits until it ends by itself.
    pub fn ended(self) -> Outcome {
        self.outcome("the end of the flow by itself")
    }

    fn outcome(self, what: &str) -> Outcome {
        let outcome = self.outcome.recv_timeout(ENDS_WITHIN);
        let outcome = outcome.unwrap_or_else(|why| {
            let seen = self.broker.view(|view| view.committed("g", &in0()));
            panic!("in {ENDS_WITHIN:?} it did not come to: {what} ({why}); the group has {seen:?} of in/0")
        });
        assert_eq!(outcome.summary.lost_tokens, 0);
        for partition in &outcome.summary.partitions {
            assert!(partition.ledger.balances(), "{}: {:?}", partition.partition, partition.ledger);
        }
        outcome
    }
}

/// Rows by ending, those that occurred.
pub fn endings(outcome: &Outcome) -> BTreeMap<&'static str, u64> {
    let ledger = &outcome.summary.ledger;
    loom_types::Ending::ALL
        .iter()
        .filter(|ending| ledger.ended(**ending) > 0)
        .map(|ending| (ending.name(), ledger.ended(*ending)))
        .collect()
}
