//! The checked flow, as a value: what to read, what to run, where to write. Free of handles and threads, so it can be
//! printed, compared and drawn.
//!
//! Every name is resolved: a node names its plugin, output and error routes by index. Secrets are wrapped in
//! [`Secret`], which prints as `***`.

pub(crate) mod text;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loom_types::ErrorKind;

use crate::expr::Expr;

/// One checked flow.
#[derive(Clone)]
pub struct Plan {
    /// The flow's name.
    pub name: Arc<str>,
    /// What it reads.
    pub consumer: ConsumerPlan,
    /// Kafka outputs by [`OutputId`]; each logical name that a node uses, once.
    pub outputs: Vec<OutputPlan>,
    /// Plugins by [`PluginId`], those that a node uses.
    pub plugins: Vec<PluginPlan>,
    /// Bounds and times.
    pub runtime: RuntimePlan,
    /// The main process.
    pub process: ProcessPlan,
    /// Error routes by [`RouteId`]: processes of their own.
    pub routes: Vec<RoutePlan>,
    /// What becomes of a failed record that no route takes.
    pub unrouted: Unrouted,
    /// How many rows may be dropped for want of a route; above it the flow is not ready.
    pub max_dropped: Option<Rate>,
    /// The variables that expressions may read as `env.NAME`, resolved.
    pub env: Arc<BTreeMap<String, String>>,
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { name, consumer, outputs, plugins, runtime, process, routes, unrouted, max_dropped, env } =
            self;
        f.debug_struct("Plan")
            .field("name", name)
            .field("consumer", consumer)
            .field("outputs", outputs)
            .field("plugins", plugins)
            .field("runtime", runtime)
            .field("process", process)
            .field("routes", routes)
            .field("unrouted", unrouted)
            .field("max_dropped", max_dropped)
            .field("env", &env.keys())
            .finish()
    }
}

/// Index into [`Plan::outputs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputId(pub usize);

/// Index into [`Plan::plugins`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId(pub usize);

/// Index into [`Plan::routes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteId(pub usize);

/// When offsets are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// After every branch confirmed the record.
    AtLeastOnce,
    /// As soon as a record was read; a crash loses what was committed and not yet processed.
    AtMostOnce,
}

/// Where a group without an offset starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OffsetReset {
    /// At the beginning.
    Earliest,
    /// At the end.
    Latest,
}

/// What to do with a committed offset outside the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfRange {
    /// Warn and go on from the start.
    Reset,
    /// Refuse.
    Fail,
}

/// What to do with a record without payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tombstones {
    /// Skip it; it is never registered.
    Skip,
    /// Pass it on.
    Forward,
}

/// A value that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// How to reach brokers safely. What is unset is not sent to the client.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// `security.protocol`.
    pub protocol: Option<String>,
    /// `sasl.mechanism`.
    pub sasl_mechanism: Option<String>,
    /// `sasl.username`.
    pub sasl_username: Option<String>,
    /// `sasl.password`.
    pub sasl_password: Option<Secret>,
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Security { protocol, sasl_mechanism, sasl_username, sasl_password } = self;
        f.debug_struct("Security")
            .field("protocol", protocol)
            .field("sasl_mechanism", sasl_mechanism)
            .field("sasl_username", &sasl_username.as_ref().map(|_| "***"))
            .field("sasl_password", sasl_password)
            .finish()
    }
}

/// The consumer that the flow reads from.
#[derive(Clone, Debug)]
pub struct ConsumerPlan {
    /// The key under `kafka`: `consumer`, or `consumers.NAME`.
    pub name: String,
    /// Bootstrap addresses.
    pub brokers: Vec<String>,
    /// The group that stores the offsets.
    pub group_id: String,
    /// Topics read, without duplicates.
    pub topics: Vec<Arc<str>>,
    /// The resolved mode.
    pub delivery: Delivery,
    /// For a topic that the group has no offset for.
    pub auto_offset_reset: OffsetReset,
    /// For a committed offset outside the partition.
    pub offset_out_of_range: OutOfRange,
    /// Records without payload.
    pub tombstones: Tombstones,
    /// Records a poll cycle, at most.
    pub batch_size: usize,
    /// The longest sleep after an empty poll.
    pub poll_backoff: Duration,
    /// How old a successful commit may grow.
    pub commit_keepalive: Duration,
    /// Protocol and SASL.
    pub security: Security,
    /// Any other librdkafka key; secrets among the values are not told apart, so values are never printed.
    pub extra: BTreeMap<String, Secret>,
}

