//! How much of one partition may be in the flow and not resolved.
//!
//! `runtime.max_outstanding` counts rows, those that a broadcast makes of a record too. How many rows one record can
//! become is known from the plan, so each record counts as that many, whatever becomes of it: the bound then holds
//! before a row is made, and not only once it is passed. One record always gets through.
//!
//! What rows keep in memory is bounded for each worker as well, by the bytes of the same setting: see `holdings.rs`.
//!
//! How many rows a plugin makes of a row is not known. They are counted as they are made, against a bound like that of the
//! records ([`crate::nodes::Room`]); so where rows are made of rows, a record counts twice.

use loom_flow::Plan;
use loom_flow::plan::{NodeKind, NodePlan, ProcessPlan};
use loom_kafka::QUEUED_ROW;

use crate::worker::Bounds;

/// The bounds of one of `partitions` partitions of the process.
pub(super) fn bounds(plan: &Plan, partitions: usize) -> Bounds {
    let share = partitions.max(1) * rows_of_a_record(plan);
    Bounds {
        records: (plan.runtime.max_outstanding_records / share).max(1),
        bytes: (plan.runtime.max_outstanding_bytes / share as u64).max(1),
    }
}

/// What the rows of a worker that has so many of the process's partitions may keep in memory.
pub(super) fn held_bytes(plan: &Plan, partitions: usize, total: usize) -> u64 {
    share(plan.runtime.max_outstanding_bytes, partitions, total)
}

/// What may wait in its producers' clients: all that may be outstanding, so that what waits for one partition of an output
/// keeps none of another record's room.
pub(super) fn queue_room(plan: &Plan, partitions: usize, total: usize) -> usize {
    let beside = (QUEUED_ROW as u64).saturating_mul(plan.runtime.max_outstanding_records as u64);
    let bytes = plan.runtime.max_outstanding_bytes.saturating_add(beside);
    usize::try_from(share(bytes, partitions, total)).unwrap_or(usize::MAX)
}

fn share(bytes: u64, partitions: usize, total: usize) -> u64 {
    let share = u128::from(bytes) * partitions as u128 / total.max(1) as u128;
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// How many rows of one record can be in the flow at a time.
fn rows_of_a_record(plan: &Plan) -> usize {
    // What fails inside a route is not routed again.
    let routes: Vec<usize> = plan.routes.iter().map(|route| rows(&route.process, &|_| 0)).collect();
    let in_route =
        |node: &NodePlan| node.errors.iter().flatten().map(|route| routes[route.0]).max().unwrap_or_default();
    rows(&plan.process, &in_route)
}

/// How many rows one row that enters a process can become. At each node it goes on or takes the node's error route.
fn rows(process: &ProcessPlan, in_route: &dyn Fn(&NodePlan) -> usize) -> usize {
    process.nodes.iter().rev().fold(1, |after, node| {
        let inside = node.kind.inner().into_iter().map(|process| rows(process, in_route));
        let on = match &node.kind {
            NodeKind::Expand(_) | NodeKind::Explode(_) | NodeKind::BatchExpand(_) => 2 * after,
            NodeKind::ExpandRoutes { .. } => 2 * inside.max().unwrap_or(1),
            NodeKind::Broadcast(_) => inside.sum(),
            _ => inside.max().unwrap_or(1),
        };
        on.max(after).max(in_route(node))
    })
}
