//! What a running flow says of itself: plain data, the same for the admin server's JSON, its metrics, and the commands
//! that read it.
//!
//! Times are lengths, in milliseconds, counted back from the moment of the answer; offsets are Kafka's. Fields are only
//! ever added within one [`VERSION`]; readers ignore what they do not know.

use std::collections::BTreeMap;
use std::fmt;

use loom_types::{Histogram, TopicPartition};
use serde::{Deserialize, Serialize};

use super::ready::long;

/// The version of the document.
pub const VERSION: u32 = 1;

/// A flow in one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// [`VERSION`].
    pub version: u32,
    /// The flow's name.
    pub flow: String,
    /// The consumer group.
    pub group: String,
    /// What it is doing.
    pub phase: RunPhase,
    /// How long ago the process began with it.
    pub uptime_ms: u64,
    /// Rows that were dropped because no route takes their errors.
    #[serde(default)]
    pub dropped: DroppedStatus,
    /// How fast it is; none before it was looked at twice.
    #[serde(default)]
    pub rates: Option<RateStatus>,
    /// Whether it does its work, see `reasons`.
    pub ready: bool,
    /// Why it is not ready.
    pub reasons: Vec<Reason>,
    /// Its workers.
    pub workers: Vec<WorkerInfo>,
    /// Its partitions in this process, by topic and number.
    pub partitions: Vec<PartitionStatus>,
    /// Its nodes, all workers' added up.
    pub nodes: Vec<NodeStatus>,
    /// Its output topics, all workers' added up.
    pub outputs: Vec<OutputStatus>,
    /// Its plugins.
    pub plugins: Vec<PluginStatus>,
    /// What commits do.
    pub commits: CommitStatus,
    /// The last errors of Kafka clients that belong to no record, newest first.
    pub client_errors: Vec<ClientError>,
    /// All partitions' counts.
    pub ledger: LedgerStatus,
    /// How long records took from being read until they were resolved; empty under at most once.
    #[serde(default)]
    pub resolution: HistogramStatus,
    /// Poll cycles that took a record.
    pub cycles: u64,
    /// What people should know, by kind: how the lease stands.
    pub notes: BTreeMap<String, String>,
    /// How often it restarted itself in place.
    pub restarts: u64,
    /// Input topics that were deleted while it runs.
    #[serde(default)]
    pub missing_topics: Vec<String>,
    /// Partitions that were added to input topics while it runs: they are read after a restart.
    #[serde(default)]
    pub added_partitions: Vec<AddedPartition>,
}

/// Records a second, of late.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateStatus {
    /// Over which time.
    pub over_ms: u64,
    /// Records and tombstones read.
    pub read: f64,
    /// Records resolved.
    pub resolved: f64,
}

/// Rows that were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DroppedStatus {
    /// How many, since the process began with the flow.
    pub rows: u64,
    /// The flow's `errors.max_dropped`, as it is written.
    pub bound: Option<String>,
    /// Where there is a bound, how many in its time until now.
    pub lately: Option<u64>,
    /// Whether that is more than the bound.
    pub above: bool,
}

/// What a flow is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPhase {
    /// Plugins are loaded, brokers asked: no record was taken.
    #[default]
    Starting,
    /// Records flow.
    Running,
    /// It was told to stop, or failed: what is in flight is written.
    Stopping,
    /// It is over.
    Stopped,
}

impl fmt::Display for RunPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RunPhase::Starting => "starting",
            RunPhase::Running => "running",
            RunPhase::Stopping => "stopping",
            RunPhase::Stopped => "stopped",
        })
    }
}

/// A partition that was added while the flow runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedPartition {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
}

impl From<&TopicPartition> for AddedPartition {
    fn from(name: &TopicPartition) -> Self {
        AddedPartition { topic: name.topic.to_string(), partition: name.partition }
    }
}

impl fmt::Display for AddedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.partition)
    }
}

/// Why a flow is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// One word: `starting`, `stopping`, `stopped`, `topic`, `partitions`, `stalled`, `commits`, `breaker`, `output`, `broker`, `worker`, `dropped`.
    pub kind: String,
    /// What is wrong, where, since when.
    pub text: String,
}

/// One worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerInfo {
    /// Its number in this process.
    pub worker: u32,
    /// How old its part of this document is, counted from its start where it has said nothing yet; it grows while a call
    /// keeps the worker from answering.
    pub age_ms: u64,
    /// It has ended.
    pub ended: bool,
    /// The call of a plugin that it is in at this moment.
    pub call: Option<Call>,
}

