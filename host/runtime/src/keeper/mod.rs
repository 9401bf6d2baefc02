//! All that blocks on a broker while a flow runs: one keeper a process, on a thread of its own.
//!
//! Each beat it keeps the lease; between beats it reads the group's offsets back, now and then looks at the topics again,
//! and answers what workers ask. It decides nothing about records: what it finds goes to the workers by
//! their desks, and what must stop the flow is a failure and a request to stop. It is written as `step(now) -> when next`,
//! so that a simulation drives it as it drives workers.
//!
//! A step asks the broker one thing, and the lease goes first: however many questions wait and however long their answers
//! take, an owner that lives is seen to live; and however long the lease takes, one question is answered after each beat.

mod broken;
mod desk;
mod errands;
mod lease;
mod readback;
mod status;
#[cfg(test)]
mod tests;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use loom_delivery::readback::Stored;
use loom_delivery::{Mutation, RunId, lost_tokens, mutated};
use loom_kafka::{Broker, Member, OutputSettings};
use loom_types::{Moment, PartitionId, TopicId, TopicPartition};

use crate::failure::Failure;
use crate::status::Board;
use crate::stop::{Bell, Stop};
use crate::summary::{Counters, Outcome, Summary};
use crate::worker::Next;

pub(crate) use desk::{Commits, Desk, Gate, Note};
pub(crate) use lease::{LeaseKeeper, describe, look, release_left};
pub(crate) use readback::set_from_outside;
pub use status::{KeeperBoard, KeeperStatus, LeaseStatus};
pub(crate) use topics::another_topic;

use errands::{Errand, Errands};
use lease::Beat;

/// After so many beats the topics are looked at again, inputs and outputs: half a minute by default.
const TOPICS_EVERY: u64 = 6;

/// The shortest and the longest that a broker is waited for.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(5);

/// How long the last words of a stop may take.
pub(crate) const LAST_WORDS: Duration = Duration::from_millis(800);

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

/// See the module's description.
pub(crate) struct Keeper {
    parts: Parts,
    errands: Errands,
    next_beat: Option<Moment>,
    /// The last thing that it did was a beat.
    has_beaten: bool,
    beats: u64,
    partitions_added: u64,
    failures: Vec<Failure>,
}

impl Keeper {
    pub fn new(parts: Parts) -> Self {
        let mut keeper = Keeper {
            parts,
            errands: Errands::default(),
            next_beat: None,
            has_beaten: false,
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

    /// Does one thing that is due; may block on a broker.
    pub fn step(&mut self, now: Moment) -> Next {
        self.take_questions(now);
        let mut due = None;
        if let Some(interval) = self.parts.interval {
            // What the start decided to write is written at once; a watch goes on an interval after the start.
            let at_once = self.parts.lease.is_pending();
            due = Some(*self.next_beat.get_or_insert(if at_once { now } else { now + interval }));
        }
        let beats = due.is_some_and(|due| due <= now);
        // A beat may take as long as there is between two: one errand follows it in any case.
        let errand = if beats && !self.has_beaten { None } else { self.errands.next(now) };
        if let Some(errand) = errand {
            self.has_beaten = false;
            self.run(errand, now);
        } else if let (Some(interval), true) = (self.parts.interval, beats) {
            self.next_beat = Some(now + interval);
            self.has_beaten = true;
            self.beat();
        }
        match self.errands.due().into_iter().chain(self.next_beat).min() {
            Some(at) if at <= now => Next::Now,
            Some(at) => Next::Sleep(at.since(now)),
            // It is rung when somebody asks.
            None => Next::Sleep(Duration::from_secs(3600)),
        }
    }

    /// The workers are over: the lease is released, where it is still held. Where another round of the same run follows, it
    /// holds on to it: what is released late would stand over what that round writes.
    pub fn close(&mut self) -> Outcome {
        if !self.parts.stop.begins_anew() {
            self.parts.lease.release(&*self.parts.broker, LAST_WORDS);
        }
        let counters = Counters { partitions_added: self.partitions_added, ..Counters::default() };
        let summary = Summary { counters, lost_tokens: lost_tokens(), ..Summary::default() };
        Outcome { failures: std::mem::take(&mut self.failures), summary, ..Outcome::default() }
    }

    /// How long the broker may take over the lease.
    fn timeout(&self) -> Duration {
        let interval = self.parts.interval.unwrap_or(LONGEST);
        interval.clamp(SHORTEST, LONGEST)
    }

    /// How long an errand may take: what is left before the next beat, but for the shortest that makes sense.
    fn time_for_errand(&self, now: Moment) -> Duration {
        let left = self.next_beat.map_or(LONGEST, |next| next.since(now));
        left.clamp(SHORTEST, LONGEST)
    }

    fn beat(&mut self) {
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
        if self.parts.lease.is_owner() {
            self.errands.add(Errand::End);
        }
        // While another owner may live, what it commits is its own business; and the start has only just read them.
        if !held && self.beats > 1 {
            self.errands.add(Errand::ReadBack { topics_are_known: false });
        }
        let missing = self.parts.topics.iter().any(|topic| topic.missing_since.is_some());
        let all = self.beats.is_multiple_of(TOPICS_EVERY);
        if all {
            self.parts.broker.look_ahead();
        }
        if missing || all {
            self.errands.add(Errand::Topics);
        }
        if all {
            self.errands.add(Errand::Outputs);
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
