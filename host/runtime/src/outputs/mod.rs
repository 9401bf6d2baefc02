//! Kafka outputs of one worker: rows that wait to be sent, rows that wait for their acknowledgement, and rows that came
//! back.
//!
//! Terminals append to a queue of their topic; nothing blocks in the middle of a walk. Where several nodes write to one
//! topic, what one cycle brought is put back into source order before it is sent. What a topic refuses for good is handed
//! back with its reason; everything else that can go wrong on the way is waited out here.

mod codec;
mod facts;
mod known;
mod limits;
mod pending;
mod queue;
mod retention;
mod size;
mod table;
#[cfg(test)]
mod tests;
mod trials;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Accounts, Mutation, Token, mutated};
use loom_flow::plan::{OutputId, OutputPlan};
use loom_kafka::{Ack, KafkaError, OutputIndex, OutputInfo, TopicSink};
use loom_types::{Batch, Ending, ErrorKind, Moment, Moves, PartitionId};

use crate::holdings::Seen;
use crate::nodes::NodeId;
use crate::rows::RowSet;
use pending::Pending;
use queue::{Answer, Queue};

pub(crate) use facts::TopicFacts;
pub(crate) use limits::Limits;
pub(crate) use table::OutputTable;

/// A row that a topic refused for good.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The node that wrote it.
    pub node: NodeId,
    /// The topic is the node's `dlq`.
    pub dead_letter: bool,
    /// The kind under which it entered an error route.
    pub route: Option<ErrorKind>,
    pub batch: Arc<Batch>,
    pub row: u32,
    pub token: Token,
    pub attempts: u32,
    /// Names the topic.
    pub reason: String,
}

/// What became of the rows of an output's topic so far, and where the others are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Rows that wait to be sent, for the first time or again.
    pub pending: u64,
    /// Rows that the client has.
    pub in_flight: u64,
    pub acknowledged: u64,
    /// Rows that were refused for good.
    pub refused: u64,
    /// Rows that came back and are sent again, each time.
    pub resent: u64,
    /// Rows whose time lies before all that the topic keeps: a broker may delete them at once.
    pub past_retention: u64,
}

/// What came back since the last look, and was not written.
#[derive(Debug, Default)]
pub(crate) struct News {
    pub refused: Vec<Refused>,
    /// Rows that nobody knows the fate of, each with its topic.
    pub unknown: Vec<(Token, Arc<str>)>,
}

/// See the module's description.
pub(crate) struct Outputs {
    table: OutputTable,
    writer: Box<dyn TopicSink>,
    facts: Box<dyn TopicFacts>,
    queues: Vec<Queue>,
    /// Index into `queues`, by output.
    queue_of: Vec<usize>,
    /// An output of each queue.
    output_of: Vec<OutputId>,
    acks: Vec<(OutputIndex, Token, Ack)>,
    answers: Vec<(OutputId, Result<OutputInfo, KafkaError>)>,
    refused: Vec<queue::Refused>,
    closed: bool,
}

impl Outputs {
    /// `infos`: what the brokers said of each of the plan's outputs. `largest`: likewise, the largest batch that its
    /// client makes.
    pub(crate) fn new(
        table: OutputTable,
        writer: Box<dyn TopicSink>,
        facts: Box<dyn TopicFacts>,
        plan: &[OutputPlan],
        infos: &[(OutputInfo, usize)],
    ) -> Self {
        let mut queues: Vec<Queue> = Vec::new();
        let mut output_of = Vec::new();
        let mut known: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let mut queue_of = Vec::new();
        for (index, (output, (info, largest))) in plan.iter().zip(infos).enumerate() {
            let queue = *known.entry((&output.topic, &output.producer)).or_insert_with(|| {
                let limits = Limits::new(info, Moment::START);
                queues.push(Queue::new(
                    output.topic.clone(),
                    output.compression.as_deref(),
                    limits,
                    *largest,
                ));
                output_of.push(OutputId(index));
                queues.len() - 1
            });
            queue_of.push(queue);
        }
        let mut writers = vec![0; queues.len()];
        for route in table.routes() {
            writers[queue_of[route.output.0]] += 1;
        }
        for (queue, writers) in queues.iter_mut().zip(writers) {
            queue.shared = writers > 1 && !mutated(Mutation::OrderIsNotRestored);
        }
        Outputs {
            table,
            writer,
            facts,
            queues,
            queue_of,
            output_of,
            acks: Vec::new(),
            answers: Vec::new(),
            refused: Vec::new(),
            closed: false,
        }
    }

