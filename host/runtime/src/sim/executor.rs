//! Takes turns with the workers of one process after another, and looks at the world after every step.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use fastrand::Rng;
use loom_delivery::RunId;
use loom_flow::{
    ClientKind, CompileOptions, ComponentFacts, Components, Environment, KafkaKeys, KeyRefusal, Mode, Plan,
    SourceFile, compile,
};
use loom_kafka::memory::{ManualClock, MemoryBroker};
use loom_types::Moment;

use super::Report;
use super::events::Order;
use super::model::Model;
use super::plugins::Scripted;
use super::scenario::Scenario;
use super::watched::Watched;
use super::world::{Sim, SimClock, State};
use crate::assembly::{Crew, assemble_with};
use crate::failure::Failure;
use crate::keeper::Keeper;
use crate::stop::{Bell, Stop};
use crate::worker::{Next, Worker};
use crate::{End, Identity, Options, StartFrom, consumer_settings};

/// Steps of one simulation, at most: more means that something goes round in circles.
const MOST_STEPS: u64 = 3_000_000;

/// Steps at one moment, at most.
const MOST_AT_ONCE: u64 = 50_000;

/// How long after the last fault everything has to be done, in simulated time.
const PATIENCE: Duration = Duration::from_secs(3600);

/// Runs a seed to its end, or to the first thing that does not hold.
pub(super) fn simulate(seed: u64, history: bool) -> Report {
    let mut dice = Rng::with_seed(seed);
    let scenario = Scenario::draw(&mut dice);
    let clock = ManualClock::new();
    let broker = MemoryBroker::new(clock.clock());
    broker.seed(dice.u64(..));
    broker.keep_commits(false);
    for (topic, partitions) in &scenario.topics {
        broker.create_topic(topic, *partitions);
    }
    let model =
        Model::new(scenario.flow.clone(), scenario.fates.clone(), scenario.forward, &scenario.partitions());
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
        process: None,
        start_at: Moment::START,
        runs: 0,
        calm_since: None,
        at_once: (Moment::START, 0),
        closing: false,
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
    loom_delivery::killed(executor.process.take());
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

/// One process.
struct Process {
    turns: Vec<Turn>,
    keeper: Keeping,
    stop: Stop,
    /// When it was asked to stop.
    asked: Option<Moment>,
    failures: Vec<Failure>,
    /// Why it begins anew.
    restart: Option<String>,
}

/// The keeper and when it wants its turn.
struct Keeping {
    keeper: Keeper,
    bell: Arc<Bell>,
    due: Moment,
}

/// One worker and when it wants its turn.
struct Turn {
    worker: Worker,
    bell: Arc<Bell>,
    due: Moment,
    over: bool,
    /// The model's numbers for its partitions.
    partitions: Vec<usize>,
}

struct Executor {
    sim: Arc<Sim>,
    plan: Arc<Plan>,
    scenario: Scenario,
    dice: Rng,
    process: Option<Process>,
    /// When the next process starts.
    start_at: Moment,
    runs: u32,
    calm_since: Option<Moment>,
    /// Steps since time moved.
    at_once: (Moment, u64),
    /// All is done, and the last process stops.
    closing: bool,
}

impl Executor {
    fn run(&mut self) {
        while self.sim.lock().model.broken.is_none() {
            match self.sim.happen() {
                Some(Order::Kill) => self.kill(),
                Some(Order::Stop) => self.ask_to_stop(),
                None => {}
            }
            if self.calm_since.is_none() && self.sim.lock().calm {
                self.calm_since = Some(self.sim.now());
            }
            match &self.process {
                None if self.sim.now() < self.start_at => self.sim.pass(self.start_at),
                None => self.start(),
                Some(process) if process.turns.iter().all(|turn| turn.over) => {
                    if self.ended() {
                        return;
                    }
                }
                Some(_) => self.turn(),
            }
        }
    }

    fn start(&mut self) {
        self.runs += 1;
        let workers = self.dice.usize(1..=self.scenario.most_workers);
        let sim = self.sim.clone();
        {
            let mut state = sim.lock();
            state.excuses.clear();
            if state.down {
                state.excuse("brokers are away");
            }
            if !state.slow_commits.is_zero() {
                state.excuse("answers to commits are slow");
            }
            state.model.begins();
            state.tell(sim.now(), || format!("process {} starts with {workers} workers", self.runs));
        }
        let time = sim.clock.clone();
        let stop = Stop::timed_by(move || time.now());
        let client = sim.broker.as_broker(consumer_settings(&self.plan));
        let broker = Arc::new(Watched { sim: sim.clone(), client });
        let plugins = Scripted { sim: sim.clone(), plan: self.plan.clone() };
        let from = if self.dice.f64() < 0.05 { StartFrom::Beginning } else { StartFrom::GoOn };
        if from == StartFrom::Beginning {
            sim.lock().model.replays = true;
        }
        let identity = Identity {
            run: RunId(self.dice.u64(..)),
            host: "simulated".to_owned(),
            process: self.runs,
            place: String::new(),
            started_ms: 0,
        };
        let options = Options { workers, end: End::Never, board: None, from, take_over: false, identity };
        let (assembling, seed) = (self.clock(), self.dice.u64(..));
        let plan = self.plan.clone();
        let assembled = match assemble_with(plan, broker, &plugins, options, &stop, assembling) {
            Ok(assembled) => assembled,
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                return self.did_not_start(errors.join("; "));
            }
        };
        let mut dice = Rng::with_seed(seed);
        let mut turns = Vec::new();
        let Crew { workers, keeper } = assembled.crew(|| self.clock_of(seed));
        for seed in workers {
            let worker = match (seed.build)(seed.clock) {
                Ok(worker) => worker,
                Err(failure) => {
                    loom_delivery::killed(turns);
                    return self.did_not_start(failure.message);
                }
            };
            let state = sim.lock();
            let partitions = worker.partitions.iter().map(|partition| state.model.partition(&partition.name));
            let partitions = partitions.collect();
            drop(state);
            turns.push(Turn { worker, bell: seed.bell, due: sim.now(), over: false, partitions });
        }
        dice.shuffle(&mut turns);
        let keeper = Keeping { bell: keeper.bell(), keeper, due: sim.now() };
        self.process =
            Some(Process { turns, keeper, stop, asked: None, failures: Vec::new(), restart: None });
    }

    fn clock(&mut self) -> Box<SimClock> {
        Box::new(SimClock { sim: self.sim.clone(), dice: self.dice.fork() })
    }

    fn clock_of(&self, seed: u64) -> Box<SimClock> {
        Box::new(SimClock { sim: self.sim.clone(), dice: Rng::with_seed(seed) })
    }

    fn did_not_start(&mut self, why: String) {
        let mut state = self.sim.lock();
        state.tell(self.sim.now(), || format!("it does not start: {why}"));
        if state.excuses.is_empty() {
            state.model.breaks(|| format!("a process did not start: {why}"));
        }
        drop(state);
        self.start_later();
    }

    fn start_later(&mut self) {
        self.start_at = self.sim.now() + Duration::from_millis(self.dice.u64(..5000));
    }

    fn kill(&mut self) {
        if let Some(process) = self.process.take() {
            loom_delivery::killed(process);
            self.start_later();
        }
    }

    fn ask_to_stop(&mut self) {
        if let Some(process) = &mut self.process
            && process.asked.is_none()
        {
            process.asked = Some(self.sim.now());
            self.sim.lock().model.stopping = true;
            process.stop.request();
        }
    }

    /// All workers are over: whether all is done.
    fn ended(&mut self) -> bool {
        let Some(process) = self.process.take() else { return false };
        let Process { turns, mut keeper, asked, mut failures, restart, .. } = process;
        failures.extend(keeper.keeper.close().failures);
        let mut state = self.sim.lock();
        state.tell(self.sim.now(), || format!("the process ended: {failures:?}"));
        if let Some(failure) = failures.first()
            && state.excuses.is_empty()
        {
            state.model.breaks(|| format!("the flow failed for no reason: {}", failure.message));
        }
        if restart.is_some() && state.excuses.is_empty() {
            state.model.breaks(|| format!("the flow begins anew for no reason: {restart:?}"));
        }
        if failures.is_empty() && restart.is_none() && asked.is_none() {
            state.model.breaks(|| "the flow ended by itself".to_owned());
        }
        let clean = failures.is_empty() && restart.is_none();
        for turn in &turns {
            let commits = &turn.worker.commits;
            for (id, tracker) in turn.worker.flow.shared.accounts.partitions() {
                let name = &turn.worker.partitions[id.index()].name;
                let (offset, acknowledged) = (Some(tracker.stand().offset), commits.acknowledged(id));
                if clean && offset != acknowledged {
                    state.model.breaks(|| format!("{name} ended clean at {acknowledged:?}, not {offset:?}"));
                }
            }
        }
        if let Some(asked) = asked {
            let took = self.sim.now().since(asked);
            if took > self.scenario.shutdown {
                state.model.breaks(|| format!("the stop took {took:?}"));
            }
        }
        drop(state);
        // Nothing may be left in them: a token that is dropped here is lost.
        drop(turns);
        if self.closing && clean {
            self.check_done();
            return true;
        }
        self.closing = false;
        self.start_later();
        false
    }

    /// One turn: of a worker that wants one, or of time.
    fn turn(&mut self) {
        let now = self.sim.now();
        let Some(process) = &mut self.process else { return };
        let spurious = self.dice.f64() < self.scenario.spurious;
        let wants = |turn: &Turn| !turn.over && (spurious || turn.due <= now || turn.bell.is_rung());
        let count = process.turns.iter().filter(|turn| wants(turn)).count();
        let keeper = &mut process.keeper;
        let keeps = keeper.due <= now || keeper.bell.is_rung();
        if count == 0 && !keeps {
            return self.idle();
        }
        let chosen = self.dice.usize(..count + usize::from(keeps));
        if chosen == count {
            self.sim.tell(|| "the keeper steps".to_owned());
            keeper.bell.take();
            keeper.due = match keeper.keeper.step(now) {
                Next::Now => now,
                Next::Sleep(wait) => now + wait,
                Next::Never => Moment(Duration::MAX),
            };
            return;
        }
        let Some((index, turn)) =
            process.turns.iter_mut().enumerate().filter(|(_, turn)| wants(turn)).nth(chosen)
        else {
            return;
        };
        {
            let mut state = self.sim.lock();
            state.steps += 1;
            let (phase, rung) = (turn.worker.phase, turn.bell.is_rung());
            state.tell(now, || {
                format!("worker {index} steps{}, {phase:?}", if rung { ", woken" } else { "" })
            });
        }
        match turn.worker.step(turn.bell.take()) {
            Next::Now => turn.due = self.sim.now(),
            Next::Sleep(wait) => turn.due = self.sim.now() + wait,
            Next::Never => {
                turn.over = true;
                let outcome = turn.worker.outcome();
                process.restart = process.restart.take().or(outcome.restart);
                if !outcome.failures.is_empty() || process.restart.is_some() {
                    process.stop.request();
                    self.sim.lock().model.stopping = true;
                    process.asked.get_or_insert(now);
                }
                process.failures.extend(outcome.failures);
            }
        }
        let mut state = self.sim.lock();
        self.sim.look(&mut state);
        state.model.stopping |= turn.worker.stop.is_requested();
        look_at(turn, &mut state);
        if self.at_once.0 == now {
            self.at_once.1 += 1
        } else {
            self.at_once = (now, 0)
        }
        if self.at_once.1 > MOST_AT_ONCE || state.steps > MOST_STEPS {
            let steps = state.steps;
            state.model.breaks(|| format!("it goes round in circles, after {steps} steps"));
        }
    }

    /// Nobody wants a turn: time moves, or all is done.
    fn idle(&mut self) {
        if self.calm_since.is_some() && !self.closing && self.is_done() {
            self.closing = true;
            return self.ask_to_stop();
        }
        if self.dice.bool() && self.sim.hurry() {
            return;
        }
        let dues = self.process.iter().flat_map(|process| &process.turns);
        let dues = dues.filter(|turn| !turn.over).map(|turn| turn.due);
        let keeper = self.process.iter().map(|process| process.keeper.due);
        let Some(next) = dues.chain(keeper).chain(self.sim.next_event()).min() else { return };
        self.sim.advance(next);
        if let Some(since) = self.calm_since
            && self.sim.now().since(since) > PATIENCE
        {
            self.check_done();
            self.sim.lock().model.breaks(|| "it never comes to rest".to_owned());
        }
    }

    fn is_done(&self) -> bool {
        let state = self.sim.lock();
        let events = state.events.is_empty();
        events && state.model.left().is_empty() && self.lagging(&state).is_none()
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

/// What holds of a worker after each of its steps.
fn look_at(turn: &Turn, state: &mut State) {
    let bound = turn.worker.bounds.records;
    for (id, tracker) in turn.worker.flow.shared.accounts.partitions() {
        let partition = turn.partitions[id.index()];
        let (watermark, position) = (tracker.watermark().0, tracker.position().0);
        state.model.passed(partition, watermark, "the watermark");
        let (name, end) = (state.model.name(partition).clone(), state.model.end(partition));
        let ledger = tracker.ledger();
        if !ledger.balances() {
            state.model.breaks(|| format!("{name}: the ledger does not balance: {ledger:?}"));
        }
        if watermark > position || position > end {
            state.model.breaks(|| format!("{name}: watermark {watermark}, position {position}, end {end}"));
        }
        if tracker.outstanding().records > bound {
            let held = tracker.outstanding().records;
            state.model.breaks(|| format!("{name} holds {held} records, its bound is {bound}"));
        }
    }
}

/// A world without variables, files and librdkafka.
struct Nothing;

impl Environment for Nothing {
    fn var(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &Path) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

impl KafkaKeys for Nothing {
    fn check(&self, _: ClientKind, _: &str, _: &str) -> Result<(), KeyRefusal> {
        Ok(())
    }
}

impl Components for Nothing {
    fn facts(&self, path: &Path) -> Result<ComponentFacts, String> {
        Err(format!("{} is not looked at", path.display()))
    }
}

fn plan(yaml: &str) -> Arc<Plan> {
    let source =
        SourceFile { name: "flow.yaml".to_owned(), bytes: yaml.as_bytes().to_vec(), dir: PathBuf::from(".") };
    let options = CompileOptions { mode: Mode::Run, require_env: true, plugins: false };
    let compiled = compile(&source, &Nothing, &Nothing, &Nothing, options);
    match compiled.plan {
        Some(plan) => Arc::new(plan),
        None => panic!("the flow is wrong: {:?}\n{yaml}", compiled.issues),
    }
}
