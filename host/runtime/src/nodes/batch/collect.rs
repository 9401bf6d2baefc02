//! `collect_batch`: rows are gathered by key, and leave as one batch at a bound.
//!
//! - A batch leaves when it is full (records or bytes), or so long after its *first* row: each has a moment of its own, and the
//!   worker sleeps until the next one.
//! - It leaves before it is full when its partition is at the bound of what may be outstanding and waits for a record in it,
//!   and when the node gathers more than the flow may have outstanding at all: so no bound can deadlock with one of a batch,
//!   and where nothing is tracked memory is bounded all the same.
//! - Rows of one kind of error only are one batch with each other.
//! - Rows that are gathered by a key come with it as theirs, from the node of keys in front, and go on with the key that they
//!   had before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::{Accounts, Token};
use loom_types::{Batch, ErrorKind, Moment, PartitionId, RecordOffset};

use super::window::Window;
use crate::holdings::Seen;
use crate::nodes::{Flow, NodeId, Op, Target};
use crate::rows::RowSet;

/// Bytes of a batch, at most, whatever the flow says: a column holds no more than twice of it.
const MOST_BYTES: u64 = 1 << 30;

/// At which bounds a batch leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectBounds {
    pub records: usize,
    /// Of payloads, keys and headers. A row that does not fit opens the next batch; one above it goes alone.
    pub bytes: u64,
    /// After its first row.
    pub timeout: Option<Duration>,
}

/// By what rows are gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gather {
    /// By source partition.
    Partition,
    /// By the key that they come with.
    Key,
}

/// Which rows are gathered together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// Of one source partition.
    Partition(PartitionId),
    /// Of these bytes; none where a row has no key.
    Bytes(Option<Vec<u8>>),
}

impl Key {
    fn of(gather: Gather, batch: &Batch, id: u32, token: &Token) -> Key {
        match gather {
            Gather::Partition => Key::Partition(token.partition()),
            Gather::Key => Key::Bytes(batch.key(id).map(<[u8]>::to_vec)),
        }
    }

    fn is_of(&self, batch: &Batch, id: u32, token: &Token) -> bool {
        match self {
            Key::Partition(partition) => *partition == token.partition(),
            Key::Bytes(key) => key.as_deref() == batch.key(id),
        }
    }
}

/// See the module's description.
pub(crate) struct Collect {
    gather: Gather,
    next: Target,
    bounds: CollectBounds,
    /// Rows and bytes that all its batches may have together.
    most: (usize, u64),
    /// By number, in the order in which they were opened: so the first one is due first. Each with its key.
    windows: BTreeMap<u64, (Key, Window)>,
    /// The number of the one that is open for a key.
    open: HashMap<(Option<ErrorKind>, Key), u64>,
    /// Those that are asked for before their time.
    asked: BTreeSet<u64>,
    number: u64,
    rows: usize,
    bytes: u64,
}

impl Collect {
    pub(crate) fn new(gather: Gather, bounds: CollectBounds, most: (usize, u64), next: Target) -> Collect {
        Collect {
            gather,
            next,
            bounds: CollectBounds { bytes: bounds.bytes.min(MOST_BYTES), ..bounds },
            most,
            windows: BTreeMap::new(),
            open: HashMap::new(),
            asked: BTreeSet::new(),
            number: 0,
            rows: 0,
            bytes: 0,
        }
    }

    /// Tells what is kept here, to whoever counts it: rows are copies already.
    pub(crate) fn show(&self, seen: &mut Seen) {
        self.windows.values().for_each(|(_, window)| seen.beside(window.memory()));
    }

    /// How many rows are here.
    pub(crate) fn waiting(&self) -> usize {
        self.rows
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.windows.is_empty()
    }

