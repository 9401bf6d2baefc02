//! When to commit what: all dirty partitions in one request, at most one request in flight, at most one an interval.
//!
//! A partition is dirty while its commit offset is not the one that the broker last acknowledged. So a commit that
//! failed, as a whole or for one partition, is simply due again; it needs no new record.

use std::time::Duration;

use loom_types::{CommitOffset, Moment, PartitionId};

use crate::accounts::Accounts;

/// After a failed commit the next one waits at least this long, however short the interval.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before this moment; none = nothing until something changes.
    Wait(Option<Moment>),
    /// Send these in one request.
    Commit(Vec<(PartitionId, CommitOffset)>),
}

/// The commits of one worker's partitions.
#[derive(Debug)]
pub struct CommitSchedule {
    interval: Duration,
    /// What the broker last acknowledged, by partition.
    acknowledged: Vec<Option<CommitOffset>>,
    in_flight: Option<Vec<(PartitionId, CommitOffset)>>,
    not_before: Moment,
    last_sent: Option<Moment>,
    failing_since: Option<Moment>,
}

impl CommitSchedule {
    /// With at most one request an `interval`; zero = every cycle.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        CommitSchedule {
            interval,
            acknowledged: Vec::new(),
            in_flight: None,
            not_before: Moment::START,
            last_sent: None,
            failing_since: None,
        }
    }

    /// Adds the next partition (numbers are dense), with the offset that the group has for it.
    pub fn add_partition(&mut self, committed: Option<CommitOffset>) {
        self.acknowledged.push(committed);
    }

    /// What to do now. `idle` says whether a partition has nothing outstanding and nothing more to read: it is not
    /// delayed further.
    pub fn due(&self, now: Moment, accounts: &Accounts, idle: impl Fn(PartitionId) -> bool) -> Due {
        if self.in_flight.is_some() {
            return Due::Wait(None);
        }
        let mut dirty = Vec::new();
        let mut any_idle = false;
        for (partition, tracker) in accounts.partitions() {
            if let Some(offset) = tracker.commit_offset()
                && self.acknowledged[partition.index()] != Some(offset)
            {
                any_idle |= idle(partition);
                dirty.push((partition, offset));
            }
        }
        if dirty.is_empty() {
            return Due::Wait(None);
        }
        let interval_over = self.last_sent.map_or(Moment::START, |sent| sent + self.interval);
        let earliest = if any_idle { self.not_before } else { self.not_before.max(interval_over) };
        if now < earliest { Due::Wait(Some(earliest)) } else { Due::Commit(dirty) }
    }

    /// The offsets of a last commit, changed or not.
    #[must_use]
    pub fn last(&self, accounts: &Accounts) -> Vec<(PartitionId, CommitOffset)> {
        accounts.partitions().filter_map(|(id, tracker)| Some((id, tracker.commit_offset()?))).collect()
    }

    /// A request was sent.
    pub fn sent(&mut self, now: Moment, entries: Vec<(PartitionId, CommitOffset)>) {
        self.last_sent = Some(now);
        self.in_flight = Some(entries);
    }

    /// A request could not be sent, or nobody answered it: its partitions stay dirty.
    pub fn failed(&mut self, now: Moment) {
        self.in_flight = None;
        self.last_sent = Some(now);
        self.not_before = now + RETRY_AFTER.max(self.interval);
        self.failing_since.get_or_insert(now);
    }

    /// The request in flight was answered, with success or not by partition.
    pub fn answered(&mut self, now: Moment, result: impl Fn(PartitionId) -> bool) {
        let Some(entries) = self.in_flight.take() else { return };
        let mut all = true;
        for (partition, offset) in entries {
            if result(partition) {
                self.acknowledged[partition.index()] = Some(offset);
            } else {
                all = false;
            }
        }
        if all {
            self.failing_since = None;
        } else {
            self.failed(now);
        }
    }

    /// Whether a request waits for its answer.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The offset that the broker last acknowledged.
    #[must_use]
    pub fn acknowledged(&self, partition: PartitionId) -> Option<CommitOffset> {
        self.acknowledged[partition.index()]
    }

    /// Since when commits have failed without a success.
    #[must_use]
    pub fn failing_since(&self) -> Option<Moment> {
        self.failing_since
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loom_types::{CommitOffset, Ending, Moment, PartitionId, RecordOffset};

    use super::{CommitSchedule, Due};
    use crate::accounts::Accounts;

    const P: PartitionId = PartitionId(0);

    fn at(ms: u64) -> Moment {
        Moment(Duration::from_millis(ms))
    }

    fn one_partition(interval_ms: u64) -> (Accounts, CommitSchedule) {
        let mut accounts = Accounts::tracked();
        accounts.add_partition(CommitOffset(0), Some(CommitOffset(0)));
        let mut commits = CommitSchedule::new(Duration::from_millis(interval_ms));
        commits.add_partition(Some(CommitOffset(0)));
        (accounts, commits)
    }

    fn complete(accounts: &mut Accounts, offset: i64) {
        let token = accounts.register(P, RecordOffset(offset), 1);
        accounts.redeem(token, Ending::Topic);
    }

    #[test]
    fn five_hundred_completions_make_one_commit_and_none_after_it() {
        let (mut accounts, mut commits) = one_partition(0);
        for offset in 0..500 {
            complete(&mut accounts, offset);
        }
        let due = commits.due(at(1), &accounts, |_| true);
        assert_eq!(due, Due::Commit(vec![(P, CommitOffset(500))]));
        commits.sent(at(1), vec![(P, CommitOffset(500))]);
        assert_eq!(commits.due(at(2), &accounts, |_| true), Due::Wait(None), "one in flight");
        commits.answered(at(3), |_| true);
        assert_eq!(commits.due(at(4), &accounts, |_| true), Due::Wait(None));
    }

    #[test]
    fn a_busy_partition_waits_for_the_interval_and_an_idle_one_does_not() {
        let (mut accounts, mut commits) = one_partition(200);
        complete(&mut accounts, 0);
        commits.sent(at(1000), vec![(P, CommitOffset(1))]);
        commits.answered(at(1001), |_| true);
        complete(&mut accounts, 1);
        assert_eq!(commits.due(at(1010), &accounts, |_| false), Due::Wait(Some(at(1200))));
        assert_eq!(commits.due(at(1010), &accounts, |_| true), Due::Commit(vec![(P, CommitOffset(2))]));
        assert_eq!(commits.due(at(1200), &accounts, |_| false), Due::Commit(vec![(P, CommitOffset(2))]));
    }

    #[test]
    fn a_failed_commit_stays_due_without_new_records() {
        let (mut accounts, mut commits) = one_partition(0);
        complete(&mut accounts, 0);
        commits.sent(at(1), vec![(P, CommitOffset(1))]);
        commits.answered(at(2), |_| false);
        assert_eq!(commits.failing_since(), Some(at(2)));
        assert_eq!(commits.due(at(3), &accounts, |_| true), Due::Wait(Some(at(102))));
        assert_eq!(commits.due(at(102), &accounts, |_| true), Due::Commit(vec![(P, CommitOffset(1))]));
        commits.sent(at(102), vec![(P, CommitOffset(1))]);
        commits.answered(at(103), |_| true);
        assert_eq!(commits.failing_since(), None);
        assert_eq!(commits.acknowledged(P), Some(CommitOffset(1)));
    }

    #[test]
    fn a_last_commit_names_every_partition_even_unchanged() {
        let (accounts, commits) = one_partition(200);
        assert_eq!(commits.last(&accounts), vec![(P, CommitOffset(0))]);
    }
}
