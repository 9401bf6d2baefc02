//! The roles as they are called beside the worker. What they are given and how their answers are checked and collected is
//! as on the worker's thread; only that the calls are waited for is not. The column form is used where the plugin has it.

use std::future::Future;
use std::sync::Arc;

use loom_types::Batch;
use wasmtime::component::InstancePre;

use super::CallAnswer;
use crate::answers::{ExpandAnswers, PredicateAnswers, RowFailure, StepAnswers, TypedExpandAnswers};
use crate::bindings::waiting::exports::loom::plugin::{
    batch_expand, batch_step, column_expand, column_predicate, column_step, expand, partitioner, predicate,
    selector, setup, step, typed_expand,
};
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, not_started, role_missing};
use crate::lower::Crossing;
use crate::patience::within;
use crate::plain::{headers, message, messages, names};
use crate::plugin::{Plugin, StartError};
use crate::role::{Collector, Role};
use crate::state::HostState;
use crate::{batch_expand as batches, choice, expand as expanders, predicate as predicates, step as steps};

/// A role that is called beside the worker.
pub(super) trait Waiting: Sized + Send + 'static {
    /// The role on the worker's thread, whose collector it shares.
    type Role: Role;

    /// What a call answers.
    type Answer: Send + 'static;

    /// Finds the functions, and asks the plugin what it must be asked first.
    fn open(
        plugin: &Plugin,
        instance: &mut Instance,
        pre: &InstancePre<HostState>,
    ) -> impl Future<Output = Result<Self, StartError>> + Send;

    /// As [`Role::types`].
    fn types(&self) -> &[Arc<str>] {
        &[]
    }

    /// As [`Role::call`].
    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut <Self::Role as Role>::Collector<'_>,
    ) -> impl Future<Output = Result<(), Fault>> + Send;

    /// What was collected, as one answer; of a row that was alone in its call, its failure.
    fn answer(answers: <Self::Role as Role>::Answers) -> Result<Self::Answer, RowFailure>;
}

/// Finds a role's interface in an instance.
macro_rules! find {
    ($plugin:ident, $instance:ident, $pre:ident, $interface:literal, $module:ident) => {{
        let indices = found($plugin, $interface, $module::GuestIndices::new($pre))?;
        $instance.find($plugin, $interface, |store, guest| indices.load(store, guest))?
    }};
}

/// Makes a call on an instance, and waits for it.
macro_rules! wait {
    ($instance:ident, $time:expr, |$store:ident| $call:expr) => {{
        let time = $time;
        let (exchanges, $store) = $instance.begin(time);
        let outcome = within(time.limit, &exchanges, $call).await;
        $instance.end(time, outcome)
    }};
}

/// A call that belongs to the start.
macro_rules! wait_starting {
    ($plugin:ident, $instance:ident, $during:literal, |$store:ident| $call:expr) => {{
        let time = CallTime::new($plugin.limits().lifecycle);
        wait!($instance, time, |$store| $call).map_err(|fault| not_started($plugin, $during, time, fault))?
    }};
}

/// A call with one row in the plain form.
macro_rules! wait_plain {
    ($guest:ident.$call:ident, $instance:ident, $time:ident, $batch:ident, $rows:ident) => {{
        let names = names($batch, $rows);
        let headers = headers($batch, $rows, &names);
        let message = message($batch, $rows[0], &headers);
        wait!($instance, $time, |store| $guest.$call(store, message))?
    }};
}

/// A call with a batch in the plain form.
macro_rules! wait_batch {
    ($guest:ident.$call:ident, $instance:ident, $time:ident, $batch:ident, $rows:ident) => {{
        let names = names($batch, $rows);
        let headers = headers($batch, $rows, &names);
        let messages: Vec<_> = messages($batch, $rows, &headers).collect();
        wait!($instance, $time.of_batch($rows.len()), |store| $guest.$call(store, &messages))?
    }};
}

/// A call in the column form.
macro_rules! wait_columns {
    ($guest:ident.$call:ident, $crossing:ident, $instance:ident, $time:ident, $batch:ident, $rows:ident) => {{
        let topics = $crossing.topics($batch);
        let lowered = $crossing.lower($batch, $rows, &topics);
        wait!($instance, $time.of_batch($rows.len()), |store| $guest.$call(store, lowered))?
    }};
}

