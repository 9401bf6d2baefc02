//! The partitions of one worker, each with a queue of its own.
//!
//! Messages are read in batches into an array that is used again, copied into the columns and freed within the call, since
//! a message pins the whole fetch that it came with. What was read and does not fit into the budget is copied aside and
//! goes first at the next take.
//!
//! Invariants: a partition's records come in offset order, each once; `end` is told only when nothing was read after it;
//! after an event that ends the reading nothing else is read until a seek; a take gives out records of one epoch.
//!
//! Behind a batch that it cannot read the client goes on with whatever it takes for the next one, at offsets that may be
//! made up. So such a batch ends the reading too, and the client fetches nothing more before the seek.

use std::collections::VecDeque;
use std::sync::Arc;

use loom_types::{BatchBuilder, CommitOffset, PartitionId, RecordOffset, RecordRef};
use rdkafka::types::RDKafkaErrorCode as E;

use super::classify::{configuration, error, kind};
use super::events::Errors;
use super::name;
use super::raw::{Client, List, Message, Messages, Name, Queue};
use crate::contract::{Budget, Notice, PartitionSource, Taken, Waker};
use crate::error::{KafkaError, Kind};
use crate::facts::Assigned;
use crate::settings::ConsumerSettings;

/// The reading half of a consumer client.
pub(super) struct Source {
    slots: Vec<Slot>,
    messages: Messages,
    errors: Errors,
    forward_tombstones: bool,
    waker: Waker,
    main: Queue,
    client: Arc<Client>,
}

/// One partition.
struct Slot {
    name: Name,
    assigned: Assigned,
    queue: Queue,
    /// What was read and not given out yet.
    aside: VecDeque<Aside>,
    /// The size of a record, roughly, which decides how many are read at a time.
    usual: usize,
    fetching: Fetching,
}

/// Whether a partition is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetching {
    Goes,
    /// It has ended with an error; only a restart starts it again.
    Ended,
    /// We have ended it: the partition is not the client's at present.
    Stopped,
}

/// What came from a queue, copied.
enum Aside {
    Record(Box<Record>),
    Event(Event),
}

/// A record, copied.
struct Record {
    offset: i64,
    timestamp_ms: Option<i64>,
    leader_epoch: Option<i32>,
    key: Option<Vec<u8>>,
    payload: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

/// What else a queue holds.
enum Event {
    End { at: CommitOffset, log_end: Option<CommitOffset> },
    OutOfRange,
    Cut(CommitOffset),
    Broken(CommitOffset, KafkaError),
    Failed(KafkaError),
}

impl Source {
    /// Starts reading, in the background.
    pub(super) fn new(
        client: &Arc<Client>,
        assigned: &[Assigned],
        settings: &ConsumerSettings,
        waker: &Waker,
    ) -> Result<Source, KafkaError> {
        let mut main = Queue::consumer(client);
        main.wake(waker);
        let mut slots = Vec::with_capacity(assigned.len());
        let mut starts = List::new(assigned.len());
        for (index, assigned) in assigned.iter().enumerate() {
            debug_assert_eq!(assigned.id.index(), index, "partitions are numbered from 0 in order");
            let name = name(&assigned.partition.topic)?;
            let mut queue = Queue::partition(client, &name, assigned.partition.partition)
                .ok_or_else(|| configuration(format!("{} is not a partition", assigned.partition)))?;
            queue.wake(waker);
            starts.push_with(
                &name,
                assigned.partition.partition,
                assigned.start.0,
                index,
                "",
                assigned.leader_epoch,
            );
            let aside = VecDeque::new();
            slots.push(Slot {
                name,
                assigned: assigned.clone(),
                queue,
                aside,
                usual: 16 << 10,
                fetching: Fetching::Goes,
            });
        }
        client.assign(&starts).map_err(|code| error(kind(code), code, "starting to read the partitions"))?;
        Ok(Source {
            slots,
            messages: Messages::new(),
            errors: Errors::new(),
            forward_tombstones: settings.forward_tombstones,
            waker: waker.clone(),
            main,
            client: client.clone(),
        })
    }
}

impl PartitionSource for Source {
    fn take(&mut self, partition: PartitionId, budget: Budget, out: &mut BatchBuilder) -> Taken {
        let slot = &mut self.slots[partition.index()];
        let mut take = Take {
            taken: Taken::default(),
            budget,
            bytes: 0,
            forward_tombstones: self.forward_tombstones,
            assigned: &slot.assigned,
            full: false,
        };
        if slot.fetching != Fetching::Goes {
            return Taken::default();
        }
        while let Some(aside) = slot.aside.pop_front() {
            if let Err(aside) = take.aside(aside, out) {
                slot.aside.push_front(aside);
                take.full = true;
                break;
            }
            if take.taken.notice.is_some() {
                break;
            }
        }
        let mut emptied = false;
        while !emptied && !take.full && take.taken.notice.is_none() {
            let Some(room) = take.room(slot.usual) else { break };
            let read = self.messages.read(&slot.queue, room);
            emptied = read < room;
            let (mut bytes, mut records) = (0, 0);
            while let Some(message) = self.messages.next() {
                let before = take.bytes;
                records += usize::from(!message.code().is_error());
                if take.full || take.taken.notice.is_some() || !take.message(&message, out) {
                    take.full = true;
                    let aside = Aside::copy(&message, &slot.assigned);
                    bytes += aside.size();
                    slot.aside.push_back(aside);
                }
                bytes += take.bytes - before;
            }
            if let Some(now) = bytes.checked_div(records) {
                // Moves at once to larger records, slowly to smaller ones: reading too few costs a call, reading
                // too many a copy.
                slot.usual = if now > slot.usual { now } else { (slot.usual + now) / 2 };
            }
        }
        let mut taken = take.taken;
        taken.more = !emptied || !slot.aside.is_empty();
        match taken.notice {
            Some(Notice::OutOfRange | Notice::Cut { .. }) => slot.fetching = Fetching::Ended,
            // The client would fetch it again and again.
            Some(Notice::Broken { .. }) => slot.stop(&self.client),
            Some(Notice::Failed(_)) | None => {}
        }
        taken
    }

