//! `dev --dry-run`: what sinks would get is printed and not written, and plugins reach nothing outside.

use std::io;
use std::sync::Arc;

use loom_flow::Plan;
use loom_plugin::{CallFailure, NodeContext, Script};
use loom_runtime::{Probe, Unrouted, Watch};
use loom_types::Batch;
use tempfile::TempDir;

use super::output::SinkLines;

/// Takes away what lets a plugin have an effect: the network, and the right to write to folders. In place of a folder that is
/// not there the plugin sees an empty one, which is gone with what this gives.
///
/// # Errors
/// Where the system has no room for a folder.
pub fn without_effects(plan: &mut Plan) -> io::Result<Vec<TempDir>> {
    let mut empty = Vec::new();
    for plugin in &mut plan.plugins {
        if !plugin.allow.http.is_empty() {
            tracing::info!(plugin = &*plugin.name, "a dry run: the plugin may not use the network");
            plugin.allow.http.clear();
        }
        for dir in plugin.allow.dirs.iter_mut().filter(|dir| dir.writable) {
            tracing::info!(
                plugin = &*plugin.name,
                folder = &*dir.guest,
                "a dry run: the plugin may read the folder and not write to it"
            );
            dir.writable = false;
        }
        for dir in plugin.allow.dirs.iter_mut().filter(|dir| !dir.host.exists()) {
            tracing::info!(
                plugin = &*plugin.name,
                folder = %dir.host.display(),
                "a dry run: the folder is not there, and the plugin sees an empty one"
            );
            let folder = TempDir::new()?;
            dir.host = folder.path().to_owned();
            empty.push(folder);
        }
    }
    Ok(empty)
}

/// Prints what sinks would get, in place of them.
pub fn probe(lines: SinkLines) -> Probe {
    Probe::new(Arc::new(Dry(lines)))
}

struct Dry(SinkLines);

impl Script for Dry {
    fn call(&self, _: &NodeContext, _: &Batch, _: &[u32]) -> Option<CallFailure> {
        None
    }

    fn flush(&self, _: &NodeContext) -> Option<CallFailure> {
        None
    }
}

impl Watch for Dry {
    fn captures_sinks(&self) -> bool {
        true
    }

    fn sunk(&self, node: &NodeContext, batch: &Batch, row: u32) {
        self.0.print(&node.plugin, batch, row);
    }

    fn unrouted(&self, _: &Unrouted<'_>) {}
}
