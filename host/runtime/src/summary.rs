//! What a run did, in numbers: for the log's last line, for `dev`, and for tests.

use std::collections::BTreeMap;
use std::sync::Arc;

use loom_delivery::Ledger;
use loom_types::{CommitOffset, Ending, ErrorKind, RecordOffset, TopicPartition};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// Counts of one worker, or of several added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Rows that failed, and that no route took.
    pub dropped: u64,
    /// Poll cycles that took a record.
    pub cycles: u64,
    /// Rows that were answered `retry`, each time.
    pub retries: u64,
    /// Commit requests that were sent.
    pub commits: u64,
    /// Partitions whose commit failed, each time.
    pub commit_failures: u64,
    /// Partitions whose offset somebody else set while the flow ran.
    pub set_from_outside: u64,
    /// Partitions of the inputs that were added while the flow ran; a restart reads them.
    pub partitions_added: u64,
    /// Successful calls of sinks' `flush`.
    pub flushes: u64,
    /// Sinks that spoke of tokens which were not open, each time.
    pub violations: u64,
    /// How often the flow began anew in place.
    pub restarts: u64,
    /// Failed rows by node and kind, routed or not.
    pub errors: BTreeMap<(Arc<str>, ErrorKind), u64>,
}

impl Counters {
    pub(crate) fn failed(&mut self, node: &Arc<str>, kind: ErrorKind, rows: u64) {
        *self.errors.entry((node.clone(), kind)).or_default() += rows;
    }

    pub(crate) fn add(&mut self, other: &Counters) {
        self.dropped += other.dropped;
        self.cycles += other.cycles;
        self.retries += other.retries;
        self.commits += other.commits;
        self.commit_failures += other.commit_failures;
        self.set_from_outside += other.set_from_outside;
        self.partitions_added += other.partitions_added;
        self.flushes += other.flushes;
        self.violations += other.violations;
        self.restarts += other.restarts;
        for ((node, kind), rows) in &other.errors {
            self.failed(node, *kind, *rows);
        }
    }
}

/// A record that holds its partition's watermark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unresolved {
    /// Its offset.
    pub offset: RecordOffset,
    /// Where it is, as far as that is known.
    pub node: Option<String>,
}

/// One partition at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionSummary {
    /// Which.
    pub partition: TopicPartition,
    /// The next offset to read.
    pub position: CommitOffset,
    /// The offset that the broker last acknowledged.
    pub committed: Option<CommitOffset>,
    /// Records that are not resolved.
    pub outstanding: u64,
    /// The oldest of them.
    pub oldest: Option<Unresolved>,
    /// Its counts.
    pub ledger: Ledger,
}

/// A whole run.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// The flow's name.
    pub flow: Arc<str>,
    /// All partitions' counts.
    pub ledger: Ledger,
    /// By topic and partition.
    pub partitions: Vec<PartitionSummary>,
    /// Where rows waited when the stop began, with how many: nodes that were held, sinks, outputs.
    pub held: Vec<(String, usize)>,
    /// All workers' counts.
    pub counters: Counters,
    /// Tokens dropped without a verdict: always 0, or a bug.
    pub lost_tokens: u64,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Why it ended before it was asked to, or not cleanly; empty when all went well.
    pub failures: Vec<Failure>,
    /// Why it is to begin anew from the committed offsets; none once it has.
    pub restart: Option<String>,
    /// What it did.
    pub summary: Summary,
}

impl Outcome {
    /// The exit status: 0, or the lowest of the failures'.
    #[must_use]
    pub fn status(&self) -> u8 {
        self.failures.iter().map(|failure| failure.status.code()).min().unwrap_or(0)
    }

    pub(crate) fn merge(&mut self, other: Outcome) {
        let new = other.failures.into_iter().filter(|failure| !self.failures.contains(failure));
        let new: Vec<Failure> = new.collect();
        self.failures.extend(new);
        self.restart = self.restart.take().or(other.restart);
        self.summary.ledger.add(&other.summary.ledger);
        self.summary.counters.add(&other.summary.counters);
        self.summary.held.extend(other.summary.held);
        self.summary.partitions.extend(other.summary.partitions);
        self.summary.partitions.sort_by(|one, two| one.partition.cmp(&two.partition));
        self.summary.lost_tokens = other.summary.lost_tokens;
    }
}

impl Summary {
    /// Of a flow that did not start: it did nothing.
    #[must_use]
    pub fn not_started(flow: Arc<str>) -> Self {
        Summary { flow, ..Summary::default() }
    }

    /// `{"topic": {"0": {"position", "committed", "outstanding"}}}`.
    #[must_use]
    pub fn offsets(&self) -> Value {
        let mut topics: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
        for partition in &self.partitions {
            let entry = json!({
                "position": partition.position.0,
                "committed": partition.committed.map(|offset| offset.0),
                "outstanding": partition.outstanding,
            });
            let name = &partition.partition;
            topics.entry(&name.topic).or_default().insert(name.partition.to_string(), entry);
        }
        json!(topics)
    }

    /// The counts of all partitions; endings that did not occur are left out.
    #[must_use]
    pub fn ledger(&self) -> Value {
        let ended: Map<String, Value> = Ending::ALL
            .iter()
            .filter(|ending| self.ledger.ended(**ending) > 0)
            .map(|ending| (ending.name().to_owned(), json!(self.ledger.ended(*ending))))
            .collect();
        json!({
            "registered": self.ledger.registered,
            "resolved": self.ledger.resolved,
            "outstanding": self.ledger.outstanding,
            "skipped": self.ledger.skipped,
            "repeated": self.ledger.repeated,
            "minted": self.ledger.minted,
            "consumed": self.ledger.consumed,
            "live": self.ledger.live,
            "ended": ended,
            "balances": self.partitions.iter().all(|partition| partition.ledger.balances()),
        })
    }

    /// The last line of `dev`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "offsets": self.offsets(), "ledger": self.ledger() })
    }

    /// The log's last line, `stopped`: counters flat, offsets, ledger and errors as JSON texts.
    pub fn log(&self) {
        let errors: Vec<Value> = self
            .counters
            .errors
            .iter()
            .map(|((node, kind), rows)| json!({ "node": **node, "kind": kind.name(), "rows": rows }))
            .collect();
        tracing::info!(
            dropped = self.counters.dropped,
            flow = &*self.flow,
            consumed = self.ledger.registered + self.ledger.skipped,
            cycles = self.counters.cycles,
            retries = self.counters.retries,
            commits = self.counters.commits,
            commit_failures = self.counters.commit_failures,
            set_from_outside = self.counters.set_from_outside,
            partitions_added = self.counters.partitions_added,
            flushes = self.counters.flushes,
            violations = self.counters.violations,
            restarts = self.counters.restarts,
            lost_tokens = self.lost_tokens,
            held = %json!(self.held),
            errors = %json!(errors),
            offsets = %self.offsets(),
            ledger = %self.ledger(),
            "stopped"
        );
    }
}
