//! The writing half of a client: rows are handed to the network, answered in its order, and counted against the client's
//! queue until their answer was taken.
//!
//! Tokens stay with the writer: the shared state only says which rows have their answer by now.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::Token;
use loom_types::{Batch, Moment, Moves, PartitionId};

use super::faults::{Call, RowFault};
use super::network::{Answer, Sender};
use super::record::Record;
use super::rights::Right;
use super::state::{Shared, State};
use crate::contract::{Ack, OutputIndex, Refusal, Stamp, TopicSink, Waker};
use crate::error::{KafkaError, Kind};
use crate::facts::OutputSettings;
use crate::queue::Queued;
use crate::settings::ProducerSettings;

/// The size of a batch, where no output's limit is below it.
const BATCH_BYTES: usize = 1_000_000;

/// What the broker knows of a writer.
pub(super) struct WriterState {
    pub waker: Waker,
    pub errors: Vec<KafkaError>,
    /// Answers that came, or are on their way, in the order of their landing.
    pub answers: VecDeque<Answer>,
    /// When the next answer on its way comes.
    pub due: Option<Moment>,
    /// Its clients can not go on.
    pub dead: bool,
}

pub(super) struct MemorySink {
    shared: Arc<Shared>,
    id: usize,
    outputs: Vec<Output>,
    clients: Vec<Client>,
    /// Rows without an answer, by their number among this writer's.
    rows: BTreeMap<u64, Row>,
    next_row: u64,
    calls: u64,
    /// Answers of rows that `close` gave back.
    closed: Option<Vec<(OutputIndex, Token, Ack)>>,
}

struct Output {
    topic: Arc<str>,
    /// The topic's place when it was last there.
    slot: usize,
    client: usize,
}

/// One producer: outputs with equal settings share it and its queue.
struct Client {
    settings: Arc<ProducerSettings>,
    capacity: usize,
    queued: Queued,
    batch_bytes: usize,
    in_flight: usize,
}

struct Row {
    output: OutputIndex,
    token: Token,
    batch: Arc<Batch>,
    row: u32,
    /// Its number among the rows of its topic.
    number: u64,
    /// What it counts as in the client's queue.
    bytes: usize,
}

impl Client {
    /// A row has left its queue.
    fn left(&mut self, row: &Row) {
        self.in_flight -= 1;
        self.queued.left(row.bytes);
    }
}

impl MemorySink {
    pub fn new(
        shared: Arc<Shared>,
        outputs: &[OutputSettings],
        room: usize,
        waker: Waker,
    ) -> Result<Self, KafkaError> {
        let mut state = shared.lock();
        let mut clients: Vec<Client> = Vec::new();
        let mut resolved = Vec::with_capacity(outputs.len());
        for output in outputs {
            let slot = state.slot(&output.topic)?;
            let client = clients.iter().position(|client| client.settings == output.producer);
            let client = client.unwrap_or_else(|| {
                clients.push(Client {
                    settings: output.producer.clone(),
                    capacity: capacity(&output.producer),
                    queued: Queued::one_of(1, room),
                    batch_bytes: output.producer.largest_batch.unwrap_or(BATCH_BYTES).min(BATCH_BYTES),
                    in_flight: 0,
                });
                clients.len() - 1
            });
            resolved.push(Output { topic: output.topic.clone(), slot, client });
        }
        let share = clients.len();
        clients.iter_mut().for_each(|client| client.queued = Queued::one_of(share, room));
        let id = state.writers.len();
        state.writers.push(Some(WriterState {
            waker,
            errors: Vec::new(),
            answers: VecDeque::new(),
            due: None,
            dead: false,
        }));
        drop(state);
        Ok(MemorySink {
            shared,
            id,
            outputs: resolved,
            clients,
            rows: BTreeMap::new(),
            next_row: 0,
            calls: 0,
            closed: None,
        })
    }

