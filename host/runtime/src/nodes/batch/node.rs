//! Nodes of batch steps and batch expanders: calls with whole batches, at once or beside the worker.
//!
//! - A batch whose call is answered at once for every row goes through as it came. From the first one that is not, batches
//!   are held here until all of their rows are decided; rows that are decided are not called again.
//! - Batches of one source partition leave in the order in which they came, unless the node is unordered; nothing behind a
//!   batch that is tried again is called before that is through. Batches that share no partition do not wait for each other.
//! - A call beside the worker that did not come back, or was answered wrongly, is made again row by row, as a direct one is
//!   by its instance; where running rows again could repeat what they did outside, a trap is the fault of all.
//! - At most `concurrency` calls are under way.
//! - Where rows are made, a batch waits while as much was made of its partitions' records as may be, unless all else waits
//!   for it, or for one behind it; the bound is passed by what one call makes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::Token;
use loom_plugin::{Breaker, Cause, Permit, RowFailure};
use loom_types::{Batch, Moment, Moves, PartitionId};

use super::calls::{BatchAnswer, BatchCalls};
use super::derive::{count, derive};
use super::held::{Held, Judgement, Through};
use super::order::{Ahead, Lets};
use crate::holdings::Seen;
use crate::late::Stand;
use crate::nodes::call::record;
use crate::nodes::plugins::Label;
use crate::nodes::waiting::Fault;
use crate::nodes::{Flow, NodeId, Op, Room, Target};
use crate::rows::{Row, RowSet};

/// What a batch node is made of.
pub(crate) struct Batching {
    pub plugin: Label,
    /// Names the node in log lines.
    pub span: tracing::Span,
    pub next: Target,
    pub breaker: Breaker,
    pub calls: Box<dyn BatchCalls>,
    /// Calls at a time, at least one.
    pub concurrency: usize,
    /// What a call may take, without what its rows add.
    pub limit: Duration,
    /// Whether batches of a partition leave in their order.
    pub ordered: bool,
    /// Calls after the first that a row gets which is to be tried again; none = without limit.
    pub retries: Option<u32>,
    /// Whether the plugin may use the network, so that it may be slow through no fault of the records.
    pub network: bool,
    /// Whether a call on several rows that trapped is not made again row by row.
    pub fails_batches: bool,
    /// Whether rows are made of rows, so that calls wait for the bound of what is made.
    pub grows: bool,
}

/// What each row adds to the time of a call.
const ROW_TIME: Duration = Duration::from_millis(1);

/// See the module's description.
pub(crate) struct BatchNode {
    pub(super) parts: Batching,
    /// By number, in the order in which they came.
    held: BTreeMap<u64, Held>,
    /// The calls under way: of which batch, and which of its rows.
    flights: BTreeMap<u64, (u64, Vec<u32>)>,
    next_batch: u64,
    next_call: u64,
    /// Bytes that answers made since this was last asked.
    made_bytes: usize,
}

impl BatchNode {
    pub(crate) fn new(parts: Batching) -> BatchNode {
        BatchNode {
            parts,
            held: BTreeMap::new(),
            flights: BTreeMap::new(),
            next_batch: 0,
            next_call: 0,
            made_bytes: 0,
        }
    }

    /// The plugin's name and digest.
    pub(crate) fn name(&self) -> (&str, &str) {
        (&self.parts.plugin.name, &self.parts.plugin.digest)
    }

    /// Tells a bad plugin from bad records.
    pub(crate) fn breaker(&self) -> &Breaker {
        &self.parts.breaker
    }

    /// Rings this when an answer came.
    pub(crate) fn ring(&mut self, bell: loom_kafka::Waker) {
        self.parts.calls.ring(bell);
    }

    /// Whether calls are made on the worker's thread.
    pub(crate) fn is_direct(&self) -> bool {
        self.parts.calls.is_direct()
    }

    /// Whether no row is here.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// How many rows are here.
    pub(crate) fn waiting(&self) -> usize {
        self.held.values().map(Held::len).sum()
    }

    /// Whether there is no call for one more batch.
    pub(crate) fn is_full(&self) -> bool {
        self.flights.len() >= self.parts.concurrency
    }

