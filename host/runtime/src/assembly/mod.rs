//! From a plan to workers that can start: everything that may be refused, and all that may block, before the first
//! record.
//!
//! In order: plugins are loaded and started once for each node and worker (and nodes that this number of workers cannot run
//! are refused); topics are looked up, inputs and outputs; the
//! group's members, the rights and the lease are asked for; the group's offsets are fetched; each partition gets its
//! start. Each phase reports all it finds, and the next begins
//! only when there is nothing to report. Whatever ends the start, sinks that were opened by then are closed.

mod bounds;
mod crew;
mod keyed;
pub mod offsets;
mod ownership;
mod plugins;
mod positions;
mod preflight;
mod questions;
mod rounds;
mod topics;

use std::sync::Arc;
use std::time::Instant;

use loom_delivery::{Accounts, CommitSchedule, RunId};
use loom_flow::Plan;
use loom_flow::expr::PayloadCache;
use loom_flow::plan::Delivery;
use loom_kafka::{Assigned, Broker, OutputInfo, TopicInfo};
use loom_plugin::PluginHost;
use loom_types::{BatchBuilder, Moment, PartitionId, WorkerIndex};

use crate::Options;
use crate::clock::{Clock, SystemClock};
use crate::failure::AssemblyError;
use crate::holdings::Holdings;
use crate::keeper::{Desk, Gate, KeeperBoard};
use crate::nodes::{Components, Drops, Flow, Graph, Op, Plugins, Shared, lower};
use crate::outputs::Outputs;
use crate::settings::output_settings;
use crate::status::{PluginStatus, Seat};
use crate::stop::Stop;
use crate::summary::Counters;
use crate::worker::{Bounds, Epochs, Partition, Parts, Worker};

pub(crate) use crew::Crew;
pub use keyed::check_workers;
use ownership::Ownership;
pub(crate) use positions::Position;
pub use preflight::preflight;

/// A flow that is ready to run.
pub struct Assembled {
    plan: Arc<Plan>,
    broker: Arc<dyn Broker>,
    options: Options,
    /// The user's request to stop.
    stop: Stop,
    /// The request to stop this round of it.
    round: Stop,
    graphs: Vec<Graph>,
    positions: Vec<Position>,
    /// What is known of the input topics, by the plan's.
    inputs: Vec<TopicInfo>,
    /// What is known of the output topics, by the plan's outputs.
    outputs: Arc<[OutputInfo]>,
    ownership: Ownership,
    keeper: KeeperBoard,
    /// The plugins that every round starts with; none where somebody else drives the workers.
    components: Option<Arc<Components>>,
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
    let loaded = plugins::load(&plan, plugins, options.probe.as_ref())?;
    if let Some(board) = &options.board {
        board.names(&plan.name, &plan.consumer.group_id);
        let plugins = plan.plugins.iter().zip(&loaded.0).map(|(plan, plugin)| PluginStatus {
            name: plugin.name().to_owned(),
            file: plan.component.display().to_string(),
            digest: plugin.digest().to_owned(),
        });
        board.set_plugins(plugins.collect());
        board.set_max_dropped(plan.max_dropped);
    }
    let clock = Box::new(SystemClock::since(start));
    let assembled = assemble_with(plan, broker, &loaded, options, stop, clock)?;
    Ok(Assembled { components: Some(Arc::new(loaded)), ..assembled })
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
    keyed::check_workers(&plan, options.workers)?;
    let round = stop.round();
    let interrupts = crate::worker::interrupts(&round, plan.runtime.shutdown_timeout);
    let mut graphs = Vec::new();
    for worker in 0..options.workers {
        let graph = lower(&plan, plugins, WorkerIndex(worker as u32), &interrupts);
        graphs
            .push(graph.map_err(|refusals| refusals.into_iter().map(plugins::refused).collect::<Vec<_>>())?);
    }
    let mut patience = topics::Patience::new(plan.runtime.startup_timeout, stop.clone(), clock);
    let topics = topics::look_up(&plan, &*broker, &mut patience)?;
    let ownership = ownership::check(&plan, &*broker, &topics.inputs, &options, &mut patience)?;
    let positions = positions::choose(&plan, &*broker, &topics.inputs, options.from, &mut patience)?;
    let (stop, outputs) = (stop.clone(), topics.outputs.into());
    let inputs = topics.inputs;
    Ok(Assembled {
        plan,
        broker,
        options,
        stop,
        round,
        graphs,
        positions,
        inputs,
        outputs,
        ownership,
        keeper: KeeperBoard::default(),
        components: None,
    })
}

