//! Drives workers on timely's threads, and the keeper on one of its own.
//!
//! Each worker is one timely operator without inputs: it is scheduled when its bell was rung or its deadline came, does
//! one step, and says when it wants the next. Nothing blocks a worker's thread but timely's own parking; the keeper's
//! may wait for a broker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use timely::dataflow::operators::generic::operator::source;
use timely::worker::Config as WorkerConfig;

use crate::assembly::Crew;
use crate::clock::Clock;
use crate::failure::Failure;
use crate::keeper::Keeper;
use crate::stop::{Bell, Stop};
use crate::summary::Outcome;
use crate::worker::{Next, Worker};

/// Opens a worker's clients, on the worker's own thread.
type Build = Box<dyn FnOnce(Box<dyn Clock>) -> Result<Worker, Failure> + Send>;

/// One worker before its thread has it.
pub(crate) struct Seed {
    pub bell: Arc<Bell>,
    pub clock: Box<dyn Clock>,
    pub build: Build,
}

/// How long the keeper may take to come to its end after the workers: what it is asking a broker just then is given up.
const KEEPER_ENDS_WITHIN: Duration = Duration::from_secs(1);

/// Runs the workers to their end, with the keeper beside them. `clock` is the keeper's.
pub(crate) fn run(crew: Crew, clock: Box<dyn Clock>, stop: &Stop) -> Outcome {
    let keeping = match Keeping::start(crew.keeper, clock) {
        Ok(keeping) => keeping,
        Err(error) => return failed(format!("the keeper's thread cannot be started: {error}")),
    };
    let mut total = run_workers(crew.workers, stop);
    total.merge(keeping.end());
    total
}

/// The keeper's thread.
struct Keeping {
    over: Arc<AtomicBool>,
    bell: Arc<Bell>,
    outcome: Receiver<Outcome>,
}

impl Keeping {
    fn start(mut keeper: Keeper, clock: Box<dyn Clock>) -> std::io::Result<Keeping> {
        let (over, bell) = (Arc::new(AtomicBool::new(false)), keeper.bell());
        let (told, outcome) = channel();
        let keeping = Keeping { over: over.clone(), bell: bell.clone(), outcome };
        thread::Builder::new().name("keeper".to_owned()).spawn(move || {
            bell.belongs_to(thread::current());
            while !over.load(Ordering::Acquire) {
                bell.take();
                let wait = match keeper.step(clock.now()) {
                    Next::Now => Duration::ZERO,
                    Next::Sleep(wait) => wait,
                    Next::Never => break,
                };
                if !wait.is_zero() && !bell.is_rung() && !over.load(Ordering::Acquire) {
                    // A ring between the look and the park leaves the thread a token, so that the park ends at once.
                    thread::park_timeout(wait);
                }
            }
            // Nobody listens any more where it took too long.
            let _ = told.send(keeper.close());
        })?;
        Ok(keeping)
    }

    fn end(self) -> Outcome {
        self.over.store(true, Ordering::Release);
        self.bell.ring();
        self.outcome.recv_timeout(KEEPER_ENDS_WITHIN).unwrap_or_else(|_| {
            tracing::warn!("the broker does not answer about the lease; it is left to the next start");
            let mut outcome = Outcome::default();
            outcome.summary.lost_tokens = loom_delivery::lost_tokens();
            outcome
        })
    }
}

fn run_workers(seeds: Vec<Seed>, stop: &Stop) -> Outcome {
    let workers = seeds.len();
    let seeds: Mutex<Vec<Option<Seed>>> = Mutex::new(seeds.into_iter().map(Some).collect());
    let on_failure = stop.clone();
    let mut config = timely::Config::process(workers);
    // An idle flow uses no CPU: a worker parks at once.
    config.worker = WorkerConfig::default().idle_spin(Duration::ZERO);
    let guards = timely::execute(config, move |timely| {
        let seed = seeds.lock().unwrap_or_else(PoisonError::into_inner)[timely.index()].take();
        let Some(seed) = seed else { return Outcome::default() };
        let outcome = drive(timely, seed, on_failure.clone());
        if !outcome.failures.is_empty() {
            // Half a flow is not a flow: the others stop too, gracefully.
            on_failure.request();
        }
        outcome
    });
    let mut total = Outcome::default();
    match guards {
        Ok(guards) => {
            for result in guards.join() {
                total.merge(result.unwrap_or_else(|error| failed(format!("a worker ended early: {error}"))));
            }
        }
        Err(error) => total.failures.push(Failure::new(format!("the workers could not be started: {error}"))),
    }
    total
}

fn failed(message: String) -> Outcome {
    Outcome { failures: vec![Failure::new(message)], ..Outcome::default() }
}

fn drive(timely: &mut timely::worker::Worker, seed: Seed, stop: Stop) -> Outcome {
    let Seed { bell, clock, build } = seed;
    bell.belongs_to(std::thread::current());
    // Without a worker there is an operator all the same, which ends at once: those of the others end with all of theirs.
    let (mut worker, refused) = match build(clock) {
        Ok(worker) => (Some(worker), None),
        Err(failure) => (None, Some(Outcome { failures: vec![failure], ..Outcome::default() })),
    };
    let rung = bell.clone();
    let next = Rc::new(Cell::new(Next::Now));
    let outcome = Rc::new(RefCell::new(refused));
    let (next_of_operator, outcome_of_operator) = (next.clone(), outcome.clone());
    let activator = timely.dataflow::<u64, _, _>(|scope| {
        let mut activator = None;
        let _none = source::<u64, timely::container::CapacityContainerBuilder<Vec<()>>, _, _>(
            scope,
            "flow",
            |capability, info| {
                activator = Some(scope.activator_for(info.address));
                let mut capability = Some(capability);
                move |_output| {
                    if capability.is_none() {
                        return;
                    }
                    let Some(alive) = worker.as_mut().filter(|_| !stop.is_killed()) else {
                        loom_delivery::killed(worker.take());
                        next_of_operator.set(Next::Never);
                        outcome_of_operator.borrow_mut().get_or_insert_default();
                        capability = None;
                        return;
                    };
                    let asked = alive.step(rung.take());
                    next_of_operator.set(asked);
                    if asked == Next::Never {
                        *outcome_of_operator.borrow_mut() = Some(alive.outcome());
                        capability = None;
                    }
                }
            },
        );
        activator
    });
    let Some(activator) = activator else { return failed("the flow's operator was not built".to_owned()) };
    loop {
        let park = match next.get() {
            Next::Never => break,
            Next::Now => None,
            Next::Sleep(wait) => Some(wait),
        };
        if let Some(wait) = park
            && !bell.is_rung()
        {
            // A ring between the look and the park leaves the thread a token, so that the park ends at once.
            timely.step_or_park(Some(wait));
        }
        activator.activate();
        timely.step();
    }
    let finished = outcome.borrow_mut().take();
    finished.unwrap_or_else(|| failed("the flow ended without an outcome".to_owned()))
}
