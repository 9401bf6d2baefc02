//! The writing half of a broker: rows are written when they are sent, acknowledged in order, and counted against the
//! client's queue until their acknowledgement was taken.
//!
//! Tokens stay with the writer: the shared state only says which rows have their acknowledgement by now.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::Token;
use loom_types::{Batch, Moment};

use super::faults::{Call, RowFault};
use super::record::Record;
use super::state::{Shared, State};
use crate::contract::{Ack, OutputIndex, Refusal, Stamp, TopicSink, Waker};
use crate::error::KafkaError;
use crate::facts::OutputSettings;
use crate::settings::ProducerSettings;

/// librdkafka's default of `queue.buffering.max.messages`.
const QUEUE_ROWS: usize = 100_000;

/// What the broker knows of a writer.
pub(super) struct WriterState {
    pub waker: Waker,
    pub errors: Vec<KafkaError>,
    /// When its next late acknowledgement is due.
    pub due: Option<Moment>,
}

pub(super) struct MemorySink {
    shared: Arc<Shared>,
    id: usize,
    outputs: Vec<Output>,
    clients: Vec<Client>,
    /// Accepted and not written yet: no broker can be reached.
    unsent: VecDeque<Unsent>,
    /// Written, or refused, and not answered for.
    sent: VecDeque<Sent>,
    /// Answers of rows that `close` gave back.
    closed: Option<Vec<(OutputIndex, Token, Ack)>>,
}

struct Output {
    slot: usize,
    client: usize,
}

/// One producer: outputs with equal settings share it and its queue.
struct Client {
    settings: Arc<ProducerSettings>,
    capacity: usize,
    in_flight: usize,
}

struct Unsent {
    output: OutputIndex,
    token: Token,
    number: u64,
    batch: Arc<Batch>,
    row: u32,
    record: Record,
}

struct Sent {
    output: OutputIndex,
    token: Token,
    /// Its number among the rows of its topic.
    number: u64,
    batch: Arc<Batch>,
    row: u32,
    due: Moment,
    fate: Result<(), RowFault>,
}

