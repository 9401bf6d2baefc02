//! One worker: it owns its partitions, their trackers, its plugin instances, its consumer and its producers.
//!
//! It is written as `step() -> when next`: a step does what can be done now and never blocks. What happens in it, in
//! order: answers and acknowledgements that came, what is due at nodes, one poll cycle, sending, one commit request.
//! A worker goes through its phases in order and never back.

mod broken;
mod commit;
mod epochs;
mod failing;
mod intake;
mod range;
mod stopping;

use std::sync::Arc;
use std::time::Duration;

use loom_delivery::readback::Stored;
use loom_delivery::{CommitSchedule, RunId, Token, lost_tokens};
use loom_kafka::{KafkaError, Kind, OffsetStore, PartitionSource};
use loom_types::{BatchBuilder, CommitOffset, ErrorKind, Moment, TopicId, TopicPartition};

use crate::clock::Clock;
use crate::keeper::{Desk, Gate};
use crate::nodes::{Collect, Flow, NodeId, Op, Shared};
use crate::outputs::News;
use crate::status::{Detail, Seat};
use crate::stop::Stop;
use crate::summary::{Outcome, PartitionSummary, Summary, Unresolved};
use crate::{End, Options};

use broken::Broken;
pub(crate) use epochs::Epochs;
use failing::FailingCommits;
pub(crate) use range::Outside;
pub(crate) use stopping::{Phase, interrupts};

/// When a worker wants its next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Now,
    /// After so long, or when woken.
    Sleep(Duration),
    Never,
}

/// A partition of this worker.
#[derive(Debug)]
pub(crate) struct Partition {
    pub name: TopicPartition,
    /// Something may be there: the last take said so, or there was a wake-up since.
    pub ready: bool,
    /// Its start is to be committed before its first record.
    pub commit_first: bool,
    /// The group had no offset for it: its start was chosen by the reset.
    pub fresh: bool,
    /// It was read to its end and nothing has come since.
    pub at_end: bool,
    /// What its client said last instead of giving records.
    pub trouble: Option<Trouble>,
    /// Its topic's id at the start, where the broker says.
    pub topic_id: Option<TopicId>,
    /// What the group had at the start.
    pub initial: Option<Stored>,
    /// The epochs that its records were read from.
    pub epochs: Epochs,
    /// The epoch that was committed with the floor: no record below that is of a later one, unless the log was cut.
    pub floor_epoch: Option<i32>,
    /// Its position is outside: nothing is read before that is settled.
    pub outside: Outside,
    /// Where its log was cut below the position, until that is settled.
    pub cut_at: Option<CommitOffset>,
    /// The batch at the position, which cannot be read.
    pub broken: Option<Broken>,
    /// When what a client says of it was last logged, by its code: clients repeat themselves, with other numbers each time.
    pub told: Vec<(&'static str, Moment)>,
    /// Its client is sent back to the position no sooner.
    pub back_from: Moment,
}

impl Partition {
    /// One that is read where it was read before, and may have something.
    pub fn new(name: TopicPartition) -> Self {
        Partition {
            name,
            ready: true,
            commit_first: false,
            fresh: false,
            at_end: false,
            topic_id: None,
            initial: None,
            epochs: Epochs::default(),
            floor_epoch: None,
            outside: Outside::No,
            cut_at: None,
            broken: None,
            told: Vec::new(),
            back_from: Moment::START,
            trouble: None,
        }
    }
}

/// What a client says of a partition that it cannot read.
#[derive(Clone, Debug)]
pub(crate) struct Trouble {
    pub text: String,
    /// When it was last said.
    pub last: Moment,
}

/// What bounds one partition, so that one stuck record cannot grow memory: records that are not resolved, and once more as
/// much for what nodes make of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub records: usize,
    pub bytes: u64,
}

