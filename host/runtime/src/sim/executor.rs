//! Takes turns with the workers of one process after another, or of two at a time, and looks at the world after every
//! step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Once};
use std::time::Duration;

use fastrand::Rng;
use loom_flow::Plan;
use loom_kafka::memory::{ManualClock, MemoryBroker};
use loom_types::Moment;

use super::compiled::plan;
use super::events::Order;
use super::excuse::Excuse;
use super::model::Model;
use super::process::{How, Process};
use super::scenario::Scenario;
use super::world::{Sim, State};
use super::{Focus, Report};
use crate::StartFrom;

/// Steps of one simulation, at most: more means that something goes round in circles.
const MOST_STEPS: u64 = 3_000_000;

/// Steps at one moment, at most.
const MOST_AT_ONCE: u64 = 50_000;

/// How long after the last fault everything has to be done, in simulated time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// How long after all is done it has to be committed: an answer that never comes is waited for.
const COMMITTED_WITHIN: Duration = Duration::from_secs(180);

/// So often a record that stops every process does so, before it is believed.
const ENOUGH: u32 = 4;

/// Runs a seed to its end, or to the first thing that does not hold.
pub(super) fn simulate(seed: u64, focus: Focus, history: bool) -> Report {
    let mut dice = Rng::with_seed(seed);
    let scenario = Scenario::draw(&mut dice, focus);
    run(seed, scenario, dice, history)
}

/// Runs a scenario; `dice` decide what it leaves open.
pub(super) fn run(seed: u64, scenario: Scenario, mut dice: Rng, history: bool) -> Report {
    let clock = ManualClock::new();
    let broker = MemoryBroker::new(clock.clock());
    broker.seed(dice.u64(..));
    broker.keep_commits(false);
    broker.faults().network(scenario.network.clone());
    for (topic, partitions) in &scenario.topics {
        broker.create_topic(topic, *partitions);
    }
    let mut model =
        Model::new(scenario.flow.clone(), scenario.fates.clone(), scenario.forward, &scenario.partitions());
    model.once = scenario.once;
    let state = State::new(model, dice.fork(), &scenario, history);
    let sim = Sim::new(broker, clock, state);
    for (output, partitions) in scenario.outputs.iter().enumerate() {
        sim.observe(output, &super::output(output), *partitions);
    }
    let plan = plan(&scenario.yaml);
    let mut executor = Executor {
        sim: sim.clone(),
        plan,
        scenario,
        dice,
        processes: Vec::new(),
        start_at: Moment::START,
        runs: 0,
        calm_since: None,
        lagging_since: None,
        at_once: (Moment::START, 0),
        closing: false,
        blocked: 0,
    };
    quiet();
    QUIET.set(true);
    let panicked = catch_unwind(AssertUnwindSafe(|| executor.run())).err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        format!("panic: {}", text.unwrap_or_default())
    });
    QUIET.set(false);
    // What a failure left running goes as a killed process does.
    loom_delivery::killed(std::mem::take(&mut executor.processes));
    let mut state = sim.lock();
    let failure = state.model.broken.take().or(panicked);
    Report {
        seed,
        failure,
        flow: executor.scenario.yaml.clone(),
        steps: state.steps,
        records: state.model.records(),
        runs: executor.runs,
        simulated: sim.now().0,
        gauges: std::mem::take(&mut state.gauges).into_values().collect(),
        history: state.take_history(),
    }
}

thread_local! {
    static QUIET: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A panic in a simulation is one of its findings, and is told with them; others are printed as ever.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !QUIET.get() {
                others(panic);
            }
        }));
    });
}

struct Executor {
    sim: Arc<Sim>,
    plan: Arc<Plan>,
    scenario: Scenario,
    dice: Rng,
    /// Those that live; mostly one.
    processes: Vec<Process>,
    /// When the next process starts, where none lives.
    start_at: Moment,
    runs: u32,
    calm_since: Option<Moment>,
    /// Since when all is done, and not all of it committed.
    lagging_since: Option<Moment>,
    /// Turns since time moved.
    at_once: (Moment, u64),
    /// All is done, and the last processes stop.
    closing: bool,
    /// Processes that ended since, while a record stops them all.
    blocked: u32,
}

