//! A plugin at a node that waits: up to N instances, called beside the worker, each for one row at a time.
//!
//! Invariants:
//! - an instance has one call at a time; after a trap or time-out it is never called again, and the next call that finds
//!   none makes a fresh one;
//! - every call answers once, within its time, whatever its guest does; one that is abandoned answers never;
//! - the worker is never held: starting and taking answers take a lock for a moment, and no more.

mod guest;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use loom_types::{Batch, Changes};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use wasmtime::component::InstancePre;

use crate::answers::Cause;
use crate::calls::not_restarted;
use crate::fault::Fault;
use crate::instance::CallTime;
use crate::node::NodeContext;
use crate::plugin::{Plugin, StartError};
use crate::state::HostState;
use guest::{Live, Role};

/// What a plugin answers for one row.
#[derive(Debug)]
pub enum CallAnswer {
    /// A step's: columns of one row, those that changed.
    Changed(Box<Changes>),
    /// A predicate's.
    Is(bool),
}

/// Why a row has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallFault {
    /// What kind of failure.
    pub cause: Cause,
    /// In the plugin's words, or in the host's where it trapped.
    pub reason: String,
    /// Its time ran out while it waited for something outside, such as an answer over the network.
    pub waited: bool,
}

/// Rung from any thread; it must not block.
pub type Bell = Arc<dyn Fn() + Send + Sync>;

/// See the module's description.
pub struct CallPool {
    shared: Arc<Shared>,
    runtime: Handle,
    /// The calls under way.
    flights: HashMap<u64, AbortHandle>,
}

/// What the worker and the calls share.
struct Shared {
    plugin: Plugin,
    node: NodeContext,
    pre: InstancePre<HostState>,
    role: Role,
    time: CallTime,
    /// Something is in the mail.
    answered: AtomicBool,
    mail: Mutex<Mail>,
}

struct Mail {
    answers: Vec<(u64, Result<CallAnswer, CallFault>)>,
    idle: Vec<Live>,
    bell: Option<Bell>,
}