/// Configures a new instance.
pub(super) async fn configure(
    plugin: &Plugin,
    instance: &mut Instance,
    pre: &InstancePre<HostState>,
) -> Result<(), StartError> {
    if !plugin.facts().roles.setup {
        return Ok(());
    }
    let guest = find!(plugin, instance, pre, "setup", setup);
    let config = &plugin.loaded().config;
    let answer = wait_starting!(plugin, instance, "configure", |store| guest.call_configure(store, config));
    answer.map_err(|reason| StartError::Refused { plugin: plugin.name().to_owned(), reason })
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

/// An answer to one row, or that row's failure.
fn alone<T>(mut failures: Vec<RowFailure>, answer: T) -> Result<T, RowFailure> {
    failures.pop().map_or(Ok(answer), Err)
}

pub(super) enum Step {
    Plain(step::Guest),
    Columns(column_step::Guest, Box<Crossing>),
}

impl Waiting for Step {
    type Role = steps::Step;
    type Answer = CallAnswer;

    async fn open(
        plugin: &Plugin,
        instance: &mut Instance,
        pre: &InstancePre<HostState>,
    ) -> Result<Self, StartError> {
        if plugin.facts().roles.column_step {
            let guest = find!(plugin, instance, pre, "column-step", column_step);
            let reads = wait_starting!(plugin, instance, "reads", |store| guest.call_reads(store));
            return Ok(Step::Columns(guest, Box::new(Crossing::new(reads))));
        }
        if !plugin.facts().roles.step {
            return Err(role_missing(plugin, Self::Role::NAME));
        }
        Ok(Step::Plain(find!(plugin, instance, pre, "step", step)))
    }

    async fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut <Self::Role as Role>::Collector<'_>,
    ) -> Result<(), Fault> {
        match self {
            Step::Plain(guest) => out.answer(wait_plain!(guest.call_process, instance, time, batch, rows)),
            Step::Columns(guest, crossing) => {
                match wait_columns!(guest.call_process, crossing, instance, time, batch, rows) {
                    Ok(answer) => out.columns(rows.len(), answer).map_err(Fault::protocol)?,
                    Err(failure) => out.fail_all(rows.len(), failure),
                }
            }
        }
        Ok(())
    }

    fn answer(answers: StepAnswers) -> Result<CallAnswer, RowFailure> {
        alone(answers.failures, CallAnswer::Changed(Box::new(answers.changes)))
    }
}

pub(super) enum Predicate {
    Plain(predicate::Guest),
    Columns(column_predicate::Guest, Box<Crossing>),
}

impl Waiting for Predicate {
    type Role = predicates::Predicate;
    type Answer = CallAnswer;

    async fn open(
        plugin: &Plugin,
        instance: &mut Instance,
        pre: &InstancePre<HostState>,
    ) -> Result<Self, StartError> {
        if plugin.facts().roles.column_predicate {
            let guest = find!(plugin, instance, pre, "column-predicate", column_predicate);
            let reads = wait_starting!(plugin, instance, "reads", |store| guest.call_reads(store));
            return Ok(Predicate::Columns(guest, Box::new(Crossing::new(reads))));
        }
        if !plugin.facts().roles.predicate {
            return Err(role_missing(plugin, Self::Role::NAME));
        }
        Ok(Predicate::Plain(find!(plugin, instance, pre, "predicate", predicate)))
    }

    async fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut <Self::Role as Role>::Collector<'_>,
    ) -> Result<(), Fault> {
        match self {
            Predicate::Plain(guest) => out.answer(wait_plain!(guest.call_test, instance, time, batch, rows)),
            Predicate::Columns(guest, crossing) => {
                match wait_columns!(guest.call_test, crossing, instance, time, batch, rows) {
                    Ok(verdicts) => {
                        out.columns(rows.len(), &verdicts.yes, verdicts.failures).map_err(Fault::protocol)?
                    }
                    Err(failure) => out.fail_all(rows.len(), failure),
                }
            }
        }
        Ok(())
    }

    fn answer(answers: PredicateAnswers) -> Result<CallAnswer, RowFailure> {
        alone(answers.failures, CallAnswer::Is(answers.yes[0]))
    }
}

pub(super) enum Expand {
    Plain(expand::Guest),
    Columns(column_expand::Guest, Box<Crossing>),
}

impl Waiting for Expand {
    type Role = expanders::Expand;
    type Answer = ExpandAnswers;

    async fn open(
        plugin: &Plugin,
        instance: &mut Instance,
        pre: &InstancePre<HostState>,
    ) -> Result<Self, StartError> {
        if plugin.facts().roles.column_expand {
            let guest = find!(plugin, instance, pre, "column-expand", column_expand);
            let reads = wait_starting!(plugin, instance, "reads", |store| guest.call_reads(store));
            return Ok(Expand::Columns(guest, Box::new(Crossing::new(reads))));
        }
        if !plugin.facts().roles.expand {
            return Err(role_missing(plugin, Self::Role::NAME));
        }
        Ok(Expand::Plain(find!(plugin, instance, pre, "expand", expand)))
    }

