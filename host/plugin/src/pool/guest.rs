//! A step or predicate in one of its forms, called for one row beside the worker. The column form is used where the plugin
//! has it, with a batch of one row.

use loom_types::{Batch, Changes};
use wasmtime::component::InstancePre;

use super::{CallAnswer, CallFault};
use crate::answers::{Cause, told};
use crate::bindings::waiting::exports::loom::plugin::{
    column_predicate, column_step, predicate, setup, step,
};
use crate::changes::Assembler;
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, not_started, role_missing};
use crate::lower::Crossing;
use crate::node::NodeContext;
use crate::plain::{headers, message, names};
use crate::plugin::{Plugin, StartError};
use crate::state::HostState;
use crate::step::check;
use crate::waits::within;

/// What a waiting node asks its plugin for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Step,
    Predicate,
}

/// An instance that is ready for its role.
pub(super) struct Live {
    pub(super) instance: Instance,
    guest: Guest,
}

enum Guest {
    Step(step::Guest),
    ColumnStep(column_step::Guest, Box<Crossing>),
    Predicate(predicate::Guest),
    ColumnPredicate(column_predicate::Guest, Box<Crossing>),
}

impl Live {
    /// Makes an instance, configures it, and finds its role.
    pub(super) async fn start(
        plugin: &Plugin,
        node: &NodeContext,
        pre: &InstancePre<HostState>,
        role: Role,
    ) -> Result<Live, StartError> {
        let _in_flight = plugin.loaded().beat.enter();
        let mut instance = Instance::start_beside(plugin, node, pre).await?;
        configure(plugin, &mut instance, pre).await?;
        let roles = &plugin.facts().roles;
        let guest = match role {
            Role::Step if roles.column_step => column_step_guest(plugin, &mut instance, pre).await?,
            Role::Step if roles.step => {
                let indices = found(plugin, "step", step::GuestIndices::new(pre))?;
                Guest::Step(instance.find(plugin, "step", |store, guest| indices.load(store, guest))?)
            }
            Role::Step => return Err(role_missing(plugin, "step")),
            Role::Predicate if roles.column_predicate => {
                column_predicate_guest(plugin, &mut instance, pre).await?
            }
            Role::Predicate if roles.predicate => {
                let indices = found(plugin, "predicate", predicate::GuestIndices::new(pre))?;
                Guest::Predicate(
                    instance.find(plugin, "predicate", |store, guest| indices.load(store, guest))?,
                )
            }
            Role::Predicate => return Err(role_missing(plugin, "predicate")),
        };
        instance.started();
        Ok(Live { instance, guest })
    }

    /// Calls the plugin for one row. The inner error is the plugin's own answer; after a fault the instance is not usable
    /// any more.
    pub(super) async fn call(
        &mut self,
        time: CallTime,
        batch: &Batch,
        row: u32,
    ) -> Result<Result<CallAnswer, CallFault>, Fault> {
        let rows = [row];
        match &mut self.guest {
            Guest::Step(guest) => {
                let names = names(batch, &rows);
                let headers = headers(batch, &rows, &names);
                let message = message(batch, row, &headers);
                let (clock, store) = self.instance.begin(time);
                let outcome = within(clock, guest.call_process(store, message)).await;
                let patch = match self.instance.end(time, outcome)? {
                    Ok(patch) => patch,
                    Err(failure) => return Ok(Err(CallFault::said(told(failure)))),
                };
                let mut assembler = Assembler::new(batch, &rows);
                assembler.patch(patch);
                Ok(Ok(CallAnswer::Changed(Box::new(assembler.finish()))))
            }
            Guest::ColumnStep(guest, crossing) => {
                let topics = crossing.topics(batch);
                let lowered = crossing.lower(batch, &rows, &topics);
                let (clock, store) = self.instance.begin(time);
                let outcome = within(clock, guest.call_process(store, lowered)).await;
                let answer = match self.instance.end(time, outcome)? {
                    Ok(answer) => answer,
                    Err(failure) => return Ok(Err(CallFault::said(told(failure)))),
                };
                let (changes, failures): (Changes, _) = check(1, answer).map_err(Fault::protocol)?;
                Ok(match failures.into_iter().next() {
                    Some((_, failure)) => Err(CallFault::said(told(failure))),
                    None => Ok(CallAnswer::Changed(Box::new(changes))),
                })
            }
            Guest::Predicate(guest) => {
                let names = names(batch, &rows);
                let headers = headers(batch, &rows, &names);
                let message = message(batch, row, &headers);
                let (clock, store) = self.instance.begin(time);
                let outcome = within(clock, guest.call_test(store, message)).await;
                let answer = self.instance.end(time, outcome)?;
                Ok(answer.map(CallAnswer::Is).map_err(|failure| CallFault::said(told(failure))))
            }
            Guest::ColumnPredicate(guest, crossing) => {
                let topics = crossing.topics(batch);
                let lowered = crossing.lower(batch, &rows, &topics);
                let (clock, store) = self.instance.begin(time);
                let outcome = within(clock, guest.call_test(store, lowered)).await;
                let verdicts = match self.instance.end(time, outcome)? {
                    Ok(verdicts) => verdicts,
                    Err(failure) => return Ok(Err(CallFault::said(told(failure)))),
                };
                let mut failures = verdicts.failures;
                crate::calls::checked_failures(1, &mut failures).map_err(Fault::protocol)?;
                match (failures.into_iter().next(), &verdicts.yes[..]) {
                    (Some((_, failure)), [_]) => Ok(Err(CallFault::said(told(failure)))),
                    (None, [yes @ (0 | 1)]) => Ok(Ok(CallAnswer::Is(*yes == 1))),
                    (_, [byte]) => {
                        Err(Fault::protocol(format!("its answer to row 0 is {byte}; it must be 0 or 1")))
                    }
                    (_, many) => Err(Fault::protocol(format!("it gave {} answers to 1 rows", many.len()))),
                }
            }
        }
    }
}

