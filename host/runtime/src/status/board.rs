//! Where a running flow can be looked at, without disturbing it.
//!
//! A reader asks: it marks each worker's seat and rings its bell. A worker that finds its seat marked writes what it
//! knows at the end of its step; one that is not asked does nothing, so that a record costs nothing. A worker that is in
//! the middle of a long call does not answer in time: then its last answer stands, with its age, and the call that it
//! noted. Before its first answer stands what was known when it was started.
//!
//! The lock is held to copy, never while something is waited for or decided.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use loom_flow::plan::Rate;

use super::calling::Calling;
use super::document::{
    AddedPartition, Call, ClientError, CommitStatus, HistogramStatus, NodeStatus, OutputStatus,
    PartitionStatus, PluginRef, PluginStatus, RunPhase,
};
use super::earlier::Earlier;
use super::merge::{millis, put_together};
use crate::stop::Bell;

/// How much a worker is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Detail {
    /// Numbers only.
    Numbers = 1,
    /// Where the oldest records are, too: every row that waits is looked at.
    Places = 2,
}

/// What one worker knows.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub at: Instant,
    pub detail: Detail,
    pub draining: bool,
    pub partitions: Vec<PartitionStatus>,
    /// What each partition's client said of it last, beside records: by the same index.
    pub troubles: Vec<Option<String>>,
    pub nodes: Vec<NodeStatus>,
    pub outputs: Vec<OutputStatus>,
    pub commits: CommitStatus,
    pub client_error: Option<ClientError>,
    pub cycles: u64,
    /// Rows that were dropped in the time of the flow's bound.
    pub dropped_lately: u64,
    /// How long records took until they were resolved.
    pub resolution: HistogramStatus,
}

/// A worker that is about to start.
pub(crate) struct Berth {
    pub bell: Arc<Bell>,
    /// What is known of it before it said anything: its first call may take as long as it likes.
    pub part: Part,
    /// Its nodes, by their index.
    pub sites: Vec<Site>,
}

/// A node as a call of it is told.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub node: Arc<str>,
    pub name: Option<Arc<str>>,
    pub plugin: Option<PluginRef>,
}

/// A place at the board, for one worker.
pub(super) struct Slot {
    asked: Arc<AtomicU8>,
    bell: Arc<Bell>,
    calling: Arc<Calling>,
    sites: Vec<Site>,
    /// What it said last, or what was known of it at its start.
    pub part: Part,
    pub ended: bool,
}

impl Slot {
    /// The call of a plugin that it is in.
    pub(super) fn call(&self, now: Instant) -> Option<Call> {
        let (node, took) = self.calling.now(now).filter(|_| !self.ended)?;
        let site = self.sites.get(node)?;
        Some(Call {
            node: site.node.to_string(),
            name: site.name.as_deref().map(str::to_owned),
            plugin: site.plugin.clone(),
            for_ms: millis(took),
        })
    }
}

/// What was found out by looking at the parts again and again, and by asking brokers.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    /// Partitions' ends, with when they were learnt.
    pub ends: BTreeMap<(String, i32), (i64, Instant)>,
    /// Since when a partition has data and no progress, at which offset, and why.
    pub stalled: BTreeMap<(String, i32), (Instant, i64, String)>,
    /// Since when an output's rows wait without any acknowledgement.
    pub waiting: BTreeMap<String, Instant>,
    /// Since when the input's brokers answer no question, and what they say.
    pub unreachable: Option<(Instant, String)>,
}

/// What is known of the whole process.
pub(super) struct State {
    pub flow: String,
    pub group: String,
    pub phase: RunPhase,
    pub plugins: Vec<PluginStatus>,
    pub max_dropped: Option<Rate>,
    pub slots: Vec<Slot>,
    pub findings: Findings,
    pub earlier: Earlier,
    pub notes: BTreeMap<String, String>,
    pub restarts: u64,
    pub missing_topics: Vec<String>,
    pub added_partitions: Vec<AddedPartition>,
    /// What had been read and resolved at looks of late, the oldest first.
    pub looks: VecDeque<Counted>,
}

/// What had been counted at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub at: Instant,
    pub read: u64,
    pub resolved: u64,
}

/// Rates are those of so long.
const RATES_OVER: Duration = Duration::from_secs(10);

struct Shared {
    begun: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

/// A board of one flow in one process. Cloning gives another handle to the same.
#[derive(Clone)]
pub struct Board {
    shared: Arc<Shared>,
}

impl Default for Board {
    fn default() -> Self {
        Board::new()
    }
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Board")
    }
}

