//! What everything in a simulation shares: the broker, time, the model, chance, the history.
//!
//! One thread owns all of it at any moment; the locks are there because the contracts ask for types that can be sent.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use loom_kafka::Waker;
use loom_kafka::memory::{ManualClock, MemoryBroker, Stored, Transaction};
use loom_types::Moment;

use super::Gauge;
use super::acts::Event;
use super::excuse::Excuse;
use super::model::{Model, Row};
use super::scenario::Scenario;
use super::sinks::SinkManner;
use crate::clock::Clock;

/// The wall clock when a simulation starts.
const WALL_MS: i64 = 1_700_000_000_000;

/// See the module's description.
pub(super) struct Sim {
    pub broker: MemoryBroker,
    pub clock: ManualClock,
    state: Mutex<State>,
    /// What outputs got and the model has not seen: the broker shows it under its own lock.
    written: Arc<Mutex<Vec<Written>>>,
    /// The same of what outputs refused.
    pub refused: Arc<Mutex<Vec<(usize, Row)>>>,
}

/// A row that an output got.
struct Written {
    writer: Option<usize>,
    output: usize,
    partition: i32,
    row: Row,
}

pub(super) struct State {
    pub model: Model,
    /// What each input partition held and how far it was behind, at most.
    pub gauges: BTreeMap<usize, Gauge>,
    /// What is drawn while the simulation runs.
    pub dice: Rng,
    pub sinks: Vec<SinkManner>,
    /// How many outputs there are.
    pub outputs: usize,
    /// No new faults any more.
    pub calm: bool,
    /// No broker can be reached.
    pub down: bool,
    /// Calls that were answered `retry`, by predicate or step, plugin and record.
    pub attempts: HashMap<(bool, usize, u64), u32>,
    /// What is still to come.
    pub events: Vec<Event>,
    pub steps: u64,
    /// What excuses every process that starts now.
    pub standing: Vec<Excuse>,
    /// Transactions that are open, with their partitions and records.
    pub transactions: Vec<(usize, Transaction, Vec<i64>)>,
    /// Who is to be woken when.
    pub wakes: Vec<(Moment, Waker)>,
    history: Option<Vec<String>>,
}

impl Sim {
    pub(super) fn new(broker: MemoryBroker, clock: ManualClock, state: State) -> Arc<Sim> {
        broker.started_at_ms(WALL_MS);
        Arc::new(Sim {
            broker,
            clock,
            state: Mutex::new(state),
            written: Arc::default(),
            refused: Arc::default(),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the model see what is written to a topic.
    pub(super) fn observe(&self, output: usize, topic: &str, partitions: i32) {
        let written = self.written.clone();
        let observer = move |_: &str, stored: &Stored, writer| {
            let row = Row::of_record(&stored.record);
            let written_now = Written { writer, output, partition: stored.partition, row };
            written.lock().unwrap_or_else(PoisonError::into_inner).push(written_now);
        };
        self.broker.observe_topic(topic, partitions, Box::new(observer));
    }

    /// Shows the model what was written since.
    pub(super) fn look(&self, state: &mut State) {
        for (output, row) in std::mem::take(&mut *self.refused.lock().unwrap_or_else(PoisonError::into_inner))
        {
            state.tell(self.now(), || format!("out{output} refuses {} {}", row.number, row.label));
            state.model.refused(output, &row);
        }
        let written = std::mem::take(&mut *self.written.lock().unwrap_or_else(PoisonError::into_inner));
        for Written { writer, output, partition, row } in written {
            state.tell(self.now(), || format!("out{output}/{partition} got {} {}", row.number, row.label));
            state.model.written(writer, output, partition, &row);
        }
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Time is a later one: what the broker and clients do by themselves is done.
    pub(super) fn advance(&self, to: Moment) {
        let now = self.now();
        self.clock.advance(to.since(now));
        self.broker.tick();
        let now = self.now();
        let mut due = Vec::new();
        self.lock().wakes.retain(|(at, waker)| {
            let later = *at > now;
            if !later {
                due.push(waker.clone());
            }
            later
        });
        due.iter().for_each(|waker| waker());
    }

    /// Adds a line to the history, where one is kept.
    pub(super) fn tell(&self, what: impl FnOnce() -> String) {
        self.lock().tell(self.now(), what);
    }
}

impl State {
    pub(super) fn new(model: Model, dice: Rng, scenario: &Scenario, history: bool) -> State {
        State {
            model,
            gauges: BTreeMap::new(),
            dice,
            sinks: scenario.sinks.clone(),
            outputs: scenario.outputs.len(),
            calm: false,
            down: false,
            attempts: HashMap::new(),
            events: scenario.events.clone(),
            steps: 0,
            standing: Vec::new(),
            transactions: Vec::new(),
            wakes: Vec::new(),
            history: history.then(Vec::new),
        }
    }

    pub(super) fn tell(&mut self, now: Moment, what: impl FnOnce() -> String) {
        if let Some(history) = &mut self.history {
            let seconds = now.0.as_secs_f64();
            history.push(format!("{seconds:>10.3}s {:>5}  {}", self.steps, what()));
        }
    }

    /// Every process that lives may end in a failure, and while it stands those that start too.
    pub(super) fn stands(&mut self, why: Excuse) {
        self.standing.push(why);
        self.model.excuse_all(why);
    }

    /// It is over for processes that start from now on.
    pub(super) fn stands_no_more(&mut self, why: Excuse) {
        // It may stand for another reason too.
        if let Some(at) = self.standing.iter().position(|other| *other == why) {
            self.standing.swap_remove(at);
        }
    }

    /// Whether something goes wrong, where it may.
    pub(super) fn strikes(&mut self, chance: f64) -> bool {
        !self.calm && chance > 0.0 && self.dice.f64() < chance
    }

    pub(super) fn take_history(&mut self) -> Vec<String> {
        self.history.take().unwrap_or_default()
    }
}

/// The simulation's time and chance, as workers and assembly see them.
pub(super) struct SimClock {
    pub sim: Arc<Sim>,
    pub dice: Rng,
}

impl Clock for SimClock {
    fn now(&self) -> Moment {
        self.sim.now()
    }

    fn wall_ms(&self) -> i64 {
        WALL_MS + self.sim.now().0.as_millis() as i64
    }

    fn random(&mut self) -> f64 {
        self.dice.f64()
    }

    /// Who sleeps lets the world go on.
    fn sleep(&mut self, wait: Duration) {
        self.sim.pass(self.sim.now() + wait);
    }
}