impl WorkerInfo {
    /// What keeps it from answering, for people.
    #[must_use]
    pub fn busy(&self) -> String {
        let Some(call) = &self.call else { return "a step of it takes that long".to_owned() };
        let plugin =
            call.plugin.as_ref().map_or_else(String::new, |plugin| format!(" (plugin {})", plugin.name));
        let node = label(&call.node, call.name.as_deref());
        format!("it has been in a call of {node}{plugin} for {}", long(call.for_ms))
    }
}

/// A node for people: its name with its path, or its path.
#[must_use]
pub fn label(path: &str, name: Option<&str>) -> String {
    name.map_or_else(|| path.to_owned(), |name| format!("{name} ({path})"))
}

/// A call of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The node's path.
    pub node: String,
    /// What the flow calls it.
    #[serde(default)]
    pub name: Option<String>,
    /// The plugin.
    pub plugin: Option<PluginRef>,
    /// How long it has taken so far.
    pub for_ms: u64,
}

/// One partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionStatus {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// The worker that owns it.
    pub worker: u32,
    /// The next offset to read.
    pub position: i64,
    /// The offset that the broker last acknowledged, or had at the start.
    pub committed: Option<i64>,
    /// Nothing below it is committed.
    pub floor: Option<i64>,
    /// The offset after the last record, as far as it is known.
    pub end: Option<i64>,
    /// `end` less `committed`, as Kafka's own tools count; less `position` where nothing is committed.
    pub lag: Option<i64>,
    /// What keeps it from being read, if anything.
    pub intake: Intake,
    /// Records taken and not resolved.
    pub outstanding_records: u64,
    /// Their bytes.
    pub outstanding_bytes: u64,
    /// The record that holds the watermark.
    pub oldest: Option<Oldest>,
    /// There is data and no progress.
    pub stalled: Option<Stalled>,
    /// Its counts.
    pub ledger: LedgerStatus,
}

/// Whether a partition is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intake {
    /// It is read as records come.
    #[default]
    Open,
    /// It was read to its end.
    AtEnd,
    /// Its rows wait somewhere in the flow, and are not overtaken.
    Held,
    /// So much of it is unresolved that no more is taken.
    Bounded,
    /// Its first offset is not committed yet.
    Starting,
    /// The flow stops.
    Closed,
}

impl Intake {
    /// The word, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Intake::Open => "reading",
            Intake::AtEnd => "at end",
            Intake::Held => "held",
            Intake::Bounded => "at bound",
            Intake::Starting => "starting",
            Intake::Closed => "closed",
        }
    }
}

/// The record that holds a partition's watermark.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Oldest {
    /// Its offset.
    pub offset: i64,
    /// How long ago it was read.
    pub age_ms: u64,
    /// Where its unresolved rows are.
    pub places: Vec<Place>,
}

/// Where rows of a record are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// The node's path; of an output, the topic.
    pub node: String,
    /// What the flow calls the node.
    #[serde(default)]
    pub name: Option<String>,
    /// The plugin of the node.
    pub plugin: Option<PluginRef>,
    /// Calls that were made for the row here.
    pub attempt: u32,
    /// How many rows of the record are here.
    pub rows: u64,
    /// Why they are to be tried again: what the plugin or the broker answered last.
    #[serde(default)]
    pub answer: Option<String>,
    /// What would release them.
    pub release: Release,
}

/// A plugin and the digest of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginRef {
    /// Its name in the flow.
    pub name: String,
    /// Its SHA-256, in hexadecimal.
    pub digest: String,
}

