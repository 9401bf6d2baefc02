//! A plugin at a node that waits: up to N instances, called beside the worker, each for one row, or one batch, at a time.
//!
//! Invariants:
//! - an instance has one call at a time; after a trap or time-out it is never called again, and the next call that finds
//!   none makes a fresh one;
//! - every call answers once, within its time, whatever its guest does; one that is abandoned answers never;
//! - the worker is never held: starting and taking answers take a lock for a moment, and no more.

mod live;
mod roles;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use loom_types::{Batch, Changes};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use wasmtime::component::InstancePre;

use crate::answers::{
    BatchExpandAnswers, Cause, ChoiceAnswers, ExpandAnswers, StepAnswers, TypedExpandAnswers,
};
use crate::calls::{not_restarted, same_types};
use crate::fault::Fault;
use crate::instance::CallTime;
use crate::node::NodeContext;
use crate::plugin::{Plugin, StartError};
use crate::state::HostState;
use live::{Live, Start};

/// What a step or predicate answers for one row.
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

/// See the module's description. `A` is what a call answers.
///
/// A call on one row answers with that row's result, or with a fault: the plugin's failure, or what ended the call. A call
/// on a batch, of a batch step or batch expander, answers as on the worker's thread, failures by position within it; what
/// ended the call (a trap, a time-out, an answer that breaks the contract) is a fault of all its rows, and none is run again.
/// Whoever wants the poison row found starts a call for each.
pub struct CallPool<A = CallAnswer> {
    shared: Arc<Shared<A>>,
    runtime: Handle,
    /// The calls under way.
    flights: HashMap<u64, AbortHandle>,
}

/// What the worker and the calls share.
struct Shared<A> {
    plugin: Plugin,
    node: NodeContext,
    pre: InstancePre<HostState>,
    start: Start<A>,
    /// What the first instance said that the types of its rows are.
    types: Arc<[Arc<str>]>,
    time: CallTime,
    /// Something is in the mail.
    answered: AtomicBool,
    mail: Mutex<Mail<A>>,
}

struct Mail<A> {
    answers: Vec<(u64, Result<A, CallFault>)>,
    idle: Vec<Live<A>>,
    bell: Option<Bell>,
}

