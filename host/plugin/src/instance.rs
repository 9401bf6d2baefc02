//! One instance of a plugin in a store of its own: made, configured, called under limits, and thrown away after the
//! first call that does not come back.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Instance as Guest, InstancePre};
use wasmtime::{Store, UpdateDeadline};

use crate::answers::Cause;
use crate::clock::processor_time;
use crate::fault::{self, Fault};
use crate::http::Exchanges;
use crate::limits::{HANDLES, Limits};
use crate::node::{Interrupt, NodeContext};
use crate::patience::within;
use crate::plugin::{Plugin, StartError};
use crate::state::HostState;
use crate::waits::Stopped;

/// Calls after which an instance's memory is what it needs at rest.
const SETTLED: u64 = 1000;

/// Calls between two counts of an instance's handles.
const COUNT_EVERY: u64 = 256;

/// The time of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallTime {
    pub(crate) limit: Duration,
}

impl CallTime {
    pub(crate) fn new(limit: Duration) -> Self {
        CallTime { limit }
    }

    /// A call on a batch gets 1 ms a row on top.
    pub(crate) fn of_batch(self, rows: usize) -> Self {
        CallTime::new(self.limit.saturating_add(Duration::from_millis(rows as u64)))
    }
}

/// One instance, ready to be called.
pub(crate) struct Instance {
    store: Store<HostState>,
    guest: Guest,
    limits: Limits,
    usable: bool,
    calls: u64,
    /// Memory after the first calls.
    settled: u64,
    /// Handles of the host, at the last count.
    handles: usize,
}

impl Instance {
    /// Instantiates the plugin and configures it, before anything else of it is called. `interrupt` ends its calls before
    /// their time, and so its start.
    pub(crate) fn start(
        plugin: &Plugin,
        node: &NodeContext,
        interrupt: Option<&Interrupt>,
    ) -> Result<Instance, StartError> {
        let loaded = plugin.loaded();
        let name = || loaded.name.to_string();
        let mut store = store(plugin, node, false)?;
        store.data_mut().clock.cut_by(interrupt.cloned());
        store.epoch_deadline_callback(|mut store| {
            let clock = &mut store.data_mut().clock;
            clock.tick(processor_time());
            if clock.left().is_zero() {
                Ok(UpdateDeadline::Interrupt)
            } else if clock.is_cut(Duration::ZERO) {
                Err(Stopped.into())
            } else {
                Ok(UpdateDeadline::Continue(1))
            }
        });

        let _in_flight = loaded.beat.enter();
        let time = CallTime::new(loaded.limits.lifecycle);
        begin(&mut store, time);
        let made = loaded.pre.instantiate(&mut store);
        let mut instance = Instance::made(plugin, store, made, time)?;
        if let Some(setup) = &loaded.exports.setup {
            let setup = instance.find(plugin, "setup", |store, guest| setup.load(store, guest))?;
            let answer = instance
                .starting(plugin, "configure", |store| setup.call_configure(store, &loaded.config))?;
            answer.map_err(|reason| StartError::Refused { plugin: name(), reason })?;
        }
        Ok(instance)
    }

    /// The same for an instance that runs beside the worker, without its configuration.
    pub(crate) async fn start_beside(
        plugin: &Plugin,
        node: &NodeContext,
        pre: &InstancePre<HostState>,
    ) -> Result<Instance, StartError> {
        let mut store = store(plugin, node, true)?;
        store.epoch_deadline_async_yield_and_update(1);
        let time = CallTime::new(plugin.limits().lifecycle);
        begin(&mut store, time);
        let exchanges = store.data().exchanges().clone();
        let made = within(time.limit, &exchanges, pre.instantiate_async(&mut store)).await;
        Instance::made(plugin, store, made, time)
    }

    fn made(
        plugin: &Plugin,
        mut store: Store<HostState>,
        made: wasmtime::Result<Guest>,
        time: CallTime,
    ) -> Result<Instance, StartError> {
        let limits = plugin.limits().clone();
        let guest = match made {
            Ok(guest) => guest,
            Err(error) => {
                let fault = fault::read(&error, store.data_mut(), &limits, time.limit);
                return Err(not_started(plugin, "instantiation", time, fault));
            }
        };
        Ok(Instance { store, guest, limits, usable: true, calls: 0, settled: 0, handles: 0 })
    }

    /// Everything that belongs to the start has been called: counting begins with the calls that follow.
    pub(crate) fn started(&mut self) {
        self.calls = 0;
    }

    /// Finds the functions of an interface and checks their types. No guest code runs.
    pub(crate) fn find<T>(
        &mut self,
        plugin: &Plugin,
        interface: &'static str,
        load: impl FnOnce(&mut Store<HostState>, &Guest) -> wasmtime::Result<T>,
    ) -> Result<T, StartError> {
        load(&mut self.store, &self.guest).map_err(|error| StartError::Types {
            plugin: plugin.name().to_owned(),
            file: plugin.path().to_owned(),
            interface,
            reason: error.root_cause().to_string(),
        })
    }