    /// Calls under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len()
    }

    /// Whether rows are made of rows here.
    pub(crate) fn grows(&self) -> bool {
        self.parts.grows
    }

    /// Every row that is here, with since when, and how it stands.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&Row, Moment, Stand)> {
        let mut ahead = Ahead::new(self.parts.ordered);
        self.held.values().flat_map(move |held| {
            let behind = ahead.blocks(held);
            ahead.passes(held, held.is_late());
            held.rows(behind)
        })
    }

    /// Shows every row that is here, to whoever counts what they keep.
    pub(crate) fn show(&self, seen: &mut Seen) {
        self.held.values().for_each(|held| held.show(seen));
    }

    /// Rows that were copied go on as their copies.
    pub(crate) fn follow(&mut self, moves: &Moves) {
        self.held.values_mut().for_each(|held| held.follow(moves));
    }

    /// The partitions that nothing is to be read from: a batch of it is tried again or held by the breaker, or there is enough
    /// to call.
    pub(crate) fn holding(&self) -> Vec<PartitionId> {
        let all = self.is_direct() || self.parts.breaker.is_open();
        let mut fresh: BTreeMap<PartitionId, usize> = BTreeMap::new();
        for held in self.held.values() {
            let full = all || held.is_late();
            let waits = usize::from(held.next_call().is_some());
            for partition in held.partitions() {
                *fresh.entry(*partition).or_default() += if full { self.parts.concurrency } else { waits };
            }
        }
        let full = fresh.into_iter().filter(|(_, count)| *count >= self.parts.concurrency);
        full.map(|(partition, _)| partition).collect()
    }

    /// When there is something to call that there is a call for; what waits for an answer is rung for.
    pub(crate) fn next_due(&self, room: Room<'_>) -> Option<Moment> {
        if self.held.is_empty()
            || self.is_full()
            || (self.parts.breaker.is_open() && !self.flights.is_empty())
        {
            return None;
        }
        let lets = self.lets(room);
        let mut ahead = Ahead::new(self.parts.ordered);
        let mut first: Option<Moment> = None;
        for (number, held) in &self.held {
            let due = held.next_call().filter(|_| !ahead.blocks(held) && lets.call(*number));
            first = first.into_iter().chain(due).min();
            if first == Some(Moment::START) {
                break;
            }
            ahead.passes(held, held.is_late() || held.next_call().is_some());
        }
        match self.parts.breaker.permit(first?) {
            Permit::Wait { until } => Some(until),
            Permit::Probe | Permit::Rows { .. } => first,
        }
    }

    /// At a stop: gives up batches that are tried again, and those that wait behind them to keep their order. The rest goes
    /// on; what a direct call left is given up too.
    pub(crate) fn give_up_retries(&mut self) {
        if self.is_direct() || self.parts.breaker.is_open() {
            self.abandon();
            return;
        }
        let mut ahead = Ahead::new(self.parts.ordered);
        let mut given_up = Vec::new();
        for (number, held) in &self.held {
            let goes = held.is_late() || ahead.blocks(held);
            ahead.passes(held, goes);
            if goes {
                given_up.push(*number);
            }
        }
        for number in given_up {
            let calls = self.flights.iter().filter(|(_, (batch, _))| *batch == number);
            let calls: Vec<u64> = calls.map(|(call, _)| *call).collect();
            for call in calls {
                self.flights.remove(&call);
                self.parts.calls.abandon(call);
            }
            if let Some(held) = self.held.remove(&number) {
                held.give_up();
            }
        }
    }

    /// At a stop: gives up every row and ends every call that is under way. How many calls that were.
    pub(crate) fn abandon(&mut self) -> usize {
        let calls = self.flights.len();
        for call in std::mem::take(&mut self.flights).into_keys() {
            self.parts.calls.abandon(call);
        }
        std::mem::take(&mut self.held).into_values().for_each(Held::give_up);
        calls
    }

    /// A batch comes, and waits for its call.
    pub(super) fn push(&mut self, rows: RowSet, now: Moment) -> u64 {
        self.next_batch += 1;
        self.held.insert(self.next_batch, Held::new(rows, now));
        self.next_batch
    }

    /// Whether a batch that comes may be called before anything else is.
    fn is_free(&self, rows: &RowSet, room: Room<'_>) -> bool {
        let fits = |token: &Token| !self.parts.grows || room.is_there(token.partition());
        let free = self.is_direct() && self.held.is_empty() && !self.parts.breaker.is_open();
        free && rows.tokens.iter().all(fits)
    }

    /// Which batches the bound of what is made lets be called.
    fn lets(&self, room: Room<'_>) -> Lets {
        if self.parts.grows { Lets::new(&self.held, self.parts.ordered, room) } else { Lets::All }
    }

    /// Calls the plugin for a batch that came, before anything else is called.
    fn call_at_once(&mut self, batch: &Arc<Batch>, ids: &[u32], now: Moment) -> Option<BatchAnswer> {
        let allowance = match self.parts.breaker.permit(now) {
            Permit::Rows { allowance } => allowance,
            Permit::Probe | Permit::Wait { .. } => return None,
        };
        self.next_call += 1;
        self.parts.calls.start(self.next_call, batch, ids, allowance);
        let mut answers = Vec::new();
        self.parts.calls.answers(&mut answers);
        let answer = answers.pop()?.1.ok()?;
        self.made_bytes += answer.memory();
        Some(answer)
    }

    /// Makes the next call, where there may be one. Whether it was made.
    fn start_call(&mut self, now: Moment, room: Room<'_>) -> bool {
        if self.is_full() {
            return false;
        }
        let (most, allowance) = match self.parts.breaker.permit(now) {
            Permit::Wait { .. } => return false,
            // A probe is alone, so that it is known which row closed the breaker.
            Permit::Probe if !self.flights.is_empty() => return false,
            Permit::Probe => (1, u32::MAX),
            Permit::Rows { allowance } => (usize::MAX, allowance),
        };
        let lets = self.lets(room);
        let mut ahead = Ahead::new(self.parts.ordered);
        let ready = self.held.iter_mut().find(|(number, held)| {
            let due = held.next_call().is_some_and(|due| due <= now);
            let ready = due && !ahead.blocks(held) && lets.call(**number);
            ahead.passes(held, held.is_late() || held.next_call().is_some());
            ready
        });
        let Some((number, held)) = ready else { return false };
        let limit = self.parts.limit;
        let positions = held.call(most, |rows| now + limit + ROW_TIME * rows as u32);
        let Some((batch, ids)) = held.of(&positions) else { return false };
        self.next_call += 1;
        self.flights.insert(self.next_call, (*number, positions));
        self.parts.calls.start(self.next_call, &batch, &ids, allowance);
        true
    }

    /// Takes the answers that came, and makes the calls that are due, as long as `more` says so before each. The batches that
    /// leave, and how many rows are to be tried again.
    pub(super) fn progress(
        &mut self,
        now: Moment,
        random: f64,
        room: Room<'_>,
        more: &mut dyn FnMut() -> bool,
    ) -> (Vec<Held>, u64) {
        let mut retried = self.take_answers(now, random);
        // What leaves holds nothing back any more.
        let mut leaving = self.leave();
        while more() && self.start_call(now, room) {
            if self.is_direct() {
                retried += self.take_answers(now, random);
                leaving.append(&mut self.leave());
            }
        }
        (leaving, retried)
    }

    /// Takes the answers that came. How many rows are to be tried again.
    fn take_answers(&mut self, now: Moment, random: f64) -> u64 {
        let mut answers = Vec::new();
        self.parts.calls.answers(&mut answers);
        let mut retried = 0;
        for (call, answer) in answers {
            let Some((number, positions)) = self.flights.remove(&call) else { continue };
            retried += self.settle(number, &positions, answer, now, random);
        }
        retried
    }

    /// Takes one call's answer. How many rows are to be tried again.
    fn settle(
        &mut self,
        number: u64,
        positions: &[u32],
        answer: Result<BatchAnswer, Fault>,
        now: Moment,
        random: f64,
    ) -> u64 {
        let parts = &mut self.parts;
        let Some(held) = self.held.get_mut(&number) else { return 0 };
        let judgement = Judgement { retries: parts.retries, now, random };
        let again = match answer {
            Ok(answer) => {
                self.made_bytes += answer.memory();
                let answered = answer.answered() as u32;
                record(&mut parts.breaker, &parts.plugin, answered, answer.failures(), now);
                held.answer(positions, answer, judgement)
            }
            Err(Fault { cause, reason, waited }) => {
                let late = cause == Cause::Timeout && waited && parts.network;
                let again = cause == Cause::Retry || late;
                let all = cause.is_trap() && parts.fails_batches;
                if !again && positions.len() > 1 && !all {
                    // One of them is to blame, and is found.
                    held.put_back(positions, true);
                    return 0;
                }
                let counted = if again { Cause::Retry } else { cause };
                let failure = |position| RowFailure { position, cause: counted, reason: String::new() };
                let failures: Vec<RowFailure> = (0..positions.len() as u32).map(failure).collect();
                record(&mut parts.breaker, &parts.plugin, positions.len() as u32, &failures, now);
                held.fail(positions, cause, &reason, again, judgement)
            }
        };
        let Some(again) = again else { return 0 };
        if again.first
            && let Some(row) = held.row(again.position)
        {
            let source = row.batch.source(row.id);
            tracing::warn!(
                topic = &**source.topic,
                partition = source.partition,
                offset = source.offset.0,
                rows = again.rows,
                wait_ms = again.wait.as_millis() as u64,
                reason = row.answer.as_deref(),
                "records of a batch are to be tried again, the batch waits for them, and its partition with it"
            );
        }
        again.rows
    }

    /// Takes out the batches that leave now.
    fn leave(&mut self) -> Vec<Held> {
        let mut ahead = Ahead::new(self.parts.ordered);
        let mut leaving = Vec::new();
        for (number, held) in &self.held {
            let leaves = held.is_through() && !ahead.blocks(held);
            ahead.passes(held, !leaves);
            if leaves {
                leaving.push(*number);
            }
        }
        leaving.into_iter().filter_map(|number| self.held.remove(&number)).collect()
    }
}

