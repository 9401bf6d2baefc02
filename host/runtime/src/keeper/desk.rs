//! What one worker and the keeper say to each other.
//!
//! A worker never blocks on a broker after its start: it puts a question on its desk and goes on, and the keeper, which
//! may block, puts the answer there and rings. Each side touches a lock only where the other has left something.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use loom_flow::plan::OutputId;
use loom_kafka::{Bounds, KafkaError, OutputInfo};
use loom_types::{CommitOffset, PartitionId, TopicId};

use crate::stop::Bell;

/// Whether offsets may be committed, for all workers of the process.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: AtomicU8,
    /// Partitions whose offset somebody else set.
    moved: AtomicU64,
}

/// See [`Gate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commits {
    /// As they come.
    Open,
    /// None but a start that was chosen for a partition that the group has nothing for: another owner may live.
    Held,
    /// None at all: somebody else's offsets must not be overwritten.
    Shut,
}

impl Gate {
    pub fn get(&self) -> Commits {
        match self.state.load(Ordering::Acquire) {
            0 => Commits::Open,
            1 => Commits::Held,
            _ => Commits::Shut,
        }
    }

    /// Somebody else has set the offsets of so many partitions: nothing is committed any more.
    pub fn moved(&self, partitions: u64) {
        self.moved.fetch_add(partitions, Ordering::AcqRel);
        self.set(Commits::Shut);
    }

    /// Of how many partitions somebody else set the offset.
    pub fn how_many_moved(&self) -> u64 {
        self.moved.load(Ordering::Acquire)
    }

    /// Once shut it stays so.
    pub fn set(&self, commits: Commits) {
        let unless_shut = |now| (now != Commits::Shut as u8).then_some(commits as u8);
        // Refused where it stays as it is.
        let _ = self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, unless_shut);
    }
}

/// What the keeper tells a worker.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// Where a partition lies that was asked about, and which topic it is of now.
    Bounds { partition: PartitionId, bounds: Bounds, log_end: CommitOffset, topic: Option<TopicId> },
    /// The last offset of the batch that begins at `first` and cannot be read; none where that was not found out.
    Broken { partition: PartitionId, first: CommitOffset, last: Option<CommitOffset> },
    /// The group no longer has what it acknowledged for the partition.
    CommitAgain { partition: PartitionId },
}

/// One worker's desk.
pub(crate) struct Desk {
    asks: Mailbox<PartitionId>,
    broken: Mailbox<(PartitionId, CommitOffset)>,
    notes: Mailbox<Note>,
    outputs: Mailbox<OutputId>,
    facts: Mailbox<(OutputId, Result<OutputInfo, KafkaError>)>,
    /// The worker wants it told who is in the group.
    who: AtomicBool,
    /// By partition: the offset that the broker last acknowledged to this run; -1 for none.
    acknowledged: Vec<AtomicI64>,
    /// By partition: it is to be committed again, and was not yet.
    again: Vec<AtomicBool>,
    worker: Arc<Bell>,
    keeper: Arc<Bell>,
}

impl Desk {
    pub fn new(partitions: usize, worker: Arc<Bell>, keeper: Arc<Bell>) -> Self {
        let acknowledged = (0..partitions).map(|_| AtomicI64::new(-1)).collect();
        Desk {
            asks: Mailbox::default(),
            broken: Mailbox::default(),
            notes: Mailbox::default(),
            outputs: Mailbox::default(),
            facts: Mailbox::default(),
            who: AtomicBool::new(false),
            acknowledged,
            again: (0..partitions).map(|_| AtomicBool::new(false)).collect(),
            worker,
            keeper,
        }
    }

    /// The worker asks what an output's topic takes.
    pub fn ask_about(&self, output: OutputId) {
        self.outputs.put(output);
        self.keeper.ring();
    }

    /// The keeper takes what was asked of outputs.
    pub fn asked_about(&self) -> Vec<OutputId> {
        self.outputs.take()
    }

    /// The keeper tells the worker of an output.
    pub fn tell_about(&self, output: OutputId, answer: Result<OutputInfo, KafkaError>) {
        self.facts.put((output, answer));
        self.worker.ring();
    }

    /// The worker takes what it was told of outputs.
    pub fn told_about(&self) -> Vec<(OutputId, Result<OutputInfo, KafkaError>)> {
        self.facts.take()
    }

