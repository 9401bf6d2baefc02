//! One simulated process: its workers and its keeper, each with its turn.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use loom_delivery::{Outstanding, RunId};
use loom_flow::Plan;
use loom_types::Moment;

use super::excuse::Excuse;
use super::model::Model;
use super::plugins::Scripted;
use super::watched::Watched;
use super::world::{Sim, SimClock, State};
use crate::assembly::{Crew, assemble_with};
use crate::failure::Failure;
use crate::keeper::{Commits, Keeper};
use crate::stop::{Bell, Stop};
use crate::worker::{Next, Worker};
use crate::{End, Identity, Options, StartFrom, consumer_settings};

/// What a partition holds at first is told from what it holds later.
const EARLY: Duration = Duration::from_secs(300);

/// No simulated record is larger, in bytes.
const LARGEST: u64 = 100;

/// How a process is started.
#[derive(Clone, Copy, Debug)]
pub(super) struct How {
    pub workers: usize,
    pub from: StartFrom,
    pub take_over: bool,
    /// The host's number.
    pub host: u32,
    /// What else is drawn for it.
    pub seed: u64,
}

/// One process.
pub(super) struct Process {
    /// Its number among all, and the model's for it.
    pub run: usize,
    pub stop: Stop,
    /// When it was asked to stop.
    pub asked: Option<Moment>,
    turns: Vec<Turn>,
    keeper: Keeping,
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
    /// When it was over another's lease was watched: who watches commits nothing.
    watched: bool,
    /// The model's numbers for its partitions.
    partitions: Vec<usize>,
}

/// A turn that somebody wants.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wanted {
    Worker(usize),
    Keeper,
}

impl Process {
    /// Starts one, as the host does.
    ///
    /// # Errors
    /// Why it does not start.
    pub(super) fn start(sim: &Arc<Sim>, plan: &Arc<Plan>, run: usize, how: How) -> Result<Process, String> {
        let mut dice = Rng::with_seed(how.seed);
        let time = sim.clock.clone();
        let stop = Stop::timed_by(move || time.now());
        let client = sim.broker.as_broker(consumer_settings(plan));
        let broker = Arc::new(Watched::new(sim.clone(), client, plan, run, &how, &stop));
        let plugins = Scripted { sim: sim.clone(), plan: plan.clone(), run };
        let identity = Identity {
            run: RunId(dice.u64(..)),
            host: format!("host-{}", how.host),
            process: run as u32,
            place: String::new(),
            started_ms: 0,
        };
        sim.lock().model.run(run).id = Some(identity.run);
        let (workers, from, take_over) = (how.workers, how.from, how.take_over);
        let options =
            Options { workers, end: End::Never, board: None, from, take_over, identity, probe: None };
        let clock = |seed: u64| Box::new(SimClock { sim: sim.clone(), dice: Rng::with_seed(seed) });
        let assembling = clock(dice.u64(..));
        let assembled = assemble_with(plan.clone(), broker, &plugins, options, &stop, assembling);
        let assembled = assembled.map_err(|errors| {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            errors.join("; ")
        })?;
        let seed = dice.u64(..);
        let mut turns = Vec::new();
        let Crew { workers, keeper } = assembled.crew(|| clock(seed));
        for seed in workers {
            let worker = match (seed.build)(seed.clock) {
                Ok(worker) => worker,
                Err(failure) => {
                    loom_delivery::killed(turns);
                    return Err(failure.message);
                }
            };
            let state = sim.lock();
            let partitions = worker.partitions.iter().map(|partition| state.model.partition(&partition.name));
            let partitions = partitions.collect();
            drop(state);
            turns.push(Turn {
                worker,
                bell: seed.bell,
                due: sim.now(),
                over: false,
                watched: false,
                partitions,
            });
        }
        dice.shuffle(&mut turns);
        let keeper = Keeping { bell: keeper.bell(), keeper, due: sim.now() };
        Ok(Process { run, stop, asked: None, turns, keeper, failures: Vec::new(), restart: None })
    }

    /// Whether every worker is over.
    pub(super) fn is_over(&self) -> bool {
        self.turns.iter().all(|turn| turn.over)
    }

    /// Who wants a turn now; `spurious`: workers that nothing woke too.
    pub(super) fn wanted(&self, now: Moment, spurious: bool) -> impl Iterator<Item = Wanted> {
        let wants = move |turn: &Turn| !turn.over && (spurious || turn.due <= now || turn.bell.is_rung());
        let workers = self.turns.iter().enumerate().filter(move |(_, turn)| wants(turn));
        let keeps = self.keeper.due <= now || self.keeper.bell.is_rung();
        workers.map(|(at, _)| Wanted::Worker(at)).chain(keeps.then_some(Wanted::Keeper))
    }

    /// When somebody wants a turn though nothing comes.
    pub(super) fn due(&self) -> Option<Moment> {
        let workers = self.turns.iter().filter(|turn| !turn.over).map(|turn| turn.due);
        workers.chain([self.keeper.due]).min()
    }

    /// Whether all that it reads is resolved, to the end.
    pub(super) fn is_at_end(&self, model: &Model) -> bool {
        self.turns.iter().all(|turn| {
            let mut all = turn.worker.flow.shared.accounts.partitions();
            all.all(|(id, tracker)| tracker.watermark().0 == model.end(turn.partitions[id.index()]))
        })
    }

    pub(super) fn ask_to_stop(&mut self, sim: &Sim) {
        if self.asked.is_none() {
            self.asked = Some(sim.now());
            sim.lock().model.run(self.run).stopping = true;
            self.stop.request();
        }
    }

