//! Kafka outputs of one worker: rows that wait to be sent, and rows that wait for their acknowledgement.
//!
//! An output of the writer is a topic together with the ending of the rows that go there, so that an acknowledgement
//! alone says how its row ended. Terminals append to a pending queue; nothing blocks in the middle of a walk. Where
//! several nodes write to one output, what one cycle brought is put back into source order before it is sent.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Accounts, Token};
use loom_flow::plan::OutputId;
use loom_kafka::{Ack, KafkaError, OutputIndex, OutputSettings, Stamp, TopicSink};
use loom_types::{Batch, Ending, PartitionId};

use crate::rows::RowSet;

/// Which outputs a worker's writer has: known before there is a writer.
#[derive(Clone, Debug, Default)]
pub(crate) struct OutputTable {
    entries: Vec<(OutputId, Ending)>,
    index: BTreeMap<(OutputId, Ending), OutputIndex>,
    writers: Vec<usize>,
}

impl OutputTable {
    /// Adds a node that writes rows of this ending to this output.
    pub(crate) fn add_writer(&mut self, output: OutputId, ending: Ending) {
        let index = *self.index.entry((output, ending)).or_insert_with(|| {
            self.entries.push((output, ending));
            self.writers.push(0);
            OutputIndex(self.entries.len() - 1)
        });
        self.writers[index.0] += 1;
    }

    /// What the writer is built from.
    pub(crate) fn settings(&self, outputs: &[OutputSettings]) -> Vec<OutputSettings> {
        self.entries.iter().map(|(output, _)| outputs[output.0].clone()).collect()
    }
}

/// Rows of one batch in a pending queue; tokens leave from the front as rows are accepted.
struct Pending {
    batch: Arc<Batch>,
    ids: Vec<u32>,
    sent: usize,
    tokens: VecDeque<Token>,
    stamp: Stamp,
}

/// See the module's description.
pub(crate) struct Outputs {
    table: OutputTable,
    writer: Box<dyn TopicSink>,
    pending: Vec<VecDeque<Pending>>,
    /// Rows in pending queues that were added since the last `send`.
    fresh: Vec<usize>,
    acks: Vec<(OutputIndex, Token, Ack)>,
    counts: Vec<Counts>,
}

/// What became of an output's rows so far, and where the others are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Rows that wait for room in the client's queue.
    pub pending: u64,
    /// Rows that the client has.
    pub in_flight: u64,
    pub acknowledged: u64,
    pub refused: u64,
}

impl Outputs {
    pub(crate) fn new(table: OutputTable, writer: Box<dyn TopicSink>) -> Self {
        let pending = table.entries.iter().map(|_| VecDeque::new()).collect();
        let fresh = vec![0; table.entries.len()];
        let counts = vec![Counts::default(); table.entries.len()];
        Outputs { table, writer, pending, fresh, acks: Vec::new(), counts }
    }

    /// Queues rows of one route for an output.
    pub(crate) fn push(&mut self, output: OutputId, ending: Ending, rows: RowSet, stamp: Stamp) {
        let Some(index) = self.table.index.get(&(output, ending)) else {
            unreachable!("every writing node registers its outputs when the flow is lowered");
        };
        self.fresh[index.0] += 1;
        let RowSet { batch, ids, tokens, .. } = rows;
        self.pending[index.0].push_back(Pending { batch, ids, sent: 0, tokens: tokens.into(), stamp });
    }

    /// Hands pending rows to the client, as far as it takes them.
    pub(crate) fn send(&mut self, accounts: &Accounts) {
        for index in 0..self.pending.len() {
            let fresh = std::mem::take(&mut self.fresh[index]);
            if fresh > 1 && self.table.writers[index] > 1 {
                self.restore_order(index, fresh, accounts);
            }
            let queue = &mut self.pending[index];
            while let Some(front) = queue.front_mut() {
                let rows = &front.ids[front.sent..];
                let taken =
                    self.writer.send(OutputIndex(index), &front.batch, rows, front.stamp, &mut front.tokens);
                front.sent += taken;
                self.counts[index].in_flight += taken as u64;
                if !front.tokens.is_empty() {
                    break;
                }
                queue.pop_front();
            }
        }
    }