/// What a row waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Release {
    /// The node's next attempt.
    Retry {
        /// In so long.
        in_ms: u64,
    },
    /// The verdict on rows of its partition before it, which wait at the node.
    Turn {
        /// When the node goes on with them.
        in_ms: u64,
    },
    /// The breaker's next probe.
    Probe {
        /// In so long.
        in_ms: u64,
    },
    /// The sink completes it.
    Completion {
        /// When the host asks the sink to flush, where that is known.
        flush_in_ms: Option<u64>,
    },
    /// The sink is called again: it asked to wait, or cannot be started.
    Sink {
        /// In so long.
        in_ms: u64,
    },
    /// A free call: as many are under way at the node as it may have.
    Call {
        /// How many.
        under_way: u64,
    },
    /// An answer of a plugin that waits for something outside.
    Answer {
        /// When its time is up.
        in_ms: u64,
    },
    /// More rows of its batch, or the batch's time.
    Batch {
        /// When the batch leaves though it is not full; none where that is not bounded.
        in_ms: Option<u64>,
    },
    /// Room in the client's queue.
    Room,
    /// Something that its output waits for.
    Output {
        /// Such as brokers that know the topic.
        what: String,
    },
    /// The topic's acknowledgement.
    Acknowledgement,
    /// Something that a later version of the document knows.
    #[serde(other)]
    Unknown,
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let soon = |ms: &u64| seconds(*ms);
        match self {
            Release::Retry { in_ms } => write!(f, "its next attempt, {}", soon(in_ms)),
            Release::Turn { in_ms } => {
                write!(f, "the rows of its partition before it; the node goes on with them {}", soon(in_ms))
            }
            Release::Probe { in_ms } => write!(f, "the breaker's next probe, {}", soon(in_ms)),
            Release::Completion { flush_in_ms: Some(in_ms) } => {
                write!(f, "the sink completes it; it is flushed {}", soon(in_ms))
            }
            Release::Completion { flush_in_ms: None } => f.write_str("the sink completes it"),
            Release::Sink { in_ms } => write!(f, "the next call of the sink, {}", soon(in_ms)),
            Release::Call { under_way } => {
                write!(f, "a free call: all {under_way} that the node may have at a time are under way")
            }
            Release::Answer { in_ms } => write!(f, "the plugin's answer; its time is up {}", soon(in_ms)),
            Release::Batch { in_ms: Some(in_ms) } => {
                write!(f, "more rows of its batch, which leaves without them {}", soon(in_ms))
            }
            Release::Batch { in_ms: None } => f.write_str("more rows of its batch"),
            Release::Room => f.write_str("room in the client's queue"),
            Release::Output { what } => f.write_str(what),
            Release::Acknowledgement => f.write_str("the topic's acknowledgement"),
            Release::Unknown => f.write_str("something that only the loom-host that runs the flow can name"),
        }
    }
}

fn seconds(ms: u64) -> String {
    if ms == 0 { "now".to_owned() } else { format!("in {}.{} s", ms / 1000, ms % 1000 / 100) }
}

/// A partition with data and without progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    /// The offset that would be read next.
    pub offset: i64,
    /// Since when.
    pub for_ms: u64,
    /// Why, as far as that is known.
    pub cause: String,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its path in the flow.
    pub node: String,
    /// What the flow calls it.
    #[serde(default)]
    pub name: Option<String>,
    /// What it is: `plugin`, `waiting` (a plugin whose calls overlap), `map`, `condition`, `selector`, `batches` (being
    /// gathered), `router`, `broadcast`, `topic`, `sink`.
    pub kind: String,
    /// Its plugin.
    pub plugin: Option<PluginRef>,
    /// Rows that came to it.
    pub rows: u64,
    /// Rows that failed here, by kind, routed or not.
    pub errors: BTreeMap<String, u64>,
    /// Rows answered `retry`, each time.
    pub retries: u64,
    /// How long calls of its plugin took.
    #[serde(default)]
    pub calls: Option<HistogramStatus>,
    /// Rows that wait here.
    pub waiting: u64,
    /// Its breaker, where it has one.
    pub breaker: Option<BreakerStatus>,
    /// What a sink holds.
    pub sink: Option<SinkStatus>,
    /// What an expander made.
    #[serde(default)]
    pub expander: Option<ExpanderStatus>,
}

/// How often something took how long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HistogramStatus {
    /// By upper bound, ascending: how many took no longer.
    pub buckets: Vec<Bucket>,
    /// How many there were.
    pub count: u64,
    /// How long they took together.
    pub sum_s: f64,
}

/// A part of a histogram.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// Its upper bound.
    pub le_s: f64,
    /// How many took no longer.
    pub count: u64,
}

impl HistogramStatus {
    /// Adds another's counts, by the same bounds.
    pub fn add(&mut self, other: &HistogramStatus) {
        if self.buckets.is_empty() {
            self.buckets.clone_from(&other.buckets);
        } else {
            let pairs = self.buckets.iter_mut().zip(&other.buckets);
            pairs.for_each(|(sum, one)| sum.count += one.count);
        }
        self.count += other.count;
        self.sum_s += other.sum_s;
    }
}

impl From<&Histogram> for HistogramStatus {
    fn from(histogram: &Histogram) -> Self {
        let bucket = |(bound, count): (std::time::Duration, u64)| Bucket { le_s: bound.as_secs_f64(), count };
        HistogramStatus {
            buckets: histogram.buckets().map(bucket).collect(),
            count: histogram.count(),
            sum_s: histogram.sum().as_secs_f64(),
        }
    }
}

/// What an expander made of the rows that came to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpanderStatus {
    /// Rows.
    pub made: u64,
    /// Of these, rows of types without a route of their own, which went to `default`.
    pub defaulted: u64,
}

/// A node's breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerStatus {
    /// Workers on which it is open.
    pub open: u32,
    /// The next probe.
    pub probe_in_ms: Option<u64>,
}

