//! From a plan to workers that can start: everything that may be refused, and all that may block, before the first
//! record.
//!
//! In order: plugins are loaded and started once for each node and worker; topics are looked up, inputs and outputs;
//! the group's offsets are fetched; each partition gets its start. Each phase reports all it finds, and the next begins
//! only when there is nothing to report.

mod bounds;
mod plugins;
mod positions;
mod topics;

use std::sync::Arc;
use std::time::Instant;

use loom_delivery::{Accounts, CommitSchedule};
use loom_flow::Plan;
use loom_flow::expr::PayloadCache;
use loom_flow::plan::Delivery;
use loom_kafka::{Assigned, Broker};
use loom_plugin::PluginHost;
use loom_types::{BatchBuilder, Moment, PartitionId, WorkerIndex};

use crate::Options;
use crate::clock::{Clock, SystemClock};
use crate::engine::{self, Seed};
use crate::failure::{AssemblyError, Failure};
use crate::nodes::{Flow, Graph, Op, Plugins, Shared, lower};
use crate::outputs::Outputs;
use crate::settings::output_settings;
use crate::status::{Board, PluginStatus, Seat, Watcher};
use crate::stop::Stop;
use crate::summary::{Counters, Outcome};
use crate::worker::{Bounds, Partition, Parts, Worker};

pub(crate) use positions::Position;

/// A flow that is ready to run.
pub struct Assembled {
    plan: Arc<Plan>,
    broker: Arc<dyn Broker>,
    options: Options,
    stop: Stop,
    graphs: Vec<Graph>,
    positions: Vec<Position>,
}

/// Pairs a plan with this runtime. Blocks up to the plan's `startup_timeout` while brokers or the coordinator cannot
/// answer; `stop` cuts that short.
pub fn assemble(
    plan: Arc<Plan>,
    broker: Arc<dyn Broker>,
    plugins: &PluginHost,
    options: Options,
    stop: &Stop,
) -> Result<Assembled, Vec<AssemblyError>> {
    let start = Instant::now();
    let loaded = plugins::load(&plan, plugins)?;
    if let Some(board) = &options.board {
        board.names(&plan.name, &plan.consumer.group_id);
        let plugins = plan.plugins.iter().zip(&loaded.0).map(|(plan, plugin)| PluginStatus {
            name: plugin.name().to_owned(),
            file: plan.component.display().to_string(),
            digest: plugin.digest().to_owned(),
        });
        board.set_plugins(plugins.collect());
    }
    let clock = Box::new(SystemClock::since(start));
    assemble_with(plan, broker, &loaded, options, stop, clock)
}

/// The same with plugins that are loaded, and with time that is given.
pub(crate) fn assemble_with(
    plan: Arc<Plan>,
    broker: Arc<dyn Broker>,
    plugins: &dyn Plugins,
    options: Options,
    stop: &Stop,
    clock: Box<dyn Clock>,
) -> Result<Assembled, Vec<AssemblyError>> {
    let options = Options { workers: options.workers.max(1), ..options };
    let interrupt = stop.interrupt(crate::worker::call_grace(plan.runtime.shutdown_timeout));
    let mut graphs = Vec::new();
    for worker in 0..options.workers {
        let graph = lower(&plan, plugins, WorkerIndex(worker as u32), &interrupt);
        graphs
            .push(graph.map_err(|refusals| refusals.into_iter().map(plugins::refused).collect::<Vec<_>>())?);
    }
    let mut patience = topics::Patience::new(plan.runtime.startup_timeout, stop.clone(), clock);
    let partitions = topics::look_up(&plan, &*broker, &mut patience)?;
    let positions = positions::choose(&plan, &*broker, partitions, &mut patience)?;
    Ok(Assembled { plan, broker, options, stop: stop.clone(), graphs, positions })
}

impl Assembled {
    /// Runs until the flow is stopped, fails, or ends with its input. Every client and plugin is closed when it returns.
    #[must_use]
    pub fn run(self) -> Outcome {
        tracing::info!(
            flow = &*self.plan.name,
            workers = self.graphs.len(),
            partitions = self.positions.len(),
            topics = self.plan.consumer.topics.join(", "),
            group = self.plan.consumer.group_id,
            "running"
        );
        let (name, stop) = (self.plan.name.clone(), self.stop.clone());
        let (board, broker) = (self.options.board.clone(), self.broker.clone());
        let start = Instant::now();
        let seeds = self.seeds(|| Box::new(SystemClock::since(start)));
        let mut outcome = match board {
            None => engine::run(seeds, &stop),
            Some(board) => watched(board, broker, || engine::run(seeds, &stop)),
        };
        outcome.summary.flow = name;
        outcome
    }

