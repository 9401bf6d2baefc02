//! Where a batch ends that cannot be read.
//!
//! The client tells its first offset only. A broker that is asked for any offset of a batch gives all of it, so from each of
//! them the same batch is met, and from the first one behind it another, or the end. That one is searched for, with a reader
//! of its own, which commits nothing.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loom_kafka::{Assigned, Broker, Budget, KafkaError, Kind, Notice, PartitionSource};
use loom_types::{BatchBuilder, CommitOffset, PartitionId, TopicPartition};

use super::{Keeper, Note};

/// How long the search for one batch's end may take, at most.
const SEARCH: Duration = Duration::from_secs(3);

impl Keeper {
    /// Answers a worker that asks about a batch that cannot be read.
    pub(super) fn answer_where_ends(
        &self,
        worker: usize,
        partition: PartitionId,
        first: CommitOffset,
        timeout: Duration,
    ) {
        let kept = self.parts.partitions.iter().find(|kept| kept.worker == worker && kept.id == partition);
        let Some(kept) = kept else { return };
        let last = last_offset(&*self.parts.broker, &kept.name, first, timeout.min(SEARCH));
        let last = last.unwrap_or_else(|error| {
            tracing::debug!(partition = %kept.name, reason = %error, "where a broken batch ends is not known");
            None
        });
        self.parts.desks[worker].tell(Note::Broken { partition, first, last });
    }
}

/// The last offset of the batch that begins at `first` and cannot be read; none where it could be read now.
fn last_offset(
    broker: &dyn Broker,
    name: &TopicPartition,
    first: CommitOffset,
    timeout: Duration,
) -> Result<Option<CommitOffset>, KafkaError> {
    let deadline = Instant::now() + timeout;
    let end = broker.bounds(name, timeout)?.high;
    let mut search = Search::new(broker, name, first, deadline)?;
    if first >= end || !search.is_met_from(first, first)? {
        return Ok(None);
    }
    // Its last offset lies from `within` on, and below `behind`.
    let (mut within, mut step) = (first, 1);
    let mut behind = loop {
        let at = CommitOffset(within.0 + step).min(end);
        if at == end || !search.is_met_from(at, first)? {
            break at;
        }
        (within, step) = (at, step * 2);
    };
    while behind.0 - within.0 > 1 {
        let middle = CommitOffset(within.0 + (behind.0 - within.0) / 2);
        if search.is_met_from(middle, first)? { within = middle } else { behind = middle }
    }
    Ok(Some(within))
}

/// A reader of one partition, and its bell.
struct Search {
    source: Box<dyn PartitionSource>,
    builder: BatchBuilder,
    bell: Arc<(Mutex<bool>, Condvar)>,
    deadline: Instant,
}

impl Search {
    fn new(
        broker: &dyn Broker,
        name: &TopicPartition,
        start: CommitOffset,
        deadline: Instant,
    ) -> Result<Search, KafkaError> {
        let bell: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let rung = bell.clone();
        let waker = Arc::new(move || {
            *rung.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            rung.1.notify_all();
        });
        let assigned =
            Assigned { id: PartitionId(0), partition: name.clone(), topic: 0, start, leader_epoch: None };
        let source = broker.reader(vec![assigned], 1, waker)?.source;
        Ok(Search { source, builder: BatchBuilder::new([name.topic.clone()].into()), bell, deadline })
    }

    /// Whether a reader from `at` on meets the batch that begins at `first`, before anything else.
    fn is_met_from(&mut self, at: CommitOffset, first: CommitOffset) -> Result<bool, KafkaError> {
        self.source.seek(PartitionId(0), at, None)?;
        loop {
            *self.bell.0.lock().unwrap_or_else(PoisonError::into_inner) = false;
            let taken = self.source.take(PartitionId(0), Budget { rows: 1, bytes: 1 }, &mut self.builder);
            drop(self.builder.finish());
            match taken.notice {
                Some(Notice::Broken { first: met, .. }) => return Ok(met == first),
                Some(Notice::Failed(error)) if error.kind != Kind::Transient => return Err(error),
                Some(Notice::OutOfRange | Notice::Cut { .. }) => return Ok(false),
                Some(Notice::Failed(_)) | None => {}
            }
            if taken.rows > 0 || taken.skipped > 0 || taken.end.is_some() {
                return Ok(false);
            }
            if !taken.more {
                self.wait()?;
            }
        }
    }

    fn wait(&self) -> Result<(), KafkaError> {
        let mut rung = self.bell.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*rung {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = "the search for its end took too long".to_owned();
                return Err(KafkaError { kind: Kind::Transient, code: "_TIMED_OUT", message });
            }
            rung = self.bell.1.wait_timeout(rung, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}