/// One logical output.
#[derive(Clone, Debug)]
pub struct OutputPlan {
    /// The name that nodes use.
    pub name: String,
    /// The Kafka topic.
    pub topic: Arc<str>,
    /// The key under `kafka`: `producer`, or `producers.NAME`. Outputs of one producer share a client.
    pub producer: String,
    /// Bootstrap addresses.
    pub brokers: Vec<String>,
    /// Protocol and SASL.
    pub security: Security,
    /// `compression.type`.
    pub compression: Option<String>,
    /// Idempotent unless the flow says otherwise.
    pub idempotence: bool,
    /// Any other librdkafka key.
    pub extra: BTreeMap<String, Secret>,
}

/// One plugin.
#[derive(Clone)]
pub struct PluginPlan {
    /// Its name in the flow.
    pub name: Arc<str>,
    /// The component's file, absolute or relative to the working folder.
    pub component: PathBuf,
    /// The pinned SHA-256, hex, if any.
    pub digest: Option<String>,
    /// Its configuration.
    pub config: serde_json::Value,
    /// Its configuration with every reference as written: what may be printed.
    pub config_written: serde_json::Value,
    /// Bounds.
    pub limits: PluginLimits,
    /// Whether a run of traps holds its nodes.
    pub breaker: bool,
    /// What it may use.
    pub allow: Allow,
}

impl fmt::Debug for PluginPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PluginPlan { name, component, digest, config: _, config_written, limits, breaker, allow } = self;
        f.debug_struct("PluginPlan")
            .field("name", name)
            .field("component", component)
            .field("digest", digest)
            .field("config", config_written)
            .field("limits", limits)
            .field("breaker", breaker)
            .field("allow", allow)
            .finish()
    }
}

/// Bounds of a plugin's calls; none = the host's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PluginLimits {
    /// Bytes of linear memory.
    pub memory: Option<u64>,
    /// Time of a call.
    pub timeout: Option<Duration>,
    /// Time of `configure`, `flush` and `close`.
    pub lifecycle: Option<Duration>,
    /// Bytes that a call may give back.
    pub output: Option<u64>,
    /// Bytes of log a second.
    pub log: Option<u64>,
}

/// What a plugin may use.
#[derive(Clone, Debug, Default)]
pub struct Allow {
    /// Environment variables, with their values.
    pub env: Vec<(String, Secret)>,
    /// Hosts that it may send HTTP requests to.
    pub http: Vec<AllowedHost>,
    /// Folders.
    pub dirs: Vec<AllowedDir>,
}

impl Allow {
    /// Whether the plugin may use the network: its nodes wait then, see [`CallPlan`].
    #[must_use]
    pub fn network(&self) -> bool {
        !self.http.is_empty()
    }
}

/// A host that a plugin may reach, on one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedHost {
    /// A name in lower case, an address (IPv6 without brackets), `*.` and the end of a name, or `*`.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// A folder that a plugin may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedDir {
    /// Where it is.
    pub host: PathBuf,
    /// How the plugin sees it.
    pub guest: String,
    /// Whether the plugin may write.
    pub writable: bool,
}

/// Bounds and times of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimePlan {
    /// How long a start may take.
    pub startup_timeout: Duration,
    /// How long a stop may take.
    pub shutdown_timeout: Duration,
    /// Between commits; zero = every cycle.
    pub commit_interval: Duration,
    /// Between beats of the lease.
    pub lease_interval: Duration,
    /// Unresolved records of the process, at most.
    pub max_outstanding_records: usize,
    /// Bytes of unresolved records of the process, at most.
    pub max_outstanding_bytes: u64,
    /// Bytes that Kafka clients may read ahead, in the process.
    pub prefetch: u64,
}

/// A list of nodes.
#[derive(Clone, Debug, Default)]
pub struct ProcessPlan {
    /// In order. Where the last is no terminal, rows drain after it.
    pub nodes: Vec<NodePlan>,
}

impl ProcessPlan {
    /// Whether rows come through its end and are completed there, since nothing says where they go.
    #[must_use]
    pub fn drains(&self) -> bool {
        self.nodes.last().is_none_or(|last| !last.kind.is_terminal())
    }

