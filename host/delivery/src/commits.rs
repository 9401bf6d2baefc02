//! When to commit what: all dirty partitions in one request, at most one request in flight, at most one an interval. What
//! may be committed of a partition is its tracker's to say: the watermark, or at most once the position.
//!
//! A partition is dirty while what may be committed is not what the broker last acknowledged. So a commit that failed, as
//! a whole or for one partition, is simply due again; it needs no new record. It is due, too, when its last *successful*
//! commit has grown old, so that the broker does not expire the position of a service that is idle or stuck.
//!
//! A request that nobody answers is given up after [`ANSWER_WITHIN`]: longer than a client waits for its broker, so that
//! two are never on the wire at once unless an answer was lost.

use std::time::Duration;

use loom_types::{CommitOffset, Moment, PartitionId};

use crate::accounts::Accounts;
use crate::backoff::Backoff;
use crate::mutations::{Mutation, mutated};
use crate::tracker::Stand;

/// After a failed commit the next one waits at least this long, however short the interval; twice as long after each
/// further one.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// The longest of these waits, however many have failed; never shorter than the interval.
const RETRY_AT_LEAST_EVERY: Duration = Duration::from_secs(5);

/// How long a request may wait for its answer.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(70);

/// One partition of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which.
    pub partition: PartitionId,
    /// The offset to commit, and how far a replay below it has come.
    pub stand: Stand,
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing before this moment; none = nothing until something changes.
    Wait(Option<Moment>),
    /// Send these in one request.
    Commit(Vec<Entry>),
}

/// Names a request; the sender's number.
pub type Request = u64;

#[derive(Debug)]
struct InFlight {
    request: Request,
    entries: Vec<Entry>,
    since: Moment,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    /// What the broker last acknowledged, or had at the start.
    acknowledged: Option<Stand>,
    /// When it last acknowledged anything, or the start.
    confirmed: Moment,
}

/// The commits of one worker's partitions.
#[derive(Debug)]
pub struct CommitSchedule {
    interval: Duration,
    keepalive: Option<Duration>,
    known: Vec<Known>,
    in_flight: Option<InFlight>,
    not_before: Moment,
    backoff: Backoff,
    last_sent: Option<Moment>,
    failing_since: Option<Moment>,
}