    fn seek(
        &mut self,
        partition: PartitionId,
        to: CommitOffset,
        leader_epoch: Option<i32>,
    ) -> Result<(), KafkaError> {
        let slot = &mut self.slots[partition.index()];
        slot.aside.clear();
        let mut place = List::new(1);
        place.push_with(&slot.name, slot.assigned.partition.partition, to.0, 0, "", leader_epoch);
        let outcome = match slot.fetching {
            Fetching::Goes => self.client.seek(&mut place),
            Fetching::Ended => self.client.restart(&place),
            Fetching::Stopped => self.client.add(&place),
        };
        outcome
            .map_err(|code| error(kind(code), code, format!("moving {} to {to}", slot.assigned.partition)))?;
        slot.fetching = Fetching::Goes;
        // What was queued is outdated, and stays in the queue until it is passed over: as long as it is not empty, what
        // comes wakes nobody.
        (self.waker)();
        Ok(())
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.errors.drain_all(&self.main);
        self.errors.give(out);
    }
}

impl Slot {
    /// Ends the fetching until a seek.
    fn stop(&mut self, client: &Client) {
        let mut place = List::new(1);
        place.push(&self.name, self.assigned.partition.partition, 0, 0);
        self.fetching = match client.remove(&place) {
            Ok(()) => Fetching::Stopped,
            Err(code) => {
                let partition = &self.assigned.partition;
                tracing::debug!(target: "kafka", %partition, code = code.name(), "a broken batch is fetched on");
                Fetching::Ended
            }
        };
    }
}

/// One take under way.
struct Take<'a> {
    taken: Taken,
    budget: Budget,
    bytes: usize,
    forward_tombstones: bool,
    assigned: &'a Assigned,
    /// Something did not fit.
    full: bool,
}

