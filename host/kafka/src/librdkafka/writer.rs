//! Topics that one worker writes to.
//!
//! Outputs with equal producers share a client, whose queue brings delivery reports. A record's number in the report is
//! its token's place in a slab, so that nothing is allocated for a record but its copy in librdkafka.
//!
//! Invariant: a token that was taken is in exactly one place, the slab of its client or the list of verdicts, until
//! `acks` gives it back.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loom_delivery::Token;
use loom_types::{Batch, Moves, PartitionId};
use rdkafka::types::RDKafkaErrorCode as E;
use slab::Slab;

use super::classify::{Verdict, error, verdict};
use super::events::Errors;
use super::raw::{Client, Code, EventKind, Name, Outgoing, Queue, Topic};
use super::{name, warm_up};
use crate::contract::{Ack, OutputIndex, Refusal, Stamp, TopicSink, Waker};
use crate::error::KafkaError;
use crate::facts::OutputSettings;
use crate::queue::Queued;
use crate::settings::ProducerSettings;

/// How long one flush lasts: as long as a worker mostly sleeps that asks for it again.
const FLUSH: Duration = Duration::from_millis(200);

/// A worker's outputs.
pub(super) struct Writer {
    outputs: Vec<Output>,
    producers: Vec<Producer>,
    /// Rows whose fate is known and was not told yet.
    verdicts: Vec<(OutputIndex, Token, Ack)>,
    waker: Waker,
    /// A queue was full, and nothing was taken from it since. It has room only once reports are *taken*, which nothing
    /// wakes for.
    full: bool,
    closed: bool,
}

/// One output: a topic of one client.
struct Output {
    topic_name: Arc<str>,
    topic: Topic,
    producer: usize,
}

/// One client.
struct Producer {
    rows: Slab<Sent>,
    queued: Queued,
    batches: Batches,
    errors: Errors,
    queue: Queue,
    /// A flush that may still be under way.
    flushing: Option<JoinHandle<()>>,
}

/// A row that was sent and has no report.
struct Sent {
    output: OutputIndex,
    token: Token,
    /// Its batch's place among the batches.
    batch: usize,
    row: u32,
    /// What it counts as in the client's queue.
    bytes: usize,
}

/// The batches that rows without report came from: one count a row instead of one reference, since a reference is
/// counted among threads.
#[derive(Default)]
struct Batches {
    open: Slab<(Arc<Batch>, usize)>,
    /// The last one that was sent from: most rows come from it.
    last: Option<usize>,
}

impl Batches {
    /// The place of a batch that rows are sent from now. To be followed by `hold` or `close_if_unused`.
    fn open(&mut self, batch: &Arc<Batch>) -> usize {
        let last =
            self.last.filter(|last| self.open.get(*last).is_some_and(|(open, _)| Arc::ptr_eq(open, batch)));
        let place = last.unwrap_or_else(|| self.open.insert((batch.clone(), 0)));
        self.last = Some(place);
        place
    }

    fn hold(&mut self, place: usize, rows: usize) {
        self.open[place].1 += rows;
        if self.open[place].1 == 0 {
            self.open.remove(place);
        }
    }

    /// A row has its report; its batch is handed out where it was refused.
    fn release(&mut self, place: usize, refused: bool) -> Option<Arc<Batch>> {
        let (batch, rows) = &mut self.open[place];
        *rows -= 1;
        let last = *rows == 0;
        let handed = refused.then(|| batch.clone());
        if last {
            self.open.remove(place);
        }
        handed
    }

    /// The batch at a place.
    fn at(&self, place: usize) -> &Arc<Batch> {
        &self.open[place].0
    }

    /// Keeps copies of rows in place of the rows; `rows` without report.
    fn move_rows<'r>(&mut self, rows: impl Iterator<Item = &'r mut Sent>, moves: &Moves) {
        for row in rows {
            if let Some(copy) = moves.of(self.at(row.batch)).and_then(|moved| moved.row(row.row)) {
                row.row = copy;
            }
        }
        for (_, (batch, _)) in &mut self.open {
            if let Some(moved) = moves.of(batch) {
                *batch = moved.batch().clone();
            }
        }
    }
}