impl CallPool {
    /// A step at a node that makes up to `calls` calls at a time. Instantiates and configures the first instance; must not
    /// be called from asynchronous code.
    pub fn step(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<Self, StartError> {
        Self::start_first(plugin, context, calls, live::start::<roles::Step>)
    }

    /// The same with a predicate.
    pub fn predicate(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<Self, StartError> {
        Self::start_first(plugin, context, calls, live::start::<roles::Predicate>)
    }
}

impl CallPool<ExpandAnswers> {
    /// As [`CallPool::step`], with an expander. The answer to a row is that of a call on one row.
    pub fn expand(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<Self, StartError> {
        Self::start_first(plugin, context, calls, live::start::<roles::Expand>)
    }
}

impl CallPool<TypedExpandAnswers> {
    /// As [`CallPool::step`], with a typed expander. The answer to a row is that of a call on one row.
    pub fn typed_expand(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<Self, StartError> {
        Self::start_first(plugin, context, calls, live::start::<roles::TypedExpand>)
    }
}

impl CallPool<ChoiceAnswers> {
    /// As [`CallPool::step`], with a selector. The answer to a row is that of a call on one row.
    pub fn selector(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<Self, StartError> {
        Self::start_first(plugin, context, calls, live::start::<roles::Selector>)
    }

    /// The same with a partitioner.
    pub fn partitioner(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<Self, StartError> {
        Self::start_first(plugin, context, calls, live::start::<roles::Partitioner>)
    }
}

impl CallPool<StepAnswers> {
    /// As [`CallPool::step`], with a batch step: calls are on batches.
    pub fn batch_step(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<Self, StartError> {
        Self::start_first(plugin, context, calls, live::start::<roles::BatchStep>)
    }
}

impl CallPool<BatchExpandAnswers> {
    /// As [`CallPool::step`], with a batch expander: calls are on batches.
    pub fn batch_expand(plugin: &Plugin, context: NodeContext, calls: usize) -> Result<Self, StartError> {
        Self::start_first(plugin, context, calls, live::start::<roles::BatchExpand>)
    }
}

/// Rows of one call: most calls are for one.
enum Rows {
    One([u32; 1]),
    Batch(Box<[u32]>),
}

impl<A: Send + 'static> CallPool<A> {
    fn start_first(
        plugin: &Plugin,
        node: NodeContext,
        calls: usize,
        start: Start<A>,
    ) -> Result<Self, StartError> {
        let loaded = plugin.loaded();
        let failed = |reason| StartError::Beside { plugin: plugin.name().to_owned(), reason };
        let runtime = loaded.beside.runtime().map_err(|error| failed(error.to_string()))?.clone();
        let linker = loaded.beside.linker().map_err(|error| failed(format!("{error:#}")))?;
        let pre = linker.instantiate_pre(&loaded.component).map_err(|error| failed(format!("{error:#}")))?;
        let first = runtime.block_on(start(plugin, &node, &pre))?;
        let types = first.types().into();
        let mut idle = Vec::with_capacity(calls.min(64));
        idle.push(first);
        let shared = Shared {
            plugin: plugin.clone(),
            time: CallTime::new(node.timeout.unwrap_or(plugin.limits().timeout)),
            node,
            pre,
            start,
            types,
            answered: AtomicBool::new(false),
            mail: Mutex::new(Mail { answers: Vec::new(), idle, bell: None }),
        };
        Ok(CallPool { shared: Arc::new(shared), runtime, flights: HashMap::new() })
    }

    /// As [`TypedExpandNode::types`](crate::TypedExpandNode::types); of another role's pool there are none.
    #[must_use]
    pub fn types(&self) -> &Arc<[Arc<str>]> {
        &self.shared.types
    }

    /// Rings this whenever an answer came.
    pub fn ring(&mut self, bell: Bell) {
        self.shared.mail().bell = Some(bell);
    }

    /// Starts a call for one row of a batch. Calls are named by the caller, no name is used twice. The caller keeps within
    /// the number of calls that the pool was made for: each takes an instance of its own.
    pub fn start(&mut self, call: u64, batch: Arc<Batch>, row: u32) {
        self.start_rows(call, batch, Rows::One([row]));
    }

    /// The same for rows that are one batch to a batch step or batch expander.
    pub fn start_batch(&mut self, call: u64, batch: Arc<Batch>, rows: impl Into<Box<[u32]>>) {
        self.start_rows(call, batch, Rows::Batch(rows.into()));
    }

    fn start_rows(&mut self, call: u64, batch: Arc<Batch>, rows: Rows) {
        let live = self.shared.mail().idle.pop();
        let shared = self.shared.clone();
        let task = self.runtime.spawn(async move {
            let mut reply = Reply { shared, call, answer: None };
            let (answer, live) = reply.shared.serve(live, &batch, rows.ids()).await;
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
    pub fn take_answers(&mut self, mut each: impl FnMut(u64, Result<A, CallFault>)) {
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

impl<A> Drop for CallPool<A> {
    fn drop(&mut self) {
        self.flights.values().for_each(AbortHandle::abort);
    }
}

impl<A> std::fmt::Debug for CallPool<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallPool")
            .field("plugin", &self.shared.plugin)
            .field("node", &self.shared.node)
            .field("in_flight", &self.flights.len())
            .finish_non_exhaustive()
    }
}

impl Rows {
    fn ids(&self) -> &[u32] {
        match self {
            Rows::One(row) => row,
            Rows::Batch(rows) => rows,
        }
    }
}

impl<A> Shared<A> {
    fn mail(&self) -> std::sync::MutexGuard<'_, Mail<A>> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the plugin for rows, on the given instance or a fresh one. Gives the instance back where it may be called
    /// again.
    async fn serve(
        &self,
        live: Option<Live<A>>,
        batch: &Batch,
        rows: &[u32],
    ) -> (Result<A, CallFault>, Option<Live<A>>) {
        if let Some(fault) = self.plugin.scripted(&self.node, batch, rows) {
            let keep = !fault.cause.is_trap();
            return (Err(fault.into()), live.filter(|_| keep));
        }
        let _in_flight = self.plugin.loaded().beat.enter();
        let mut given = live;
        loop {
            let mut live = match given.take() {
                Some(live) => live,
                None => match self.start_again().await {
                    Ok(live) => live,
                    Err(error) => return (Err(self.not_started(&error)), None),
                },
            };
            match live.call(self.time, batch, rows).await {
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

    /// A fresh instance, which must say of itself what the first one said.
    async fn start_again(&self) -> Result<Live<A>, StartError> {
        let live = (self.start)(&self.plugin, &self.node, &self.pre).await?;
        same_types(&self.plugin, &self.types, live.types())?;
        Ok(live)
    }

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
struct Reply<A> {
    shared: Arc<Shared<A>>,
    call: u64,
    answer: Option<Result<A, CallFault>>,
}

impl<A> Drop for Reply<A> {
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
