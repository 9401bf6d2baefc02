//! The traits that the runtime sees a broker through.
//!
//! Invariants that both implementations keep, and that one conformance suite checks:
//! - records of a partition come in offset order, each once;
//! - after a `take` that says `more = false`, the arrival of the next record calls the waker;
//! - a token given to `send` comes back from `acks` exactly once, whatever happens, until the sink is closed;
//! - rows of one output that go to one partition are written in the order they were sent;
//! - a commit request is answered exactly once, with a result for each partition of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::Token;
use loom_delivery::readback::Guard;
use loom_types::{Batch, BatchBuilder, CommitOffset, Moves, PartitionId, TopicPartition};

use crate::error::KafkaError;
use crate::facts::{
    Assigned, Bounds, Committed, Group, GroupEntry, Member, OutputInfo, OutputSettings, Rights, TopicInfo,
};

/// Called from any thread, also under a client's lock: it only marks and unparks.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

/// What is asked and done outside of workers: at assembly, and by the lease. Calls may block up to the given time.
pub trait Broker: Send + Sync {
    /// Facts about topics, in the order asked. Asking never creates a topic. A topic that does not exist, or may not be
    /// seen, is an error in its place.
    fn topics(
        &self,
        names: &[&str],
        timeout: Duration,
    ) -> Result<Vec<Result<TopicInfo, KafkaError>>, KafkaError>;

    /// Facts about output topics, in the order asked, each through the client of its own producer. Asking never creates a
    /// topic. A configuration that will not be told is no error; see [`OutputInfo::described`].
    fn output_topics(
        &self,
        outputs: &[OutputSettings],
        timeout: Duration,
    ) -> Result<Vec<Result<OutputInfo, KafkaError>>, KafkaError>;

    /// The names of all topics that can be seen: for suggestions.
    fn topic_names(&self, timeout: Duration) -> Result<Vec<String>, KafkaError>;

    /// One attempt to fetch a group's committed offsets, in the order asked; none = the group has no offset there.
    fn committed(
        &self,
        group: Group,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Result<Vec<Result<Option<Committed>, KafkaError>>, KafkaError>;

    /// One attempt to commit offsets, answered in the order given. For use outside of workers; a group with live members
    /// refuses it ([`Kind::GroupInUse`](crate::Kind::GroupInUse)). An error does not say that nothing was set.
    fn commit_now(
        &self,
        group: Group,
        entries: &[GroupEntry],
        timeout: Duration,
    ) -> Result<Vec<Result<(), KafkaError>>, KafkaError>;

    /// The live members of the flow's group: somebody else's consumers, since a flow's own is no member.
    fn members(&self, timeout: Duration) -> Result<Vec<Member>, KafkaError>;

    /// The first offset whose record carries this time (milliseconds since 1970-01-01 UTC) or a later one, in the order
    /// asked; none = there is no such record yet.
    fn offsets_at(
        &self,
        partitions: &[TopicPartition],
        timestamp_ms: i64,
        timeout: Duration,
    ) -> Result<Vec<Result<Option<CommitOffset>, KafkaError>>, KafkaError>;

    /// What the broker says about rights that belong to no topic.
    fn rights(&self, timeout: Duration) -> Result<Rights, KafkaError>;

    /// The first offset of a partition and the one after the last that can be read.
    fn bounds(&self, partition: &TopicPartition, timeout: Duration) -> Result<Bounds, KafkaError>;

    /// The offset after the last of a partition's log, whether or not it can be read yet: an open transaction ends what can
    /// be read, and not the log. What lies beyond this, and only that, is no offset of the log.
    fn log_end(&self, partition: &TopicPartition, timeout: Duration) -> Result<CommitOffset, KafkaError>;

    /// Warns of what will end by itself, such as a certificate. Called now and then while a flow runs; cheap, and asks no
    /// broker.
    fn look_ahead(&self) {}

    /// A worker's reader of these partitions, each from its start; nothing is read before its first `take`. `sharing`:
    /// how many partitions the whole process reads, which share the prefetch.
    fn reader(&self, assigned: Vec<Assigned>, sharing: usize, waker: Waker) -> Result<Reader, KafkaError>;

    /// A worker's writer; [`OutputIndex`] counts `outputs` from 0. `room`: bytes that may wait in
    /// the queues of its clients, which share them.
    fn writer(
        &self,
        outputs: &[OutputSettings],
        room: usize,
        waker: Waker,
    ) -> Result<Box<dyn TopicSink>, KafkaError>;
}

/// Both halves of one consumer client: what it reads and what it commits.
pub struct Reader {
    /// The partitions' queues.
    pub source: Box<dyn PartitionSource>,
    /// The group's offsets.
    pub offsets: Box<dyn OffsetStore>,
}

/// How much one `take` may append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Records, at most.
    pub rows: usize,
    /// Bytes of payloads, keys and headers, at most; one record may pass it when nothing was taken before it.
    pub bytes: usize,
}

