//! The lease's beat: read, decide, write; blocking, so never on a worker.

use std::time::{Duration, UNIX_EPOCH};

use loom_delivery::lease::{Holder, Lease, Seen, Step, Stop};
use loom_kafka::{Broker, Committed, Group, GroupEntry, KafkaError, Kind};
use loom_types::{CommitOffset, TopicPartition};

use crate::failure::{Failure, Status};
use crate::identity::is_gone;

/// After so many beats in a row that could not be read, a host that watches goes on without: whom it watches cannot be
/// told from nobody, and commits cannot be held back for ever.
const GIVE_UP_AFTER: u64 = 12;

/// How long the first entry waits for its place.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// What became of a beat.
pub(crate) enum Beat {
    /// Nothing to tell.
    Fine,
    /// It could not be read or written.
    Failed,
    /// The host stops.
    Stop(Failure),
}

/// The lease as it is kept at a broker.
pub(crate) struct LeaseKeeper {
    place: TopicPartition,
    lease: Lease,
    /// Decided and not yet written.
    pending: Option<i64>,
    failed: u64,
    pub off: bool,
    /// Where the entry's partition ended when that was last looked at: entries lie there.
    end: Option<CommitOffset>,
    group: String,
    /// Whose partitions were taken after a watch, and why; until it is told.
    taken: Option<(Holder, &'static str)>,
}

/// Reads the entry.
pub(crate) fn look(
    broker: &dyn Broker,
    place: &TopicPartition,
    timeout: Duration,
) -> Result<Option<Seen>, KafkaError> {
    let mut answers = broker.committed(Group::Owner, std::slice::from_ref(place), timeout)?;
    let found = answers.pop().unwrap_or(Ok(None))?;
    Ok(found.map(|Committed { offset, metadata, .. }| Seen::parse(offset, &metadata)))
}

impl LeaseKeeper {
    /// With what was read before the start.
    pub fn new(group: &str, place: TopicPartition, me: Holder, seen: Option<Seen>) -> Self {
        let mut keeper = LeaseKeeper {
            place,
            lease: Lease::new(me),
            pending: None,
            failed: 0,
            off: false,
            end: None,
            group: format!("{group}.owner"),
            taken: None,
        };
        if let Ok(beat) = keeper.decide(seen) {
            keeper.pending = beat;
        }
        keeper
    }

    /// A host without a lease.
    pub fn off(group: &str, place: TopicPartition, me: Holder) -> Self {
        let mut keeper = LeaseKeeper::new(group, place, me, None);
        (keeper.off, keeper.pending) = (true, None);
        keeper
    }

    pub fn holds_commits(&self) -> bool {
        !self.off && self.lease.holds_commits()
    }

    pub fn is_owner(&self) -> bool {
        !self.off && self.lease.is_owner()
    }

    pub fn watched(&self) -> Option<&Holder> {
        if self.off { None } else { self.lease.watched() }
    }

    /// Whose partitions were taken since this was last asked, and why.
    pub fn taken(&mut self) -> Option<(Holder, &'static str)> {
        self.taken.take()
    }

    /// Whether the start decided to write at once.
    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub fn beat(&mut self, broker: &dyn Broker, timeout: Duration) -> Beat {
        if self.off {
            return Beat::Fine;
        }
        let beat = match self.pending.take() {
            Some(beat) => Some(beat),
            None => match look(broker, &self.place, timeout).map(|seen| self.decide(seen)) {
                Ok(Ok(beat)) => beat,
                Ok(Err(stop)) => return Beat::Stop(self.told(&stop)),
                Err(error) => return self.failed(&error, "read"),
            },
        };
        let Some(beat) = beat else { return Beat::Fine };
        if self.end.is_none() {
            self.look_at_end(broker, timeout.min(FIRST_LOOK));
        }
        match write(broker, &self.place, self.end, self.lease.entry().entry(beat), timeout) {
            Ok(()) => {
                self.failed = 0;
                Beat::Fine
            }
            Err(error) => self.failed(&error, "written"),
        }
    }

    /// Finds out where the next entries lie. What the broker does not say stays as it was.
    pub fn look_at_end(&mut self, broker: &dyn Broker, timeout: Duration) {
        match broker.bounds(&self.place, timeout) {
            Ok(bounds) => self.end = Some(bounds.high),
            Err(error) => tracing::debug!(reason = %error, "the end of the lease's partition is not known"),
        }
    }

    fn decide(&mut self, seen: Option<Seen>) -> Result<Option<i64>, Stop> {
        let me = self.lease.entry().clone();
        let watched = self.lease.watched().cloned();
        let now = seen.as_ref().and_then(|seen| seen.holder.clone()).filter(|holder| !holder.released);
        match self.lease.read(seen, |other| is_gone(&me, other)) {
            Step::Write(beat) => {
                self.taken = watched.map(|holder| {
                    let why = match &now {
                        None => "it stopped meanwhile",
                        Some(_) if is_gone(&me, &holder) => "its process is gone",
                        Some(_) => "its lease did not move for two intervals",
                    };
                    (holder, why)
                });
                Ok(Some(beat))
            }
            Step::Watch => {
                self.failed = 0;
                Ok(None)
            }
            Step::Stop(stop) => Err(stop),
        }
    }