impl MemorySink {
    pub fn new(shared: Arc<Shared>, outputs: &[OutputSettings], waker: Waker) -> Result<Self, KafkaError> {
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
                    in_flight: 0,
                });
                clients.len() - 1
            });
            resolved.push(Output { slot, client });
        }
        let id = state.writers.len();
        state.writers.push(Some(WriterState { waker, errors: Vec::new(), due: None }));
        drop(state);
        Ok(MemorySink {
            shared,
            id,
            outputs: resolved,
            clients,
            unsent: VecDeque::new(),
            sent: VecDeque::new(),
            closed: None,
        })
    }

    /// Writes what waited for a broker.
    fn write_unsent(&mut self, state: &mut State) {
        while !state.down {
            let Some(row) = self.unsent.pop_front() else { return };
            self.write(state, row);
        }
    }

    fn write(&mut self, state: &mut State, row: Unsent) {
        let slot = self.outputs[row.output.0].slot;
        let fate = state.write(slot, row.record);
        let due = state.now() + state.topics[slot].ack_delay;
        let Unsent { output, token, number, batch, row, .. } = row;
        self.sent.push_back(Sent { output, token, number, batch, row, due, fate });
    }

    /// Wakes where an acknowledgement can be taken; remembers when the next late one can.
    fn announce(&self, state: &mut State) {
        let now = state.now();
        let mut ready = false;
        let mut due: Option<Moment> = None;
        for row in &self.sent {
            if !self.is_released(state, row) {
                continue;
            }
            if row.due <= now {
                ready = true;
                break;
            }
            due = Some(due.map_or(row.due, |other| other.min(row.due)));
        }
        let writer = state.writers[self.id].as_mut().expect("a writer lives as long as its sink");
        writer.due = due;
        if ready {
            (writer.waker)();
        }
    }

    fn is_released(&self, state: &State, row: &Sent) -> bool {
        let topic = &state.topics[self.outputs[row.output.0].slot];
        topic.acknowledged_below.is_none_or(|below| row.number < below)
    }

    /// Takes the rows out that have their acknowledgement at `now`.
    fn settle(&mut self, state: &State, now: Moment, out: &mut Vec<(OutputIndex, Token, Ack)>) {
        for row in std::mem::take(&mut self.sent) {
            if row.due <= now && self.is_released(state, &row) {
                self.clients[self.outputs[row.output.0].client].in_flight -= 1;
                let ack = match row.fate {
                    Ok(()) => Ack::Written,
                    Err(RowFault::Refused(error)) => {
                        Ack::Refused(Refusal { error, batch: row.batch, row: row.row })
                    }
                    Err(RowFault::AckLost | RowFault::Lost) => Ack::Unknown,
                };
                out.push((row.output, row.token, ack));
            } else {
                self.sent.push_back(row);
            }
        }
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
            let writer = state.writers[self.id].as_ref().expect("a writer lives as long as its sink");
            (writer.waker)();
            return 0;
        }
        self.write_unsent(&mut state);
        let now_ms = state.wall_ms();
        let Output { slot, client } = self.outputs[output.0];
        let mut accepted = 0;
        for row in rows {
            let queue = &mut self.clients[client];
            if queue.in_flight >= queue.capacity {
                break;
            }
            let Some(token) = tokens.pop_front() else { break };
            queue.in_flight += 1;
            let number = state.topics[slot].sent;
            state.topics[slot].sent += 1;
            let record = Record::of_row(batch, *row, stamp, now_ms);
            let row = Unsent { output, token, number, batch: batch.clone(), row: *row, record };
            if state.down {
                self.unsent.push_back(row);
            } else {
                self.write(&mut state, row);
            }
            accepted += 1;
        }
        self.announce(&mut state);
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
        self.write_unsent(&mut state);
        if state.down {
            return;
        }
        let now = state.now();
        self.settle(&state, now, out);
        self.announce(&mut state);
        self.shared.changed.notify_all();
    }

    fn in_flight(&self) -> usize {
        self.unsent.len() + self.sent.len()
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token)) {
        self.unsent.iter().for_each(|row| each(row.output, &row.token));
        self.sent.iter().for_each(|row| each(row.output, &row.token));
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        let mut state = self.shared.lock();
        let writer = state.writers[self.id].as_mut().expect("a writer lives as long as its sink");
        out.append(&mut writer.errors);
    }

    /// Time belongs to the outside, so this waits for nothing: acknowledgements that are due within `timeout` count as
    /// come, all others as never.
    fn close(&mut self, timeout: Duration) {
        if self.closed.is_some() {
            return;
        }
        let shared = self.shared.clone();
        let mut state = shared.lock();
        self.write_unsent(&mut state);
        let mut given = Vec::new();
        if !state.down {
            let until = state.now() + timeout;
            self.settle(&state, until, &mut given);
        }
        given.extend(self.sent.drain(..).map(|row| (row.output, row.token, Ack::Unknown)));
        given.extend(self.unsent.drain(..).map(|row| (row.output, row.token, Ack::Unknown)));
        self.closed = Some(given);
        let writer = state.writers[self.id].as_ref().expect("a writer lives as long as its sink");
        (writer.waker)();
        self.shared.changed.notify_all();
    }
}

impl Drop for MemorySink {
    /// A sink that was not closed takes its rows with it, as a process that ends does.
    fn drop(&mut self) {
        for row in self.sent.drain(..) {
            row.token.give_up();
        }
        for row in self.unsent.drain(..) {
            row.token.give_up();
        }
        for (_, token, _) in self.closed.take().into_iter().flatten() {
            token.give_up();
        }
        self.shared.lock().writers[self.id] = None;
    }
}

impl State {
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

/// The client's queue, in rows: `queue.buffering.max.messages` where it is set; 0 means without limit.
fn capacity(settings: &ProducerSettings) -> usize {
    let given = settings.extra.get("queue.buffering.max.messages").and_then(|text| text.0.parse().ok());
    match given {
        Some(0) => usize::MAX,
        Some(rows) => rows,
        None => QUEUE_ROWS,
    }
}
