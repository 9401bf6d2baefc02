//! The way from a producer to its broker: batches linger, travel, are written whole or not at all, and are answered
//! later.
//!
//! Batches of one client for one partition keep their order, on the way there and back; others overtake each other. A
//! batch that was sent is on its way whatever becomes of its producer: it may land after a crash.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use loom_types::Moment;

use super::faults::{RowFault, unknown_topic};
use super::log::Body;
use super::partitioner::partition_of_key;
use super::record::Record;
use super::rights::Right;
use super::state::State;
use crate::error::{KafkaError, Kind};

/// How long rows are on their way. By default no time: a row is written, and answered for, within the call that sends
/// it, and the rows of one call to one partition are a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// How long a batch is open for more rows of other calls.
    pub linger: Duration,
    /// How long a batch that is closed is on its way; drawn from the seed.
    pub send: RangeInclusive<Duration>,
    /// How long its acknowledgement is; drawn from the seed.
    pub acknowledge: RangeInclusive<Duration>,
}

impl Default for Network {
    fn default() -> Self {
        let none = Duration::ZERO..=Duration::ZERO;
        Network { linger: Duration::ZERO, send: none.clone(), acknowledge: none }
    }
}

/// How long a client waits for a topic that is not there, before it refuses its rows.
const PROPAGATION: Duration = Duration::from_secs(60);

/// When a client tries a batch again.
const RETRY: Duration = Duration::from_millis(100);

/// The partition of rows for a topic that is not there.
const UNASSIGNED: i32 = -1;

/// Which batches keep their order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LaneKey {
    writer: usize,
    client: usize,
    topic: Arc<str>,
    partition: i32,
}

/// Batches of one client on their way to one partition.
#[derive(Debug, Default)]
pub(super) struct Lane {
    flights: VecDeque<Flight>,
    /// When the last one that was sent lands.
    last_due: Moment,
    /// When the last answer that was given comes.
    last_answer: Moment,
}

#[derive(Debug)]
struct Flight {
    /// Serial numbers of its writer's rows, and the rows.
    rows: Vec<(u64, Record)>,
    bytes: usize,
    /// The call that opened it.
    call: u64,
    open_until: Moment,
    due: Moment,
    /// Its number among all: of two that land at once, the earlier is first.
    number: u64,
    /// Since when the topic is missing.
    missing_since: Option<Moment>,
}

/// Who sends a row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub writer: usize,
    pub client: usize,
    /// The number of the call.
    pub call: u64,
    /// Bytes of a batch, at most; one row may pass it alone.
    pub batch_bytes: usize,
}

/// What became of a row, and when its writer hears of it.
#[derive(Debug)]
pub(super) struct Answer {
    pub serial: u64,
    pub due: Moment,
    pub fate: Result<(), RowFault>,
}

/// What a broker makes of a batch.
enum Outcome {
    Written(Vec<Option<RowFault>>),
    /// Refused as a whole.
    Refused(KafkaError),
    /// The client tries it again.
    Again(Duration),
    /// The topic is there now: its rows get partitions.
    Assign,
}

impl State {
    /// Takes a row into the client's queue.
    pub fn send_row(&mut self, sender: Sender, topic: &Arc<str>, serial: u64, record: Record) {
        let partition = match self.seen(topic) {
            Some(slot) => {
                self.assign(&LaneKey {
                    writer: sender.writer,
                    client: sender.client,
                    topic: topic.clone(),
                    partition: UNASSIGNED,
                });
                self.choose_partition(slot, &record)
            }
            None => UNASSIGNED,
        };
        let key = LaneKey { writer: sender.writer, client: sender.client, topic: topic.clone(), partition };
        let (now, bytes) = (self.now(), record.bytes());
        let last = self.lanes.get_mut(&key).and_then(|lane| lane.flights.back_mut());
        if let Some(open) = last
            && (open.call == sender.call || now < open.open_until)
            && open.bytes + bytes <= sender.batch_bytes
        {
            open.bytes += bytes;
            open.rows.push((serial, record));
            return;
        }
        let open_until = now + self.network.linger;
        let travels = self.draw(self.network.send.clone());
        let number = self.flights;
        self.flights += 1;
        let lane = self.lanes.entry(key).or_default();
        lane.last_due = lane.last_due.max(open_until + travels);
        lane.flights.push_back(Flight {
            rows: vec![(serial, record)],
            bytes,
            call: sender.call,
            open_until,
            due: lane.last_due,
            number,
            missing_since: None,
        });
    }