/// What one `take` did.
#[derive(Debug, Default)]
pub struct Taken {
    /// Records appended to the builder.
    pub rows: usize,
    /// The next offset to read, after all that was appended or skipped; none when nothing was.
    pub position: Option<CommitOffset>,
    /// Tombstones that were skipped.
    pub skipped: u64,
    /// The leader's epoch of all records that were appended or skipped: a take ends where the epoch changes. None where the
    /// broker does not say, or nothing was.
    pub leader_epoch: Option<i32>,
    /// The partition's end was reached on its queue, after all that was appended: the offset of the event itself.
    pub end: Option<CommitOffset>,
    /// Beside `end`: where the log ended then, which goes on behind an open transaction; none where that is not known.
    pub log_end: Option<CommitOffset>,
    /// More may be there at once. After `false` the next record wakes.
    pub more: bool,
    /// Something other than records that came in the queue's order; reading stops at it.
    pub notice: Option<Notice>,
}

/// What else a partition's queue can say.
#[derive(Debug)]
pub enum Notice {
    /// The position is outside the partition: retention removed records, or the log was cut. The reader waits for
    /// `seek`.
    OutOfRange,
    /// The log was cut below the position by an election that lost records, after the record before it was read: what was
    /// read and what is there now are the same up to `end`, and what stands above it are other records. The reader waits
    /// for `seek`.
    Cut {
        /// Up to where they are the same.
        end: CommitOffset,
    },
    /// The batch at the position cannot be read, by its checksum or its format: what it holds is not known, and nothing
    /// behind it is given out. The reader waits for `seek`; it may have been damaged on its way only.
    Broken {
        /// The batch's first offset, as far as the batch can be believed.
        first: CommitOffset,
        /// What the client says.
        error: KafkaError,
    },
    /// The partition cannot be read; `fatal` in its kind says whether that can pass.
    Failed(KafkaError),
}

/// The partitions of one worker, each with a queue of its own.
pub trait PartitionSource {
    /// Appends what is there, within the budget, and says where reading stands. Never blocks.
    fn take(&mut self, partition: PartitionId, budget: Budget, out: &mut BatchBuilder) -> Taken;

    /// Goes on at another offset of a partition; what was read ahead of it is forgotten. `leader_epoch`: that of the record
    /// before the offset, so that a log that was cut below it since is told ([`Notice::Cut`]); none asks for no such look.
    fn seek(
        &mut self,
        partition: PartitionId,
        to: CommitOffset,
        leader_epoch: Option<i32>,
    ) -> Result<(), KafkaError>;

    /// Errors of the client that belong to no partition (all brokers down, authentication failed), for the log and for
    /// readiness; fatal ones end the flow.
    fn client_errors(&mut self, out: &mut Vec<KafkaError>);
}

