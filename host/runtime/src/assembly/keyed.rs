//! Batches by a key of their own on more than one worker: refused, until rows can move between workers.
//!
//! Without `key` a batch is of one source partition, which one worker owns.

use loom_flow::plan::NodeKind;
use loom_flow::{Need, Plan};

use crate::failure::AssemblyError;

/// Refuses each `collect_batch` with a `key` where there are several workers: records of one key come from partitions of all
/// of them, and would be gathered apart.
///
/// # Errors
/// One for each such node, about it.
pub fn check_workers(plan: &Plan, workers: usize) -> Result<(), Vec<AssemblyError>> {
    let mut errors = Vec::new();
    let routes = plan.routes.iter().map(|route| &route.process);
    for process in std::iter::once(&plan.process).chain(routes) {
        process.visit(&mut |node| {
            let keyed = matches!(&node.kind, NodeKind::CollectBatch(collect) if collect.key.is_some());
            if keyed && workers > 1 {
                let refused = AssemblyError::refused(
                    "NOT_AVAILABLE",
                    format!(
                        "{}: `collect_batch` with a `key` on {workers} workers cannot run yet: records of one key come from \
                         partitions of several workers, and would not be gathered together; run it on one worker, or \
                         leave `key` out to gather by source partition",
                        node.path
                    ),
                );
                errors.push(AssemblyError { about: Some(Need::Keyed(node.path.to_string())), ..refused });
            }
        });
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}