    /// The topic is there: rows that waited for it get their partitions, ahead of all that come later.
    fn assign(&mut self, waiting: &LaneKey) {
        let Some(lane) = self.lanes.remove(waiting) else { return };
        for Flight { rows, call, .. } in lane.flights {
            let LaneKey { writer, client, .. } = *waiting;
            let sender = Sender { writer, client, call, batch_bytes: usize::MAX };
            for (serial, record) in rows {
                self.send_row(sender, &waiting.topic, serial, record);
            }
        }
    }

    fn choose_partition(&mut self, slot: usize, record: &Record) -> i32 {
        let partitions = self.topics[slot].logs.len() as i32;
        match &record.key {
            Some(key) => partition_of_key(key, partitions),
            None => (self.random() % partitions as u64) as i32,
        }
    }

    /// Draws a time from the seed.
    pub fn draw(&mut self, range: RangeInclusive<Duration>) -> Duration {
        let (start, end) = (*range.start(), *range.end());
        let nanos = u64::try_from(end.saturating_sub(start).as_nanos()).unwrap_or(u64::MAX);
        if nanos == 0 {
            return start;
        }
        start + Duration::from_nanos(self.random() % nanos.saturating_add(1).max(1))
    }

    /// Writes what has arrived by now.
    pub fn land(&mut self) {
        let now = self.now();
        while let Some((key, _)) = self.next_flight(|_| true).filter(|(_, due)| *due <= now) {
            self.land_first(&key, now);
        }
    }

    /// Sends what a writer's clients have, waiting for nothing more.
    pub fn hurry(&mut self, writer: usize) {
        let now = self.now();
        for (_, lane) in self.lanes.iter_mut().filter(|(key, _)| key.writer == writer) {
            for flight in &mut lane.flights {
                let lingers = flight.open_until.since(now);
                if !lingers.is_zero() {
                    flight.open_until = now;
                    flight.due = Moment(flight.due.0.saturating_sub(lingers)).max(now);
                }
            }
            lane.last_due = lane.flights.back().map_or(lane.last_due, |flight| flight.due);
        }
    }

    /// The same, and writes what arrives until then.
    pub fn flush(&mut self, writer: usize, until: Moment) {
        let now = self.now();
        self.hurry(writer);
        while let Some((key, due)) =
            self.next_flight(|key| key.writer == writer).filter(|(_, due)| *due <= until)
        {
            self.land_first(&key, due.max(now));
        }
    }

    /// A writer is gone: what was not sent goes with it, and all of it where no broker can be reached.
    pub fn abandon(&mut self, writer: usize) {
        let (now, down) = (self.now(), self.down);
        for (_, lane) in self.lanes.iter_mut().filter(|(key, _)| key.writer == writer) {
            lane.flights.retain(|flight| !down && flight.open_until <= now);
        }
        self.lanes.retain(|key, lane| {
            key.writer != writer || (key.partition != UNASSIGNED && !lane.flights.is_empty())
        });
    }

    /// The flight that lands next, of those that may; none where no broker can be reached.
    fn next_flight(&self, may: impl Fn(&LaneKey) -> bool) -> Option<(LaneKey, Moment)> {
        if self.down {
            return None;
        }
        let heads = self.lanes.iter().filter(|(key, _)| may(key));
        let heads = heads.filter_map(|(key, lane)| Some((key, lane.flights.front()?)));
        heads
            .min_by_key(|(_, flight)| (flight.due, flight.number))
            .map(|(key, flight)| (key.clone(), flight.due))
    }

    /// When the next flight lands.
    pub fn next_landing(&self) -> Option<Moment> {
        self.next_flight(|_| true).map(|(_, due)| due)
    }

