//! From an assembled flow to what an executor drives: the workers, each before its thread has it, and the keeper.

use std::sync::Arc;

use loom_types::{PartitionId, WorkerIndex};

use super::{Assembled, Ground, Position, bounds};
use crate::clock::Clock;
use crate::engine::Seed;
use crate::failure::Failure;
use crate::keeper::{self, Commits, Desk, Gate, Keeper, KeeperBoard, Kept, KeptTopic};
use crate::settings::output_settings;
use crate::status::berth;
use crate::stop::Bell;

impl Assembled {
    /// What people may see of the lease and the topics while the flow runs.
    #[must_use]
    pub fn keeper_board(&self) -> KeeperBoard {
        self.keeper.clone()
    }

    /// The workers and the keeper before anything drives them; each worker with a clock of its own.
    pub(crate) fn crew(self, clock: impl Fn() -> Box<dyn Clock>) -> Crew {
        let workers = self.graphs.len();
        let total = self.positions.len();
        let mut shares: Vec<Vec<Position>> = (0..workers).map(|_| Vec::new()).collect();
        for (index, position) in self.positions.into_iter().enumerate() {
            shares[index % workers].push(position);
        }
        let bounds = bounds::bounds(&self.plan, total);
        let gate = Arc::new(Gate::default());
        if self.ownership.lease.holds_commits() {
            gate.set(Commits::Held);
        }
        let bells: Vec<Arc<Bell>> = (0..workers).map(|_| self.round.bell()).collect();
        let board = self.options.board.clone();
        let seats = board.as_ref().map_or_else(Vec::new, |board| {
            let crew = bells.iter().zip(&shares).zip(&self.graphs).enumerate();
            let berths = crew.map(|(worker, ((bell, share), graph))| {
                let starts: Vec<_> = share.iter().map(Position::as_start).collect();
                berth(bell.clone(), WorkerIndex(worker as u32), &starts, &graph.nodes)
            });
            board.seats(berths.collect())
        });
        let mut seats = seats.into_iter().map(Some);
        let keeper_bell = self.round.bell();
        let desks: Vec<Arc<Desk>> = bells
            .iter()
            .zip(&shares)
            .map(|(bell, share)| Arc::new(Desk::new(share.len(), bell.clone(), keeper_bell.clone())))
            .collect();
        let topics = self.plan.consumer.topics.iter().zip(&self.inputs);
        let topics = topics.map(|(name, info)| KeptTopic {
            name: name.clone(),
            id: info.id,
            partitions: info.partitions,
            missing_since: None,
        });
        let keeper = Keeper::new(keeper::Parts {
            broker: self.broker.clone(),
            group: self.plan.consumer.group_id.to_string(),
            run: self.options.identity.run,
            lease: self.ownership.lease,
            predecessor: self.ownership.predecessor,
            interval: self.options.keeps_lease().then_some(self.plan.runtime.lease_interval),
            partitions: kept(&shares),
            topics: topics.collect(),
            outputs: output_settings(&self.plan.outputs, &[]),
            desks: desks.clone(),
            gate: gate.clone(),
            stop: self.round.clone(),
            bell: keeper_bell,
            board: self.keeper,
            notes: board,
        });
        let mut seeds = Vec::with_capacity(workers);
        for (index, ((graph, share), bell)) in self.graphs.into_iter().zip(shares).zip(bells).enumerate() {
            let ground = Ground {
                plan: self.plan.clone(),
                broker: self.broker.clone(),
                worker: WorkerIndex(index as u32),
                graph,
                share,
                outputs: self.outputs.clone(),
                total,
                bounds,
                options: self.options.clone(),
                stop: self.round.clone(),
                waker: bell.waker(),
                seat: seats.next().flatten(),
                desk: desks[index].clone(),
                gate: gate.clone(),
                predecessor: self.ownership.predecessor,
            };
            let build = move |clock: Box<dyn Clock>| {
                let worker = ground.worker;
                ground
                    .build(clock)
                    .map_err(|error| Failure::new(format!("worker {worker} cannot start: {error}")))
            };
            seeds.push(Seed { bell, clock: clock(), build: Box::new(build) });
        }
        Crew { workers: seeds, keeper }
    }
}

/// All that an executor drives.
pub(crate) struct Crew {
    pub workers: Vec<Seed>,
    pub keeper: Keeper,
}

/// The keeper's list of all partitions.
fn kept(shares: &[Vec<Position>]) -> Vec<Kept> {
    let mut all = Vec::new();
    for (worker, share) in shares.iter().enumerate() {
        for (index, position) in share.iter().enumerate() {
            let (name, initial) = (position.partition.clone(), position.stored());
            all.push(Kept { worker, id: PartitionId(index as u32), name, initial });
        }
    }
    all
}