    async fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut <Self::Role as Role>::Collector<'_>,
    ) -> Result<(), Fault> {
        match self {
            Expand::Plain(guest) => {
                out.answer(wait_plain!(guest.call_expand, instance, time, batch, rows));
            }
            Expand::Columns(guest, crossing) => {
                match wait_columns!(guest.call_expand, crossing, instance, time, batch, rows) {
                    Ok(answer) => out.columns(rows.len(), answer).map_err(Fault::protocol)?,
                    Err(failure) => out.fail_all(rows.len(), failure),
                }
            }
        }
        Ok(())
    }

    fn answer(mut answers: ExpandAnswers) -> Result<ExpandAnswers, RowFailure> {
        alone(std::mem::take(&mut answers.failures), answers)
    }
}

pub(super) struct TypedExpand {
    guest: typed_expand::Guest,
    types: expanders::Types,
}

impl Waiting for TypedExpand {
    type Role = expanders::TypedExpand;
    type Answer = TypedExpandAnswers;

    async fn open(
        plugin: &Plugin,
        instance: &mut Instance,
        pre: &InstancePre<HostState>,
    ) -> Result<Self, StartError> {
        if !plugin.facts().roles.typed_expand {
            return Err(role_missing(plugin, Self::Role::NAME));
        }
        let guest = find!(plugin, instance, pre, "typed-expand", typed_expand);
        let types = wait_starting!(plugin, instance, "types", |store| guest.call_types(store));
        Ok(TypedExpand { guest, types: expanders::Types::new(plugin, types)? })
    }

    fn types(&self) -> &[Arc<str>] {
        self.types.names()
    }

    async fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut <Self::Role as Role>::Collector<'_>,
    ) -> Result<(), Fault> {
        let guest = &self.guest;
        let answer = wait_plain!(guest.call_expand, instance, time, batch, rows);
        out.answer(&self.types, answer).map_err(Fault::protocol)
    }

    fn answer(mut answers: TypedExpandAnswers) -> Result<TypedExpandAnswers, RowFailure> {
        alone(std::mem::take(&mut answers.made.failures), answers)
    }
}

/// A role that has the plain form only, and is asked nothing before its calls.
macro_rules! plain_only {
    (
        $name:ident, $role:ty, $module:ident, $interface:literal,
        |$guest:ident, $instance:ident, $time:ident, $batch:ident, $rows:ident, $out:ident| $call:expr,
        |$answers:ident| $answer:expr
    ) => {
        pub(super) struct $name($module::Guest);

        impl Waiting for $name {
            type Role = $role;
            type Answer = <$role as Role>::Answers;

            async fn open(
                plugin: &Plugin,
                instance: &mut Instance,
                pre: &InstancePre<HostState>,
            ) -> Result<Self, StartError> {
                if !plugin.facts().roles.$module {
                    return Err(role_missing(plugin, Self::Role::NAME));
                }
                Ok($name(find!(plugin, instance, pre, $interface, $module)))
            }

            async fn call(
                &mut self,
                $instance: &mut Instance,
                $time: CallTime,
                $batch: &Batch,
                $rows: &[u32],
                $out: &mut <$role as Role>::Collector<'_>,
            ) -> Result<(), Fault> {
                let $guest = &self.0;
                $call
            }

            #[allow(unused_mut, reason = "not every role takes its answers apart")]
            fn answer(mut $answers: Self::Answer) -> Result<Self::Answer, RowFailure> {
                $answer
            }
        }
    };
}

plain_only!(
    BatchStep,
    steps::BatchStep,
    batch_step,
    "batch-step",
    |guest, instance, time, batch, rows, out| {
        let answers = wait_batch!(guest.call_process, instance, time, batch, rows);
        out.answers(rows.len(), answers).map_err(Fault::protocol)
    },
    |answers| Ok(answers)
);

plain_only!(
    BatchExpand,
    batches::BatchExpand,
    batch_expand,
    "batch-expand",
    |guest, instance, time, batch, rows, out| {
        let answer = wait_batch!(guest.call_expand, instance, time, batch, rows);
        out.answer(rows.len(), answer).map_err(Fault::protocol)
    },
    |answers| Ok(answers)
);

plain_only!(
    Selector,
    choice::Selector,
    selector,
    "selector",
    |guest, instance, time, batch, rows, out| {
        let answer = wait_plain!(guest.call_select, instance, time, batch, rows);
        out.answer(answer.map(|label| label.map(String::into_bytes)));
        Ok(())
    },
    |answers| alone(std::mem::take(&mut answers.failures), answers)
);

plain_only!(
    Partitioner,
    choice::Partitioner,
    partitioner,
    "partitioner",
    |guest, instance, time, batch, rows, out| {
        out.answer(wait_plain!(guest.call_key, instance, time, batch, rows));
        Ok(())
    },
    |answers| alone(std::mem::take(&mut answers.failures), answers)
);