impl CallFault {
    fn said((cause, reason): (Cause, String)) -> Self {
        CallFault { cause, reason, waited: false }
    }
}

/// A role whose functions are not whole.
fn found<T>(plugin: &Plugin, interface: &'static str, indices: wasmtime::Result<T>) -> Result<T, StartError> {
    indices.map_err(|error| StartError::Types {
        plugin: plugin.name().to_owned(),
        file: plugin.path().to_owned(),
        interface,
        reason: error.root_cause().to_string(),
    })
}

async fn configure(
    plugin: &Plugin,
    instance: &mut Instance,
    pre: &InstancePre<HostState>,
) -> Result<(), StartError> {
    if !plugin.facts().roles.setup {
        return Ok(());
    }
    let indices = found(plugin, "setup", setup::GuestIndices::new(pre))?;
    let guest = instance.find(plugin, "setup", |store, guest| indices.load(store, guest))?;
    let time = CallTime::new(plugin.limits().lifecycle);
    let (clock, store) = instance.begin(time);
    let outcome = within(clock, guest.call_configure(store, &plugin.loaded().config)).await;
    let answer =
        instance.end(time, outcome).map_err(|fault| not_started(plugin, "configure", time, fault))?;
    answer.map_err(|reason| StartError::Refused { plugin: plugin.name().to_owned(), reason })
}

async fn column_step_guest(
    plugin: &Plugin,
    instance: &mut Instance,
    pre: &InstancePre<HostState>,
) -> Result<Guest, StartError> {
    let indices = found(plugin, "column-step", column_step::GuestIndices::new(pre))?;
    let guest = instance.find(plugin, "column-step", |store, guest| indices.load(store, guest))?;
    let time = CallTime::new(plugin.limits().lifecycle);
    let (clock, store) = instance.begin(time);
    let outcome = within(clock, guest.call_reads(store)).await;
    let reads = instance.end(time, outcome).map_err(|fault| not_started(plugin, "reads", time, fault))?;
    Ok(Guest::ColumnStep(guest, Box::new(Crossing::new(reads))))
}

async fn column_predicate_guest(
    plugin: &Plugin,
    instance: &mut Instance,
    pre: &InstancePre<HostState>,
) -> Result<Guest, StartError> {
    let indices = found(plugin, "column-predicate", column_predicate::GuestIndices::new(pre))?;
    let guest = instance.find(plugin, "column-predicate", |store, guest| indices.load(store, guest))?;
    let time = CallTime::new(plugin.limits().lifecycle);
    let (clock, store) = instance.begin(time);
    let outcome = within(clock, guest.call_reads(store)).await;
    let reads = instance.end(time, outcome).map_err(|fault| not_started(plugin, "reads", time, fault))?;
    Ok(Guest::ColumnPredicate(guest, Box::new(Crossing::new(reads))))
}
