//! Commits while the worker runs: answers are booked, and what is due is sent in one request.

use std::collections::BTreeMap;
use std::time::Duration;

use loom_delivery::readback::{Expected, Guard};
use loom_delivery::{ANSWER_WITHIN, Due, Entry, Mark, Mutation, mutated};
use loom_kafka::{CommitAnswer, CommitEntry, KafkaError, Kind};
use loom_types::{Moment, PartitionId};

use super::{Phase, Worker};
use crate::keeper::{Commits, set_from_outside};

/// After so long without a successful commit, a cause that will not pass stops the flow.
const PATIENCE: Duration = Duration::from_secs(60);

impl Worker {
    pub(super) fn commit_answers(&mut self, now: Moment) {
        let mut answers = Vec::new();
        self.offsets.answers(&mut answers);
        for answer in answers {
            self.commit_answered(now, answer);
        }
        if self.commits.expire(now) {
            self.flow.shared.counters.commit_failures += 1;
            tracing::warn!(seconds = ANSWER_WITHIN.as_secs(), "a commit was not answered; it is sent again");
        }
    }

    fn commit_answered(&mut self, now: Moment, answer: CommitAnswer) {
        self.moved(&answer);
        // By cause: how many partitions, and the first of them.
        let mut causes: BTreeMap<&'static str, (u64, PartitionId, &KafkaError)> = BTreeMap::new();
        for (id, result) in &answer.results {
            let Err(error) = result else { continue };
            if error.kind == Kind::Moved {
                continue;
            }
            causes.entry(error.code).or_insert((0, *id, error)).0 += 1;
        }
        for (code, (partitions, first, error)) in causes {
            self.flow.shared.counters.commit_failures += partitions;
            self.commit_error = Some(error.to_string());
            let Some(failures) = self.failing.count(code, partitions, now) else { continue };
            if error.kind == Kind::GroupInUse {
                // The keeper, which may ask, says who is in the group.
                self.desk.ask_who();
            }
            let name = &self.partitions[first.index()].name;
            tracing::warn!(
                topic = &*name.topic,
                partition = name.partition,
                offset = self.flow.shared.accounts.tracker(first).commit_offset().map(|offset| offset.0),
                partitions,
                failures,
                reason = %error,
                "a commit failed; it is tried again"
            );
        }
        let failed = |id: PartitionId| {
            answer.results.iter().any(|(answered, result)| *answered == id && result.is_err())
        };
        let awaited = self.commits.answered(now, answer.request.0, |id| !failed(id));
        if awaited {
            for (id, _) in answer.results.iter().filter(|(_, result)| result.is_ok()) {
                if let Some(offset) = self.commits.acknowledged(*id) {
                    self.desk.acknowledge(*id, offset);
                }
            }
            if self.commits.failing_since().is_none() && self.failing.over() {
                tracing::info!("commits succeed again");
            }
        }
        // An answer to a request that was given up says nothing of the last one.
        if awaited && let Some(failure) = self.final_answer(now, &answer) {
            self.not_committed(failure);
        }
        let permanent = answer
            .results
            .iter()
            .filter_map(|(_, result)| result.as_ref().err())
            .find(|error| matches!(error.kind, Kind::Authorization | Kind::Authentication | Kind::Fatal));
        if let (Some(error), Some(since)) = (permanent, self.commits.failing_since())
            && self.phase == Phase::Running
            && now.since(since) >= PATIENCE
        {
            self.flow.shared.fail(format!("commits fail for good: {error}; the flow stops"));
        }
    }

    /// Somebody else has set offsets, and the commit did not go over them: the flow stops, and leaves them.
    fn moved(&mut self, answer: &CommitAnswer) {
        let moved = answer.results.iter().filter_map(|(_, result)| result.as_ref().err());
        let moved: Vec<&str> =
            moved.filter(|error| error.kind == Kind::Moved).map(|error| error.message.as_str()).collect();
        if !moved.is_empty() {
            self.gate.moved(moved.len() as u64);
            let why = set_from_outside(&moved);
            tracing::warn!("{why}");
            self.flow.shared.fail(why);
        }
    }

    /// Of how many partitions somebody else set the offset; the first worker says it for all.
    pub(crate) fn moved_by_others(&self) -> u64 {
        if self.flow.shared.worker.0 == 0 { self.gate.how_many_moved() } else { 0 }
    }

    /// Sends what is due; when the next request is.
    pub(super) fn commit(&mut self, now: Moment) -> Option<Moment> {
        if !self.phase.commits_as_it_runs() {
            return None;
        }
        let gate = self.gate.get();
        match self.commits.due(now, &self.flow.shared.accounts, |id| self.may_commit(id, gate)) {
            Due::Wait(until) => until,
            Due::Commit(entries) => {
                self.send_commit(now, entries);
                None
            }
        }
    }

    /// Whether a partition's offset may be committed, as it runs and at its end.
    pub(super) fn may_commit(&self, id: PartitionId, gate: Commits) -> bool {
        let partition = &self.partitions[id.index()];
        match gate {
            Commits::Open => true,
            // A start that was chosen is committed in any case, before anything is read: a crash would choose again.
            Commits::Held => {
                let chosen = partition.commit_first && partition.fresh;
                chosen && self.commits.acknowledged(id).is_none() || mutated(Mutation::HeldIsCommitted)
            }
            Commits::Shut => false,
        }
    }

    pub(super) fn send_commit(&mut self, now: Moment, entries: Vec<Entry>) {
        let run = Some(self.run);
        // Whose lease is watched may live: what it commits is nobody's late word.
        let predecessor = self.predecessor.filter(|_| self.gate.get() != Commits::Held);
        let request: Vec<CommitEntry> = entries
            .iter()
            .map(|Entry { partition, stand }| {
                let known = &mut self.partitions[partition.index()];
                let mark = Mark { topic: known.topic_id, run, replay: stand.replay };
                // During a replay the offset is the floor, and not of what is read now.
                let leader_epoch = match stand.replay {
                    None => known.epochs.at(stand.offset),
                    Some(_) => known.floor_epoch,
                };
                let expected = Expected {
                    initial: known.initial.clone(),
                    predecessor,
                    acknowledged: self.desk.acknowledged(*partition),
                };
                CommitEntry {
                    partition: *partition,
                    offset: stand.offset,
                    metadata: mark.to_string(),
                    leader_epoch,
                    // Who keeps no lease has no rivals.
                    guard: self.guards.then_some(Guard { run: self.run, expected }),
                }
            })
            .collect();
        match self.offsets.commit(&request) {
            Ok(request) => {
                self.flow.shared.counters.commits += 1;
                self.commits.sent(now, request.0, entries);
            }
            Err(error) => {
                self.flow.shared.counters.commit_failures += entries.len() as u64;
                self.commit_error = Some(error.to_string());
                let partitions = entries.len() as u64;
                if let Some(failures) = self.failing.count(error.code, partitions, now) {
                    tracing::warn!(reason = %error, partitions, failures, "a commit could not be sent; it is tried again");
                }
                self.commits.failed(now);
            }
        }
    }
}