impl CommitSchedule {
    /// With at most one request an `interval`; zero = every cycle.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        CommitSchedule {
            interval,
            keepalive: None,
            known: Vec::new(),
            in_flight: None,
            not_before: Moment::START,
            backoff: Backoff::new(RETRY_AFTER.max(interval), RETRY_AT_LEAST_EVERY.max(interval)),
            last_sent: None,
            failing_since: None,
        }
    }

    /// Commits again, changed or not, what was last acknowledged so long ago.
    #[must_use]
    pub fn with_keepalive(self, keepalive: Duration) -> Self {
        CommitSchedule { keepalive: Some(keepalive), ..self }
    }

    /// Adds the next partition (numbers are dense), with what the group has for it; none makes its first commit due at
    /// once.
    pub fn add_partition(&mut self, committed: Option<Stand>) {
        self.known.push(Known { acknowledged: committed, confirmed: Moment::START });
    }

    /// What to do now. `open`: whether anything of a partition may be committed.
    pub fn due(&self, now: Moment, accounts: &Accounts, open: impl Fn(PartitionId) -> bool) -> Due {
        if let Some(sent) = &self.in_flight
            && !mutated(Mutation::CommitsOverlap)
        {
            return Due::Wait(Some(sent.since + ANSWER_WITHIN));
        }
        let mut entries = Vec::new();
        let mut next = None;
        for (partition, tracker) in accounts.partitions().filter(|(partition, _)| open(*partition)) {
            let (mut stand, known) = (tracker.stand(), self.known[partition.index()]);
            if mutated(Mutation::PositionIsCommitted) {
                stand.offset = tracker.position();
            }
            let dirty = known.acknowledged != Some(stand);
            let refresh = self.keepalive.map(|age| known.confirmed + age);
            if dirty || refresh.is_some_and(|at| at <= now) {
                entries.push(Entry { partition, stand });
            } else {
                next = earlier(next, refresh);
            }
        }
        if entries.is_empty() {
            return Due::Wait(next);
        }
        let interval_over = self.last_sent.map_or(Moment::START, |sent| sent + self.interval);
        let earliest = self.not_before.max(interval_over);
        if now < earliest { Due::Wait(Some(earliest)) } else { Due::Commit(entries) }
    }

    /// All partitions of which anything may be committed, for a last commit, changed or not.
    #[must_use]
    pub fn last(&self, accounts: &Accounts, open: impl Fn(PartitionId) -> bool) -> Vec<Entry> {
        if mutated(Mutation::NoLastCommit) {
            return Vec::new();
        }
        accounts
            .partitions()
            .filter(|(partition, _)| open(*partition))
            .map(|(partition, tracker)| Entry { partition, stand: tracker.stand() })
            .collect()
    }

    /// A request was sent.
    pub fn sent(&mut self, now: Moment, request: Request, entries: Vec<Entry>) {
        self.last_sent = Some(now);
        self.in_flight = Some(InFlight { request, entries, since: now });
    }

    /// A request could not be sent: its partitions stay dirty.
    pub fn failed(&mut self, now: Moment) {
        self.last_sent = Some(now);
        // Without jitter: it is one request a worker, and workers are few.
        self.not_before = now + self.backoff.failed(1.0);
        if mutated(Mutation::FailedCommitIsTheLast) {
            self.not_before = now + Duration::MAX;
        }
        self.failing_since.get_or_insert(now);
    }

    /// Gives up a request that nobody answered in time: its partitions are dirty again. Whether there was one.
    pub fn expire(&mut self, now: Moment) -> bool {
        let Some(sent) = self.in_flight.take_if(|sent| now.since(sent.since) >= ANSWER_WITHIN) else {
            return false;
        };
        if mutated(Mutation::LostCommitCounts) {
            for Entry { partition, stand } in sent.entries {
                self.known[partition.index()].acknowledged = Some(stand);
            }
        }
        self.failed(now);
        // Nothing has succeeded since it was sent.
        self.failing_since = self.failing_since.map(|since| since.min(sent.since));
        true
    }

    /// A request was answered, with success or not by partition. One that was given up is not waited for any more: its
    /// answer says nothing. Whether it was waited for.
    pub fn answered(&mut self, now: Moment, request: Request, result: impl Fn(PartitionId) -> bool) -> bool {
        let Some(sent) = self.in_flight.take_if(|sent| sent.request == request) else { return false };
        let (mut all, mut any) = (true, false);
        for Entry { partition, stand } in sent.entries {
            if result(partition) || mutated(Mutation::FailedCommitCounts) {
                self.known[partition.index()] = Known { acknowledged: Some(stand), confirmed: now };
                any = true;
            } else {
                all = false;
            }
        }
        if any {
            // The coordinator takes commits: a partition that it refuses holds the others back no longer than it must.
            self.backoff.reset();
        }
        if all {
            self.failing_since = None;
        } else {
            self.failed(now);
        }
        true
    }

    /// What the broker has is not what it acknowledged: the partition is dirty, whatever its offset.
    pub fn forget(&mut self, partition: PartitionId) {
        self.known[partition.index()].acknowledged = None;
    }

    /// Whether a request waits for its answer.
    #[must_use]
    pub fn is_in_flight(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The offset that the broker last acknowledged, or had at the start.
    #[must_use]
    pub fn acknowledged(&self, partition: PartitionId) -> Option<CommitOffset> {
        self.known[partition.index()].acknowledged.map(|stand| stand.offset)
    }

    /// Since when commits have failed without a success.
    #[must_use]
    pub fn failing_since(&self) -> Option<Moment> {
        self.failing_since
    }
}

fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    one.into_iter().chain(other).min()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use loom_types::{CommitOffset, Ending, Moment, PartitionId, RecordOffset};

    use super::{ANSWER_WITHIN, CommitSchedule, Due, Entry};
    use crate::accounts::Accounts;
    use crate::tracker::Stand;

    const P: PartitionId = PartitionId(0);

    fn at(ms: u64) -> Moment {
        Moment(Duration::from_millis(ms))
    }

    fn plain(offset: i64) -> Stand {
        Stand { offset: CommitOffset(offset), replay: None }
    }

    fn entries(offset: i64) -> Vec<Entry> {
        vec![Entry { partition: P, stand: plain(offset) }]
    }

    fn one_partition(interval_ms: u64) -> (Accounts, CommitSchedule) {
        let mut accounts = Accounts::tracked();
        accounts.add_partition(CommitOffset(0), Some(CommitOffset(0)));
        let mut commits = CommitSchedule::new(Duration::from_millis(interval_ms));
        commits.add_partition(Some(plain(0)));
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
        assert_eq!(due, Due::Commit(entries(500)));
        commits.sent(at(1), 7, entries(500));
        let until = Some(at(1) + ANSWER_WITHIN);
        assert_eq!(commits.due(at(2), &accounts, |_| true), Due::Wait(until), "one in flight");
        commits.answered(at(3), 7, |_| true);
        assert_eq!(commits.due(at(4), &accounts, |_| true), Due::Wait(None));
    }

    #[test]
    fn what_is_due_waits_for_the_interval_and_a_trickle_makes_one_commit_an_interval() {
        let (mut accounts, mut commits) = one_partition(200);
        let mut sent = Vec::new();
        for ms in 1000..2000 {
            // One record a millisecond, each answered before the next.
            complete(&mut accounts, ms - 1000);
            if let Due::Commit(due) = commits.due(at(ms as u64), &accounts, |_| true) {
                commits.sent(at(ms as u64), ms as u64, due);
                commits.answered(at(ms as u64), ms as u64, |_| true);
                sent.push(ms);
            }
        }
        assert_eq!(sent, [1000, 1200, 1400, 1600, 1800]);
        assert_eq!(commits.due(at(2000), &accounts, |_| true), Due::Commit(entries(1000)));
        // After a pause the first one is not delayed.
        let (mut accounts, mut commits) = one_partition(200);
        complete(&mut accounts, 0);
        assert_eq!(commits.due(at(1), &accounts, |_| true), Due::Commit(entries(1)));
        commits.sent(at(1), 7, entries(1));
        commits.answered(at(2), 7, |_| true);
        complete(&mut accounts, 1);
        assert_eq!(commits.due(at(2), &accounts, |_| true), Due::Wait(Some(at(201))));
        assert_eq!(commits.due(at(900), &accounts, |_| true), Due::Commit(entries(2)));
    }

    #[test]
    fn at_most_once_the_position_is_committed_and_below_a_floor_the_floor() {
        let mut accounts = Accounts::untracked();
        accounts.add_partition(CommitOffset(0), Some(CommitOffset(2)));
        let mut commits = CommitSchedule::new(Duration::ZERO);
        commits.add_partition(Some(plain(2)));
        let token = accounts.register(P, RecordOffset(0), 1);
        let stand = Stand { offset: CommitOffset(2), replay: Some(CommitOffset(1)) };
        assert_eq!(commits.due(at(1), &accounts, |_| true), Due::Commit(vec![Entry { partition: P, stand }]));
        let other = accounts.register(P, RecordOffset(4), 1);
        assert_eq!(commits.due(at(1), &accounts, |_| true), Due::Commit(entries(5)));
        accounts.redeem(token, Ending::Topic);
        accounts.redeem(other, Ending::Topic);
        assert_eq!(commits.due(at(1), &accounts, |_| true), Due::Commit(entries(5)));
    }

    #[test]
    fn a_failed_commit_stays_due_without_new_records() {
        let (mut accounts, mut commits) = one_partition(0);
        complete(&mut accounts, 0);
        commits.sent(at(1), 7, entries(1));
        commits.answered(at(2), 7, |_| false);
        assert_eq!(commits.failing_since(), Some(at(2)));
        assert_eq!(commits.due(at(3), &accounts, |_| true), Due::Wait(Some(at(102))));
        assert_eq!(commits.due(at(102), &accounts, |_| true), Due::Commit(entries(1)));
        commits.sent(at(102), 7, entries(1));
        commits.answered(at(103), 7, |_| true);
        assert_eq!(commits.failing_since(), None);
        assert_eq!(commits.acknowledged(P), Some(CommitOffset(1)));
    }

    #[test]
    fn commits_that_fail_wait_longer_each_time_up_to_a_bound_and_start_over_after_a_success() {
        let (mut accounts, mut commits) = one_partition(0);
        complete(&mut accounts, 0);
        let mut now = 1000;
        for wait in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
            commits.sent(at(now), now, entries(1));
            commits.answered(at(now), now, |_| false);
            now += wait;
            assert_eq!(commits.due(at(now - 1), &accounts, |_| true), Due::Wait(Some(at(now))));
        }
        commits.sent(at(now), now, entries(1));
        commits.answered(at(now), now, |_| true);
        complete(&mut accounts, 1);
        commits.sent(at(now), now, entries(2));
        commits.answered(at(now), now, |_| false);
        assert_eq!(commits.due(at(now), &accounts, |_| true), Due::Wait(Some(at(now + 100))));
    }

    #[test]
    fn a_partition_that_is_refused_alone_does_not_slow_the_others_down() {
        let mut accounts = Accounts::tracked();
        let mut commits = CommitSchedule::new(Duration::ZERO);
        for _ in 0..2 {
            accounts.add_partition(CommitOffset(0), Some(CommitOffset(0)));
            commits.add_partition(None);
        }
        let both = || [P, PartitionId(1)].map(|partition| Entry { partition, stand: plain(0) }).to_vec();
        for now in [1000, 2000, 3000] {
            commits.sent(at(now), now, both());
            commits.answered(at(now), now, |partition| partition == P);
            assert_eq!(commits.due(at(now), &accounts, |_| true), Due::Wait(Some(at(now + 100))));
        }
    }

    #[test]
    fn a_last_commit_names_every_partition_even_unchanged() {
        let (accounts, commits) = one_partition(200);
        assert_eq!(commits.last(&accounts, |_| true), entries(0));
        assert_eq!(commits.last(&accounts, |_| false), []);
    }

    #[test]
    fn a_position_that_grew_old_is_committed_again_idle_or_stuck_counted_from_the_last_success() {
        let (mut accounts, commits) = one_partition(200);
        let mut commits = commits.with_keepalive(Duration::from_secs(60));
        let idle =
            |commits: &CommitSchedule, accounts: &Accounts, now| commits.due(at(now), accounts, |_| true);
        assert_eq!(idle(&commits, &accounts, 59_999), Due::Wait(Some(at(60_000))));
        assert_eq!(idle(&commits, &accounts, 60_000), Due::Commit(entries(0)));
        // A failure is no success: it stays due.
        commits.sent(at(60_000), 1, entries(0));
        commits.answered(at(60_001), 1, |_| false);
        assert_eq!(idle(&commits, &accounts, 60_300), Due::Commit(entries(0)));
        commits.sent(at(60_300), 2, entries(0));
        commits.answered(at(60_310), 2, |_| true);
        assert_eq!(idle(&commits, &accounts, 61_000), Due::Wait(Some(at(120_310))));
        // Stuck on a record: its offset is committed again.
        let stuck = accounts.register(P, RecordOffset(0), 1);
        assert_eq!(idle(&commits, &accounts, 120_310), Due::Commit(entries(0)));
        accounts.redeem(stuck, Ending::Topic);
    }

    #[test]
    fn a_request_that_nobody_answers_is_given_up_and_its_late_answer_says_nothing() {
        let (mut accounts, mut commits) = one_partition(0);
        complete(&mut accounts, 0);
        commits.sent(at(1000), 1, entries(1));
        assert!(!commits.expire(at(70_999)));
        assert!(commits.expire(at(71_000)));
        assert_eq!(commits.failing_since(), Some(at(1000)));
        assert_eq!(commits.due(at(72_000), &accounts, |_| true), Due::Commit(entries(1)));
        commits.sent(at(72_000), 2, entries(1));
        commits.answered(at(72_001), 1, |_| true);
        assert!(commits.is_in_flight());
        assert_eq!(commits.acknowledged(P), Some(CommitOffset(0)));
        commits.answered(at(72_002), 2, |_| true);
        assert_eq!((commits.acknowledged(P), commits.failing_since()), (Some(CommitOffset(1)), None));
    }

    #[test]
    fn what_is_held_is_not_committed_and_what_was_forgotten_is_committed_again() {
        let (mut accounts, mut commits) = one_partition(0);
        complete(&mut accounts, 0);
        assert_eq!(commits.due(at(1), &accounts, |_| false), Due::Wait(None));
        commits.sent(at(1), 1, entries(1));
        commits.answered(at(2), 1, |_| true);
        commits.forget(P);
        assert_eq!(commits.due(at(3), &accounts, |_| true), Due::Commit(entries(1)));
    }

    #[test]
    fn a_replay_commits_its_floor_again_with_how_far_it_has_come() {
        let mut accounts = Accounts::tracked();
        accounts.add_partition(CommitOffset(2), Some(CommitOffset(6)));
        let mut commits = CommitSchedule::new(Duration::ZERO);
        commits.add_partition(Some(plain(6)));
        for offset in 2..6 {
            let replay = Some(CommitOffset(offset));
            let stand = Stand { offset: CommitOffset(6), replay };
            let now = at(1000 * offset as u64);
            assert_eq!(
                commits.due(now, &accounts, |_| true),
                Due::Commit(vec![Entry { partition: P, stand }])
            );
            commits.sent(now, offset as u64, vec![Entry { partition: P, stand }]);
            commits.answered(now, offset as u64, |_| true);
            assert_eq!(commits.due(now, &accounts, |_| true), Due::Wait(None));
            complete(&mut accounts, offset);
        }
        assert_eq!(commits.due(at(9000), &accounts, |_| true), Due::Commit(entries(6)));
    }
}