fn node_of(op: &mut Op) -> &mut BatchNode {
    match op {
        Op::Batch(node) => node,
        _ => unreachable!("only batch nodes are asked"),
    }
}

impl Flow {
    fn batch_node(&mut self, id: NodeId) -> &mut BatchNode {
        node_of(&mut self.nodes[id.0].op)
    }

    /// A batch comes to its node.
    pub(in crate::nodes) fn batch_arrive(&mut self, id: NodeId, rows: RowSet) {
        let (now, random) = (self.shared.now, self.shared.random);
        let node = node_of(&mut self.nodes[id.0].op);
        // Of many batches at once not each must have one more call when a stop will not wait.
        if self.shared.interrupt.is_set() || !node.is_free(&rows, self.shared.room()) {
            node.push(rows, now);
            return;
        }
        let calling = self.shared.calling.clone();
        let node = self.batch_node(id);
        let in_node = node.parts.span.clone().entered();
        calling.begins(id.0);
        let answer = node.call_at_once(&rows.batch, &rows.ids, now);
        calling.ends();
        drop(in_node);
        let (next, made) = (node.parts.next, std::mem::take(&mut node.made_bytes));
        self.shared.holdings.add(made);
        let node = self.batch_node(id);
        match answer {
            Some(answer) if answer.failures().is_empty() && answer.answered() == rows.len() => {
                record(&mut node.parts.breaker, &node.parts.plugin, rows.len() as u32, &[], now);
                let rows = self.all_through(id, answer, rows);
                self.run(next, id, rows);
            }
            Some(answer) => {
                let number = node.push(rows, now);
                let Some(held) = node.held.get_mut(&number) else { return };
                let positions = held.call(usize::MAX, |_| now);
                let in_node = node.parts.span.clone().entered();
                let retried = node.settle(number, &positions, Ok(answer), now, random);
                drop(in_node);
                let leaving = node.leave();
                self.count_retries(id, retried);
                self.batches_leave(id, leaving);
            }
            None => {
                node.push(rows, now);
            }
        }
    }

