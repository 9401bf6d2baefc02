//! The script's side of the faults: rules are added through a handle of the broker, at any time, from any thread.

use std::sync::Arc;
use std::time::Duration;

use loom_types::{CommitOffset, TopicPartition};

use super::faults::{Call, CommitFault, RowFault, When};
use super::network::Network;
use super::record::Record;
use super::rights::Right;
use super::state::Shared;
use crate::contract::Notice;
use crate::error::{KafkaError, Kind};
use crate::facts::Group;

/// Writes the script of a broker's faults.
///
/// Methods that name a topic panic when there is none: a mistake of the script.
#[derive(Clone)]
pub struct Faults {
    pub(super) shared: Arc<Shared>,
}

impl Faults {
    /// A whole call fails. For [`Call::Take`] the partition's queue gives the error as a notice; for [`Call::Send`] the
    /// queue is full, whatever the error says; see [`Faults::commit`] for what else can happen to a commit.
    pub fn fail(&self, call: Call, when: When, error: KafkaError) {
        self.shared.lock().faults.add_call(call, when, error);
    }

    /// The place of a topic in the answers to [`Call::Topics`], [`Call::OutputTopics`], [`Call::Configurations`], [`Call::Committed`],
    /// [`Call::Bounds`], [`Call::OffsetsAt`], [`Call::CommitNow`] or [`Call::Commit`] is an error; all its partitions' places, where the call names partitions.
    pub fn fail_topic(&self, call: Call, topic: &str, when: When, error: KafkaError) {
        self.shared.lock().faults.add_topic(call, topic, when, error);
    }

    /// The same for one partition; with [`Call::Take`] its queue says the error each time, and gives nothing.
    pub fn fail_partition(&self, call: Call, partition: TopicPartition, when: When, error: KafkaError) {
        self.shared.lock().faults.add_partition(call, partition, when, error);
    }

    /// What happens to commit requests of the flow's group, of readers and of [`Call::CommitNow`].
    pub fn commit(&self, when: When, fault: CommitFault) {
        self.shared.lock().faults.add_commit(Group::Input, when, fault);
    }

    /// What happens to commit requests of the owner group: the beats of a lease.
    pub fn beat(&self, when: When, fault: CommitFault) {
        self.shared.lock().faults.add_commit(Group::Owner, when, fault);
    }

    /// What happens to rows that are sent to a topic.
    pub fn rows(&self, topic: &str, when: When, fault: RowFault) {
        self.shared.lock().faults.add_row_fault(topic, when, fault);
    }

    /// What happens to rows that are sent to a topic, by their content; the rule must not call the broker.
    pub fn rows_where(&self, topic: &str, rule: impl FnMut(&Record) -> Option<RowFault> + Send + 'static) {
        self.shared.lock().faults.add_rows(topic, Box::new(rule));
    }

    /// Takes a right away, from now on.
    pub fn deny(&self, right: Right) {
        let mut state = self.shared.lock();
        state.denied.insert(right);
        state.wake_all();
    }

    /// Gives a right back.
    pub fn allow(&self, right: &Right) {
        let mut state = self.shared.lock();
        state.denied.remove(right);
        state.wake_all();
    }

    /// Whether the broker says what older ones do not: topics' ids, leaders' epochs, rights (yes).
    pub fn tell_all(&self, all: bool) {
        self.shared.lock().silent = !all;
    }

    /// A partition's queue says this before the record at `at`, once.
    pub fn notice(&self, partition: &TopicPartition, at: CommitOffset, notice: Notice) {
        let mut state = self.shared.lock();
        let log = state.log_mut(partition).expect("a notice belongs to a partition that exists");
        log.add_notice(at.0, notice);
        for (_, waker) in log.waiting.drain(..) {
            waker();
        }
    }

    /// These records are a batch that is damaged: who comes to one of them is told so, and reads nothing behind it.
    pub fn break_batch(&self, partition: &TopicPartition, first: CommitOffset, last: CommitOffset) {
        let mut state = self.shared.lock();
        let log = state.log_mut(partition).expect("a batch is damaged of a partition that exists");
        log.broken.push((first.0, last.0));
    }

    /// Damaged batches of a partition are whole again, as where another copy is read.
    pub fn mend_batches(&self, partition: &TopicPartition) {
        let mut state = self.shared.lock();
        state.log_mut(partition).expect("a partition that exists").broken.clear();
    }

    /// A partition's queue gives nothing and says nothing, though records are there: as after a wake-up or a fetch that a
    /// client has lost.
    pub fn silence(&self, partition: &TopicPartition, silent: bool) {
        let mut state = self.shared.lock();
        let log = state.log_mut(partition).expect("a partition that exists falls silent");
        log.silent = silent;
        for (_, waker) in log.waiting.drain(..) {
            waker();
        }
    }