impl Board {
    /// Of a flow that is starting.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            flow: String::new(),
            group: String::new(),
            phase: RunPhase::Starting,
            plugins: Vec::new(),
            max_dropped: None,
            slots: Vec::new(),
            findings: Findings::default(),
            earlier: Earlier::default(),
            notes: BTreeMap::new(),
            restarts: 0,
            missing_topics: Vec::new(),
            added_partitions: Vec::new(),
            looks: VecDeque::new(),
        };
        let shared = Shared { begun: Instant::now(), state: Mutex::new(state), changed: Condvar::new() };
        Board { shared: Arc::new(shared) }
    }

    /// Names the flow, before anything else is known of it.
    pub fn names(&self, flow: &str, group: &str) {
        let mut state = self.lock();
        (state.flow, state.group) = (flow.to_owned(), group.to_owned());
    }

    /// Says something that people should know, such as partitions that were added; one text for each kind.
    pub fn note(&self, kind: &str, text: impl Into<String>) {
        self.lock().notes.insert(kind.to_owned(), text.into());
    }

    /// The input topics that are not there any more, and the partitions that were added.
    pub(crate) fn set_topics(&self, missing: Vec<String>, added: Vec<AddedPartition>) {
        let mut state = self.lock();
        (state.missing_topics, state.added_partitions) = (missing, added);
    }

    /// The flow restarts itself in place, and is starting again.
    pub fn restarting(&self) {
        let mut state = self.lock();
        state.earlier = Earlier::of(put_together(&state, Instant::now()));
        state.restarts += 1;
        state.phase = RunPhase::Starting;
        state.slots.clear();
        state.findings = Findings::default();
    }

    pub(crate) fn set_plugins(&self, plugins: Vec<PluginStatus>) {
        self.lock().plugins = plugins;
    }

    /// Remembers what has been counted by now, for rates.
    pub(super) fn note_counts(&self) {
        let mut state = self.lock();
        let now = Instant::now();
        let ledger = put_together(&state, now).ledger;
        while state.looks.len() > 1 && now.saturating_duration_since(state.looks[1].at) >= RATES_OVER {
            state.looks.pop_front();
        }
        let counted = Counted { at: now, read: ledger.read(), resolved: ledger.resolved };
        state.looks.push_back(counted);
    }

    pub(crate) fn set_max_dropped(&self, bound: Option<Rate>) {
        self.lock().max_dropped = bound;
    }

    /// The workers of a run; their seats.
    pub(crate) fn seats(&self, berths: Vec<Berth>) -> Vec<Seat> {
        let mut state = self.lock();
        state.phase = RunPhase::Running;
        let slot = |berth: Berth| Slot {
            asked: Arc::new(AtomicU8::new(0)),
            bell: berth.bell,
            calling: Arc::new(Calling::default()),
            sites: berth.sites,
            part: berth.part,
            ended: false,
        };
        state.slots = berths.into_iter().map(slot).collect();
        let seats = state.slots.iter().enumerate();
        let seat = |(index, slot): (usize, &Slot)| Seat {
            board: self.clone(),
            index,
            asked: slot.asked.clone(),
            calling: slot.calling.clone(),
        };
        seats.map(seat).collect()
    }

    /// The run is over.
    pub(crate) fn stopped(&self) {
        self.lock().phase = RunPhase::Stopped;
        self.shared.changed.notify_all();
    }

    /// Asks all workers, and waits until they answered, at most so long.
    pub(crate) fn ask(&self, detail: Detail, within: Duration) {
        let asked_at = Instant::now();
        let deadline = asked_at + within;
        let mut state = self.lock();
        for slot in state.slots.iter().filter(|slot| !slot.ended) {
            slot.asked.fetch_max(detail as u8, Ordering::AcqRel);
            slot.bell.ring();
        }
        let answered = |slot: &Slot| slot.ended || (slot.part.at >= asked_at && slot.part.detail >= detail);
        while !state.slots.iter().all(answered) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits so long, or until the run is over; whether it is.
    pub(super) fn wait_for_end(&self, wait: Duration) -> bool {
        let deadline = Instant::now() + wait;
        let mut state = self.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if state.phase == RunPhase::Stopped || left.is_zero() {
                return state.phase == RunPhase::Stopped;
            }
            state = self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begun(&self) -> Instant {
        self.shared.begun
    }
}

/// A worker's place at the board.
pub(crate) struct Seat {
    board: Board,
    index: usize,
    asked: Arc<AtomicU8>,
    /// Where it notes its calls of plugins.
    pub calling: Arc<Calling>,
}

impl Seat {
    /// What is asked for, if anything; asking is over with it.
    pub(crate) fn asked(&self) -> Option<Detail> {
        if self.asked.load(Ordering::Relaxed) == 0 {
            return None;
        }
        match self.asked.swap(0, Ordering::AcqRel) {
            0 => None,
            1 => Some(Detail::Numbers),
            _ => Some(Detail::Places),
        }
    }

    /// Answers.
    pub(crate) fn publish(&self, part: Part) {
        let mut state = self.board.lock();
        if part.draining && state.phase == RunPhase::Running {
            state.phase = RunPhase::Stopping;
        }
        if let Some(slot) = state.slots.get_mut(self.index) {
            slot.part = part;
        }
        drop(state);
        self.board.shared.changed.notify_all();
    }
}

impl Drop for Seat {
    /// The worker is gone, whatever took it: nobody waits for its answers.
    fn drop(&mut self) {
        if let Some(slot) = self.board.lock().slots.get_mut(self.index) {
            slot.ended = true;
        }
        self.board.shared.changed.notify_all();
    }
}
