//! A plugin: a compiled component, ready to be instantiated, with the bounds and grants of its place in the flow.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Component, ComponentExportIndex, InstancePre};

use crate::beside::Beside;
use crate::bindings::exports::loom::plugin::{
    batch_expand, batch_step, column_expand, column_predicate, column_step, expand, partitioner, predicate,
    selector, setup, sink, step, typed_expand,
};
use crate::facts::{BIND_TRACKER, Facts, Roles};
use crate::grants::{GrantError, Grants};
use crate::http::HttpClient;
use crate::limits::Limits;
use crate::network::Told;
use crate::script::Script;
use crate::state::HostState;
use crate::ticker::Beat;

/// What the flow says of a plugin. Printing it shows neither configuration nor values of the environment, which may be
/// secrets.
#[derive(Clone)]
pub struct PluginSpec {
    /// Its name in the flow.
    pub name: String,
    /// The component's file.
    pub path: PathBuf,
    /// The SHA-256 that the file must have, in hex, with or without `sha256:` before it.
    pub digest: Option<String>,
    /// Its configuration; null when there is none.
    pub config: serde_json::Value,
    /// Its bounds.
    pub limits: Limits,
    /// What it may use.
    pub grants: Grants,
}

impl std::fmt::Debug for PluginSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let PluginSpec { name, path, digest, config: _, limits, grants } = self;
        f.debug_struct("PluginSpec")
            .field("name", name)
            .field("path", path)
            .field("digest", digest)
            .field("limits", limits)
            .field("grants", grants)
            .finish_non_exhaustive()
    }
}

/// A plugin that is loaded: compiled, linked, its exports found. Cloning shares it.
#[derive(Clone)]
pub struct Plugin {
    inner: Arc<Loaded>,
    script: Option<Arc<dyn Script>>,
}

pub(crate) struct Loaded {
    pub(crate) name: Arc<str>,
    pub(crate) path: PathBuf,
    pub(crate) facts: Facts,
    pub(crate) pre: InstancePre<HostState>,
    pub(crate) exports: Exports,
    pub(crate) config: String,
    pub(crate) limits: Limits,
    pub(crate) grants: Grants,
    pub(crate) told: Arc<Told>,
    /// What sends its HTTP requests; none where it may send none.
    pub(crate) http: Option<Arc<HttpClient>>,
    pub(crate) component: Component,
    pub(crate) beside: Arc<Beside>,
    pub(crate) beat: Arc<Beat>,
    /// Keeps the ticker alive as long as there is a plugin to call.
    pub(crate) _host: Arc<dyn std::any::Any + Send + Sync>,
}

/// Where the component exports each role, as far as it does.
pub(crate) struct Exports {
    pub(crate) setup: Option<setup::GuestIndices>,
    pub(crate) step: Option<step::GuestIndices>,
    pub(crate) column_step: Option<column_step::GuestIndices>,
    pub(crate) expand: Option<expand::GuestIndices>,
    pub(crate) column_expand: Option<column_expand::GuestIndices>,
    pub(crate) batch_step: Option<batch_step::GuestIndices>,
    pub(crate) batch_expand: Option<batch_expand::GuestIndices>,
    pub(crate) typed_expand: Option<typed_expand::GuestIndices>,
    pub(crate) selector: Option<selector::GuestIndices>,
    pub(crate) partitioner: Option<partitioner::GuestIndices>,
    pub(crate) predicate: Option<predicate::GuestIndices>,
    pub(crate) column_predicate: Option<column_predicate::GuestIndices>,
    pub(crate) sink: Option<sink::GuestIndices>,
    pub(crate) bind_tracker: Option<ComponentExportIndex>,
}