    /// What an answer made of a batch of which every row is through.
    fn all_through(&mut self, id: NodeId, answer: BatchAnswer, rows: RowSet) -> RowSet {
        let RowSet { batch, ids, tokens, route } = rows;
        match answer {
            BatchAnswer::Changed(answers) if answers.changes.is_empty() => {
                RowSet { batch, ids, tokens, route }
            }
            BatchAnswer::Changed(answers) => {
                RowSet::all(batch.select(&ids).with(answers.changes), tokens, route)
            }
            BatchAnswer::Made(answers) => {
                let (records, made) = (tokens.len(), answers.rows.len());
                let accounts = &mut self.shared.accounts;
                let tokens = derive(accounts, (0..).zip(tokens), &answers.origins, made as u32);
                count(accounts, records, &answers.rows, &tokens);
                self.nodes[id.0].made += made as u64;
                RowSet::all(answers.rows, tokens, route)
            }
        }
    }

    /// Takes the answers that came to a batch node, makes the calls that are due, and sends batches on.
    pub(crate) fn progress_batch(&mut self, id: NodeId) {
        let (now, random) = (self.shared.now, self.shared.random);
        let calling = self.shared.calling.clone();
        let interrupt = self.shared.interrupt.clone();
        let node = node_of(&mut self.nodes[id.0].op);
        let in_node = node.parts.span.clone().entered();
        let direct = node.is_direct();
        let (leaving, retried) = node.progress(now, random, self.shared.room(), &mut || {
            if direct {
                calling.begins(id.0);
            }
            !interrupt.is_set()
        });
        if direct {
            calling.ends();
        }
        self.shared.holdings.add(std::mem::take(&mut node.made_bytes));
        drop(in_node);
        self.count_retries(id, retried);
        self.batches_leave(id, leaving);
    }

    /// Batches whose rows all have their verdict go on.
    fn batches_leave(&mut self, id: NodeId, leaving: Vec<Held>) {
        let node = self.batch_node(id);
        let (next, grows) = (node.parts.next, node.parts.grows);
        for held in leaving {
            let Through { on, failed } = held.through(&mut self.shared.accounts);
            if grows {
                self.nodes[id.0].made += on.iter().map(|rows| rows.len() as u64).sum::<u64>();
            }
            self.failed_in_batch(id, failed);
            for rows in on {
                self.run(next, id, rows);
            }
        }
    }
}