impl Executor {
    fn run(&mut self) {
        while self.sim.lock().model.broken.is_none() {
            match self.sim.happen() {
                Some(Order::Kill) => self.kill(),
                Some(Order::Stop) => self.ask_to_stop(),
                Some(Order::Rival { take_over }) if self.processes.len() == 1 => self.start(take_over),
                Some(Order::Rival { .. }) | None => {}
            }
            if self.calm_since.is_none() && self.sim.lock().calm {
                self.calm_since = Some(self.sim.now());
            }
            if self.calm_since.is_some_and(|since| self.sim.now().since(since) > PATIENCE) {
                self.check_done();
                self.sim.lock().model.breaks(|| "it never comes to rest".to_owned());
            }
            let over = self.processes.iter().position(Process::is_over);
            if let Some(at) = over {
                if self.ended(at) {
                    return;
                }
            } else if !self.processes.is_empty() {
                self.turn();
            } else if self.sim.now() < self.start_at {
                self.sim.pass(self.start_at);
            } else {
                self.start(false);
            }
        }
    }

    fn start(&mut self, take_over: bool) {
        self.runs += 1;
        let workers = self.dice.usize(1..=self.scenario.most_workers);
        let from =
            if self.dice.f64() < self.scenario.beginnings { StartFrom::Beginning } else { StartFrom::GoOn };
        let host = self.processes.len() as u32;
        let how = How { workers, from, take_over, host, seed: self.dice.u64(..) };
        let run = {
            let mut state = self.sim.lock();
            let run = state.model.begins(self.sim.now(), take_over);
            for why in state.standing.clone() {
                state.model.run(run).excuse(why);
            }
            if self.sim.broker.view(|view| view.has_late_commits(super::GROUP)) {
                state.model.run(run).excuse(Excuse::LateCommit);
            }
            // Who of two that start in the same moments stays is not known beforehand.
            state.model.beside(run, None, take_over);
            state.tell(self.sim.now(), || format!("process {run} starts: {how:?}"));
            run
        };
        let before = self.sim.now();
        let started = Process::start(&self.sim, &self.plan, run, how);
        // Others stood still meanwhile, as hosts do that are paused.
        let paused = self.sim.now().since(before);
        for asked in self.processes.iter_mut().filter_map(|process| process.asked.as_mut()) {
            *asked = *asked + paused;
        }
        match started {
            Ok(process) => self.processes.push(process),
            Err(why) => self.did_not_start(run, &why),
        }
    }

    fn did_not_start(&mut self, run: usize, why: &str) {
        let mut state = self.sim.lock();
        state.tell(self.sim.now(), || format!("it does not start: {why}"));
        let excuses = state.model.run(run).excuses.clone();
        if !Excuse::any(&excuses, why) {
            state.model.breaks(|| format!("a process did not start: {why}; excused is {excuses:?}"));
        }
        state.model.run(run).over = true;
        drop(state);
        self.start_later();
    }

    fn start_later(&mut self) {
        self.start_at = self.sim.now() + Duration::from_millis(self.dice.u64(..5000));
    }

    fn kill(&mut self) {
        if self.processes.is_empty() {
            return;
        }
        let at = self.dice.usize(..self.processes.len());
        let process = self.processes.remove(at);
        self.sim.lock().model.run(process.run).over = true;
        loom_delivery::killed(process);
        self.start_later();
    }

    fn ask_to_stop(&mut self) {
        self.processes.iter_mut().for_each(|process| process.ask_to_stop(&self.sim));
    }

    /// All workers of a process are over: whether all is done.
    fn ended(&mut self, at: usize) -> bool {
        let process = self.processes.remove(at);
        let run = process.run;
        let clean = process.end(&self.sim, self.scenario.shutdown);
        if self.closing && clean && self.processes.is_empty() {
            self.check_done();
            return true;
        }
        self.closing &= clean;
        if self.calm_since.is_some() && self.sim.lock().model.is_blocked(run) {
            // `errors.unrouted: stop`: the record stops every process that takes it, and holds its partition for ever.
            self.blocked += 1;
            if self.blocked == ENOUGH {
                return true;
            }
        }
        self.start_later();
        false
    }

