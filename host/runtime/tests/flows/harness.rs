//! Runs a flow in this process: YAML in, the memory broker around it, an outcome out.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use loom_flow::{
    ClientKind, CompileOptions, ComponentFacts, Components, Environment, KafkaKeys, KeyRefusal, Mode, Plan, Role,
    SourceFile, compile,
};
use loom_kafka::memory::{MemoryBroker, Record, View, system_clock};
use loom_plugin::{CacheDir, HostOptions, PluginHost, read_facts};
use loom_runtime::{AssemblyError, Options, Outcome, Stop, assemble, consumer_settings};
use loom_types::{CommitOffset, TopicPartition};

/// How long a test waits for what must happen.
pub const PATIENCE: Duration = Duration::from_secs(30);

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

pub fn produce(broker: &MemoryBroker, payloads: &[&str]) {
    for payload in payloads {
        broker.produce("in", 0, Record::value(*payload));
    }
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
    stop: Stop,
    thread: Option<JoinHandle<Outcome>>,
}

fn host() -> PluginHost {
    PluginHost::new(HostOptions { cache_dir: CacheDir::Off }).unwrap()
}

/// Assembles a flow; what was refused.
pub fn refused(yaml: &str, broker: &MemoryBroker) -> Vec<AssemblyError> {
    let plan = plan(yaml);
    let client = Arc::new(broker.as_broker(consumer_settings(&plan)));
    match assemble(plan, client, &host(), Options::default(), &Stop::new()) {
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
    let thread = Some(std::thread::spawn(move || assembled.run()));
    Running { broker: broker.clone(), stop, thread }
}

impl Running {
    /// Waits until the broker looks so.
    pub fn until(&self, what: &str, look: impl FnMut(&View<'_>) -> bool) {
        assert!(self.broker.wait_until(PATIENCE, look), "in {PATIENCE:?} it did not come to: {what}");
    }

    /// Waits until the group's offset is this.
    pub fn until_committed(&self, offset: i64) {
        let place = in0();
        self.until(&format!("C={offset}"), |view| {
            view.committed("g", &place).is_some_and(|committed| committed.offset.0 == offset)
        });
    }

    /// Stops gracefully; how it ended. Checks what holds for every run.
    pub fn stop(mut self) -> Outcome {
        self.stop.request();
        self.join()
    }

    /// Waits until it ends by itself.
    pub fn ended(mut self) -> Outcome {
        self.join()
    }

    fn join(&mut self) -> Outcome {
        let outcome = self.thread.take().unwrap().join().unwrap();
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