    /// One turn, and a look at what holds after it.
    pub(super) fn turn(&mut self, sim: &Sim, wanted: Wanted) {
        let now = sim.now();
        match wanted {
            Wanted::Keeper => {
                sim.tell(|| format!("keeper {} steps", self.run));
                self.keeper.bell.take();
                self.keeper.due = due(now, self.keeper.keeper.step(now));
                let mut state = sim.lock();
                sim.look(&mut state);
            }
            Wanted::Worker(at) => self.step(sim, at, now),
        }
        // Whoever asked for it: a worker that failed, or the keeper, ends the round alone.
        if self.turns.iter().any(|turn| turn.worker.stop.is_requested()) {
            sim.lock().model.run(self.run).stopping = true;
        }
    }

    fn step(&mut self, sim: &Sim, at: usize, now: Moment) {
        let turn = &mut self.turns[at];
        sim.lock().steps += 1;
        sim.tell(|| format!("worker {}.{} steps", self.run, turn.worker.flow.shared.worker.0));
        let next = turn.worker.step(turn.bell.take());
        turn.due = due(sim.now(), next);
        if next == Next::Never {
            turn.over = true;
            turn.watched = turn.worker.gate.get() == Commits::Held;
            let mut outcome = turn.worker.outcome();
            let worker = turn.worker.flow.shared.worker.0;
            sim.tell(|| format!("worker {}.{worker} is over: {:?}", self.run, outcome.failures));
            if !outcome.failures.is_empty() {
                // As the engine does: half a flow is not a flow.
                self.stop.request();
                self.asked.get_or_insert(now);
            }
            self.restart = self.restart.take().or(outcome.restart.take());
            self.failures.extend(outcome.failures);
        }
        let mut state = sim.lock();
        sim.look(&mut state);
        state.model.looks_at_lease(self.run, now);
        look_at(turn, self.run, now, &mut state);
    }

    /// The end of a process whose workers are over: whether it was a clean one.
    pub(super) fn end(self, sim: &Sim, shutdown: Duration) -> bool {
        let Process { run, turns, mut keeper, asked, mut failures, restart, .. } = self;
        failures.extend(keeper.keeper.close().failures);
        let mut state = sim.lock();
        sim.look(&mut state);
        state.tell(sim.now(), || format!("process {run} ended: {failures:?}, anew: {restart:?}"));
        let excuses = state.model.run(run).excuses.clone();
        for failure in &failures {
            if !Excuse::any(&excuses, &failure.message) {
                let why = &failure.message;
                state
                    .model
                    .breaks(|| format!("the flow failed for no reason: {why}; excused is {excuses:?}"));
            }
        }
        if let Some(why) = &restart
            && !Excuse::any(&excuses, &format!("{why}; the flow begins anew"))
        {
            state
                .model
                .breaks(|| format!("the flow begins anew for no reason: {why}; excused is {excuses:?}"));
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
                if clean && !turn.watched && offset != acknowledged {
                    state.model.breaks(|| format!("{name} ended clean at {acknowledged:?}, not {offset:?}"));
                }
            }
        }
        if let Some(asked) = asked {
            let took = sim.now().since(asked);
            if took > shutdown {
                state.model.breaks(|| format!("the stop took {took:?}"));
            }
        }
        state.model.run(run).over = true;
        drop(state);
        // Nothing may be left in them: a token that is dropped here is lost.
        drop(turns);
        clean
    }
}

fn due(now: Moment, next: Next) -> Moment {
    match next {
        Next::Now => now,
        Next::Sleep(wait) => now + wait,
        Next::Never => Moment(Duration::MAX),
    }
}

/// What holds of a worker after each of its steps.
fn look_at(turn: &Turn, run: usize, now: Moment, state: &mut State) {
    let bounds = turn.worker.flow.shared.bounds;
    for (id, tracker) in turn.worker.flow.shared.accounts.partitions() {
        let partition = turn.partitions[id.index()];
        let (watermark, position) = (tracker.watermark().0, tracker.position().0);
        state.model.passed(run, partition, watermark, "the watermark");
        let name = state.model.name(partition).clone();
        let ledger = tracker.ledger();
        if !ledger.balances() {
            state.model.breaks(|| format!("{name}: the ledger does not balance: {ledger:?}"));
        }
        if watermark > position || !state.model.is_inside(run, partition, position) {
            let end = state.model.end(partition);
            state.model.breaks(|| format!("{name}: watermark {watermark}, position {position}, end {end}"));
        }
        let Outstanding { records, bytes } = tracker.outstanding();
        let (calm, behind) = (state.calm, state.model.end(partition) - watermark);
        let gauge = state.gauges.entry(partition).or_default();
        let most = |(one, other): (usize, u64)| (one.max(records), other.max(bytes));
        if now.0 < EARLY {
            gauge.early = most(gauge.early);
        }
        if !calm {
            gauge.ever = most(gauge.ever);
            gauge.behind = gauge.behind.max(behind);
        }
        // What one call makes may pass the bound, and the oldest record's rows have none.
        let made = tracker.made().rows;
        if made > 3 * bounds.records as u64 + 100 {
            state.model.breaks(|| format!("{name}: {made} rows were made; its bounds are {bounds:?}"));
        }
        // One record gets through in any case.
        if records > bounds.records || records > 1 && bytes > bounds.bytes + LARGEST {
            state.model.breaks(|| {
                format!("{name} holds {records} records, {bytes} bytes; its bounds are {bounds:?}")
            });
        }
    }
}