    /// The workers before anything drives them, each with a clock of its own.
    pub(crate) fn seeds(self, clock: impl Fn() -> Box<dyn Clock>) -> Vec<Seed> {
        let workers = self.graphs.len();
        let total = self.positions.len();
        let mut shares: Vec<Vec<Position>> = (0..workers).map(|_| Vec::new()).collect();
        for (index, position) in self.positions.into_iter().enumerate() {
            shares[index % workers].push(position);
        }
        let bounds = bounds::bounds(&self.plan, total);
        let bells: Vec<_> = (0..workers).map(|_| self.stop.bell()).collect();
        let board = self.options.board.clone();
        let seats = board.as_ref().map_or_else(Vec::new, |board| board.seats(&bells));
        let mut seats = seats.into_iter().map(Some);
        let graphs = self.graphs.into_iter().zip(shares).zip(bells).enumerate();
        let seeds = graphs.map(|(index, ((graph, share), bell))| {
            let (plan, broker) = (self.plan.clone(), self.broker.clone());
            let (options, stop) = (self.options.clone(), self.stop.clone());
            let seat = seats.next().flatten();
            let waker = bell.waker();
            let worker = WorkerIndex(index as u32);
            let build = move |clock: Box<dyn Clock>| {
                let ground =
                    Ground { plan, broker, worker, graph, share, total, bounds, options, stop, waker, seat };
                ground
                    .build(clock)
                    .map_err(|error| Failure::new(format!("worker {worker} cannot start: {error}")))
            };
            Seed { bell, clock: clock(), build: Box::new(build) }
        });
        seeds.collect()
    }
}

/// Runs with a watcher beside.
fn watched(board: Board, broker: Arc<dyn Broker>, run: impl FnOnce() -> Outcome) -> Outcome {
    std::thread::scope(|scope| {
        let watcher = Watcher::new(board.clone(), broker);
        let watching = std::thread::Builder::new().name("watcher".to_owned());
        if let Err(error) = watching.spawn_scoped(scope, || watcher.run()) {
            tracing::warn!(%error, "no thread to watch for partitions that stall: they are not told");
        }
        let outcome = run();
        board.stopped();
        outcome
    })
}

/// What a worker is built on, on its own thread.
struct Ground {
    plan: Arc<Plan>,
    broker: Arc<dyn Broker>,
    worker: WorkerIndex,
    graph: Graph,
    share: Vec<Position>,
    total: usize,
    bounds: Bounds,
    options: Options,
    stop: Stop,
    waker: loom_kafka::Waker,
    seat: Option<Seat>,
}

impl Ground {
    fn build(self, clock: Box<dyn Clock>) -> Result<Worker, loom_kafka::KafkaError> {
        let plan = self.plan;
        let tracked = plan.consumer.delivery == Delivery::AtLeastOnce;
        let mut accounts = if tracked { Accounts::tracked() } else { Accounts::untracked() };
        let mut commits = CommitSchedule::new(plan.runtime.commit_interval);
        let mut partitions = Vec::new();
        let mut assigned = Vec::new();
        for position in self.share {
            let id: PartitionId = accounts.add_partition(position.start.position, position.start.floor);
            commits.add_partition(position.committed);
            assigned.push(Assigned {
                id,
                partition: position.partition.clone(),
                topic: position.topic,
                start: position.start.position,
                leader_epoch: None,
            });
            partitions.push(Partition {
                name: position.partition,
                ready: true,
                commit_first: tracked && position.start.commit_first,
                at_end: false,
                leader_epoch: None,
                trouble: None,
            });
        }
        let reader = self.broker.reader(assigned, self.total, self.waker.clone())?;
        let outputs = self.graph.outputs.settings(&output_settings(&plan.outputs));
        let bell = self.waker.clone();
        let writer = self.broker.writer(&outputs, self.waker)?;
        let mut nodes = self.graph.nodes;
        for node in &mut nodes {
            if let Op::Waiting(waiting) = &mut node.op {
                waiting.ring(bell.clone());
            }
        }
        let topics: Arc<[Arc<str>]> = plan.consumer.topics.clone().into();
        let shared = Shared {
            worker: self.worker,
            accounts,
            cache: PayloadCache::new(),
            counters: Counters::default(),
            now: Moment::START,
            wall_ms: 0,
            random: 0.0,
            interrupt: self.stop.interrupt(crate::worker::call_grace(plan.runtime.shutdown_timeout)),
            failures: Vec::new(),
            named: false,
            env: plan.env.clone(),
            plan,
        };
        let flow = Flow {
            nodes,
            entry: self.graph.entry,
            routes: self.graph.routes,
            shared,
            outputs: Outputs::new(self.graph.outputs, writer),
        };
        Ok(Worker::new(Parts {
            flow,
            broker: self.broker,
            source: reader.source,
            offsets: reader.offsets,
            commits,
            partitions,
            bounds: self.bounds,
            builder: BatchBuilder::new(topics),
            clock,
            stop: self.stop,
            options: self.options,
            seat: self.seat,
        }))
    }
}
