//! One case, played: a broker of its own with the case's records, and the flow on it with the production runtime, one life
//! after the other, until one ends by itself.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use loom_flow::cases::{Case, FaultKind, InputRecord};
use loom_flow::{Plan, Stretch};
use loom_kafka::Broker;
use loom_kafka::memory::{MemoryBroker, Record, partition_of_key, system_clock};
use loom_plugin::PluginHost;
use loom_runtime::{End, Options, Probe, Stop, Summary, assemble, consumer_settings};
use loom_types::TopicPartition;
use tempfile::TempDir;

use super::broker::{StagedBroker, observer};
use super::life::{Life, Scene, Seen};

/// Partitions of an output topic: its records are seen in the order in which they were written.
const OUTPUT_PARTITIONS: i32 = 1;

/// What came of a case.
#[derive(Debug)]
pub struct Played {
    pub seen: Seen,
    /// Of the last life; none where it did not start.
    pub summary: Option<Summary>,
    /// Why the last life did not start, or stopped.
    pub failures: Vec<String>,
    /// By topic and partition.
    pub committed: BTreeMap<(String, i32), i64>,
    /// Where faults stand that never struck.
    pub unstruck: Vec<Stretch>,
}

/// How many partitions each input topic has in a case.
pub fn partitions(case: &Case) -> i32 {
    let named = case.records.iter().filter_map(|record| record.partition.as_ref());
    case.partitions.unwrap_or_else(|| named.map(|partition| partition.value + 1).max().unwrap_or(1))
}

/// The records of a case with topic and partition, in their order: by their key, or in turn, where they do not say.
pub fn placed<'c>(case: &'c Case, plan: &Plan) -> Vec<(&'c InputRecord, String, i32)> {
    let count = partitions(case);
    let mut turns: BTreeMap<String, i32> = BTreeMap::new();
    let place = |record: &'c InputRecord| {
        let topic = record.topic.as_ref().map_or_else(|| first_topic(plan), |topic| topic.value.clone());
        let partition = match (&record.partition, &record.key) {
            (Some(partition), _) => partition.value,
            (None, Some(key)) => partition_of_key(key, count),
            (None, None) => {
                let turn = turns.entry(topic.clone()).or_default();
                let now = *turn % count;
                *turn += 1;
                now
            }
        };
        (record, topic, partition)
    };
    case.records.iter().map(place).collect()
}

/// The topic that records and faults mean where they name none.
pub fn first_topic(plan: &Plan) -> String {
    plan.consumer.topics.first().map(ToString::to_string).unwrap_or_default()
}

/// Plays a case; what it says of the flow is right (see `fits`). Folders that plugins may write to are empty ones of the case
/// alone, so that a case finds nothing of another and leaves nothing behind.
///
/// # Errors
/// Where the system has no room for folders.
pub fn play(case: &Case, plan: &Plan, plugins: &PluginHost, workers: usize) -> io::Result<Played> {
    let mut plan = plan.clone();
    let writable =
        plan.plugins.iter_mut().flat_map(|plugin| &mut plugin.allow.dirs).filter(|dir| dir.writable);
    // Removed at the end of the case.
    let mut folders: BTreeMap<PathBuf, TempDir> = BTreeMap::new();
    for dir in writable {
        // Plugins that share a folder share it here too.
        let own = match folders.entry(dir.host.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(TempDir::new()?),
        };
        dir.host = own.path().to_owned();
    }
    let plan = &Arc::new(plan);
    let broker = broker(case, plan);
    let topic_of = |output: &str| {
        let found = plan.outputs.iter().find(|other| other.name == output);
        found.map_or_else(|| output.to_owned(), |output| output.topic.to_string())
    };
    let scene = Scene::new(case, &first_topic(plan), &topic_of);
    let kills = case.faults.iter().filter(|fault| matches!(fault.what, FaultKind::Kill(_))).count();
    let mut last = (None, Vec::new());
    for number in 0..=kills {
        let stop = Stop::new();
        let life = Life::new(&scene, number, &stop);
        last = live(case, plan, plugins, workers, &broker, &life, &stop);
        if !life.is_killed() {
            break;
        }
    }
    let (summary, failures) = last;
    let mut committed = BTreeMap::new();
    for topic in &plan.consumer.topics {
        for partition in 0..partitions(case) {
            let place = TopicPartition::new(topic.clone(), partition);
            if let Some(found) = broker.committed(&plan.consumer.group_id, &place) {
                committed.insert((topic.to_string(), partition), found.offset.0);
            }
        }
    }
    Ok(Played { seen: scene.seen().once(), summary, failures, committed, unstruck: scene.unstruck() })
}

fn live(
    case: &Case,
    plan: &Arc<Plan>,
    plugins: &PluginHost,
    workers: usize,
    broker: &MemoryBroker,
    life: &Arc<Life>,
    stop: &Stop,
) -> (Option<Summary>, Vec<String>) {
    for topic in outputs(plan) {
        broker.observe_topic(topic, OUTPUT_PARTITIONS, observer(life.clone()));
    }
    let client = StagedBroker::new(broker.as_broker(consumer_settings(plan)), life.clone());
    let client: Arc<dyn Broker> = Arc::new(client);
    let options = Options {
        workers,
        end: End::AtEndOfInput { timeout: case.timeout },
        probe: Some(Probe::new(life.clone())),
        ..Options::default()
    };
    match assemble(plan.clone(), client, plugins, options, stop) {
        Err(errors) => (None, errors.iter().map(ToString::to_string).collect()),
        Ok(assembled) => {
            let outcome = assembled.run();
            let failures = outcome.failures.iter().map(|failure| failure.message.clone()).collect();
            (Some(outcome.summary), failures)
        }
    }
}

fn outputs(plan: &Plan) -> BTreeSet<&str> {
    plan.outputs.iter().map(|output| &*output.topic).collect()
}

/// A broker that has the flow's topics, and in them the case's records.
fn broker(case: &Case, plan: &Plan) -> MemoryBroker {
    let broker = MemoryBroker::new(system_clock());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    broker.started_at_ms(now_ms);
    broker.keep_commits(false);
    let inputs: BTreeSet<&str> = plan.consumer.topics.iter().map(|topic| &**topic).collect();
    inputs.iter().for_each(|topic| broker.create_topic(topic, partitions(case)));
    for topic in outputs(plan).difference(&inputs) {
        broker.create_topic(topic, OUTPUT_PARTITIONS);
    }
    for (record, topic, partition) in placed(case, plan) {
        let record = Record {
            key: record.key.clone(),
            payload: record.payload.clone(),
            headers: record.headers.clone(),
            timestamp_ms: Some(record.timestamp_ms.unwrap_or(now_ms)),
        };
        broker.produce(&topic, partition, record);
    }
    broker
}