/// See the module's description.
pub(crate) struct Worker {
    pub flow: Flow,
    pub source: Box<dyn PartitionSource>,
    pub offsets: Box<dyn OffsetStore>,
    pub commits: CommitSchedule,
    pub partitions: Vec<Partition>,
    pub builder: BatchBuilder,
    pub clock: Box<dyn Clock>,
    pub stop: Stop,
    /// What this worker and the keeper say to each other.
    pub desk: Arc<Desk>,
    /// Whether offsets may be committed.
    pub gate: Arc<Gate>,
    /// Who writes the offsets.
    pub run: RunId,
    /// Who wrote them before, as the lease said.
    pub predecessor: Option<RunId>,
    /// Commits go over nothing that somebody else set.
    pub guards: bool,
    pub end: End,
    pub phase: Phase,
    /// Where the next cycle begins, so that every partition gets its turn.
    pub cursor: usize,
    /// Where the run ends with its input: since when nothing could be read, each partition being at its end or held.
    pub input_ended: Option<Moment>,
    /// What is wrong with an input that ends early.
    pub broken_input: Option<String>,
    /// There was a wake-up since the last poll cycle: whose it was is not known.
    pub woken: bool,
    /// When all partitions were last looked at, wake-up or not.
    pub last_look: Moment,
    /// Where rows waited when the stop began, with how many.
    pub held: Vec<(String, usize)>,
    /// The nodes where rows can be: those of plugins, batches and sinks, and routers.
    pub busy: Vec<NodeId>,
    /// Error messages of clients that were logged, with the moment.
    pub last_client_error: Option<(String, Moment)>,
    /// What the last commit that failed said.
    pub commit_error: Option<String>,
    /// What was said of commits that fail.
    failing: FailingCommits,
    /// Its place at the board.
    pub seat: Option<Seat>,
}

/// What a worker is built from.
pub(crate) struct Parts {
    pub flow: Flow,
    pub source: Box<dyn PartitionSource>,
    pub offsets: Box<dyn OffsetStore>,
    pub commits: CommitSchedule,
    pub partitions: Vec<Partition>,
    pub builder: BatchBuilder,
    pub clock: Box<dyn Clock>,
    pub stop: Stop,
    pub options: Options,
    pub seat: Option<Seat>,
    pub desk: Arc<Desk>,
    pub gate: Arc<Gate>,
    pub predecessor: Option<RunId>,
}

impl Worker {
    pub(crate) fn new(parts: Parts) -> Self {
        let busy = parts.flow.nodes.iter().enumerate();
        let busy = busy.filter(|(_, node)| {
            let op = &node.op;
            matches!(
                op,
                Op::Plugin(_) | Op::Waiting(_) | Op::Collect(_) | Op::Batch(_) | Op::Sink(_) | Op::Join(_)
            )
        });
        let busy = busy.map(|(index, _)| NodeId(index)).collect();
        Worker {
            flow: parts.flow,
            source: parts.source,
            offsets: parts.offsets,
            commits: parts.commits,
            partitions: parts.partitions,
            builder: parts.builder,
            clock: parts.clock,
            stop: parts.stop,
            desk: parts.desk,
            gate: parts.gate,
            run: parts.options.identity.run,
            predecessor: parts.predecessor,
            guards: parts.options.keeps_lease(),
            end: parts.options.end,
            phase: Phase::Running,
            cursor: 0,
            input_ended: None,
            broken_input: None,
            woken: true,
            last_look: Moment::START,
            held: Vec::new(),
            busy,
            last_client_error: None,
            commit_error: None,
            failing: FailingCommits::default(),
            seat: parts.seat,
        }
    }

    /// Does what can be done now. `woken`: something has rung since the last step.
    pub(crate) fn step(&mut self, woken: bool) -> Next {
        self.woken |= woken;
        let now = self.clock.now();
        self.flow.shared.now = now;
        self.flow.shared.accounts.redeem_at(now);
        self.flow.shared.wall_ms = self.clock.wall_ms();
        self.flow.shared.random = self.clock.random();

        self.told();
        self.commit_answers(now);
        self.acknowledgements(now);
        self.client_errors(now);
        self.progress_nodes(now);
        let took = self.advance_phase(now);
        self.flow.send_outputs();
        if self.waits_for_writes() {
            self.flow.outputs.flush();
        }
        self.flow.shared.cache.clear();
        let commit_due = self.commit(now);
        if self.flow.shared.drops.due().is_some_and(|due| due <= now) {
            let over = self.flow.shared.drops.over(now);
            self.flow.shared.tell_left_out(over);
        }
        self.answer_board(now);
        if self.phase == Phase::Closed {
            return Next::Never;
        }
        if took {
            return Next::Now;
        }
        self.sleep(now, commit_due)
    }