impl Writer {
    /// Waits for the topics' metadata, for a bounded time.
    pub(super) fn new(
        outputs: &[OutputSettings],
        room: usize,
        waker: &Waker,
        client: impl Fn(&Arc<ProducerSettings>) -> Result<Arc<Client>, KafkaError>,
    ) -> Result<Writer, KafkaError> {
        let mut kinds: Vec<(&Arc<ProducerSettings>, Arc<Client>, Vec<Name>)> = Vec::new();
        let mut made = Vec::with_capacity(outputs.len());
        for output in outputs {
            let producer = match kinds.iter().position(|(settings, ..)| **settings == output.producer) {
                Some(index) => index,
                None => {
                    kinds.push((&output.producer, client(&output.producer)?, Vec::new()));
                    kinds.len() - 1
                }
            };
            let name = name(&output.topic)?;
            let (_, client, names) = &mut kinds[producer];
            let topic = Topic::new(client, &name).ok_or_else(|| {
                super::classify::configuration(format!(
                    "`{}` is not a name that a topic can have",
                    output.topic
                ))
            })?;
            if !names.contains(&name) {
                names.push(name);
            }
            made.push(Output { topic_name: output.topic.clone(), topic, producer });
        }
        let clients = kinds.len();
        let producers = kinds
            .into_iter()
            .map(|(_, client, names)| {
                warm_up(&client, names.iter());
                let mut queue = Queue::main(&client);
                queue.wake(waker);
                Producer {
                    rows: Slab::new(),
                    queued: Queued::one_of(clients, room),
                    batches: Batches::default(),
                    errors: Errors::new(),
                    queue,
                    flushing: None,
                }
            })
            .collect();
        Ok(Writer {
            outputs: made,
            producers,
            verdicts: Vec::new(),
            waker: waker.clone(),
            full: false,
            closed: false,
        })
    }

    /// Takes what all clients have to say, without waiting.
    fn drain(&mut self) {
        let before = self.verdicts.len();
        for producer in &mut self.producers {
            producer.serve(Duration::ZERO, &self.outputs, &mut self.verdicts);
        }
        if self.full && self.verdicts.len() > before {
            self.full = false;
            (self.waker)();
        }
    }
}

/// Where a row was to go. Without metadata of the topic no partition was chosen, and its number is negative.
fn place(topic: &str, partition: i32) -> String {
    if partition < 0 { topic.to_owned() } else { format!("{topic}/{partition}") }
}

impl Producer {
    /// Takes events until there are none, waiting for the first.
    fn serve(&mut self, wait: Duration, outputs: &[Output], verdicts: &mut Vec<(OutputIndex, Token, Ack)>) {
        let (rows, batches, queued, mut wait) = (&mut self.rows, &mut self.batches, &mut self.queued, wait);
        while let Some(event) = self.queue.poll(wait) {
            wait = Duration::ZERO;
            if event.kind() != EventKind::Deliveries {
                self.errors.take(self.queue.client(), &event);
                continue;
            }
            event.deliveries(|number, partition, code| {
                let Some(Sent { output, token, batch, row, bytes }) = rows.try_remove(number) else { return };
                queued.left(bytes);
                let verdict = verdict(code);
                let batch = batches.release(batch, matches!(verdict, Verdict::Refused(_)));
                let ack = match (verdict, batch) {
                    (Verdict::Written, _) => Ack::Written,
                    (Verdict::Refused(kind), Some(batch)) => {
                        let topic = &outputs[output.0].topic_name;
                        let error = error(kind, code, format!("writing to {}", place(topic, partition)));
                        let error = error.naming_right("Write", topic, "");
                        Ack::Refused(Refusal { error, batch, row })
                    }
                    (Verdict::Unknown | Verdict::Refused(_), _) => Ack::Unknown,
                };
                verdicts.push((output, token, ack));
            });
        }
    }

    /// Begins a flush for a moment, unless one is under way. While a flush lasts, the client does not wait for batches to
    /// fill; it blocks until all is acknowledged, so it runs beside.
    fn flush(&mut self) {
        if self.rows.is_empty() || self.flushing.as_ref().is_some_and(|flush| !flush.is_finished()) {
            return;
        }
        let client = self.queue.client().clone();
        // Whether all was acknowledged meanwhile, the reports tell.
        let flush = move || {
            let _ = client.flush(FLUSH);
        };
        match std::thread::Builder::new().name("kafka-flush".into()).spawn(flush) {
            Ok(flush) => self.flushing = Some(flush),
            Err(error) => tracing::warn!(target: "kafka", %error, "a flush was not begun: no thread"),
        }
    }

    /// Waits for all acknowledgements, up to the deadline, while a flush runs beside.
    fn finish(
        &mut self,
        deadline: Instant,
        outputs: &[Output],
        verdicts: &mut Vec<(OutputIndex, Token, Ack)>,
    ) {
        while !self.rows.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            self.serve(left, outputs, verdicts);
            if left.is_zero() {
                return;
            }
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // A flush has the client, which is to go with the writer.
        if let Some(flush) = self.flushing.take() {
            drop(flush.join());
        }
    }
}