impl Take<'_> {
    /// How many messages to read next, where records have this size; none when the budget is used up. Skipped records
    /// count, so that a long run of tombstones does not hold the worker.
    fn room(&self, usual: usize) -> Option<usize> {
        let handled = self.taken.rows + usize::try_from(self.taken.skipped).unwrap_or(usize::MAX);
        let rows = self.budget.rows.saturating_sub(handled);
        let bytes = self.budget.bytes.saturating_sub(self.bytes);
        if rows == 0 || (bytes == 0 && self.taken.rows > 0) {
            return None;
        }
        Some(rows.min(bytes / usual.max(1)).max(1))
    }

    /// Whether a record of this epoch may still be taken: the first one always.
    fn is_of(&self, leader_epoch: Option<i32>) -> bool {
        self.taken.position.is_none() || self.taken.leader_epoch == leader_epoch
    }

    /// Whether a record of this size may still be taken: the first one always.
    fn fits(&self, size: usize) -> bool {
        self.taken.rows == 0 || self.bytes + size <= self.budget.bytes
    }

    /// Takes a message; false where it does not fit.
    fn message(&mut self, message: &Message, out: &mut BatchBuilder) -> bool {
        let code = message.code();
        if code.is_error() {
            self.event(Event::of(message, self.assigned));
            return true;
        }
        let (key, payload, epoch) = (message.key(), message.payload(), message.leader_epoch());
        if !self.is_of(epoch) {
            return false;
        }
        if payload.is_none() && !self.forward_tombstones {
            self.skip(message.offset(), epoch);
            return true;
        }
        message.headers(|name, value| out.header(name, value));
        if !self.push(message.offset(), message.timestamp(), key, payload, out) {
            return false;
        }
        self.taken.leader_epoch = epoch;
        true
    }

    /// Takes what was set aside; it comes back where it does not fit.
    fn aside(&mut self, aside: Aside, out: &mut BatchBuilder) -> Result<(), Aside> {
        let record = match aside {
            Aside::Event(event) => {
                self.event(event);
                return Ok(());
            }
            Aside::Record(record) => record,
        };
        if self.room(1).is_none() || !self.is_of(record.leader_epoch) {
            return Err(Aside::Record(record));
        }
        let (key, payload) = (record.key.as_deref(), record.payload.as_deref());
        if payload.is_none() && !self.forward_tombstones {
            self.skip(record.offset, record.leader_epoch);
            return Ok(());
        }
        for (name, value) in &record.headers {
            out.header(name, value.as_deref());
        }
        if !self.push(record.offset, record.timestamp_ms, key, payload, out) {
            return Err(Aside::Record(record));
        }
        self.taken.leader_epoch = record.leader_epoch;
        Ok(())
    }

    /// Takes a record whose headers the batch has already; false where it does not fit.
    fn push(
        &mut self,
        offset: i64,
        timestamp_ms: Option<i64>,
        key: Option<&[u8]>,
        payload: Option<&[u8]>,
        out: &mut BatchBuilder,
    ) -> bool {
        let offset = RecordOffset(offset);
        let size = key.map_or(0, <[u8]>::len) + payload.map_or(0, <[u8]>::len) + out.header_bytes();
        if !self.fits(size) {
            out.forget_headers();
            return false;
        }
        let pushed = out.push(RecordRef {
            topic: self.assigned.topic,
            partition: self.assigned.partition.partition,
            offset,
            timestamp_ms,
            key,
            payload,
            row: "",
        });
        if let Err(full) = pushed {
            // Mostly beside what other partitions gave.
            if out.is_empty() {
                let message =
                    format!("record {offset} of {} cannot be held: {full}", self.assigned.partition);
                let error = KafkaError { kind: Kind::Other, code: "RECORD_TOO_LARGE", message };
                self.taken.notice = Some(Notice::Failed(error));
            }
            return false;
        }
        self.taken.rows += 1;
        self.bytes += size;
        self.moved(offset);
        true
    }

    fn skip(&mut self, offset: i64, leader_epoch: Option<i32>) {
        self.taken.skipped += 1;
        self.taken.leader_epoch = leader_epoch;
        self.moved(RecordOffset(offset));
    }

    fn moved(&mut self, to: RecordOffset) {
        self.taken.position = Some(to.next());
        (self.taken.end, self.taken.log_end) = (None, None);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::End { at, log_end } => (self.taken.end, self.taken.log_end) = (Some(at), log_end),
            Event::OutOfRange => self.taken.notice = Some(Notice::OutOfRange),
            Event::Cut(end) => self.taken.notice = Some(Notice::Cut { end }),
            Event::Broken(first, error) => self.taken.notice = Some(Notice::Broken { first, error }),
            Event::Failed(error) => self.taken.notice = Some(Notice::Failed(error)),
        }
    }
}