    /// Queues rows of a node for its first choice.
    pub(crate) fn push(&mut self, output: OutputId, node: NodeId, ending: Ending, rows: RowSet) {
        self.enqueue(self.table.find(output, node, ending, false), output, rows);
    }

    /// Queues rows that a node's first choice refused for its second.
    pub(crate) fn push_dead_letters(&mut self, dlq: OutputId, node: NodeId, ending: Ending, rows: RowSet) {
        self.enqueue(self.table.find(dlq, node, ending, true), dlq, rows);
    }

    fn enqueue(&mut self, index: OutputIndex, output: OutputId, rows: RowSet) {
        let RowSet { batch, ids, tokens, .. } = rows;
        if self.closed {
            // The run is over for outputs: the rows stay uncommitted.
            tokens.into_iter().for_each(Token::give_up);
            return;
        }
        let stamp = self.table.route(index).stamp;
        let entry = Pending::new(index, batch, ids, tokens.into(), stamp);
        self.queues[self.queue_of[output.0]].push(entry);
    }

    /// Hands waiting rows to the client, as far as it takes them; rows that their topic does not take are given back.
    pub(crate) fn send(
        &mut self,
        (now, wall_ms): (Moment, i64),
        random: f64,
        accounts: &Accounts,
        refused: &mut Vec<Refused>,
    ) {
        if self.closed {
            return;
        }
        self.facts.answers(&mut self.answers);
        for (output, answer) in self.answers.drain(..) {
            // A topic whose configuration was not told is no topic without one.
            let limits = answer.and_then(|info| {
                info.described.clone()?;
                Ok(Limits::new(&info, now))
            });
            self.queues[self.queue_of[output.0]].learned(now, random, limits);
        }
        for (at, queue) in self.queues.iter_mut().enumerate() {
            if !queue.is_empty() {
                queue.look_at_times(wall_ms);
                queue.send(now, accounts, &self.table, &mut *self.writer, &mut self.refused);
            }
            if queue.take_question(now) {
                self.facts.ask(self.output_of[at]);
            }
        }
        refused.extend(self.refused.drain(..).map(|row| told(&self.table, row)));
    }

    /// Has the client send what it holds back: somebody waits for it. To be called again as long as that is so.
    pub(crate) fn flush(&mut self) {
        self.writer.flush();
    }

    /// Redeems rows that were written, and appends what became of the others.
    pub(crate) fn acks(&mut self, now: Moment, random: f64, accounts: &mut Accounts, news: &mut News) {
        self.writer.acks(&mut self.acks);
        for (index, token, ack) in self.acks.drain(..) {
            let route = self.table.route(index);
            let queue = &mut self.queues[self.queue_of[route.output.0]];
            match queue.answered(now, random, index, token, ack, &self.table) {
                Answer::Written(token) => accounts.redeem(token, route.ending),
                Answer::Unknown(token)
                    if mutated(Mutation::UnknownCounts)
                        || self.closed && mutated(Mutation::GivenBackCounts) =>
                {
                    accounts.redeem(token, route.ending);
                }
                Answer::Refused(row) if mutated(Mutation::RefusedCounts) => {
                    accounts.redeem(row.token, route.ending);
                }
                Answer::Unknown(token) => news.unknown.push((token, queue.topic().clone())),
                Answer::Refused(row) => news.refused.push(told(&self.table, row)),
                Answer::Kept => queue.resent += 1,
            }
        }
        if self.closed {
            self.queues.iter_mut().for_each(Queue::give_up);
        }
    }