impl TopicSink for Writer {
    fn send(
        &mut self,
        output: OutputIndex,
        batch: &Arc<Batch>,
        rows: &[u32],
        stamp: Stamp,
        tokens: &mut VecDeque<Token>,
    ) -> usize {
        if self.closed {
            return 0;
        }
        let to = &self.outputs[output.0];
        let producer = &mut self.producers[to.producer];
        let slab = &mut producer.rows;
        let from = producer.batches.open(batch);
        let before = slab.len();
        let (mut refused, mut accepted) = (false, 0);
        for (index, row) in rows.iter().enumerate() {
            if tokens.is_empty() {
                debug_assert!(false, "{} rows came with {index} tokens", rows.len());
                break;
            }
            let Some(bytes) = producer.queued.take(batch, *row) else {
                self.full = true;
                break;
            };
            let place = slab.vacant_entry();
            let outcome = to.topic.produce(Outgoing {
                payload: batch.payload(*row),
                key: batch.key(*row),
                timestamp_ms: stamp.of(batch, *row),
                headers: batch.headers(*row),
                number: place.key(),
            });
            match outcome {
                Ok(()) => {
                    if let Some(token) = tokens.pop_front() {
                        place.insert(Sent { output, token, batch: from, row: *row, bytes });
                    }
                }
                Err(code) if code.known() == Some(E::QueueFull) => {
                    producer.queued.left(bytes);
                    self.full = true;
                    break;
                }
                Err(code) => {
                    producer.queued.left(bytes);
                    if let Some(token) = tokens.pop_front() {
                        let ack = on_the_spot(code, &to.topic_name, batch, *row);
                        self.verdicts.push((output, token, ack));
                        refused = true;
                    }
                }
            }
            accepted = index + 1;
        }
        let held = slab.len() - before;
        producer.batches.hold(from, held);
        if refused {
            (self.waker)();
        }
        accepted
    }

    fn acks(&mut self, out: &mut Vec<(OutputIndex, Token, Ack)>) {
        self.drain();
        out.append(&mut self.verdicts);
    }

    fn flush(&mut self) {
        self.producers.iter_mut().for_each(Producer::flush);
    }

    fn in_flight(&self) -> usize {
        self.verdicts.len() + self.producers.iter().map(|producer| producer.rows.len()).sum::<usize>()
    }

    fn each_in_flight(&self, each: &mut dyn FnMut(OutputIndex, &Token)) {
        let open = self.producers.iter().flat_map(|producer| producer.rows.iter());
        open.for_each(|(_, row)| each(row.output, &row.token));
        self.verdicts.iter().for_each(|(output, token, _)| each(*output, token));
    }

    fn each_held(&self, each: &mut dyn FnMut(PartitionId, &Arc<Batch>, u32)) {
        for producer in &self.producers {
            for (_, row) in &producer.rows {
                each(row.token.partition(), producer.batches.at(row.batch), row.row);
            }
        }
    }

    fn move_rows(&mut self, moves: &Moves) {
        for producer in &mut self.producers {
            let rows = producer.rows.iter_mut().map(|(_, row)| row);
            producer.batches.move_rows(rows, moves);
        }
    }

    fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.drain();
        for producer in &mut self.producers {
            producer.errors.give(out);
        }
    }

    fn close(&mut self, timeout: Duration) {
        self.closed = true;
        let deadline = Instant::now() + timeout;
        std::thread::scope(|scope| {
            // All of them at once: one that cannot reach its brokers takes no other's time.
            for producer in self.producers.iter().filter(|producer| !producer.rows.is_empty()) {
                let client = producer.queue.client().clone();
                scope.spawn(move || client.flush(deadline.saturating_duration_since(Instant::now())));
            }
            for producer in &mut self.producers {
                producer.finish(deadline, &self.outputs, &mut self.verdicts);
            }
        });
        for producer in &mut self.producers {
            if producer.rows.is_empty() {
                continue;
            }
            if let Err(code) = producer.queue.client().purge() {
                tracing::warn!(target: "kafka", code = code.name(), "unsent records were not dropped by the client");
            }
            producer.serve(Duration::ZERO, &self.outputs, &mut self.verdicts);
            let left = producer.rows.drain().map(|row| (row.output, row.token, Ack::Unknown));
            self.verdicts.extend(left);
            producer.batches = Batches::default();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Without a `close`, or without an `acks` after it: nothing is known of these rows, so they are read again.
        let open = self.producers.iter_mut().flat_map(|producer| producer.rows.drain()).map(|row| row.token);
        let told = self.verdicts.drain(..).map(|(_, token, _)| token);
        open.chain(told).for_each(Token::give_up);
    }
}

/// What an error of the call itself means for its row; nothing was queued.
fn on_the_spot(code: Code, topic: &str, batch: &Arc<Batch>, row: u32) -> Ack {
    match verdict(code) {
        Verdict::Refused(kind) => {
            let error = error(kind, code, format!("writing to {topic}")).naming_right("Write", topic, "");
            Ack::Refused(Refusal { error, batch: batch.clone(), row })
        }
        Verdict::Written | Verdict::Unknown => Ack::Unknown,
    }
}