impl CallPool {
    /// A step at a node that makes up to `calls` calls at a time. Instantiates and configures the first instance; must not
    /// be called from asynchronous code.
    pub fn step(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<CallPool, StartError> {
        Self::start_first(plugin, context, calls, Role::Step)
    }

    /// The same with a predicate.
    pub fn predicate(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<CallPool, StartError> {
        Self::start_first(plugin, context, calls, Role::Predicate)
    }

    fn start_first(
        plugin: &Plugin,
        node: NodeContext,
        calls: usize,
        role: Role,
    ) -> Result<CallPool, StartError> {
        let loaded = plugin.loaded();
        let failed = |reason| StartError::Beside { plugin: plugin.name().to_owned(), reason };
        let runtime = loaded.beside.runtime().map_err(|error| failed(error.to_string()))?.clone();
        let linker = loaded.beside.linker().map_err(|error| failed(format!("{error:#}")))?;
        let pre = linker.instantiate_pre(&loaded.component).map_err(|error| failed(format!("{error:#}")))?;
        let first = runtime.block_on(Live::start(plugin, &node, &pre, role))?;
        let mut idle = Vec::with_capacity(calls.min(64));
        idle.push(first);
        let shared = Shared {
            plugin: plugin.clone(),
            time: CallTime::new(node.timeout.unwrap_or(plugin.limits().timeout)),
            node,
            pre,
            role,
            answered: AtomicBool::new(false),
            mail: Mutex::new(Mail { answers: Vec::new(), idle, bell: None }),
        };
        Ok(CallPool { shared: Arc::new(shared), runtime, flights: HashMap::new() })
    }

    /// Rings this whenever an answer came.
    pub fn ring(&mut self, bell: Bell) {
        self.shared.mail().bell = Some(bell);
    }

    /// Starts a call for one row of a batch. Calls are named by the caller, no name is used twice. The caller keeps within
    /// the number of calls that the pool was made for: each takes an instance of its own.
    pub fn start(&mut self, call: u64, batch: Arc<Batch>, row: u32) {
        let live = self.shared.mail().idle.pop();
        let shared = self.shared.clone();
        let task = self.runtime.spawn(async move {
            let mut reply = Reply { shared, call, answer: None };
            let (answer, live) = reply.shared.serve(live, &batch, row).await;
            // Its rows are let go before the answer is there, and the instance is there for the next call.
            drop(batch);
            if let Some(live) = live {
                reply.shared.mail().idle.push(live);
            }
            reply.answer = Some(answer);
        });
        self.flights.insert(call, task.abort_handle());
    }

    /// Hands out the answers that came since this was last asked.
    pub fn take_answers(&mut self, mut each: impl FnMut(u64, Result<CallAnswer, CallFault>)) {
        if !self.shared.answered.swap(false, Ordering::AcqRel) {
            return;
        }
        let answers = std::mem::take(&mut self.shared.mail().answers);
        for (call, answer) in answers {
            if self.flights.remove(&call).is_some() {
                each(call, answer);
            }
        }
    }

    /// Ends a call; it answers no more. What it does outside may happen all the same.
    pub fn abandon(&mut self, call: u64) {
        if let Some(task) = self.flights.remove(&call) {
            task.abort();
        }
    }

    /// Calls under way, or with an answer that was not taken.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flights.len()
    }
}

impl Drop for CallPool {
    fn drop(&mut self) {
        self.flights.values().for_each(AbortHandle::abort);
    }
}

impl std::fmt::Debug for CallPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallPool")
            .field("plugin", &self.shared.plugin)
            .field("node", &self.shared.node)
            .field("in_flight", &self.flights.len())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn mail(&self) -> std::sync::MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the plugin for a row, on the given instance or a fresh one. Gives the instance back where it may be called
    /// again.
    async fn serve(
        &self,
        live: Option<Live>,
        batch: &Batch,
        row: u32,
    ) -> (Result<CallAnswer, CallFault>, Option<Live>) {
        let _in_flight = self.plugin.loaded().beat.enter();
        let mut given = live;
        loop {
            let mut live = match given.take() {
                Some(live) => live,
                None => match Live::start(&self.plugin, &self.node, &self.pre, self.role).await {
                    Ok(live) => live,
                    Err(error) => return (Err(self.not_started(&error)), None),
                },
            };
            match live.call(self.time, batch, row).await {
                Ok(answer) => {
                    let keep = live.instance.is_usable() && !live.instance.is_worn();
                    return (answer, keep.then_some(live));
                }
                // What calls before it used up is not this row's fault: once more, on a fresh instance.
                Err(fault) if fault.worn => {}
                // An answer that breaks the contract says nothing about the instance.
                Err(fault) => {
                    let keep = live.instance.is_usable() && !live.instance.is_worn();
                    return (Err(fault.into()), keep.then_some(live));
                }
            }
        }
    }
}

impl Shared {
    /// A fresh instance could not be started. A plugin took its configuration when the flow started; where it may ask
    /// others and now does not take it, those are away, and the row is tried again.
    fn not_started(&self, error: &StartError) -> CallFault {
        let fault = CallFault::from(not_restarted(error));
        match error {
            StartError::Refused { .. } if self.plugin.loaded().http.is_some() => {
                CallFault { cause: Cause::Retry, ..fault }
            }
            _ => fault,
        }
    }
}

impl From<Fault> for CallFault {
    fn from(fault: Fault) -> Self {
        CallFault { cause: fault.cause, reason: fault.reason, waited: fault.waited }
    }
}

/// Posts a call's answer when it is dropped, so that a call that ends in a panic of ours is not waited for for ever.
struct Reply {
    shared: Arc<Shared>,
    call: u64,
    answer: Option<Result<CallAnswer, CallFault>>,
}

impl Drop for Reply {
    fn drop(&mut self) {
        let answer = self.answer.take().unwrap_or_else(|| {
            let reason = "the call was ended by the host".to_owned();
            Err(CallFault { cause: Cause::Trap, reason, waited: false })
        });
        let mut mail = self.shared.mail();
        mail.answers.push((self.call, answer));
        let bell = mail.bell.clone();
        drop(mail);
        self.shared.answered.store(true, Ordering::Release);
        if let Some(bell) = bell {
            bell();
        }
    }
}