    fn is_released(&self, state: &State, row: &Row) -> bool {
        let topic = &state.topics[self.outputs[row.output.0].slot];
        topic.acknowledged_below.is_none_or(|below| row.number < below)
    }

    /// Takes the rows out that have their answer at `at`.
    fn settle(&mut self, state: &mut State, at: Moment, out: &mut Vec<(OutputIndex, Token, Ack)>) {
        if state.writer(self.id).dead {
            // A client that can not go on says of nothing what became of it.
            state.writer(self.id).answers.clear();
            for row in std::mem::take(&mut self.rows).into_values() {
                self.clients[self.outputs[row.output.0].client].left(&row);
                out.push(given_back(row));
            }
            return;
        }
        let mut due: Option<Moment> = None;
        let mut come = Vec::new();
        for answer in std::mem::take(&mut state.writer(self.id).answers) {
            let Some(row) = self.rows.get(&answer.serial) else { continue };
            if answer.due > at || !self.is_released(state, row) {
                if answer.due > at {
                    due = Some(due.map_or(answer.due, |other| other.min(answer.due)));
                }
                state.writer(self.id).answers.push_back(answer);
                continue;
            }
            come.push(answer);
        }
        // Of what came at once, in the order in which it was sent.
        come.sort_by_key(|answer| (answer.due, answer.serial));
        for answer in come {
            let Some(row) = self.rows.remove(&answer.serial) else { continue };
            self.clients[self.outputs[row.output.0].client].left(&row);
            out.push((row.output, row.token, verdict(answer.fate, row.batch, row.row)));
        }
        state.writer(self.id).due = due;
    }
}

impl TopicSink for MemorySink {
    fn send(
        &mut self,
        output: OutputIndex,
        batch: &Arc<Batch>,
        rows: &[u32],
        stamp: Stamp,
        tokens: &mut VecDeque<Token>,
    ) -> usize {
        if self.closed.is_some() {
            return 0;
        }
        let shared = self.shared.clone();
        let mut state = shared.lock();
        if state.enter(Call::Send).is_err() {
            // A queue that is full by the script, and has room again at once.
            (state.writer(self.id).waker)();
            return 0;
        }
        let to = &mut self.outputs[output.0];
        to.slot = state.slot(&to.topic).unwrap_or(to.slot);
        let client = &mut self.clients[to.client];
        if client.settings.idempotence
            && let Err(error) = state.demand(&Right::IdempotentWrite)
        {
            state.fail_writer(self.id, &KafkaError { kind: Kind::Fatal, ..error });
        }
        let sender =
            Sender { writer: self.id, client: to.client, call: self.calls, batch_bytes: client.batch_bytes };
        self.calls += 1;
        let (now_ms, dead) = (state.wall_ms(), state.writer(self.id).dead);
        let mut accepted = 0;
        for row in rows {
            if client.in_flight >= client.capacity || tokens.is_empty() {
                break;
            }
            let Some(bytes) = client.queued.take(batch, *row) else { break };
            let Some(token) = tokens.pop_front() else { break };
            client.in_flight += 1;
            let number = state.topics[to.slot].sent;
            state.topics[to.slot].sent += 1;
            let serial = self.next_row;
            self.next_row += 1;
            if !dead {
                state.send_row(sender, &to.topic, serial, Record::of_row(batch, *row, stamp, now_ms));
            }
            self.rows.insert(serial, Row { output, token, batch: batch.clone(), row: *row, number, bytes });
            accepted += 1;
        }
        if dead && accepted > 0 {
            (state.writer(self.id).waker)();
        }
        state.land();
        self.shared.changed.notify_all();
        accepted
    }

    fn acks(&mut self, out: &mut Vec<(OutputIndex, Token, Ack)>) {
        if let Some(closed) = &mut self.closed {
            out.append(closed);
            return;
        }
        let shared = self.shared.clone();
        let mut state = shared.lock();
        state.land();
        if state.down && !state.writer(self.id).dead {
            return;
        }
        let now = state.now();
        self.settle(&mut state, now, out);
        self.shared.changed.notify_all();
    }

