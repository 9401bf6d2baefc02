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
use crate::stop::Stop;

/// How long the search for one batch's end may take, at most.
const SEARCH: Duration = Duration::from_secs(3);

/// Between two looks at whether the flow stops.
const SLICE: Duration = Duration::from_millis(100);

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
        let sharing = self.parts.partitions.len();
        let until = Until { deadline: Instant::now() + timeout.min(SEARCH), stop: self.parts.stop.clone() };
        let last = last_offset(&*self.parts.broker, &kept.name, first, sharing, until);
        let last = last.unwrap_or_else(|error| {
            tracing::debug!(partition = %kept.name, reason = %error, "where a broken batch ends is not known");
            None
        });
        self.parts.desks[worker].tell(Note::Broken { partition, first, last });
    }
}

/// When a search ends that has found nothing.
struct Until {
    deadline: Instant,
    stop: Stop,
}

impl Until {
    /// How long it may still go on; an error where it may not.
    fn left(&self) -> Result<Duration, KafkaError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || self.stop.is_requested() {
            let message = "the search for its end took too long".to_owned();
            return Err(KafkaError { kind: Kind::Transient, code: "_TIMED_OUT", message });
        }
        Ok(left)
    }
}

/// The last offset of the batch that begins at `first` and cannot be read; none where it could be read now.
fn last_offset(
    broker: &dyn Broker,
    name: &TopicPartition,
    first: CommitOffset,
    sharing: usize,
    until: Until,
) -> Result<Option<CommitOffset>, KafkaError> {
    let end = broker.bounds(name, until.left()?)?.high;
    let mut search = Search::new(broker, name, first, sharing, until)?;
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
    until: Until,
}

impl Search {
    fn new(
        broker: &dyn Broker,
        name: &TopicPartition,
        start: CommitOffset,
        sharing: usize,
        until: Until,
    ) -> Result<Search, KafkaError> {
        let bell: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let rung = bell.clone();
        let waker = Arc::new(move || {
            *rung.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
            rung.1.notify_all();
        });
        let assigned =
            Assigned { id: PartitionId(0), partition: name.clone(), topic: 0, start, leader_epoch: None };
        let source = broker.reader(vec![assigned], sharing, waker)?.source;
        Ok(Search { source, builder: BatchBuilder::new([name.topic.clone()].into()), bell, until })
    }

    /// Whether a reader from `at` on meets the batch that begins at `first`, before anything else.
    fn is_met_from(&mut self, at: CommitOffset, first: CommitOffset) -> Result<bool, KafkaError> {
        self.source.seek(PartitionId(0), at, None)?;
        loop {
            self.until.left()?;
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
            let slice = self.until.left()?.min(SLICE);
            rung = self.bell.1.wait_timeout(rung, slice).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }
}