    fn failed(&mut self, error: &KafkaError, what: &str) -> Beat {
        self.failed += 1;
        if matches!(error.kind, Kind::Authorization) {
            self.turn_off(error);
            return Beat::Fine;
        }
        if self.failed == 1 {
            tracing::warn!(group = &*self.group, reason = %error, "the lease could not be {what}; it is tried again at the next beat");
        }
        if self.failed >= GIVE_UP_AFTER && self.lease.holds_commits() {
            tracing::warn!(group = &*self.group, reason = %error, "the lease could not be {what} for too long; going on without it");
            self.off = true;
            return Beat::Fine;
        }
        Beat::Failed
    }

    /// The right is missing: said once.
    pub fn turn_off(&mut self, error: &KafkaError) {
        self.off = true;
        tracing::warn!(
            group = &*self.group,
            reason = %error,
            "no right to read and write the group of the lease: a second host on the same partitions would not be noticed"
        );
    }

    fn told(&self, stop: &Stop) -> Failure {
        match stop {
            Stop::Live(other) if self.lease.entry().take_over => Failure {
                status: Status::Runtime,
                message: format!(
                    "another host takes these partitions over at the same time: {} (group {}); one of the two stays, and \
                     this one stops",
                    describe(other),
                    self.group
                ),
            },
            Stop::Live(other) => Failure {
                status: Status::Runtime,
                message: format!(
                    "another host reads these partitions: {} (group {}); stop it first, or start with `--take-over`",
                    describe(other),
                    self.group
                ),
            },
            Stop::Deposed(other) => Failure::new(format!(
                "another host took these partitions over: {} (group {}); this one stops, and commits nothing more",
                describe(other),
                self.group
            )),
        }
    }

    /// A clean stop: the next host need not watch.
    pub fn release(&mut self, broker: &dyn Broker, timeout: Duration) {
        // What was never written need not be taken back.
        if self.off || self.pending.is_some() {
            return;
        }
        if let Some((beat, entry)) = self.lease.release()
            && let Err(error) = write(broker, &self.place, self.end, entry.entry(beat), timeout)
        {
            tracing::info!(group = &*self.group, reason = %error, "the lease was not released: the next host watches it before it commits");
        }
    }
}

/// Releases what an earlier round of this run left at its end, since no other one follows.
pub(crate) fn release_left(broker: &dyn Broker, place: &TopicPartition, me: &Holder, timeout: Duration) {
    let Ok(Some(Seen { beat, holder: Some(left) })) = look(broker, place, timeout) else { return };
    if left.run == me.run && !left.released {
        let entry = Holder { released: true, ..left };
        let end = broker.bounds(place, timeout).ok().map(|bounds| bounds.high);
        if let Err(error) = write(broker, place, end, entry.entry(beat.saturating_add(1)), timeout) {
            tracing::debug!(reason = %error, "the lease was not released");
        }
    }
}

fn write(
    broker: &dyn Broker,
    place: &TopicPartition,
    end: Option<CommitOffset>,
    metadata: String,
    timeout: Duration,
) -> Result<(), KafkaError> {
    let entry = GroupEntry {
        partition: place.clone(),
        // Tools that watch groups see no work left there.
        offset: end.unwrap_or(CommitOffset(0)),
        metadata,
        leader_epoch: None,
    };
    broker.commit_now(Group::Owner, &[entry], timeout)?.pop().unwrap_or(Ok(()))
}

/// A holder for people: who, where, since when.
pub(crate) fn describe(holder: &Holder) -> String {
    // Somebody else wrote it: no later than the last second of the year 9999, which is the last that can be told.
    let seconds = u64::try_from(holder.started_ms / 1000).unwrap_or_default().min(253_402_300_799);
    let started = humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(seconds));
    format!("run {} on host {}, process {}, started {started}", holder.run, holder.host, holder.process)
}

#[cfg(test)]
mod tests {
    use loom_delivery::lease::Stop;
    use loom_types::TopicPartition;

    use super::LeaseKeeper;
    use crate::identity::Identity;

    #[test]
    fn who_takes_over_is_not_told_to_take_over() {
        let other = Identity::of_this_process().holder(true);
        let told = |take_over| {
            let me = Identity::of_this_process().holder(take_over);
            let keeper = LeaseKeeper::new("g", TopicPartition::new("in", 0), me, None);
            keeper.told(&Stop::Live(other.clone())).message
        };
        assert!(told(false).contains("start with `--take-over`"));
        assert!(!told(true).contains("--take-over") && told(true).contains("this one stops"));
    }
}