    /// The worker's commits are refused because somebody is in the group: whoever reads the log is to be told who.
    pub fn ask_who(&self) {
        self.who.store(true, Ordering::Release);
        self.keeper.ring();
    }

    /// The keeper takes that.
    pub fn asked_who(&self) -> bool {
        self.who.swap(false, Ordering::AcqRel)
    }

    /// The worker asks where a partition lies.
    pub fn ask(&self, partition: PartitionId) {
        self.asks.put(partition);
        self.keeper.ring();
    }

    /// The keeper takes what was asked.
    pub fn asked(&self) -> Vec<PartitionId> {
        self.asks.take()
    }

    /// The worker asks where the batch ends that begins at `first` and cannot be read.
    pub fn ask_where_ends(&self, partition: PartitionId, first: CommitOffset) {
        self.broken.put((partition, first));
        self.keeper.ring();
    }

    /// The keeper takes what was asked of batches.
    pub fn asked_where_ends(&self) -> Vec<(PartitionId, CommitOffset)> {
        self.broken.take()
    }

    /// The keeper tells the worker.
    pub fn tell(&self, note: Note) {
        self.notes.put(note);
        self.worker.ring();
    }

    /// The worker takes what it was told.
    pub fn told(&self) -> Vec<Note> {
        self.notes.take()
    }

    /// The keeper has the worker commit a partition again; whether that is news.
    pub fn commit_again(&self, partition: PartitionId) -> bool {
        let news = !self.again[partition.index()].swap(true, Ordering::AcqRel);
        if news {
            self.tell(Note::CommitAgain { partition });
        }
        news
    }

    /// The broker acknowledged this offset to the worker.
    pub fn acknowledge(&self, partition: PartitionId, offset: CommitOffset) {
        self.again[partition.index()].store(false, Ordering::Release);
        self.acknowledged[partition.index()].store(offset.0, Ordering::Release);
    }

    /// What the broker acknowledged to the worker.
    pub fn acknowledged(&self, partition: PartitionId) -> Option<CommitOffset> {
        let offset = self.acknowledged[partition.index()].load(Ordering::Acquire);
        (offset >= 0).then_some(CommitOffset(offset))
    }
}

struct Mailbox<T> {
    full: AtomicBool,
    items: Mutex<Vec<T>>,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Mailbox { full: AtomicBool::new(false), items: Mutex::default() }
    }
}

impl<T> Mailbox<T> {
    fn put(&self, item: T) {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).push(item);
        self.full.store(true, Ordering::Release);
    }

    fn take(&self) -> Vec<T> {
        if !self.full.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.items.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom_flow::plan::OutputId;
    use loom_types::{CommitOffset, PartitionId};

    use super::{Commits, Desk, Gate, Note};
    use crate::stop::Bell;

    #[test]
    fn a_gate_that_was_shut_stays_shut() {
        let gate = Gate::default();
        assert_eq!(gate.get(), Commits::Open);
        for (set, expected) in [
            (Commits::Held, Commits::Held),
            (Commits::Open, Commits::Open),
            (Commits::Shut, Commits::Shut),
            (Commits::Open, Commits::Shut),
            (Commits::Held, Commits::Shut),
        ] {
            gate.set(set);
            assert_eq!(gate.get(), expected);
        }
    }

    #[test]
    fn each_side_finds_what_the_other_left_once_and_is_rung() {
        let (worker, keeper) = (Arc::new(Bell::default()), Arc::new(Bell::default()));
        let desk = Desk::new(2, worker.clone(), keeper.clone());
        desk.ask(PartitionId(1));
        assert!(keeper.take() && !worker.is_rung());
        assert_eq!((desk.asked(), desk.asked()), (vec![PartitionId(1)], vec![]));
        desk.tell(Note::CommitAgain { partition: PartitionId(0) });
        assert!(worker.take());
        assert_eq!((desk.told().len(), desk.told().len()), (1, 0));
        desk.ask_about(OutputId(3));
        assert!(keeper.take() && !worker.is_rung());
        assert_eq!((desk.asked_about(), desk.asked_about()), (vec![OutputId(3)], vec![]));
        assert_eq!(desk.acknowledged(PartitionId(0)), None);
        desk.acknowledge(PartitionId(0), CommitOffset(0));
        assert_eq!(desk.acknowledged(PartitionId(0)), Some(CommitOffset(0)));
    }
}