impl Event {
    /// What a message that is no record says.
    fn of(message: &Message, assigned: &Assigned) -> Event {
        let code = message.code();
        match code.known() {
            // The event's own offset: a partition's end may have moved on since.
            Some(E::PartitionEOF) => {
                Event::End { at: CommitOffset(message.offset()), log_end: log_end(&message.text()) }
            }
            Some(E::AutoOffsetReset | E::OffsetOutOfRange | E::LogTruncation) => {
                cut_at(&message.text()).map_or(Event::OutOfRange, Event::Cut)
            }
            _ => {
                let kind = match kind(code) {
                    // A broken batch is not the client's end.
                    Kind::Fatal | Kind::Refused => Kind::Other,
                    kind => kind,
                };
                // A checksum that is not its batch's, or a format or a compression that there is not.
                let broken =
                    matches!(code.known(), Some(E::BadMessage | E::NotImplemented | E::BadCompression));
                let first = CommitOffset(message.offset());
                let message = format!("reading {}: {}", assigned.partition, message.text());
                let failed = KafkaError { kind, code: code.name(), message };
                if broken {
                    Event::Broken(first, failed)
                } else {
                    Event::Failed(failed.naming_right("Read", &assigned.partition.topic, ""))
                }
            }
        }
    }
}

/// Where the client found the log cut: it says so in its text only.
fn cut_at(text: &str) -> Option<CommitOffset> {
    let (_, text) = text.split_once("log truncation detected")?;
    offset_behind(text, "end offset is ")
}

/// Where the log ended when a reader came to the end of what it may read: the client says so in its text only.
fn log_end(text: &str) -> Option<CommitOffset> {
    offset_behind(text, "(HighwaterMark ")
}

fn offset_behind(text: &str, words: &str) -> Option<CommitOffset> {
    let (_, number) = text.split_once(words)?;
    let digits = number.find(|other: char| !other.is_ascii_digit()).unwrap_or(number.len());
    number[..digits].parse().ok().map(CommitOffset)
}

impl Aside {
    fn size(&self) -> usize {
        let Aside::Record(record) = self else { return 0 };
        let bytes = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers = record.headers.iter().map(|(name, value)| name.len() + bytes(value));
        bytes(&record.key) + bytes(&record.payload) + headers.sum::<usize>()
    }

    fn copy(message: &Message, assigned: &Assigned) -> Aside {
        if message.code().is_error() {
            return Aside::Event(Event::of(message, assigned));
        }
        let mut headers = Vec::new();
        message.headers(|name, value| headers.push((name.to_vec(), value.map(<[u8]>::to_vec))));
        Aside::Record(Box::new(Record {
            offset: message.offset(),
            timestamp_ms: message.timestamp(),
            leader_epoch: message.leader_epoch(),
            key: message.key().map(<[u8]>::to_vec),
            payload: message.payload().map(<[u8]>::to_vec),
            headers,
        }))
    }
}

#[cfg(test)]
mod tests {
    use loom_types::CommitOffset;

    use super::{cut_at, log_end};

    #[test]
    fn where_the_log_ends_is_read_from_the_clients_text() {
        let text = "Fetch from broker 1 reached end of partition at offset 5 (HighwaterMark 9)";
        assert_eq!(log_end(text), Some(CommitOffset(9)));
        for other in ["reached end of partition at offset 5", "reached end (HighwaterMark -1)", ""] {
            assert_eq!(log_end(other), None, "{other}");
        }
    }

    #[test]
    fn where_a_log_was_cut_is_read_from_the_clients_text() {
        let text = "Partition log truncation detected at offset 12 (leader epoch 1): broker end offset is 6 (offset leader \
                    epoch 0). Reset to INVALID.: Local: Partition log truncation detected (broker 1)";
        assert_eq!(cut_at(text), Some(CommitOffset(6)));
        for other in [
            "fetch failed due to requested offset not available on the broker: Broker: Offset out of range (broker 1)",
            "No epoch found less or equal to offset 12 (leader epoch 1): broker end offset is -1 (offset leader epoch -1).",
            "",
        ] {
            assert_eq!(cut_at(other), None, "{other}");
        }
    }
}