/// A sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkStatus {
    /// Rows that it has and has not completed.
    pub open: u64,
    /// Calls of `flush` that succeeded.
    pub flushes: u64,
    /// Tokens that it spoke of and that were not open.
    pub violations: u64,
    /// It asked to be called again, or cannot be started: when that is.
    pub wait_in_ms: Option<u64>,
}

/// One output topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputStatus {
    /// The topic.
    pub topic: String,
    /// Rows that wait for room in the client's queue.
    pub pending: u64,
    /// Rows sent and not acknowledged.
    pub in_flight: u64,
    /// Rows that the topic acknowledged.
    pub acknowledged: u64,
    /// Rows that were refused for good: by the topic, or because its configuration does not take them.
    pub refused: u64,
    /// Rows that were refused and sent again, each time: because their batch was, or while the topic was not known.
    #[serde(default)]
    pub resent: u64,
    /// Rows whose time lies before all that the topic keeps: a broker acknowledges them, and may delete them at once.
    #[serde(default)]
    pub past_retention: u64,
    /// How long rows have been waiting without a single acknowledgement, from ten seconds on.
    pub waiting_ms: Option<u64>,
}

/// One plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PluginStatus {
    /// Its name in the flow.
    pub name: String,
    /// The file.
    pub file: String,
    /// Its SHA-256, in hexadecimal.
    pub digest: String,
}

/// What commits do, all workers' added up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitStatus {
    /// Requests that were sent.
    pub requests: u64,
    /// Partitions whose commit failed, each time.
    pub failures: u64,
    /// Partitions whose offset somebody else set: the flow stops.
    #[serde(default)]
    pub set_from_outside: u64,
    /// How long commits have failed without a success.
    pub failing_ms: Option<u64>,
    /// What the last failure said.
    pub last_error: Option<String>,
}

/// An error of a Kafka client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientError {
    /// The worker whose client it is; none for the process's own.
    pub worker: Option<u32>,
    /// How long ago it last came.
    pub age_ms: u64,
    /// What it says.
    pub text: String,
}

/// The counts of one partition, or of several added up. Two equations hold: `registered = resolved + outstanding +
/// given_up`, and `minted = ended + consumed + live + given_up_tokens`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedgerStatus {
    /// Records registered.
    pub registered: u64,
    /// Records resolved.
    pub resolved: u64,
    /// Records registered and not resolved.
    pub outstanding: u64,
    /// Tombstones that were skipped.
    pub skipped: u64,
    /// Records that a client gave out a second time, and that were ignored.
    #[serde(default)]
    pub repeated: u64,
    /// Tokens minted.
    pub minted: u64,
    /// Tokens consumed by splits and groups.
    pub consumed: u64,
    /// Tokens in the flow.
    pub live: u64,
    /// Records that were outstanding when the flow began anew in place: they are read again.
    #[serde(default)]
    pub given_up: u64,
    /// Tokens that were live then.
    #[serde(default)]
    pub given_up_tokens: u64,
    /// Rows by how they ended; every ending of the closed list is there.
    pub ended: BTreeMap<String, u64>,
}

impl LedgerStatus {
    /// Records and tombstones that were read.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.registered + self.skipped
    }

    /// Rows that were dropped, whatever the kind of their error.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let kinds = loom_types::ErrorKind::ALL.map(|kind| loom_types::Ending::Dropped(kind).name());
        kinds.iter().filter_map(|name| self.ended.get(*name)).sum()
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &LedgerStatus) {
        self.registered += other.registered;
        self.resolved += other.resolved;
        self.outstanding += other.outstanding;
        self.skipped += other.skipped;
        self.repeated += other.repeated;
        self.minted += other.minted;
        self.consumed += other.consumed;
        self.live += other.live;
        self.given_up += other.given_up;
        self.given_up_tokens += other.given_up_tokens;
        for (ending, rows) in &other.ended {
            *self.ended.entry(ending.clone()).or_default() += rows;
        }
    }
}

impl From<&loom_delivery::Ledger> for LedgerStatus {
    fn from(ledger: &loom_delivery::Ledger) -> Self {
        let endings = loom_types::Ending::ALL.iter();
        LedgerStatus {
            registered: ledger.registered,
            resolved: ledger.resolved,
            outstanding: ledger.outstanding,
            skipped: ledger.skipped,
            repeated: ledger.repeated,
            minted: ledger.minted,
            consumed: ledger.consumed,
            live: ledger.live,
            given_up: 0,
            given_up_tokens: 0,
            ended: endings.map(|ending| (ending.name().to_owned(), ledger.ended(*ending))).collect(),
        }
    }
}