    /// Writes the first batch of a lane, or whatever else becomes of it.
    fn land_first(&mut self, key: &LaneKey, at: Moment) {
        let Some(mut lane) = self.lanes.remove(key) else { return };
        let Some(mut flight) = lane.flights.pop_front() else { return };
        let lives = self.writers[key.writer].as_ref().is_some_and(|writer| !writer.dead);
        match self.judge(key, &mut flight, at) {
            Outcome::Again(after) if lives => {
                flight.due = at + after;
                lane.flights.push_front(flight);
            }
            // Nobody is there to try it again, and what waits behind it was never sent.
            Outcome::Again(_) => lane.flights.clear(),
            Outcome::Assign => {
                lane.flights.push_front(flight);
                self.lanes.insert(key.clone(), lane);
                return self.assign(key);
            }
            Outcome::Refused(error) => {
                let refused = |(serial, _)| (serial, Err(RowFault::Refused(error.clone())));
                let fates = flight.rows.into_iter().map(refused).collect();
                self.answer(key, &mut lane, fates, at);
            }
            Outcome::Written(faults) => {
                let (slot, mut fates) = (self.seen(&key.topic), Vec::with_capacity(faults.len()));
                for ((serial, record), fault) in flight.rows.into_iter().zip(faults) {
                    let kept = !matches!(fault, Some(RowFault::Lost | RowFault::Refused(_)));
                    if let (Some(slot), true) = (slot, kept) {
                        self.append(slot, key.partition, Body::Record(record), Some(key.writer));
                    }
                    fates.push((serial, fault.map_or(Ok(()), Err)));
                }
                // A batch has one answer.
                let failed = fates.iter().find_map(|(_, fate)| match fate {
                    Err(RowFault::WrittenThenRefused(error)) => Some(error.clone()),
                    _ => None,
                });
                if let Some(error) = failed {
                    fates.iter_mut().for_each(|(_, fate)| *fate = Err(RowFault::Refused(error.clone())));
                }
                self.answer(key, &mut lane, fates, at);
            }
        }
        if !lane.flights.is_empty() || lane.last_answer > at {
            self.lanes.insert(key.clone(), lane);
        }
    }

    fn judge(&mut self, key: &LaneKey, flight: &mut Flight, at: Moment) -> Outcome {
        let slot = self.seen(&key.topic).filter(|slot| {
            key.partition == UNASSIGNED || (key.partition as usize) < self.topics[*slot].logs.len()
        });
        let Some(slot) = slot else {
            let since = *flight.missing_since.get_or_insert(at);
            return if at.since(since) >= PROPAGATION {
                Outcome::Refused(unknown_topic(&key.topic))
            } else {
                Outcome::Again(RETRY)
            };
        };
        if key.partition == UNASSIGNED {
            return Outcome::Assign;
        }
        flight.missing_since = None;
        if let Err(error) = self.demand(&Right::Write(key.topic.clone())) {
            return Outcome::Refused(error);
        }
        let config = self.topics[slot].config;
        if flight.bytes > config.max_message_bytes {
            return Outcome::Refused(too_large(&key.topic, config.max_message_bytes));
        }
        if config.compacted && flight.rows.iter().any(|(_, record)| record.key.is_none()) {
            // The broker calls the batch corrupt, and the client tries it again for ever: CORRUPT_MESSAGE.
            return Outcome::Again(RETRY);
        }
        let mut faults = Vec::with_capacity(flight.rows.len());
        let mut refused = None;
        for (_, record) in &flight.rows {
            match self.faults.row(&key.topic, record) {
                Some(RowFault::RefusedBatch(error)) => refused = refused.or(Some(error)),
                fault => faults.push(fault),
            }
        }
        refused.map_or(Outcome::Written(faults), Outcome::Refused)
    }

    fn answer(
        &mut self,
        key: &LaneKey,
        lane: &mut Lane,
        fates: Vec<(u64, Result<(), RowFault>)>,
        at: Moment,
    ) {
        let delay = self.seen(&key.topic).map_or(Duration::ZERO, |slot| self.topics[slot].ack_delay);
        let comes = at + delay + self.draw(self.network.acknowledge.clone());
        lane.last_answer = lane.last_answer.max(comes);
        let (due, now) = (lane.last_answer, self.now());
        let Some(writer) = self.writers[key.writer].as_mut() else { return };
        for (serial, fate) in fates {
            writer.answers.push_back(Answer { serial, due, fate });
        }
        if due <= now {
            (writer.waker)();
        } else {
            writer.due = Some(writer.due.map_or(due, |other| other.min(due)));
        }
    }
}

fn too_large(topic: &str, limit: usize) -> KafkaError {
    KafkaError {
        kind: Kind::Refused,
        code: "MSG_SIZE_TOO_LARGE",
        message: format!("topic `{topic}` takes no batch of more than {limit} bytes"),
    }
}
