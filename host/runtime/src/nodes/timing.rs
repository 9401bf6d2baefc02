//! How long calls of plugins take, by node: around the calls themselves, so that nodes know nothing of it.
//!
//! A call on the worker's thread is timed as it is made; one beside it from its start until its answer is taken. A call may be
//! about many records; the lock that it costs is free, since a worker's nodes are its own.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loom_flow::plan::{OnTrap, PluginId};
use loom_kafka::Waker;
use loom_plugin::{CallFailure, Interrupt, NodeContext, StartError, Verdict};
use loom_types::{Batch, Histogram};

use super::batch::{Answered as BatchAnswered, BatchCalls, BatchRole};
use super::plugins::{Label, Plugins, Role, RowAnswers, RowCalls, SinkStart, TypeNames};
use super::sink::SinkCalls;
use super::waiting::{Answered, WaitingCalls};

/// What durations of calls are told apart by.
static BOUNDS: [Duration; 13] = [
    Duration::from_micros(100),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(30),
    Duration::from_secs(60),
];

/// The durations of one node's calls on one worker.
#[derive(Clone, Debug)]
pub(crate) struct CallTimes(Arc<Mutex<Histogram>>);

impl Default for CallTimes {
    fn default() -> Self {
        CallTimes(Arc::new(Mutex::new(Histogram::new(&BOUNDS))))
    }
}

impl CallTimes {
    /// What was counted so far.
    pub(crate) fn read(&self) -> Histogram {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn observe(&self, took: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).observe(took);
    }

    fn timed<T>(&self, call: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let answer = call();
        self.observe(begun.elapsed());
        answer
    }
}

/// Starts plugins whose calls are timed.
pub(super) struct Timed<'p> {
    plugins: &'p dyn Plugins,
    nodes: RefCell<BTreeMap<Arc<str>, CallTimes>>,
}

impl<'p> Timed<'p> {
    pub(super) fn new(plugins: &'p dyn Plugins) -> Self {
        Timed { plugins, nodes: RefCell::default() }
    }

    /// The durations of the calls at a node; none where no plugin was started.
    pub(super) fn of(&self, path: &str) -> Option<CallTimes> {
        self.nodes.borrow().get(path).cloned()
    }

    fn at(&self, context: &NodeContext) -> CallTimes {
        self.nodes.borrow_mut().entry(context.node.clone()).or_default().clone()
    }
}

impl Plugins for Timed<'_> {
    fn label(&self, plugin: PluginId) -> Label {
        self.plugins.label(plugin)
    }

    fn rows(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: Role,
        on_trap: OnTrap,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn RowCalls>, StartError> {
        let times = self.at(&context);
        let calls = self.plugins.rows(plugin, context, role, on_trap, interrupt)?;
        Ok(Box::new(TimedRows { calls, times }))
    }

    fn waiting(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: Role,
        at_a_time: usize,
    ) -> Result<Box<dyn WaitingCalls>, StartError> {
        let times = self.at(&context);
        let calls = self.plugins.waiting(plugin, context, role, at_a_time)?;
        Ok(Box::new(TimedWaiting { calls, flights: Flights { times, begun: HashMap::new() } }))
    }

    fn batch(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: BatchRole,
        on_trap: OnTrap,
        at_a_time: Option<usize>,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn BatchCalls>, StartError> {
        let times = self.at(&context);
        let calls = self.plugins.batch(plugin, context, role, on_trap, at_a_time, interrupt)?;
        Ok(Box::new(TimedBatches { calls, flights: Flights { times, begun: HashMap::new() } }))
    }

    fn sink(
        &self,
        plugin: PluginId,
        context: NodeContext,
        interrupt: &Interrupt,
    ) -> Result<SinkStart, StartError> {
        let times = self.at(&context);
        let SinkStart { first, mut make, write_bytes, tracked } =
            self.plugins.sink(plugin, context, interrupt)?;
        let timed =
            move |calls| -> Box<dyn SinkCalls> { Box::new(TimedSink { calls, times: times.clone() }) };
        Ok(SinkStart {
            first: timed(first),
            make: Box::new(move || make().map(&timed)),
            write_bytes,
            tracked,
        })
    }
}

struct TimedRows {
    calls: Box<dyn RowCalls>,
    times: CallTimes,
}

impl RowCalls for TimedRows {
    fn types(&self) -> TypeNames {
        self.calls.types()
    }

    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let TimedRows { calls, times } = self;
        times.timed(|| calls.call(batch, rows, allowance))
    }
}

/// Calls under way, by their names.
struct Flights {
    times: CallTimes,
    begun: HashMap<u64, Instant>,
}

impl Flights {
    fn begins(&mut self, call: u64) {
        self.begun.insert(call, Instant::now());
    }

    fn answered(&mut self, calls: impl Iterator<Item = u64>) {
        for begun in calls.filter_map(|call| self.begun.remove(&call)) {
            self.times.observe(begun.elapsed());
        }
    }
}

struct TimedWaiting {
    calls: Box<dyn WaitingCalls>,
    flights: Flights,
}

impl WaitingCalls for TimedWaiting {
    fn types(&self) -> TypeNames {
        self.calls.types()
    }

    fn ring(&mut self, bell: Waker) {
        self.calls.ring(bell);
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, row: u32) {
        self.flights.begins(call);
        self.calls.start(call, batch, row);
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        let before = out.len();
        self.calls.answers(out);
        self.flights.answered(out[before..].iter().map(|answer| answer.call));
    }

    fn abandon(&mut self, call: u64) {
        self.flights.begun.remove(&call);
        self.calls.abandon(call);
    }
}

struct TimedBatches {
    calls: Box<dyn BatchCalls>,
    flights: Flights,
}

impl BatchCalls for TimedBatches {
    fn ring(&mut self, bell: Waker) {
        self.calls.ring(bell);
    }

    fn is_direct(&self) -> bool {
        self.calls.is_direct()
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, rows: &[u32], allowance: u32) {
        self.flights.begins(call);
        self.calls.start(call, batch, rows, allowance);
    }

    fn answers(&mut self, out: &mut Vec<BatchAnswered>) {
        let before = out.len();
        self.calls.answers(out);
        self.flights.answered(out[before..].iter().map(|(call, _)| *call));
    }

    fn abandon(&mut self, call: u64) {
        self.flights.begun.remove(&call);
        self.calls.abandon(call);
    }
}

/// Writes and flushes.
struct TimedSink {
    calls: Box<dyn SinkCalls>,
    times: CallTimes,
}

impl SinkCalls for TimedSink {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure> {
        let TimedSink { calls, times } = self;
        times.timed(|| calls.write(batch, rows, handles))
    }

    fn flush(&mut self) -> Result<(), CallFailure> {
        let TimedSink { calls, times } = self;
        times.timed(|| calls.flush())
    }

    fn close(&mut self) -> Result<(), CallFailure> {
        self.calls.close()
    }

    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>) {
        self.calls.verdicts(out);
    }

    fn is_usable(&self) -> bool {
        self.calls.is_usable()
    }

    fn wants_recycling(&self) -> bool {
        self.calls.wants_recycling()
    }
}