impl Exports {
    /// Finds the functions of every role that the facts name; an error names one that is not whole.
    pub(crate) fn find(pre: &InstancePre<HostState>, roles: &Roles) -> wasmtime::Result<Self> {
        Ok(Exports {
            setup: roles.setup.then(|| setup::GuestIndices::new(pre)).transpose()?,
            step: roles.step.then(|| step::GuestIndices::new(pre)).transpose()?,
            column_step: roles.column_step.then(|| column_step::GuestIndices::new(pre)).transpose()?,
            expand: roles.expand.then(|| expand::GuestIndices::new(pre)).transpose()?,
            column_expand: roles.column_expand.then(|| column_expand::GuestIndices::new(pre)).transpose()?,
            batch_step: roles.batch_step.then(|| batch_step::GuestIndices::new(pre)).transpose()?,
            batch_expand: roles.batch_expand.then(|| batch_expand::GuestIndices::new(pre)).transpose()?,
            typed_expand: roles.typed_expand.then(|| typed_expand::GuestIndices::new(pre)).transpose()?,
            selector: roles.selector.then(|| selector::GuestIndices::new(pre)).transpose()?,
            partitioner: roles.partitioner.then(|| partitioner::GuestIndices::new(pre)).transpose()?,
            predicate: roles.predicate.then(|| predicate::GuestIndices::new(pre)).transpose()?,
            column_predicate: roles
                .column_predicate
                .then(|| column_predicate::GuestIndices::new(pre))
                .transpose()?,
            sink: roles.sink.then(|| sink::GuestIndices::new(pre)).transpose()?,
            bind_tracker: pre.component().get_export_index(None, BIND_TRACKER),
        })
    }
}

impl Plugin {
    pub(crate) fn new(loaded: Loaded) -> Self {
        Plugin { inner: Arc::new(loaded), script: None }
    }

    pub(crate) fn loaded(&self) -> &Loaded {
        &self.inner
    }

    /// The same with calls that a script may end: what is instantiated from it asks before each.
    #[must_use]
    pub fn with_script(mut self, script: Arc<dyn Script>) -> Self {
        self.script = Some(script);
        self
    }

    pub(crate) fn script(&self) -> Option<&dyn Script> {
        self.script.as_deref()
    }

    /// The plugin's name in the flow.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// The component's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// What the component's file says of it.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.inner.facts
    }

    /// The SHA-256 of the component's file, in lower-case hex.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.inner.facts.digest
    }

    /// The bounds of its instances.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.inner.name)
            .field("path", &self.inner.path)
            .finish_non_exhaustive()
    }
}

/// Why a plugin did not start at a node.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The component has no such role.
    #[error("plugin {plugin} ({}) is no {role}: it exports {found}", .file.display())]
    RoleMissing {
        /// The plugin's name.
        plugin: String,
        /// The component's file.
        file: PathBuf,
        /// The role that the node needs.
        role: &'static str,
        /// What it is instead.
        found: String,
    },
    /// The component's functions have other types than the contract.
    #[error("plugin {plugin} ({}) exports {interface} with other types than the contract: {reason}", .file.display())]
    Types {
        /// The plugin's name.
        plugin: String,
        /// The component's file.
        file: PathBuf,
        /// The interface.
        interface: &'static str,
        /// What differs.
        reason: String,
    },
    /// `configure` refused the configuration.
    #[error("plugin {plugin} refuses its configuration: {reason}")]
    Refused {
        /// The plugin's name.
        plugin: String,
        /// The plugin's words.
        reason: String,
    },
    /// It trapped before it was ready.
    #[error("plugin {plugin} failed in {during}: it {reason}")]
    Trap {
        /// The plugin's name.
        plugin: String,
        /// Where: `instantiation`, `configure`, `reads`, `types` or `bind-commit-tracker`.
        during: &'static str,
        /// What happened.
        reason: String,
    },
    /// It was not ready in time.
    #[error("plugin {plugin} ran longer in {during} than its limit of {limit:?} (limits.lifecycle)")]
    Timeout {
        /// The plugin's name.
        plugin: String,
        /// Where, as in [`StartError::Trap`].
        during: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// The host stops, and does not wait for it.
    #[error("plugin {plugin} was ended in {during}: the host stops")]
    Stopped {
        /// The plugin's name.
        plugin: String,
        /// Where, as in [`StartError::Trap`].
        during: &'static str,
    },
    /// Calls beside the worker cannot be made at all.
    #[error("plugin {plugin} cannot be called beside its worker: {reason}")]
    Beside {
        /// The plugin's name.
        plugin: String,
        /// What the system, or the engine, says.
        reason: String,
    },
    /// A grant cannot be given any more.
    #[error("plugin {plugin}: {source}")]
    Grant {
        /// The plugin's name.
        plugin: String,
        /// Which, and why.
        source: GrantError,
    },
}