    /// A call that belongs to the start, under the time of the lifecycle.
    pub(crate) fn starting<T>(
        &mut self,
        plugin: &Plugin,
        during: &'static str,
        work: impl FnOnce(&mut Store<HostState>) -> wasmtime::Result<T>,
    ) -> Result<T, StartError> {
        let time = CallTime::new(self.limits.lifecycle);
        self.state().called_for(None);
        self.call(time, work).map_err(|fault| not_started(plugin, during, time, fault))
    }

    /// Ends calls from now on before their time when this is set.
    pub(crate) fn cut_by(&mut self, interrupt: Option<&Interrupt>) {
        self.store.data_mut().clock.cut_by(interrupt.cloned());
    }

    /// Calls the guest. After a fault the instance is not usable any more.
    ///
    /// The caller keeps the ticker going, once for a run of calls.
    pub(crate) fn call<T>(
        &mut self,
        time: CallTime,
        work: impl FnOnce(&mut Store<HostState>) -> wasmtime::Result<T>,
    ) -> Result<T, Fault> {
        self.begin(time);
        let outcome = work(&mut self.store);
        self.end(time, outcome)
    }

    /// Begins a call beside the worker; what is called on the store is then awaited [`within`] its time, and
    /// [`Instance::end`] told how it ended.
    pub(crate) fn begin(&mut self, time: CallTime) -> (Arc<Exchanges>, &mut Store<HostState>) {
        begin(&mut self.store, time);
        self.calls += 1;
        (self.state().exchanges().clone(), &mut self.store)
    }

    /// A call has ended.
    pub(crate) fn end<T>(&mut self, time: CallTime, outcome: wasmtime::Result<T>) -> Result<T, Fault> {
        match outcome {
            Ok(value) => {
                if self.calls.is_multiple_of(COUNT_EVERY) {
                    self.look();
                }
                Ok(value)
            }
            Err(error) => {
                self.usable = false;
                let fresh = self.calls == 1;
                let mut fault = fault::read(&error, self.store.data_mut(), &self.limits, time.limit);
                // What a fresh instance cannot do either is the call's own fault.
                fault.worn &= !fresh;
                Err(fault)
            }
        }
    }

    fn look(&mut self) {
        self.handles = self.store.data_mut().table.iter_mut().count();
        if self.settled == 0 && self.calls >= SETTLED {
            self.settled = self.store.data().memory.memory();
        }
    }

    /// Whether the instance has come to hold so much that a fresh one is better: half of the memory limit, and twice
    /// what it held after its first 1,000 calls; or half of the handles.
    pub(crate) fn is_worn(&self) -> bool {
        let memory = self.store.data().memory.memory();
        self.handles > HANDLES / 2
            || (self.settled > 0
                && memory > self.limits.memory / 2
                && memory > self.settled.saturating_mul(2))
    }

    /// It counts as trapped from now on.
    pub(crate) fn spoil(&mut self) {
        self.usable = false;
    }

    /// Whether it may be called.
    pub(crate) fn is_usable(&self) -> bool {
        self.usable
    }

    pub(crate) fn state(&self) -> &HostState {
        self.store.data()
    }

    pub(crate) fn state_mut(&mut self) -> &mut HostState {
        self.store.data_mut()
    }
}

/// A store with the limits of the plugin.
fn store(plugin: &Plugin, node: &NodeContext, beside: bool) -> Result<Store<HostState>, StartError> {
    let loaded = plugin.loaded();
    let state = HostState::new(node, loaded, beside)
        .map_err(|source| StartError::Grant { plugin: loaded.name.to_string(), source })?;
    let mut store = Store::new(loaded.pre.engine(), state);
    store.limiter(|state| &mut state.memory);
    store.set_hostcall_fuel(usize::try_from(loaded.limits.output).unwrap_or(usize::MAX));
    // More than the host's own table holds, which is then what a guest that leaks runs into.
    store.set_max_component_handles(4 * HANDLES);
    Ok(store)
}

fn begin(store: &mut Store<HostState>, time: CallTime) {
    // At every tick guest code is asked: on the worker's thread whether it may go on, beside it to let others run.
    store.set_epoch_deadline(1);
    let state = store.data_mut();
    state.clock.begin(time.limit);
    // A growth that was refused in an earlier call, and lived with, has nothing to do with this one.
    state.memory.take_refused();
}

/// Why the start ended.
pub(crate) fn not_started(plugin: &Plugin, during: &'static str, time: CallTime, fault: Fault) -> StartError {
    let plugin = plugin.name().to_owned();
    match fault.cause {
        Cause::Timeout => StartError::Timeout { plugin, during, limit: time.limit },
        Cause::Stopped => StartError::Stopped { plugin, during },
        _ => StartError::Trap { plugin, during, reason: fault.reason },
    }
}

/// What a component without the wanted role is told to be.
pub(crate) fn role_missing(plugin: &Plugin, role: &'static str) -> StartError {
    let names = plugin.facts().roles.names();
    let found = if names.is_empty() { "no role of the plugin contract".to_owned() } else { names.join(", ") };
    StartError::RoleMissing { plugin: plugin.name().to_owned(), file: plugin.path().to_owned(), role, found }
}
