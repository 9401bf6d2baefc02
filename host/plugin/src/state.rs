//! The data of one store: what WASI and our own imports find when the guest calls the host.

use std::sync::Arc;

use loom_types::Batch;
use wasmtime::component::{HasSelf, Linker, Resource, ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::answers::told;
use crate::bindings::loom::plugin::types::Failure;
use crate::bindings::loom::plugin::{context, delivery, log};
use crate::clock::CallClock;
use crate::delivery::{Tracker, Verdicts};
use crate::grants::GrantError;
use crate::http::{self, Exchanges};
use crate::limits::{HANDLES, MemoryGauge};
use crate::log::{Captured, PluginLog};
use crate::network::{self, NameLookup, Refusals, Requests};
use crate::node::NodeContext;
use crate::plugin::Loaded;
use crate::waits::{self, Waiting, Waits};

/// Bytes of randomness that a guest may ask for in one call.
const RANDOM_BYTES: u64 = 1 << 20;

/// The data of one store.
pub(crate) struct HostState {
    pub(crate) memory: MemoryGauge,
    pub(crate) clock: CallClock,
    pub(crate) verdicts: Verdicts,
    pub(crate) table: ResourceTable,
    node: NodeContext,
    log: Arc<PluginLog>,
    /// What it writes to stdout and stderr.
    captured: [Captured; 2],
    refusals: Arc<Refusals>,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    requests: Requests,
}

impl HostState {
    pub(crate) fn new(node: &NodeContext, plugin: &Loaded, beside: bool) -> Result<Self, GrantError> {
        let Loaded { limits, grants, told, http, .. } = plugin;
        let log = Arc::new(PluginLog::new(node.clone(), limits.log));
        let refusals = Arc::new(Refusals::new(told.clone(), log.clone()));
        let captured =
            [tracing::Level::INFO, tracing::Level::WARN].map(|level| Captured::new(log.clone(), level));
        let [stdout, stderr] = captured.clone();
        let mut builder = WasiCtxBuilder::new();
        builder
            .stdout(stdout)
            .stderr(stderr)
            .max_random_size(RANDOM_BYTES)
            // On a worker's thread there is one call at a time, and handing file calls to other threads only costs;
            // beside it calls share threads, and a slow file would hold them.
            .allow_blocking_current_thread(!beside);
        grants.give(&mut builder)?;
        network::refuse_sockets(&mut builder, refusals.clone());
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES);
        Ok(HostState {
            memory: MemoryGauge::new(limits.memory),
            clock: CallClock::default(),
            verdicts: Verdicts::default(),
            table,
            node: node.clone(),
            log,
            captured,
            wasi: builder.build(),
            http: WasiHttpCtx::new(),
            requests: Requests {
                refusals: refusals.clone(),
                client: http.clone(),
                exchanges: Exchanges::new(limits.output),
            },
            refusals,
        })
    }

    /// The next call is for these rows of a batch, or for none in particular.
    pub(crate) fn called_for(&self, about: Option<(&Batch, &[u32])>) {
        self.log.begin(about);
    }

    /// The last lines that a call wrote which is the last of its instance.
    pub(crate) fn last_lines(&self) -> Option<String> {
        self.captured.iter().for_each(Captured::finish);
        self.log.last_lines()
    }

    pub(crate) fn waits(&mut self) -> Waits<'_> {
        let call = Waiting { clock: &mut self.clock, exchanges: &self.requests.exchanges };
        Waits { table: &mut self.table, call }
    }

    pub(crate) fn exchanges(&self) -> &Arc<Exchanges> {
        &self.requests.exchanges
    }

    pub(crate) fn name_lookup(&mut self) -> NameLookup<'_> {
        NameLookup { table: &mut self.table, refusals: &self.refusals }
    }
}

/// Everything that a component may import: WASI 0.2 with HTTP, and our own interfaces.
pub(crate) fn add_to_linker(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_sync(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_sync(linker)?;
    linker.allow_shadowing(true);
    waits::add_to_linker(linker)?;
    network::add_to_linker(linker)?;
    http::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    add_our_own(linker)
}

/// The same for instances that run beside the worker: what waits in the host lets others run.
pub(crate) fn add_to_linker_beside(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    network::add_to_linker(linker)?;
    http::add_to_linker(linker)?;
    linker.allow_shadowing(false);
    add_our_own(linker)
}

fn add_our_own(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    context::add_to_linker::<HostState, HasSelf<HostState>>(linker, |state| state)?;
    log::add_to_linker::<HostState, HasSelf<HostState>>(linker, |state| state)?;
    delivery::add_to_linker::<HostState, HasSelf<HostState>>(linker, |state| state)
}

impl WasiView for HostState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for HostState {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.requests }
    }
}

impl context::Host for HostState {
    fn flow(&mut self) -> wasmtime::Result<String> {
        Ok(self.node.flow.to_string())
    }

    fn node(&mut self) -> wasmtime::Result<String> {
        Ok(self.node.node.to_string())
    }

    fn plugin(&mut self) -> wasmtime::Result<String> {
        Ok(self.node.plugin.to_string())
    }

    fn worker(&mut self) -> wasmtime::Result<u32> {
        Ok(self.node.worker)
    }
}

impl log::Host for HostState {
    fn log(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        let level = match level {
            log::Level::Trace => tracing::Level::TRACE,
            log::Level::Debug => tracing::Level::DEBUG,
            log::Level::Info => tracing::Level::INFO,
            log::Level::Warn => tracing::Level::WARN,
            log::Level::Error => tracing::Level::ERROR,
        };
        self.log.line(level, &message);
        Ok(())
    }
}

impl delivery::Host for HostState {}

impl delivery::HostCommitTracker for HostState {
    fn complete(&mut self, tracker: Resource<Tracker>, tokens: Vec<u32>) -> wasmtime::Result<()> {
        self.table.get(&tracker)?;
        Ok(self.verdicts.complete(tokens)?)
    }

    fn fail(&mut self, tracker: Resource<Tracker>, token: u32, failure: Failure) -> wasmtime::Result<()> {
        self.table.get(&tracker)?;
        let (cause, reason) = told(failure);
        Ok(self.verdicts.fail(token, cause, reason)?)
    }

    fn drop(&mut self, tracker: Resource<Tracker>) -> wasmtime::Result<()> {
        self.table.delete(tracker)?;
        self.verdicts.drop_tracker();
        Ok(())
    }
}