/// What a worker is built on, on its own thread.
struct Ground {
    plan: Arc<Plan>,
    broker: Arc<dyn Broker>,
    worker: WorkerIndex,
    graph: Graph,
    share: Vec<Position>,
    outputs: Arc<[OutputInfo]>,
    total: usize,
    bounds: Bounds,
    options: Options,
    stop: Stop,
    waker: loom_kafka::Waker,
    seat: Option<Seat>,
    desk: Arc<Desk>,
    gate: Arc<Gate>,
    predecessor: Option<RunId>,
}

impl Ground {
    fn build(self, clock: Box<dyn Clock>) -> Result<Worker, loom_kafka::KafkaError> {
        let plan = self.plan;
        let tracked = plan.consumer.delivery == Delivery::AtLeastOnce;
        let mut accounts = if tracked { Accounts::tracked() } else { Accounts::untracked() };
        let mut commits =
            CommitSchedule::new(plan.runtime.commit_interval).with_keepalive(plan.consumer.commit_keepalive);
        let mut partitions = Vec::new();
        let mut assigned = Vec::new();
        for position in self.share {
            let id: PartitionId = accounts.add_partition(position.start.position, position.start.floor);
            commits.add_partition(position.standing());
            assigned.push(Assigned {
                id,
                partition: position.partition.clone(),
                topic: position.topic,
                start: position.start.position,
                leader_epoch: position.leader_epoch(),
            });
            partitions.push(Partition {
                commit_first: position.start.commit_first,
                fresh: position.committed.is_none(),
                topic_id: position.topic_id,
                initial: position.stored(),
                epochs: Epochs::from_start(position.start.position, position.leader_epoch()),
                floor_epoch: position.floor_epoch(),
                ..Partition::new(position.partition)
            });
        }
        let mut graph = self.graph;
        let reader = self.broker.reader(assigned, self.total, self.waker.clone())?;
        let settings = output_settings(&plan.outputs, &self.outputs);
        let writing = graph.outputs.settings(&settings);
        let room = bounds::queue_room(&plan, partitions.len(), self.total);
        let writer = self.broker.writer(&writing, room, self.waker.clone())?;
        let mut nodes = std::mem::take(&mut graph.nodes);
        for node in &mut nodes {
            match &mut node.op {
                Op::Waiting(waiting) => waiting.ring(self.waker.clone()),
                Op::Batch(batch) => batch.ring(self.waker.clone()),
                _ => {}
            }
        }
        let infos: Vec<(OutputInfo, usize)> = self
            .outputs
            .iter()
            .zip(&settings)
            .map(|(info, settings)| (info.clone(), settings.producer.largest_batch.unwrap_or(usize::MAX)))
            .collect();
        let table = std::mem::take(&mut graph.outputs);
        let outputs = Outputs::new(table, writer, Box::new(self.desk.clone()), &plan.outputs, &infos);
        let topics: Arc<[Arc<str>]> = plan.consumer.topics.clone().into();
        let shared = Shared {
            worker: self.worker,
            accounts,
            bounds: self.bounds,
            holdings: Holdings::new(
                bounds::held_bytes(&plan, partitions.len(), self.total),
                partitions.len(),
            ),
            cache: PayloadCache::new(),
            counters: Counters::default(),
            drops: Drops::new(self.options.workers, plan.max_dropped.map(|rate| rate.per.time())),
            now: Moment::START,
            wall_ms: 0,
            random: 0.0,
            calling: self.seat.as_ref().map_or_else(Arc::default, |seat| seat.calling.clone()),
            interrupt: crate::worker::interrupts(&self.stop, plan.runtime.shutdown_timeout).calls,
            failures: Vec::new(),
            named: false,
            restart: None,
            env: plan.env.clone(),
            probe: self.options.probe.clone(),
            plan,
        };
        let flow =
            Flow { nodes, entry: graph.entry, routes: std::mem::take(&mut graph.routes), shared, outputs };
        Ok(Worker::new(Parts {
            flow,
            source: reader.source,
            offsets: reader.offsets,
            commits,
            partitions,
            builder: BatchBuilder::new(topics),
            clock,
            stop: self.stop,
            options: self.options,
            seat: self.seat,
            desk: self.desk,
            gate: self.gate,
            predecessor: self.predecessor,
        }))
    }
}