    pub(crate) fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.writer.client_errors(out);
    }

    /// When rows are to be sent again, or something is to be asked, though nothing came.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        self.queues.iter().filter(|_| !self.closed).filter_map(Queue::next_due).min()
    }

    /// The partitions that have rows waiting to be sent, with repetitions.
    pub(crate) fn pending(&self) -> impl Iterator<Item = PartitionId> {
        self.queues.iter().flat_map(Queue::partitions)
    }

    /// Shows every row that waits to be sent, or to be acknowledged, to whoever counts what they keep.
    pub(crate) fn show(&self, seen: &mut Seen) {
        self.queues.iter().for_each(|queue| queue.show(seen));
        self.writer.each_held(&mut |partition, batch, row| seen.row(partition, batch, row, false));
    }

    /// Rows that were copied go on as their copies.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        self.queues.iter_mut().for_each(|queue| queue.follow(moves));
        self.writer.move_rows(moves);
    }

    /// How each topic stands, by one of its outputs.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (OutputId, Counts)> {
        self.output_of.iter().zip(&self.queues).map(|(output, queue)| (*output, queue.counts()))
    }

    /// Every row that waits to be sent, by an output of its topic, with what it waits for where it is not room in the
    /// client's queue, and what the brokers said last because of which it waits.
    pub(crate) fn each_pending(
        &self,
        mut each: impl FnMut(OutputId, &Token, Option<&'static str>, Option<&str>),
    ) {
        for (output, queue) in self.output_of.iter().zip(&self.queues) {
            let (what, answer) = (queue.waits_for(), queue.answer());
            queue.tokens().for_each(|token| each(*output, token, what, answer));
        }
    }

    /// Every row that a client has, with what the brokers said of it before, where it is sent again.
    pub(crate) fn each_in_flight(&self, mut each: impl FnMut(OutputId, &Token, Option<&str>)) {
        self.writer.each_in_flight(&mut |index, token| {
            let output = self.table.route(index).output;
            each(output, token, self.queues[self.queue_of[output.0]].answer());
        });
    }

    /// Where rows wait to be sent, and why, as far as it is known; with how many.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (String, usize)> {
        self.queues.iter().filter(|queue| !queue.is_empty()).map(|queue| {
            let why = queue.waits_for().map_or_else(String::new, |what| format!(" (waits for {what})"));
            (format!("output topic {}{why}", queue.topic()), queue.tokens().count())
        })
    }

    /// Whether no row waits, to be sent or to be acknowledged.
    pub(crate) fn is_quiet(&self) -> bool {
        self.writer.in_flight() == 0 && self.queues.iter().all(Queue::is_empty)
    }

    /// Rows that were sent and not acknowledged.
    pub(crate) fn in_flight(&self) -> usize {
        self.writer.in_flight()
    }

    /// At a stop: rows that wait for time to pass are given up.
    pub(crate) fn abandon_waits(&mut self) {
        self.queues.iter_mut().for_each(Queue::abandon_waits);
    }

    /// Closes the client, waiting no longer than `timeout`; what was not sent is given up.
    pub(crate) fn close(&mut self, timeout: Duration) {
        self.closed = true;
        self.queues.iter_mut().for_each(Queue::give_up);
        self.writer.close(timeout);
    }
}

fn told(table: &OutputTable, row: queue::Refused) -> Refused {
    let route = table.route(row.index);
    Refused {
        node: route.node,
        dead_letter: route.dead_letter,
        route: route.kind(),
        batch: row.batch,
        row: row.row,
        token: row.token,
        attempts: row.attempts,
        reason: row.reason,
    }
}
