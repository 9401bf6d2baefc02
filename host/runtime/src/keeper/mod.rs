//! All that blocks on a broker while a flow runs: one keeper a process, on a thread of its own.
//!
//! Each beat it keeps the lease, reads the group's offsets back, and now and then looks at the topics again;
//! between beats it answers what workers ask. It decides nothing about records: what it finds goes to the workers by
//! their desks, and what must stop the flow is a failure and a request to stop. It is written as `step(now) -> when next`,
//! so that a simulation drives it as it drives workers.

mod desk;
mod lease;
mod readback;
mod status;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use loom_delivery::readback::Stored;
use loom_delivery::{Mutation, RunId, lost_tokens, mutated};
use loom_kafka::{Broker, KafkaError, Kind, Member, OutputSettings};
use loom_types::{Moment, PartitionId, TopicId, TopicPartition};

use crate::failure::Failure;
use crate::status::Board;
use crate::stop::{Bell, Stop};
use crate::summary::{Counters, Outcome, Summary};
use crate::worker::Next;

pub(crate) use desk::{Commits, Desk, Gate, Note};
pub(crate) use lease::{LeaseKeeper, describe, look};
pub use status::{KeeperBoard, KeeperStatus, LeaseStatus};
pub(crate) use topics::another_topic;

use lease::Beat;

/// After so many beats the topics are looked at again, inputs and outputs: half a minute by default.
const TOPICS_EVERY: u64 = 6;

/// After a question that could not be answered.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// How long the last words of a stop may take.
const LAST_WORDS: Duration = Duration::from_millis(800);

/// A partition of the process.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub worker: usize,
    pub id: PartitionId,
    pub name: TopicPartition,
    /// What the group had at the start.
    pub initial: Option<Stored>,
}

/// An input topic.
#[derive(Clone, Debug)]
pub(crate) struct KeptTopic {
    pub name: Arc<str>,
    /// Its id at the start.
    pub id: Option<TopicId>,
    /// Its partitions, as far as they were told of.
    pub partitions: i32,
    /// Since when brokers do not know it.
    pub missing_since: Option<Moment>,
}

/// What a keeper is built from.
pub(crate) struct Parts {
    pub broker: Arc<dyn Broker>,
    /// The flow's group.
    pub group: String,
    pub run: RunId,
    pub lease: LeaseKeeper,
    /// The run that owned the group before this one.
    pub predecessor: Option<RunId>,
    /// Between beats; none = it only answers workers.
    pub interval: Option<Duration>,
    /// Whether offsets are committed by us, and so read back.
    pub tracked: bool,
    pub partitions: Vec<Kept>,
    pub topics: Vec<KeptTopic>,
    /// The plan's outputs, to be asked about through the clients that asked before the start.
    pub outputs: Vec<OutputSettings>,
    pub desks: Vec<Arc<Desk>>,
    pub gate: Arc<Gate>,
    pub stop: Stop,
    pub bell: Arc<Bell>,
    pub board: KeeperBoard,
    /// Where the whole run is looked at.
    pub notes: Option<Board>,
}

struct Question {
    worker: usize,
    partition: PartitionId,
    not_before: Moment,
}

/// See the module's description.
pub(crate) struct Keeper {
    parts: Parts,
    questions: Vec<Question>,
    next_beat: Option<Moment>,
    beats: u64,
    partitions_added: u64,
    failures: Vec<Failure>,
}

impl Keeper {
    pub fn new(parts: Parts) -> Self {
        let mut keeper = Keeper {
            parts,
            questions: Vec::new(),
            next_beat: None,
            beats: 0,
            partitions_added: 0,
            failures: Vec::new(),
        };
        // What was told of an earlier round is no longer so.
        keeper.parts.board.write(|status| status.added.clear());
        keeper.tell_topics();
        keeper.publish(false);
        keeper
    }

    /// The bell that it is to be woken by.
    pub fn bell(&self) -> Arc<Bell> {
        self.parts.bell.clone()
    }

    /// Does what is due; may block on a broker.
    pub fn step(&mut self, now: Moment) -> Next {
        for (worker, desk) in self.parts.desks.iter().enumerate() {
            let asked = desk.asked().into_iter();
            self.questions.extend(asked.map(|partition| Question { worker, partition, not_before: now }));
        }
        let (due, later) = std::mem::take(&mut self.questions).into_iter().partition(|q| q.not_before <= now);
        self.questions = later;
        for question in due {
            self.answer(question, now);
        }
        self.answer_about_outputs();
        // All of them are asked, so that one line answers all.
        if self.parts.desks.iter().filter(|desk| desk.asked_who()).count() > 0 {
            self.tell_who();
        }
        if let Some(interval) = self.parts.interval {
            // What the start decided to write is written at once; a watch goes on an interval after the start.
            let at_once = self.parts.lease.is_pending();
            let due = *self.next_beat.get_or_insert(if at_once { now } else { now + interval });
            if due <= now {
                self.next_beat = Some(now + interval);
                self.beat(now);
            }
        }
        let questions = self.questions.iter().map(|question| question.not_before);
        match questions.chain(self.next_beat).min() {
            Some(at) if at <= now => Next::Now,
            Some(at) => Next::Sleep(at.since(now)),
            // It is rung when somebody asks.
            None => Next::Sleep(Duration::from_secs(3600)),
        }
    }

    /// The workers are over: the lease is released, where it is still held.
    pub fn close(&mut self) -> Outcome {
        self.parts.lease.release(&*self.parts.broker, LAST_WORDS);
        let counters = Counters { partitions_added: self.partitions_added, ..Counters::default() };
        let summary = Summary { counters, lost_tokens: lost_tokens(), ..Summary::default() };
        Outcome { failures: std::mem::take(&mut self.failures), summary, ..Outcome::default() }
    }

