//! Loads plugins: reads the file, checks it against the contract, compiles it or takes it from the cache, links it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use wasmtime::Engine;
use wasmtime::component::{Component, Linker};

use crate::beside::Beside;
use crate::cache::{Cache, CacheDir};
use crate::facts::{FactsError, facts_of, read_file};
use crate::grants::GrantError;
use crate::http::HttpClient;
use crate::plugin::{Exports, Loaded, Plugin, PluginSpec};
use crate::state::{self, HostState};
use crate::ticker::Ticker;

/// Settings of the process's plugin host.
#[derive(Clone, Debug, Default)]
pub struct HostOptions {
    /// Where compiled code is kept.
    pub cache_dir: CacheDir,
}

/// The engine, its ticker and the cache of compiled code. One a process; cloning shares it.
#[derive(Clone)]
pub struct PluginHost {
    inner: Arc<Inner>,
}

struct Inner {
    engine: Engine,
    linker: Linker<HostState>,
    ticker: Ticker,
    beside: Arc<Beside>,
    cache: Cache,
    /// Components by the digest of their file, so that one file under two names is compiled once.
    compiled: Mutex<HashMap<String, Component>>,
}

/// The plugin host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The engine refuses this machine or its settings.
    #[error("the WebAssembly engine cannot start: {reason}")]
    Engine {
        /// What the engine says.
        reason: String,
    },
    /// No thread for the ticker.
    #[error("the plugin ticker's thread cannot start: {source}")]
    Ticker {
        /// What the system says.
        source: std::io::Error,
    },
}

/// Why a plugin could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is no plugin of this host.
    #[error("plugin {plugin}: {source}")]
    Facts {
        /// The plugin's name.
        plugin: String,
        /// What is wrong with the file.
        source: FactsError,
    },
    /// The file is not the one that the flow pins.
    #[error("plugin {plugin}: {} has the digest sha256:{found}, and the flow pins sha256:{expected}", .file.display())]
    Digest {
        /// The plugin's name.
        plugin: String,
        /// The file.
        file: PathBuf,
        /// The digest that the flow names.
        expected: String,
        /// The digest of the file.
        found: String,
    },
    /// Something is granted that cannot be given.
    #[error("plugin {plugin}: {source}")]
    Grant {
        /// The plugin's name.
        plugin: String,
        /// Which grant, and why.
        source: GrantError,
    },
    /// The component does not compile.
    #[error("plugin {plugin}: {} does not compile: {reason}", .file.display())]
    Compile {
        /// The plugin's name.
        plugin: String,
        /// The file.
        file: PathBuf,
        /// What the compiler says.
        reason: String,
    },
    /// An import or a role of the component has other types than the contract.
    #[error("plugin {plugin}: {} does not fit the contract: {reason}", .file.display())]
    Link {
        /// The plugin's name.
        plugin: String,
        /// The file.
        file: PathBuf,
        /// What does not fit.
        reason: String,
    },
}

impl LoadError {
    /// Whether the file cannot be read, is no component, or is another one than pinned; all others are components
    /// that do not fit this host or cannot be given what the flow grants.
    #[must_use]
    pub fn is_bad_file(&self) -> bool {
        match self {
            LoadError::Facts { source, .. } => source.is_bad_file(),
            LoadError::Digest { .. } | LoadError::Compile { .. } => true,
            LoadError::Grant { .. } | LoadError::Link { .. } => false,
        }
    }
}

impl PluginHost {
    /// Starts the engine.
    pub fn new(options: HostOptions) -> Result<PluginHost, HostError> {
        let failed = |error: wasmtime::Error| HostError::Engine { reason: format!("{error:#}") };
        let engine = crate::engine::engine().map_err(failed)?;
        let mut linker = Linker::new(&engine);
        state::add_to_linker(&mut linker).map_err(failed)?;
        let ticker = Ticker::start(engine.clone()).map_err(|source| HostError::Ticker { source })?;
        let cache = Cache::open(&options.cache_dir, &engine);
        let beside = Arc::new(Beside::new(engine.clone()));
        let inner = Inner { engine, linker, ticker, beside, cache, compiled: Mutex::default() };
        Ok(PluginHost { inner: Arc::new(inner) })
    }

    /// Loads a plugin: checks file and grants, compiles or takes compiled code from the cache, and links. Compiling
    /// takes from 40 ms for a small Rust component to seconds for Python or JavaScript.
    pub fn load(&self, spec: &PluginSpec) -> Result<Plugin, LoadError> {
        let plugin = || spec.name.clone();
        let facts_error = |source| LoadError::Facts { plugin: plugin(), source };
        let bytes = read_file(&spec.path).map_err(facts_error)?;
        let facts = facts_of(&spec.path, &bytes).map_err(facts_error)?;
        if let Some(pinned) = &spec.digest {
            let expected = pinned.strip_prefix("sha256:").unwrap_or(pinned).to_ascii_lowercase();
            if expected != facts.digest {
                let found = facts.digest;
                return Err(LoadError::Digest { plugin: plugin(), file: spec.path.clone(), expected, found });
            }
        }
        spec.grants.check().map_err(|source| LoadError::Grant { plugin: plugin(), source })?;
        let component = self.component(&facts.digest, &bytes, &spec.path).map_err(|error| {
            LoadError::Compile { plugin: plugin(), file: spec.path.clone(), reason: format!("{error:#}") }
        })?;
        let link = |reason| LoadError::Link { plugin: plugin(), file: spec.path.clone(), reason };
        let pre =
            self.inner.linker.instantiate_pre(&component).map_err(|error| link(format!("{error:#}")))?;
        let exports = Exports::find(&pre, &facts.roles).map_err(|error| link(format!("{error:#}")))?;
        let name: Arc<str> = spec.name.as_str().into();
        Ok(Plugin::new(Loaded {
            told: Arc::default(),
            http: HttpClient::new(&spec.grants.http).map(Arc::new),
            component,
            beside: self.inner.beside.clone(),
            name,
            path: spec.path.clone(),
            facts,
            pre,
            exports,
            config: spec.config.to_string(),
            limits: spec.limits.clone(),
            grants: spec.grants.clone(),
            beat: self.inner.ticker.beat().clone(),
            _host: self.inner.clone(),
        }))
    }

    fn component(&self, digest: &str, bytes: &[u8], path: &Path) -> wasmtime::Result<Component> {
        let mut compiled = self.inner.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(component) = compiled.get(digest) {
            return Ok(component.clone());
        }
        let component = match self.inner.cache.get(&self.inner.engine, digest) {
            Some(component) => component,
            None => {
                tracing::info!(file = %path.display(), "compiling");
                let code = self.inner.engine.precompile_component(bytes)?;
                self.inner.cache.put(digest, &code);
                Cache::trust(&self.inner.engine, &code)?
            }
        };
        compiled.insert(digest.to_owned(), component.clone());
        Ok(component)
    }
}

impl std::fmt::Debug for PluginHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginHost").field("cache", &self.inner.cache).finish_non_exhaustive()
    }
}