    /// Puts the last `fresh` entries of a queue into the order of their source, partition by partition.
    fn restore_order(&mut self, index: usize, fresh: usize, accounts: &Accounts) {
        let queue = &mut self.pending[index];
        let entries = queue.split_off(queue.len() - fresh);
        let mut rows = Vec::new();
        for (entry, mut pending) in entries.into_iter().enumerate() {
            for id in pending.ids {
                let token = pending.tokens.pop_front().expect("a token for each row");
                let place = (token.partition(), accounts.offset(&token));
                rows.push((place, entry, pending.batch.clone(), id, token, pending.stamp));
            }
        }
        // Stable: rows that one record made keep the order in which they were made.
        rows.sort_by_key(|row| row.0);
        let mut last = None;
        for (_, entry, batch, id, token, stamp) in rows {
            if last != Some(entry) {
                queue.push_back(Pending { batch, ids: Vec::new(), sent: 0, tokens: VecDeque::new(), stamp });
                last = Some(entry);
            }
            let open = queue.back_mut().expect("an entry was just pushed");
            open.ids.push(id);
            open.tokens.push_back(token);
        }
    }

    /// What became of rows: the output, how such a row ends, its token, and the verdict.
    pub(crate) fn acks(&mut self, mut each: impl FnMut(OutputId, Ending, Token, Ack)) -> bool {
        self.writer.acks(&mut self.acks);
        let any = !self.acks.is_empty();
        for (index, token, ack) in self.acks.drain(..) {
            let (output, ending) = self.table.entries[index.0];
            let counts = &mut self.counts[index.0];
            counts.in_flight = counts.in_flight.saturating_sub(1);
            match &ack {
                Ack::Written => counts.acknowledged += 1,
                Ack::Refused(_) => counts.refused += 1,
                Ack::Unknown => {}
            }
            each(output, ending, token, ack);
        }
        any
    }

    pub(crate) fn client_errors(&mut self, out: &mut Vec<KafkaError>) {
        self.writer.client_errors(out);
    }

    /// The partitions that have rows waiting to be sent, with repetitions.
    pub(crate) fn pending(&self) -> impl Iterator<Item = PartitionId> {
        self.pending.iter().flatten().flat_map(|entry| entry.tokens.iter().map(Token::partition))
    }

    /// How each output stands.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (OutputId, Counts)> {
        self.table.entries.iter().zip(&self.counts).zip(&self.pending).map(
            |(((output, _), counts), queue)| {
                let pending = queue.iter().map(|entry| entry.tokens.len() as u64).sum();
                (*output, Counts { pending, ..*counts })
            },
        )
    }

    /// Every row that waits for room in a client's queue.
    pub(crate) fn each_pending(&self, mut each: impl FnMut(OutputId, &Token)) {
        for (queue, (output, _)) in self.pending.iter().zip(&self.table.entries) {
            queue.iter().flat_map(|entry| &entry.tokens).for_each(|token| each(*output, token));
        }
    }

    /// Every row that a client has.
    pub(crate) fn each_in_flight(&self, mut each: impl FnMut(OutputId, &Token)) {
        self.writer.each_in_flight(&mut |index, token| each(self.table.entries[index.0].0, token));
    }

    /// Whether no row waits, to be sent or to be acknowledged.
    pub(crate) fn is_quiet(&self) -> bool {
        self.writer.in_flight() == 0 && self.pending.iter().all(VecDeque::is_empty)
    }

    /// Rows that were sent and not acknowledged.
    pub(crate) fn in_flight(&self) -> usize {
        self.writer.in_flight()
    }

    /// Closes the client, waiting no longer than `timeout`; what was not sent is given up.
    pub(crate) fn close(&mut self, timeout: Duration) {
        for queue in &mut self.pending {
            for entry in queue.drain(..) {
                entry.tokens.into_iter().for_each(Token::give_up);
            }
        }
        self.writer.close(timeout);
    }
}