    fn timeout(&self) -> Duration {
        let interval = self.parts.interval.unwrap_or(Duration::from_secs(5));
        interval.clamp(Duration::from_secs(1), Duration::from_secs(5))
    }

    fn beat(&mut self, now: Moment) {
        if self.parts.gate.get() == Commits::Shut {
            return;
        }
        self.beats += 1;
        let beat = self.parts.lease.beat(&*self.parts.broker, self.timeout());
        let failed = matches!(beat, Beat::Failed);
        if let Beat::Stop(failure) = beat {
            if mutated(Mutation::OtherHostIsIgnored) {
                return;
            }
            return self.end(failure);
        }
        let held = self.parts.lease.holds_commits();
        self.parts.gate.set(if held { Commits::Held } else { Commits::Open });
        if let Some((holder, why)) = self.parts.lease.taken() {
            tracing::warn!(holder = describe(&holder), reason = why, "another host's partitions are taken");
        }
        self.publish(failed);
        // While another owner may live, what it commits is its own business; and the start has only just read them.
        if self.parts.tracked && !held && self.beats > 1 {
            self.read_back(now);
        }
        let missing = self.parts.topics.iter().any(|topic| topic.missing_since.is_some());
        let all = self.beats.is_multiple_of(TOPICS_EVERY);
        if all {
            self.parts.broker.look_ahead();
        }
        if (missing || all) && self.parts.gate.get() != Commits::Shut {
            self.look_at_topics(now);
        }
        if all && self.parts.gate.get() != Commits::Shut {
            self.look_at_outputs();
        }
    }

    fn publish(&mut self, failed: bool) {
        let lease = match (self.parts.lease.watched(), self.parts.lease.is_owner()) {
            (Some(holder), _) => LeaseStatus::Watching { holder: describe(holder) },
            (None, true) if self.parts.interval.is_some() => LeaseStatus::Owner,
            _ => LeaseStatus::Off,
        };
        match &lease {
            LeaseStatus::Watching { holder } => {
                self.note("lease", format!("another host is watched before offsets are committed: {holder}"));
            }
            LeaseStatus::Owner => self.note("lease", format!("owned by this host, run {}", self.parts.run)),
            LeaseStatus::Off | LeaseStatus::Lost => self.note("lease", "not kept".to_owned()),
        }
        let beats = self.beats;
        self.parts.board.write(|status| {
            status.lease = lease;
            status.beats = beats;
            status.failed_beats = if failed { status.failed_beats + 1 } else { 0 };
        });
    }

    fn note(&self, kind: &str, text: String) {
        if let Some(board) = &self.parts.notes {
            board.note(kind, text);
        }
    }

    /// The flow stops, and what somebody else may have written is not overwritten.
    fn end(&mut self, failure: Failure) {
        self.parts.gate.set(Commits::Shut);
        self.parts.board.write(|status| status.lease = LeaseStatus::Lost);
        self.note("lease", failure.message.clone());
        self.failures.push(failure);
        self.parts.stop.request();
    }

    fn answer(&mut self, question: Question, now: Moment) {
        let Question { worker, partition, .. } = question;
        let kept = self.parts.partitions.iter().find(|kept| kept.worker == worker && kept.id == partition);
        let Some(kept) = kept else { return };
        match self.place(kept) {
            Ok(note) => self.parts.desks[worker].tell(note),
            Err(error) => {
                tracing::warn!(
                    topic = &*kept.name.topic,
                    partition = kept.name.partition,
                    reason = %error,
                    "the position is outside the partition, and the broker does not say where it begins; asking again"
                );
                self.questions.push(Question { not_before: now + ASK_AGAIN, ..question });
            }
        }
    }

    fn answer_about_outputs(&self) {
        for desk in &self.parts.desks {
            for output in desk.asked_about() {
                let settings = std::slice::from_ref(&self.parts.outputs[output.0]);
                let answer = self.parts.broker.output_topics(settings, self.timeout());
                let answer = answer.and_then(|mut infos| infos.pop().unwrap_or_else(|| Err(no_answer())));
                desk.tell_about(output, answer);
            }
        }
    }

    /// Says who is in the group, and keeps the flow from committing.
    fn tell_who(&self) {
        match self.parts.broker.members(self.timeout()) {
            Ok(members) if members.is_empty() => {}
            Ok(members) => {
                tracing::warn!(
                    "{}; what is not committed is delivered again",
                    occupied(&self.parts.group, &members)
                );
            }
            Err(error) => tracing::debug!(reason = %error, "the broker does not say who is in the group"),
        }
    }

    fn place(&self, kept: &Kept) -> Result<Note, KafkaError> {
        let (broker, timeout) = (&*self.parts.broker, self.timeout());
        let topic = broker.topics(&[&*kept.name.topic], timeout)?.pop().transpose()?.and_then(|info| info.id);
        let bounds = broker.bounds(&kept.name, timeout)?;
        Ok(Note::Bounds { partition: kept.id, bounds, topic })
    }
}

/// What is said of a group that somebody else's consumers are in.
pub(crate) fn occupied(group: &str, members: &[Member]) -> String {
    let names: Vec<String> =
        members.iter().map(|member| format!("{} at {}", member.client_id, member.host)).collect();
    format!(
        "group {group} has live members: {}; the flow's group only stores offsets, and Kafka refuses its commits while \
         others are in it. Stop them, or give the flow a `group_id` of its own",
        names.join(", ")
    )
}

fn no_answer() -> KafkaError {
    let message = "asking about an output topic brought no answer".to_owned();
    KafkaError { kind: Kind::Transient, code: "_NOENT", message }
}