    /// Every batch that is being gathered, with when it leaves by itself.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (&Window, Option<Moment>)> {
        self.windows.values().map(|(_, window)| (window, self.leaves_at(window)))
    }

    fn leaves_at(&self, window: &Window) -> Option<Moment> {
        self.bounds.timeout.map(|timeout| window.since + timeout)
    }

    /// When the next batch leaves by itself, or is asked for.
    pub(crate) fn next_due(&self) -> Option<Moment> {
        if !self.asked.is_empty() {
            return Some(Moment::START);
        }
        self.windows.first_key_value().and_then(|(_, (_, window))| self.leaves_at(window))
    }

    /// Asks for the batches that a partition may wait for, whose oldest record is this.
    pub(crate) fn ask_for(&mut self, partition: PartitionId, oldest: RecordOffset) {
        let held = self.windows.iter().filter(|(_, (_, window))| window.may_hold(partition, oldest));
        self.asked.extend(held.map(|(number, _)| *number));
    }

    /// Asks for all batches.
    pub(crate) fn ask(&mut self) {
        self.asked.extend(self.windows.keys());
    }

    /// Gives every row up, at a stop.
    pub(crate) fn abandon(&mut self) {
        for (_, window) in std::mem::take(&mut self.windows).into_values() {
            window.give_up();
        }
        self.open.clear();
        self.asked.clear();
        (self.rows, self.bytes) = (0, 0);
    }

    /// Rows come; the batches that leave, in order.
    pub(super) fn arrive(&mut self, mut rows: RowSet, now: Moment, accounts: &Accounts) -> Vec<RowSet> {
        let mut leaving = Vec::new();
        // Rows of several expanders may meet in a batch, which have no types in common: so no batch has any, however it leaves.
        if rows.batch.is_typed() {
            rows.batch = Arc::new(Batch::clone(&rows.batch).untyped());
        }
        for (key, run) in runs(rows, self.gather) {
            self.push(key, run, now, accounts, &mut leaving);
        }
        leaving
    }

    /// The batches that leave now, in the order in which they were opened.
    pub(super) fn due(&mut self, now: Moment) -> Vec<RowSet> {
        let timed = self.windows.iter();
        let timed = timed.take_while(|(_, (_, window))| self.leaves_at(window).is_some_and(|at| at <= now));
        let mut due: BTreeSet<u64> = timed.map(|(number, _)| *number).collect();
        due.append(&mut self.asked);
        due.into_iter().filter_map(|number| self.close(number)).collect()
    }

    fn close(&mut self, number: u64) -> Option<RowSet> {
        let (key, window) = self.windows.remove(&number)?;
        self.open.remove(&(window.route, key));
        self.asked.remove(&number);
        self.rows -= window.len();
        self.bytes -= window.bytes();
        Some(window.into_rows())
    }

    /// Rows of one key come, in order; appends the batches that leave.
    fn push(&mut self, key: Key, mut rows: RowSet, now: Moment, accounts: &Accounts, out: &mut Vec<RowSet>) {
        let key = (rows.route, key);
        while !rows.is_empty() {
            let number = match self.open.get(&key) {
                Some(number) => *number,
                None => match self.full_prefix(&rows) {
                    // They are one batch as they come: nothing is copied.
                    Some(count) => {
                        let rest = rows.split_off(count);
                        out.push(std::mem::replace(&mut rows, rest));
                        continue;
                    }
                    None => {
                        self.number += 1;
                        self.open.insert(key.clone(), self.number);
                        let window = Window::new(&rows.batch, rows.route, now);
                        self.windows.insert(self.number, (key.1.clone(), window));
                        self.number
                    }
                },
            };
            rows = self.fill(number, rows, accounts);
            let (_, window) = &self.windows[&number];
            let is_full = window.len() >= self.bounds.records || window.bytes() >= self.bounds.bytes;
            if is_full || !rows.is_empty() {
                out.extend(self.close(number));
            }
        }
        while self.rows > self.most.0 || self.bytes > self.most.1 {
            let Some(first) = self.windows.keys().next().copied() else { return };
            out.extend(self.close(first));
        }
    }

    /// How many of the rows are a full batch by themselves; none where there are too few of them.
    fn full_prefix(&self, rows: &RowSet) -> Option<usize> {
        let mut bytes = 0;
        for (count, id) in rows.ids.iter().enumerate() {
            bytes += rows.batch.row_bytes(*id) as u64;
            if bytes > self.bounds.bytes && count > 0 {
                return Some(count);
            }
            if bytes >= self.bounds.bytes || count + 1 >= self.bounds.records {
                return Some(count + 1);
            }
        }
        None
    }

    /// Copies rows into a batch as far as they fit, at least one into an empty one. Those that do not.
    fn fill(&mut self, number: u64, mut rows: RowSet, accounts: &Accounts) -> RowSet {
        let Some((_, window)) = self.windows.get_mut(&number) else { return rows };
        let (before, mut bytes) = ((window.len(), window.bytes()), window.bytes());
        let fits = |(count, id): &(usize, &u32)| {
            bytes += rows.batch.row_bytes(**id) as u64;
            let count = before.0 + count;
            count == 0 || (count < self.bounds.records && bytes <= self.bounds.bytes)
        };
        let count = rows.ids.iter().enumerate().take_while(fits).count();
        let behind = rows.split_off(count);
        let mut rest = rows.empty_like();
        for (id, token) in rows.ids.into_iter().zip(rows.tokens) {
            // Bounds are far below what a column takes; and were there no room, order would be kept.
            let pushed =
                if rest.is_empty() { window.push(&rows.batch, id, token, accounts) } else { Err(token) };
            if let Err(token) = pushed {
                rest.push(id, token);
            }
        }
        rest.ids.extend(behind.ids);
        rest.tokens.extend(behind.tokens);
        self.rows += window.len() - before.0;
        self.bytes += window.bytes() - before.1;
        rest
    }
}

impl Flow {
    fn collect_node(&mut self, id: NodeId) -> (&mut Collect, &Accounts) {
        match &mut self.nodes[id.0].op {
            Op::Collect(node) => (node, &self.shared.accounts),
            _ => unreachable!("only nodes that gather batches are asked"),
        }
    }

    /// Rows come to be gathered.
    pub(in crate::nodes) fn collect_arrive(&mut self, id: NodeId, rows: RowSet) {
        let now = self.shared.now;
        let (node, accounts) = self.collect_node(id);
        let leaving = node.arrive(rows, now, accounts);
        self.send_batches(id, leaving);
    }

    /// Sends on the batches whose time has come.
    pub(crate) fn progress_collect(&mut self, id: NodeId) {
        let now = self.shared.now;
        let leaving = self.collect_node(id).0.due(now);
        self.send_batches(id, leaving);
    }

    fn send_batches(&mut self, id: NodeId, leaving: Vec<RowSet>) {
        let next = self.collect_node(id).0.next;
        for batch in leaving {
            self.run(next, id, batch);
        }
    }
}

/// The rows in runs of one key, in order, with the keys that they had before they got those that gather them.
fn runs(rows: RowSet, gather: Gather) -> Vec<(Key, RowSet)> {
    let mut runs: Vec<(Key, RowSet)> = Vec::new();
    let RowSet { batch, ids, tokens, route } = rows;
    let former =
        if batch.is_rekeyed() { Arc::new(Batch::clone(&batch).with_former_keys()) } else { batch.clone() };
    for (id, token) in ids.into_iter().zip(tokens) {
        match runs.last_mut() {
            Some((last, run)) if last.is_of(&batch, id, &token) => run.push(id, token),
            _ => runs.push((
                Key::of(gather, &batch, id, &token),
                RowSet { batch: former.clone(), ids: vec![id], tokens: vec![token], route },
            )),
        }
    }
    runs
}