/// Names one commit request of one store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One offset to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitEntry {
    /// The partition.
    pub partition: PartitionId,
    /// The next offset to read.
    pub offset: CommitOffset,
    /// What to write beside it.
    pub metadata: String,
    /// The epoch of the leader that the record before it was read from, if known.
    pub leader_epoch: Option<i32>,
    /// What the group has is looked at first, and not overwritten where somebody else set it
    /// ([`Kind::Moved`](crate::Kind::Moved)). What is set between the look and the commit is not seen. None: it is overwritten.
    pub guard: Option<Guard>,
}

/// The answer to one commit request.
#[derive(Debug)]
pub struct CommitAnswer {
    /// Which request.
    pub request: RequestId,
    /// One result for each entry of the request, in its order; an error of the whole request is in each.
    pub results: Vec<(PartitionId, Result<(), KafkaError>)>,
}

/// The group's offsets, for the partitions of one reader.
pub trait OffsetStore {
    /// Sends one request with all entries; never blocks. The answer comes through [`OffsetStore::answers`] and wakes.
    fn commit(&mut self, entries: &[CommitEntry]) -> Result<RequestId, KafkaError>;

    /// Appends the answers that have come.
    fn answers(&mut self, out: &mut Vec<CommitAnswer>);
}

/// An output of a writer, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutputIndex(pub usize);

/// Which time a written record carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// The source record's; where it has none, the producer's clock.
    Source,
    /// The producer's clock.
    Now,
}

impl Stamp {
    /// The time that a row is written with; none is the producer's clock. Kafka has no times below 0: what says one carries
    /// none.
    #[must_use]
    pub fn of(self, batch: &Batch, row: u32) -> Option<i64> {
        match self {
            Stamp::Source => batch.source(row).timestamp_ms.filter(|time| *time >= 0),
            Stamp::Now => None,
        }
    }
}

/// The fate of a row that was sent.
#[derive(Debug)]
pub enum Ack {
    /// Durably written, as the topic's acknowledgements demand.
    Written,
    /// Refused; what for, [`KafkaError::kind`] says. A broker refuses batches: a row may have been refused for another's
    /// sake.
    Refused(Refusal),
    /// Given back without a verdict (the client was closed, or was purged): it may or may not have been written.
    Unknown,
}

/// A row that was refused, given back.
#[derive(Debug)]
pub struct Refusal {
    /// Why.
    pub error: KafkaError,
    /// The batch that it was sent from.
    pub batch: Arc<Batch>,
    /// Its row there.
    pub row: u32,
}

/// Topics that one worker writes to.
pub trait TopicSink {
    /// Sends rows of a batch in order, with their tokens from the front of `tokens`, and says how many were accepted; it
    /// stops where the client's queue is full. A queue that is empty takes every row. Tokens of accepted rows are taken. A row that the client refuses on the
    /// spot counts as accepted and comes back from `acks`.
    fn send(
        &mut self,
        output: OutputIndex,
        batch: &Arc<Batch>,
        rows: &[u32],
        stamp: Stamp,
        tokens: &mut VecDeque<Token>,
    ) -> usize;

    /// Appends what became of rows, each once. Never blocks.
    fn acks(&mut self, out: &mut Vec<(OutputIndex, Token, Ack)>);

    /// Has rows sent at once that are held back to fill batches. Never blocks, and need not reach all of them: to be called
    /// again as long as somebody waits.
    fn flush(&mut self);

    /// Rows that were accepted and not yet answered.
    fn in_flight(&self) -> usize;

    /// Every row that was accepted and not yet given back, in no particular order: for status.
    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token));

    /// Every row that it keeps, with its partition and its batch, in no particular order.
    fn each_held(&self, each: &mut dyn FnMut(PartitionId, &Arc<Batch>, u32));

    /// Keeps copies of rows in place of the rows.
    fn move_rows(&mut self, moves: &Moves);

    /// Errors of the client that belong to no row, for the log; a fatal one ends the flow.
    fn client_errors(&mut self, out: &mut Vec<KafkaError>);

    /// Waits for acknowledgements up to `timeout`, then gives every row without one back as [`Ack::Unknown`]. The sink
    /// accepts nothing afterwards.
    fn close(&mut self, timeout: Duration);
}