    /// One turn: of a worker that wants one, or of time.
    fn turn(&mut self) {
        let now = self.sim.now();
        self.at_once = if self.at_once.0 == now { (now, self.at_once.1 + 1) } else { (now, 0) };
        let steps = self.sim.lock().steps;
        if self.at_once.1 > MOST_AT_ONCE || steps > MOST_STEPS {
            return self.sim.lock().model.breaks(|| format!("it goes round in circles, after {steps} steps"));
        }
        let spurious = self.dice.f64() < self.scenario.spurious;
        let wanted = |(at, process): (usize, &Process)| {
            process.wanted(now, spurious).map(move |wanted| (at, wanted)).collect::<Vec<_>>()
        };
        let all: Vec<_> = self.processes.iter().enumerate().flat_map(wanted).collect();
        if all.is_empty() {
            return self.idle();
        }
        let (at, wanted) = all[self.dice.usize(..all.len())];
        self.processes[at].turn(&self.sim, wanted);
    }

    /// Nobody wants a turn: time moves, or all is done.
    fn idle(&mut self) {
        let asked = self.processes.iter().any(|process| process.asked.is_some());
        if self.calm_since.is_some() && !asked && self.is_done() {
            // Of two hosts the newcomer's last commit may set the group back: then another one has to begin.
            self.closing = self.processes.len() == 1;
            return self.ask_to_stop();
        }
        if let Some(since) = self.calm_since
            && !self.closing
        {
            let (mut state, now) = (self.sim.lock(), self.sim.now());
            // Partitions that were added are read after a restart.
            let unread = state.model.has_unread();
            // What is done is committed soon, without new records; a replay takes its time.
            let done = state.model.left().is_empty() && !unread && self.are_at_end(&state);
            let lag = if done { self.lagging(&state) } else { None };
            let since = *self.lagging_since.get_or_insert(now.max(since));
            match lag {
                None => self.lagging_since = None,
                Some(lag) if now.since(since) > COMMITTED_WITHIN => {
                    state.model.breaks(|| format!("{lag}, long after all was done"));
                }
                Some(_) => {}
            }
            drop(state);
            if unread && !asked {
                return self.ask_to_stop();
            }
        }
        if self.dice.bool() && self.sim.hurry() {
            return;
        }
        let dues = self.processes.iter().filter_map(Process::due);
        let Some(next) = dues.chain(self.sim.next_event()).min() else { return };
        self.sim.advance(next);
    }

    fn is_done(&self) -> bool {
        let state = self.sim.lock();
        let events = state.events.is_empty() && self.sim.broker.next_event().is_none();
        // One that is alone has still to replay, or to catch up with an owner that is gone: its last commit counts.
        let replays = self.processes.len() == 1 && !self.are_at_end(&state);
        events && !replays && state.model.left().is_empty() && self.lagging(&state).is_none()
    }

    /// Whether the processes have resolved all that they read, to the end.
    fn are_at_end(&self, state: &State) -> bool {
        self.processes.iter().all(|process| process.is_at_end(&state.model))
    }

    /// A partition whose committed offset is not its end.
    fn lagging(&self, state: &State) -> Option<String> {
        (0..state.model.partitions()).find_map(|partition| {
            let name = state.model.name(partition);
            let committed = self.sim.broker.committed(super::GROUP, name).map(|at| at.offset.0);
            let end = state.model.end(partition);
            (committed != Some(end))
                .then(|| format!("{name} is committed at {committed:?}, it ends at {end}"))
        })
    }

    fn check_done(&self) {
        let mut state = self.sim.lock();
        let (left, lag) = (state.model.left(), self.lagging(&state));
        if !left.is_empty() {
            state.model.breaks(|| format!("not all came through: {left:?}"));
        }
        if let Some(lag) = lag {
            state.model.breaks(|| lag);
        }
    }
}
