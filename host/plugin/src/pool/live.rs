//! One instance beside the worker, ready for its role, whatever that is.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use loom_types::Batch;
use wasmtime::component::InstancePre;

use super::CallFault;
use super::roles::{Waiting, configure};
use crate::answers::RowFailure;
use crate::fault::Fault;
use crate::instance::{CallTime, Instance};
use crate::node::NodeContext;
use crate::plugin::{Plugin, StartError};
use crate::role::Role;
use crate::state::HostState;

type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes an instance, configures it, and finds its role.
pub(super) type Start<A> = for<'a> fn(
    &'a Plugin,
    &'a NodeContext,
    &'a InstancePre<HostState>,
) -> Later<'a, Result<Live<A>, StartError>>;

/// An instance that is ready for its role.
pub(super) struct Live<A> {
    pub(super) instance: Instance,
    role: Box<dyn Calls<A>>,
}

/// What the calls of every role have in common.
trait Calls<A>: Send {
    fn types(&self) -> &[Arc<str>];

    fn call<'a>(
        &'a mut self,
        instance: &'a mut Instance,
        time: CallTime,
        batch: &'a Batch,
        rows: &'a [u32],
    ) -> Later<'a, Result<Result<A, RowFailure>, Fault>>;
}

/// [`Start`] for a role.
pub(super) fn start<'a, W: Waiting>(
    plugin: &'a Plugin,
    node: &'a NodeContext,
    pre: &'a InstancePre<HostState>,
) -> Later<'a, Result<Live<W::Answer>, StartError>> {
    Box::pin(async move {
        let _in_flight = plugin.loaded().beat.enter();
        let mut instance = Instance::start_beside(plugin, node, pre).await?;
        configure(plugin, &mut instance, pre).await?;
        let role = W::open(plugin, &mut instance, pre).await?;
        instance.started();
        Ok(Live { instance, role: Box::new(role) })
    })
}

impl<W: Waiting> Calls<W::Answer> for W {
    fn types(&self) -> &[Arc<str>] {
        Waiting::types(self)
    }

    fn call<'a>(
        &'a mut self,
        instance: &'a mut Instance,
        time: CallTime,
        batch: &'a Batch,
        rows: &'a [u32],
    ) -> Later<'a, Result<Result<W::Answer, RowFailure>, Fault>> {
        Box::pin(async move {
            let mut collector = W::Role::collector(batch, rows);
            Waiting::call(self, instance, time, batch, rows, &mut collector).await?;
            Ok(W::answer(W::Role::answers(collector, rows.len() as u32)))
        })
    }
}

impl<A> Live<A> {
    /// As [`Role::types`].
    pub(super) fn types(&self) -> &[Arc<str>] {
        self.role.types()
    }

    /// Calls the plugin for these rows. The inner error is the plugin's own answer; after a fault the instance may not be
    /// usable any more.
    pub(super) async fn call(
        &mut self,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
    ) -> Result<Result<A, CallFault>, Fault> {
        self.instance.state().called_for(Some((batch, rows)));
        let answer = self.role.call(&mut self.instance, time, batch, rows).await?;
        Ok(answer.map_err(|RowFailure { cause, reason, .. }| CallFault { cause, reason, waited: false }))
    }
}