    fn flush(&mut self) {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        if self.closed.is_none() && !state.writer(self.id).dead {
            state.hurry(self.id);
            state.land();
            self.shared.changed.notify_all();
        }
    }

    fn in_flight(&self) -> usize {
        self.rows.len()
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token)) {
        self.rows.values().for_each(|row| each(row.output, &row.token));
        self.closed.iter().flatten().for_each(|(output, token, _)| each(*output, token));
    }

    fn each_held(&self, each: &mut dyn FnMut(PartitionId, &Arc<Batch>, u32)) {
        self.rows.values().for_each(|row| each(row.token.partition(), &row.batch, row.row));
    }

    fn move_rows(&mut self, moves: &Moves) {
        self.rows.values_mut().for_each(|row| moves.row(&mut row.batch, &mut row.row));
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        let mut state = self.shared.lock();
        out.append(&mut state.writer(self.id).errors);
    }

    /// Time belongs to the outside, so this waits for nothing: acknowledgements that are due within `timeout` count as
    /// come, all others as never.
    fn close(&mut self, timeout: Duration) {
        if self.closed.is_some() {
            return;
        }
        let shared = self.shared.clone();
        let mut state = shared.lock();
        let mut given = Vec::new();
        if !state.down {
            let until = state.now() + timeout;
            state.flush(self.id, until);
            self.settle(&mut state, until, &mut given);
        }
        state.abandon(self.id);
        given.extend(std::mem::take(&mut self.rows).into_values().map(given_back));
        self.closed = Some(given);
        state.writer(self.id).dead = true;
        (state.writer(self.id).waker)();
        self.shared.changed.notify_all();
    }
}

impl Drop for MemorySink {
    /// A sink that was not closed takes its rows with it, as a process that ends does; what is on its way stays there.
    fn drop(&mut self) {
        for row in std::mem::take(&mut self.rows).into_values() {
            row.token.give_up();
        }
        for (_, token, _) in self.closed.take().into_iter().flatten() {
            token.give_up();
        }
        let mut state = self.shared.lock();
        state.writers[self.id] = None;
        state.abandon(self.id);
    }
}

impl State {
    pub fn writer(&mut self, id: usize) -> &mut WriterState {
        self.writers[id].as_mut().expect("a writer lives as long as its sink")
    }

    /// A writer's clients can not go on: what they sent may land, and they know nothing of it.
    pub fn fail_writer(&mut self, id: usize, error: &KafkaError) {
        let Some(writer) = self.writers[id].as_mut() else { return };
        if !std::mem::replace(&mut writer.dead, true) {
            writer.errors.push(error.clone());
            (writer.waker)();
            self.abandon(id);
        }
    }

    /// Wakes writers whose late acknowledgements are due.
    pub fn wake_due_writers(&mut self) {
        let now = self.now();
        for writer in self.writers.iter_mut().flatten() {
            if writer.due.is_some_and(|due| due <= now) {
                writer.due = None;
                (writer.waker)();
            }
        }
    }
}

fn given_back(row: Row) -> (OutputIndex, Token, Ack) {
    (row.output, row.token, Ack::Unknown)
}

fn verdict(fate: Result<(), RowFault>, batch: Arc<Batch>, row: u32) -> Ack {
    match fate {
        Ok(()) => Ack::Written,
        Err(
            RowFault::Refused(error) | RowFault::RefusedBatch(error) | RowFault::WrittenThenRefused(error),
        ) => Ack::Refused(Refusal { error, batch, row }),
        Err(RowFault::AckLost | RowFault::Lost) => Ack::Unknown,
    }
}

/// The client's queue, in rows: `queue.buffering.max.messages` where it is set; 0 means without limit.
fn capacity(settings: &ProducerSettings) -> usize {
    let given = settings.extra.get("queue.buffering.max.messages").and_then(|text| text.0.parse().ok());
    match given {
        Some(0) | None => usize::MAX,
        Some(rows) => rows,
    }
}
