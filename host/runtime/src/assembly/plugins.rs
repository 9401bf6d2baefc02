//! Plugins are loaded and paired with the nodes that use them.

use loom_flow::Plan;
use loom_flow::plan::{Delivery, NodeKind, NodePlan, PluginPlan};
use loom_plugin::{DirGrant, DirMode, Grants, HostGrant, Limits, Plugin, PluginHost, PluginSpec, StartError};

use crate::failure::{AssemblyError, Status};
use crate::nodes::{Components, Refusal};
use crate::probe::Probe;

/// Loads every plugin, and refuses sinks that cannot confirm what they write; all problems together.
pub(super) fn load(
    plan: &Plan,
    host: &PluginHost,
    probe: Option<&Probe>,
) -> Result<Components, Vec<AssemblyError>> {
    let mut loaded = Vec::new();
    let mut errors = Vec::new();
    for plugin in &plan.plugins {
        match host.load(&spec(plugin)) {
            Ok(plugin) => loaded.push(match probe {
                Some(probe) => plugin.with_script(probe.as_script()),
                None => plugin,
            }),
            Err(error) => errors.push(AssemblyError {
                status: if error.is_bad_file() { Status::Flow } else { Status::Runtime },
                code: Some("PLUGIN_LOAD_FAILED"),
                message: error.to_string(),
                hint: None,
                about: None,
            }),
        }
    }
    if errors.is_empty() && plan.consumer.delivery == Delivery::AtLeastOnce {
        let routes = plan.routes.iter().map(|route| &route.process);
        for process in std::iter::once(&plan.process).chain(routes) {
            process.visit(&mut |node| errors.extend(untracked_sink(plan, &loaded, node)));
        }
    }
    if errors.is_empty() { Ok(Components(loaded, probe.cloned())) } else { Err(errors) }
}

/// A node's plugin did not start.
pub(super) fn refused(refusal: Refusal) -> AssemblyError {
    let code = match refusal.error {
        StartError::RoleMissing { .. } => "PLUGIN_ROLE_MISSING",
        StartError::Types { .. } => "PLUGIN_INCOMPATIBLE",
        StartError::Refused { .. } => "PLUGIN_CONFIG_INVALID",
        StartError::Trap { .. }
        | StartError::Timeout { .. }
        | StartError::Stopped { .. }
        | StartError::Beside { .. }
        | StartError::Grant { .. } => "PLUGIN_LOAD_FAILED",
    };
    AssemblyError::refused(code, format!("{}: {}", refusal.node, refusal.error))
}

fn spec(plugin: &PluginPlan) -> PluginSpec {
    let defaults = Limits::default();
    let limits = &plugin.limits;
    PluginSpec {
        name: plugin.name.to_string(),
        path: plugin.component.clone(),
        digest: plugin.digest.clone(),
        config: plugin.config.clone(),
        limits: Limits {
            memory: limits.memory.unwrap_or(defaults.memory),
            timeout: limits.timeout.unwrap_or(defaults.timeout),
            lifecycle: limits.lifecycle.unwrap_or(defaults.lifecycle),
            output: limits.output.unwrap_or(defaults.output),
            log: limits.log.unwrap_or(defaults.log),
        },
        grants: Grants {
            env: plugin.allow.env.iter().map(|(name, value)| (name.clone(), value.0.clone())).collect(),
            http: plugin.allow.http.iter().map(|host| HostGrant::new(&host.host, host.port)).collect(),
            dirs: plugin
                .allow
                .dirs
                .iter()
                .map(|dir| DirGrant {
                    host: dir.host.clone(),
                    guest: dir.guest.clone(),
                    mode: if dir.writable { DirMode::ReadWrite } else { DirMode::ReadOnly },
                })
                .collect(),
        },
    }
}

/// A sink that does not confirm what it writes could lose records: `bind-commit-tracker` is how it confirms.
fn untracked_sink(plan: &Plan, loaded: &[Plugin], node: &NodePlan) -> Option<AssemblyError> {
    let NodeKind::IntoSink { plugin, .. } = node.kind else { return None };
    let roles = &loaded[plugin.0].facts().roles;
    if !roles.sink || roles.tracked {
        return None;
    }
    Some(AssemblyError::refused(
        "SINK_UNTRACKED",
        format!(
            "{}: sink {} ({}) does not export `bind-commit-tracker`, so it cannot confirm what it writes; under \
             `delivery: at_least_once` it is refused",
            node.path,
            plan.plugins[plugin.0].name,
            plan.plugins[plugin.0].component.display(),
        ),
    ))
}