    /// Every reader's client reports this.
    pub fn reader_error(&self, error: KafkaError) {
        let mut state = self.shared.lock();
        for reader in state.readers.iter_mut().flatten() {
            reader.errors.push(error.clone());
            (reader.waker)();
        }
    }

    /// Every writer's client reports this.
    pub fn writer_error(&self, error: KafkaError) {
        let mut state = self.shared.lock();
        for writer in state.writers.iter_mut().flatten() {
            writer.errors.push(error.clone());
            (writer.waker)();
        }
    }

    /// How long rows are on their way, from now on.
    pub fn network(&self, network: Network) {
        self.shared.lock().network = network;
    }

    /// The clients of every writer fail for good, as when a producer's id is no longer known. What they sent may be
    /// written all the same; they give all rows back without a verdict.
    pub fn fail_writers(&self, error: KafkaError) {
        let mut state = self.shared.lock();
        let error = KafkaError { kind: Kind::Fatal, ..error };
        for id in 0..state.writers.len() {
            state.fail_writer(id, &error);
        }
    }

    /// For this time a topic is unknown to clients, as while metadata settles. Rows for it wait in the client, up to a
    /// minute.
    pub fn hide_topic(&self, topic: &str, time: Duration) {
        let mut state = self.shared.lock();
        let slot = state.slot(topic).expect("a topic that exists is hidden");
        let until = state.now() + time;
        state.topics[slot].hidden_until = Some(until);
        state.wake_all();
    }

    /// The next `times` wake-ups of readers that wait at a partition are lost.
    pub fn lose_wakes(&self, partition: &TopicPartition, times: u64) {
        let mut state = self.shared.lock();
        let log = state.log_mut(partition).expect("wake-ups are lost of a partition that exists");
        log.lost_wakes = times;
    }

    /// Clients that read a partition give its last `records` records out a second time, as clients have done by a fault of
    /// theirs.
    pub fn give_again(&self, partition: &TopicPartition, records: i64) {
        let mut state = self.shared.lock();
        let low = state.log(partition).expect("a partition that exists is read again").low();
        for reader in state.readers.iter_mut().flatten() {
            for place in reader.partitions.iter_mut().filter(|place| place.name == *partition) {
                place.next = (place.next - records).max(low);
                place.ahead.clear();
                (place.fetched, place.end_told) = (place.next, None);
            }
        }
        state.wake_all();
    }

    /// Wakes everybody for nothing.
    pub fn wake_all(&self) {
        self.shared.lock().wake_all();
    }

    /// From now on readers' clients fetch so many records of each partition ahead of what they give out (0): what
    /// happens at the broker meanwhile, they see behind these.
    pub fn read_ahead(&self, records: usize) {
        self.shared.lock().read_ahead = records;
    }

    /// From now on rows sent to a topic are written and get no acknowledgement.
    pub fn hold_acks(&self, topic: &str) {
        let mut state = self.shared.lock();
        let slot = state.slot(topic).expect("acknowledgements are held of a topic that exists");
        let sent = state.topics[slot].sent;
        state.topics[slot].acknowledged_below.get_or_insert(sent);
    }

    /// Acknowledges the next `rows` rows of a topic that is held, in the order they were sent, also ones that come later.
    pub fn release_acks(&self, topic: &str, rows: u64) {
        let mut state = self.shared.lock();
        let slot = state.slot(topic).expect("acknowledgements are released of a topic that exists");
        if let Some(below) = &mut state.topics[slot].acknowledged_below {
            *below += rows;
        }
        state.wake_all();
    }

    /// Acknowledges all rows of a topic, and those to come.
    pub fn release_all_acks(&self, topic: &str) {
        let mut state = self.shared.lock();
        let slot = state.slot(topic).expect("acknowledgements are released of a topic that exists");
        state.topics[slot].acknowledged_below = None;
        state.wake_all();
    }

    /// From now on acknowledgements of a topic come this long after the write; see `MemoryBroker::tick`.
    pub fn delay_acks(&self, topic: &str, delay: Duration) {
        let mut state = self.shared.lock();
        let slot = state.slot(topic).expect("acknowledgements are delayed of a topic that exists");
        state.topics[slot].ack_delay = delay;
    }

    /// No broker can be reached: nothing is read, rows wait in the client's queue, commits are answered with an error,
    /// questions fail.
    pub fn go_down(&self) {
        let mut state = self.shared.lock();
        state.down = true;
        state.report_down();
    }

    /// The brokers are back.
    pub fn come_up(&self) {
        let mut state = self.shared.lock();
        state.down = false;
        state.wake_all();
    }

    /// Forgets all rules; held or late acknowledgements stay so.
    pub fn clear(&self) {
        self.shared.lock().faults.clear();
    }
}