    /// Whether something waits until what was sent is written, while nothing comes that would fill the client's batches: a
    /// stop or a new beginning, the end of the input, a partition that is to be empty before it is read on.
    fn waits_for_writes(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. })
            || self.input_ended.is_some() && matches!(self.end, End::AtEndOfInput { .. })
            || self.partitions.iter().any(|partition| matches!(partition.outside, Outside::Cut(_)))
    }

    /// Answers whoever asks how this worker stands.
    fn answer_board(&self, now: Moment) {
        if let Some(seat) = &self.seat
            && let Some(detail) = seat.asked()
        {
            seat.publish(self.part(detail, now));
        }
    }

    /// Books what became of rows that were sent.
    fn acknowledgements(&mut self, now: Moment) {
        let Shared { accounts, random, .. } = &mut self.flow.shared;
        let mut news = News::default();
        self.flow.outputs.acks(now, *random, accounts, &mut news);
        for (token, output) in news.unknown {
            self.unknown(token, &output);
        }
        if !news.refused.is_empty() {
            self.flow.refused(news.refused);
        }
    }

    /// A row that may be written or not. Nothing but reading it again can tell, so the flow begins anew.
    fn unknown(&mut self, token: Token, output: &str) {
        let shared = &mut self.flow.shared;
        // A client that closes gives back what it could not write.
        if self.phase != Phase::Running {
            return token.give_up();
        }
        let name = &self.partitions[token.partition().index()].name;
        let offset = shared.accounts.offset(&token);
        if !shared.accounts.is_tracked() {
            if shared.drops.may_tell(&Arc::from(output), ErrorKind::Delivery, 1, shared.now) {
                tracing::error!(
                    flow = &*shared.plan.name,
                    topic = &*name.topic,
                    partition = name.partition,
                    offset = offset.map(|offset| offset.0),
                    output,
                    kind = ErrorKind::Delivery.name(),
                    "nobody knows whether a record was written; it is not tried again"
                );
            }
            return shared.drop_row(token, ErrorKind::Delivery);
        }
        token.give_up();
        let offset = offset.map_or_else(String::new, |at| format!(" offset {at}"));
        shared.restart(|| {
            format!("{name}{offset}: the client of topic {output} gave the record back without a verdict")
        });
    }

    fn client_errors(&mut self, now: Moment) {
        let mut errors: Vec<KafkaError> = Vec::new();
        self.flow.outputs.client_errors(&mut errors);
        let mut reading: Vec<KafkaError> = Vec::new();
        self.source.client_errors(&mut reading);
        let consumer = &self.flow.shared.plan.consumer;
        let named =
            |error: KafkaError| error.naming_right("Read", &consumer.topics.join("`, `"), &consumer.group_id);
        errors.extend(reading.into_iter().map(named));
        for error in errors {
            if error.kind == Kind::Fatal {
                self.flow.shared.restart(|| format!("a Kafka client cannot go on: {error}"));
                continue;
            }
            if matches!(error.kind, Kind::Authentication | Kind::Authorization) {
                tracing::error!(reason = %error, "a Kafka client cannot go on");
                self.flow.shared.fail(format!("a Kafka client cannot go on: {error}; the flow stops"));
                continue;
            }
            // While brokers are away a client repeats itself.
            let told = self
                .last_client_error
                .as_ref()
                .is_some_and(|(last, at)| *last == error.message && now.since(*at) < Duration::from_secs(10));
            if !told {
                tracing::warn!(reason = %error, "Kafka is not reachable as it should be; waiting");
                self.last_client_error = Some((error.message, now));
            }
        }
    }

    fn progress_nodes(&mut self, now: Moment) {
        for at in 0..self.busy.len() {
            let id = self.busy[at];
            let is_due = || self.flow.next_due(id).is_some_and(|due| due <= now);
            match &self.flow.nodes[id.0].op {
                Op::Plugin(_) if is_due() => self.flow.progress_plugin(id),
                // Answers come unasked.
                Op::Waiting(node) if !node.is_empty() => self.flow.progress_waiting(id),
                Op::Batch(node) if !node.is_empty() => self.flow.progress_batch(id),
                Op::Collect(_) if is_due() => self.flow.progress_collect(id),
                Op::Sink(_) if is_due() => self.flow.progress_sink(id),
                _ => {}
            }
        }
        // What was answered inside a router may have been what others wait for.
        for at in 0..self.busy.len() {
            let id = self.busy[at];
            if matches!(&self.flow.nodes[id.0].op, Op::Join(node) if !node.is_empty()) {
                self.flow.let_out(id);
            }
        }
    }

    fn node_due(&self) -> Option<Moment> {
        self.busy.iter().filter_map(|id| self.flow.next_due(*id)).min()
    }

    fn sleep(&self, now: Moment, commit_due: Option<Moment>) -> Next {
        let poll_again = now + self.flow.shared.plan.consumer.poll_backoff;
        let phase_due = self.phase.due(self.commits.is_in_flight());
        let outputs_due = self.flow.outputs.next_due();
        let told_due = self.flow.shared.drops.due();
        let due = [
            Some(poll_again),
            commit_due,
            self.node_due(),
            outputs_due,
            phase_due,
            self.end_deadline(),
            told_due,
        ];
        let next = due.into_iter().flatten().min().unwrap_or(poll_again);
        let wait = next.since(now);
        if wait.is_zero() { Next::Now } else { Next::Sleep(wait) }
    }

    /// Whether no row is anywhere on its way.
    fn is_quiet(&self) -> bool {
        let nodes = self.busy.iter().all(|id| match &self.flow.nodes[id.0].op {
            Op::Collect(node) => node.is_empty(),
            Op::Sink(node) => node.sink.is_quiet(),
            _ => true,
        });
        nodes && self.is_decided() && self.flow.outputs.is_quiet()
    }

    /// Whether no row waits for a plugin's verdict.
    fn is_decided(&self) -> bool {
        self.busy.iter().all(|id| match &self.flow.nodes[id.0].op {
            Op::Plugin(node) => node.holding().next().is_none(),
            Op::Waiting(node) => node.is_empty(),
            Op::Batch(node) => node.is_empty(),
            Op::Join(node) => node.is_empty(),
            _ => true,
        })
    }

    /// Asks for batches that are not full.
    fn ask_for_batches(&mut self, mut ask: impl FnMut(&mut Collect)) {
        for id in &self.busy {
            if let Op::Collect(node) = &mut self.flow.nodes[id.0].op {
                ask(node);
            }
        }
    }

    fn each_sink(&self) -> Vec<NodeId> {
        let sinks = self.busy.iter().filter(|id| matches!(self.flow.nodes[id.0].op, Op::Sink(_)));
        sinks.copied().collect()
    }

    /// What this worker did; it is over.
    pub(crate) fn outcome(&mut self) -> Outcome {
        if let Some(seat) = &self.seat {
            // Its last numbers are what counting goes on from, where another round follows.
            seat.publish(self.part(Detail::Numbers, self.flow.shared.now));
        }
        let moved = self.moved_by_others();
        let shared = &mut self.flow.shared;
        let left_out = shared.drops.all();
        shared.tell_left_out(left_out);
        let mut counters = std::mem::take(&mut shared.counters);
        counters.set_from_outside = moved;
        for node in &self.flow.nodes {
            if let Op::Sink(node) = &node.op {
                counters.flushes += node.sink.flushes;
                counters.violations += node.sink.violations;
            }
        }
        let partitions = shared.accounts.partitions().map(|(id, tracker)| PartitionSummary {
            partition: self.partitions[id.index()].name.clone(),
            position: tracker.position(),
            committed: self.commits.acknowledged(id),
            outstanding: tracker.ledger().outstanding,
            oldest: tracker.oldest().map(|offset| Unresolved { offset, node: None }),
            ledger: tracker.ledger().clone(),
        });
        let summary = Summary {
            flow: shared.plan.name.clone(),
            ledger: shared.accounts.ledger(),
            partitions: partitions.collect(),
            held: std::mem::take(&mut self.held),
            counters,
            lost_tokens: lost_tokens(),
        };
        Outcome { failures: std::mem::take(&mut shared.failures), restart: shared.restart.take(), summary }
    }
}
