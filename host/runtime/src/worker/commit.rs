//! Commits while the worker runs: answers are booked, and what is due is sent in one request.

use std::time::Duration;

use loom_delivery::Due;
use loom_kafka::{CommitAnswer, CommitEntry, Kind};
use loom_types::{CommitOffset, Moment, PartitionId};

use super::{Phase, Worker};

/// After so long without a successful commit, a cause that will not pass stops the flow.
const PATIENCE: Duration = Duration::from_secs(60);

impl Worker {
    pub(super) fn commit_answers(&mut self, now: Moment) {
        let mut answers = Vec::new();
        self.offsets.answers(&mut answers);
        for answer in answers {
            self.commit_answered(now, answer);
        }
    }

    fn commit_answered(&mut self, now: Moment, answer: CommitAnswer) {
        for (id, result) in &answer.results {
            let Err(error) = result else { continue };
            let name = &self.partitions[id.index()].name;
            self.flow.shared.counters.commit_failures += 1;
            self.commit_error = Some(error.to_string());
            tracing::warn!(
                topic = &*name.topic,
                partition = name.partition,
                offset = self.flow.shared.accounts.tracker(*id).commit_offset().map(|offset| offset.0),
                reason = %error,
                "a commit failed; it is tried again"
            );
        }
        let failed = |id: PartitionId| {
            answer.results.iter().any(|(answered, result)| *answered == id && result.is_err())
        };
        self.commits.answered(now, |id| !failed(id));
        if let Some(failure) = self.final_answer(now, &answer) {
            self.flow.shared.fail(failure);
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

    /// Sends what is due; when the next request is.
    pub(super) fn commit(&mut self, now: Moment) -> Option<Moment> {
        if !self.flow.shared.accounts.is_tracked() || !self.phase.commits_as_it_runs() {
            return None;
        }
        let partitions = &self.partitions;
        match self.commits.due(now, &self.flow.shared.accounts, |id| partitions[id.index()].is_idle()) {
            Due::Wait(until) => until,
            Due::Commit(entries) => {
                self.send_commit(now, entries);
                None
            }
        }
    }

    pub(super) fn send_commit(&mut self, now: Moment, entries: Vec<(PartitionId, CommitOffset)>) {
        let request: Vec<CommitEntry> = entries
            .iter()
            .map(|(partition, offset)| CommitEntry {
                partition: *partition,
                offset: *offset,
                metadata: String::new(),
                leader_epoch: self.partitions[partition.index()].leader_epoch,
            })
            .collect();
        match self.offsets.commit(&request) {
            Ok(_) => {
                self.flow.shared.counters.commits += 1;
                self.commits.sent(now, entries);
            }
            Err(error) => {
                self.flow.shared.counters.commit_failures += entries.len() as u64;
                self.commit_error = Some(error.to_string());
                tracing::warn!(reason = %error, partitions = entries.len(), "a commit could not be sent; it is tried again");
                self.commits.failed(now);
            }
        }
    }
}

impl super::Partition {
    /// Nothing more is there to read: its last offset need not wait for company.
    fn is_idle(&self) -> bool {
        !self.ready
    }
}