    /// Visits every node, and every node of the processes nested in it, wherever a node can stand.
    pub fn visit(&self, each: &mut dyn FnMut(&NodePlan)) {
        for node in &self.nodes {
            each(node);
            node.kind.inner().into_iter().for_each(|process| process.visit(each));
        }
    }
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodePlan {
    /// Its place, such as `process[1].fork.when[0].process[0]`.
    pub path: Arc<str>,
    /// What it is called, where the flow says so; no two nodes have one name.
    pub name: Option<Arc<str>>,
    /// What it does.
    pub kind: NodeKind,
    /// Which route takes each kind of error, by [`ErrorKind::index`]: the nearest one, `errors.default` counted in.
    pub errors: [Option<RouteId>; ErrorKind::ALL.len()],
}

/// What a node does.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// A plugin changes each record.
    Step(CallPlan),
    /// A plugin makes any number of rows of each record.
    Expand(CallPlan),
    /// A plugin makes rows of each record that have types; a router follows.
    Explode(CallPlan),
    /// The expression's value becomes the JSON payload.
    Map(Arc<Expr>),
    /// A plugin changes the records of a batch, one output for each.
    BatchStep(CallPlan),
    /// A plugin makes records of a batch, each of which stands for some of it.
    BatchExpand(CallPlan),
    /// Records that say no are complete.
    Filter(By),
    /// Records are gathered into batches.
    CollectBatch(CollectPlan),
    /// A batch is single records again.
    ForEach,
    /// In place: each record goes through one branch, and all go on behind the node, in the order of their source. A branch
    /// or default without nodes lets its records through as they are.
    Router(Switch),
    /// Terminal: each record goes to one branch.
    Fork(Switch),
    /// Terminal: every record goes to every branch.
    Broadcast(Vec<ProcessPlan>),
    /// Terminal: a plugin makes rows of each record that have types, and each type's rows go to its own process.
    ExpandRoutes {
        /// The call.
        call: CallPlan,
        /// By type, in order of the file; types differ.
        routes: Vec<(String, ProcessPlan)>,
        /// For rows of every other type; none: they are routing errors.
        default: Option<ProcessPlan>,
    },
    /// Terminal: a Kafka topic.
    IntoTopic {
        /// The output.
        output: OutputId,
        /// The new key; none keeps the record's.
        key: Option<By>,
        /// What makes keys for records that have none then.
        partitioner: Option<Partitioner>,
        /// The output for records that this one refuses for good.
        dlq: Option<OutputId>,
        /// Which time the output record carries.
        timestamp: Timestamp,
    },
    /// Terminal: a sink component.
    IntoSink {
        /// The plugin.
        plugin: PluginId,
        /// Instead of the plugin's own limit, for `write`.
        timeout: Option<Duration>,
        /// Writes after the first that a record answered `retry` gets, until it is a delivery error, and calls of `flush`
        /// likewise; none = without limit.
        retries: Option<u32>,
        /// When the host calls `flush`.
        flush: FlushBounds,
    },
    /// Terminal: completes and discards.
    Drain,
}

impl NodeKind {
    /// The processes inside it.
    #[must_use]
    pub fn inner(&self) -> Vec<&ProcessPlan> {
        match self {
            NodeKind::Router(switch) | NodeKind::Fork(switch) => switch.processes().collect(),
            NodeKind::Broadcast(branches) => branches.iter().collect(),
            NodeKind::ExpandRoutes { routes, default, .. } => {
                routes.iter().map(|(_, route)| route).chain(default).collect()
            }
            NodeKind::Step(_)
            | NodeKind::Expand(_)
            | NodeKind::Explode(_)
            | NodeKind::Map(_)
            | NodeKind::BatchStep(_)
            | NodeKind::BatchExpand(_)
            | NodeKind::Filter(_)
            | NodeKind::CollectBatch(_)
            | NodeKind::ForEach
            | NodeKind::IntoTopic { .. }
            | NodeKind::IntoSink { .. }
            | NodeKind::Drain => Vec::new(),
        }
    }

    /// Whether rows end here.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            NodeKind::Step(_)
            | NodeKind::Expand(_)
            | NodeKind::Explode(_)
            | NodeKind::Map(_)
            | NodeKind::BatchStep(_)
            | NodeKind::BatchExpand(_)
            | NodeKind::Filter(_)
            | NodeKind::CollectBatch(_)
            | NodeKind::ForEach
            | NodeKind::Router(_) => false,
            NodeKind::Fork(_)
            | NodeKind::Broadcast(_)
            | NodeKind::ExpandRoutes { .. }
            | NodeKind::IntoTopic { .. }
            | NodeKind::IntoSink { .. }
            | NodeKind::Drain => true,
        }
    }
}

