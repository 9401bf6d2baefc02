//! What the rounds before counted. A flow that begins anew in place goes on counting: within one process no counter falls.
//!
//! What was unresolved when a round ended was given up, and is read again: it is a count of its own, so that the ledger's
//! equations hold over all rounds.

use std::collections::BTreeMap;

use super::document::{
    BreakerStatus, HistogramStatus, LedgerStatus, NodeStatus, OutputStatus, PartitionStatus, SinkStatus,
    Status,
};

/// The counters of all rounds that are over.
#[derive(Clone, Debug, Default)]
pub(super) struct Earlier {
    pub nodes: Vec<NodeStatus>,
    pub outputs: BTreeMap<String, OutputStatus>,
    pub cycles: u64,
    pub resolution: HistogramStatus,
    pub commits: u64,
    pub commit_failures: u64,
    ledgers: BTreeMap<(String, i32), LedgerStatus>,
}

impl Earlier {
    /// Of a status at the end of a round, which has the rounds before in it.
    pub(super) fn of(status: Status) -> Earlier {
        let mut earlier = Earlier {
            nodes: status.nodes,
            outputs: status
                .outputs
                .into_iter()
                .map(|output| (output.topic.clone(), counted(output)))
                .collect(),
            cycles: status.cycles,
            resolution: status.resolution,
            commits: status.commits.requests,
            commit_failures: status.commits.failures,
            ledgers: BTreeMap::new(),
        };
        for node in &mut earlier.nodes {
            node.waiting = 0;
            node.breaker = node.breaker.map(|_| BreakerStatus::default());
            node.sink = node.sink.map(|sink| SinkStatus { open: 0, wait_in_ms: None, ..sink });
        }
        for PartitionStatus { topic, partition, mut ledger, .. } in status.partitions {
            ledger.given_up += std::mem::take(&mut ledger.outstanding);
            ledger.given_up_tokens += std::mem::take(&mut ledger.live);
            earlier.ledgers.insert((topic, partition), ledger);
        }
        earlier
    }

    /// Adds what was counted of a partition.
    pub(super) fn add_to(&self, partition: &mut PartitionStatus) {
        if let Some(ledger) = self.ledgers.get(&(partition.topic.clone(), partition.partition)) {
            partition.ledger.add(ledger);
        }
    }
}

fn counted(output: OutputStatus) -> OutputStatus {
    OutputStatus { pending: 0, in_flight: 0, waiting_ms: None, ..output }
}