/// How a node calls its plugin. The node *waits* where the plugin may use the network or `concurrency` is given: its calls
/// are made beside the worker, several at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallPlan {
    /// The plugin.
    pub plugin: PluginId,
    /// Instead of the plugin's own limit.
    pub timeout: Option<Duration>,
    /// Calls after the first that a record answered `retry` gets, until it is a delivery error; none = without limit.
    pub retries: Option<u32>,
    /// What a trap in a batch leads to.
    pub on_trap: OnTrap,
    /// Calls at a time; none where the flow does not say.
    pub concurrency: Option<usize>,
    /// Whether records of a partition leave in their order.
    pub ordered: bool,
}

/// When a batch leaves: at the first of these bounds. It has one at least.
#[derive(Clone, Debug)]
pub struct CollectPlan {
    /// Records.
    pub max_records: Option<usize>,
    /// Bytes of payloads, keys and headers; a larger record is a batch alone.
    pub max_bytes: Option<u64>,
    /// After its first record.
    pub timeout: Option<Duration>,
    /// Records with the same key are gathered together; without it, those of one source partition. Their own keys stay.
    pub key: Option<By>,
}

/// What a trap in a batch leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnTrap {
    /// The rows run again one by one, so that only the poison row fails.
    Rerun,
    /// Every row of the batch fails.
    FailBatch,
}

/// Which time an output record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamp {
    /// The source record's.
    Source,
    /// The producer's.
    Now,
}

/// When the host calls a sink's `flush`: at the first bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushBounds {
    /// Unflushed records.
    pub records: usize,
    /// Unflushed bytes.
    pub bytes: u64,
    /// Age of the oldest unflushed record.
    pub interval: Duration,
}

/// By what a condition, a label or a key is found for each record.
#[derive(Clone, Debug)]
pub enum By {
    /// A CEL expression.
    Expr(Arc<Expr>),
    /// A component: a predicate, a selector or a partitioner.
    Plugin(PluginId),
}

/// A component that makes keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitioner {
    /// The plugin.
    pub plugin: PluginId,
    /// Whether it is asked also for records that have a key. Where it has no answer, their key stays.
    pub repartition: bool,
}

/// The branches of a `fork` or a `router`. A record that no branch takes, where there is no default, is a routing error.
#[derive(Clone, Debug)]
pub enum Switch {
    /// The first branch whose predicate holds.
    When {
        /// In order.
        branches: Vec<(By, ProcessPlan)>,
        /// For what no branch takes; a fork has none only under at most once.
        default: Option<ProcessPlan>,
    },
    /// The branch whose label is the selector's answer, as text.
    By {
        /// The selector.
        selector: By,
        /// In order of the file; labels differ.
        branches: Vec<(String, ProcessPlan)>,
        /// For every other answer.
        default: Option<ProcessPlan>,
    },
}

impl Switch {
    /// The processes of its branches, in the order of the file, and of its default.
    pub fn processes(&self) -> impl Iterator<Item = &ProcessPlan> {
        let (when, by, default) = match self {
            Switch::When { branches, default } => (&branches[..], &[][..], default),
            Switch::By { branches, default, .. } => (&[][..], &branches[..], default),
        };
        let when = when.iter().map(|(_, branch)| branch);
        when.chain(by.iter().map(|(_, branch)| branch)).chain(default)
    }
}

/// An error route.
#[derive(Clone, Debug)]
pub struct RoutePlan {
    /// Its place, such as `errors.wire` or `process[0].errors.default`.
    pub path: Arc<str>,
    /// What happens to the envelopes.
    pub process: ProcessPlan,
}

/// What becomes of a failed record that no route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrouted {
    /// Completed, loudly.
    Drop,
    /// The flow stops before the record.
    Stop,
}

/// So many in a time; written as `100/min`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub most: u64,
    /// In which time.
    pub per: Per,
}

/// The time of a [`Rate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Per {
    /// `s`
    Second,
    /// `min`
    Minute,
    /// `h`
    Hour,
}

impl Rate {
    /// What is written so; none if it is no rate.
    #[must_use]
    pub fn parse(text: &str) -> Option<Rate> {
        let (most, per) = text.split_once('/')?;
        let per = match per.trim() {
            "s" => Per::Second,
            "min" => Per::Minute,
            "h" => Per::Hour,
            _ => return None,
        };
        let digits = most.trim();
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let most = digits.parse().ok().filter(|_| plain && digits.len() <= 18)?;
        Some(Rate { most, per })
    }
}

impl Per {
    /// How long it is.
    #[must_use]
    pub fn time(self) -> Duration {
        Duration::from_secs(match self {
            Per::Second => 1,
            Per::Minute => 60,
            Per::Hour => 3600,
        })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let per = match self.per {
            Per::Second => "s",
            Per::Minute => "min",
            Per::Hour => "h",
        };
        write!(f, "{}/{per}", self.most)
    }
}
