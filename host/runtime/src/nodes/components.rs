//! Plugins that are WebAssembly components.

use std::sync::Arc;

use loom_flow::plan::{OnTrap, PluginId};
use loom_kafka::Waker;
use loom_plugin::{
    BatchExpandNode, BatchStepNode, CallAnswer, CallFailure, CallPool, ChoiceAnswers, ExpandAnswers,
    ExpandNode, Interrupt, NodeContext, PartitionerNode, Plugin, PredicateAnswers, PredicateNode,
    SelectorNode, SinkInstance, StartError, StepAnswers, StepNode, TypedExpandAnswers, TypedExpandNode,
    Verdict,
};
use loom_types::Batch;

use super::batch::{BatchCalls, BatchRole, Direct};
use super::keys::{KeyCalls, WaitingKeys};
use super::plugins::{Label, Made, Plugins, Role, RowAnswers, RowCalls, Said, SinkStart, TypeNames};
use super::sink::SinkCalls;
use super::waiting::{Answered, Fault, RowAnswer, WaitingCalls};
use crate::probe::Probe;

/// Bytes of one `write`, at most, where a sixteenth of the plugin's memory is not less.
const WRITE_BYTES: u64 = 1 << 20;

/// A plan's plugins, loaded, by [`PluginId`]; and who watches them.
pub(crate) struct Components(pub Vec<Plugin>, pub Option<Probe>);

impl Plugins for Components {
    fn label(&self, plugin: PluginId) -> Label {
        let plugin = &self.0[plugin.0];
        Label { name: plugin.name().into(), digest: plugin.digest().into() }
    }

    fn rows(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: Role,
        on_trap: OnTrap,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn RowCalls>, StartError> {
        macro_rules! started {
            ($node:ty) => {{
                let node = <$node>::new(&self.0[plugin.0], context)?.interrupted_by(interrupt.clone());
                Box::new(if on_trap == OnTrap::FailBatch { node.failing_batches() } else { node })
            }};
        }
        Ok(match role {
            Role::Step => started!(StepNode),
            Role::Expand => started!(ExpandNode),
            Role::TypedExpand => started!(TypedExpandNode),
            Role::Predicate => started!(PredicateNode),
            Role::Select => started!(SelectorNode),
            Role::Key(keys) => {
                let node = PartitionerNode::new(&self.0[plugin.0], context)?;
                Box::new(KeyCalls::new(node.interrupted_by(interrupt.clone()), keys))
            }
        })
    }

    fn waiting(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: Role,
        calls: usize,
    ) -> Result<Box<dyn WaitingCalls>, StartError> {
        let plugin = &self.0[plugin.0];
        Ok(match role {
            Role::Step => Box::new(CallPool::step(plugin, context, calls)?),
            Role::Expand => Box::new(CallPool::expand(plugin, context, calls)?),
            Role::TypedExpand => Box::new(CallPool::typed_expand(plugin, context, calls)?),
            Role::Predicate => Box::new(CallPool::predicate(plugin, context, calls)?),
            Role::Select => Box::new(CallPool::selector(plugin, context, calls)?),
            Role::Key(keys) => {
                Box::new(WaitingKeys::new(CallPool::partitioner(plugin, context, calls)?, keys))
            }
        })
    }

    fn batch(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: BatchRole,
        on_trap: OnTrap,
        calls: Option<usize>,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn BatchCalls>, StartError> {
        let plugin = &self.0[plugin.0];
        let fails_batches = on_trap == OnTrap::FailBatch;
        Ok(match (role, calls) {
            (BatchRole::Step, Some(calls)) => Box::new(CallPool::batch_step(plugin, context, calls)?),
            (BatchRole::Expand, Some(calls)) => Box::new(CallPool::batch_expand(plugin, context, calls)?),
            (BatchRole::Step, None) => {
                let node = BatchStepNode::new(plugin, context)?.interrupted_by(interrupt.clone());
                Box::new(Direct::new(if fails_batches { node.failing_batches() } else { node }))
            }
            (BatchRole::Expand, None) => {
                let node = BatchExpandNode::new(plugin, context)?.interrupted_by(interrupt.clone());
                Box::new(Direct::new(if fails_batches { node.failing_batches() } else { node }))
            }
        })
    }

    fn sink(
        &self,
        plugin: PluginId,
        context: NodeContext,
        interrupt: &Interrupt,
    ) -> Result<SinkStart, StartError> {
        let plugin = &self.0[plugin.0];
        if let Some(probe) = self.1.as_ref().filter(|probe| probe.captures_sinks()) {
            return Ok(probe.captured_sink(context));
        }
        let watched = self.1.clone().map(|probe| (probe, context.clone()));
        let first = Box::new(SinkInstance::interrupted_by(plugin, context.clone(), interrupt)?);
        let (again, interrupt) = (plugin.clone(), interrupt.clone());
        let make = move || -> Result<Box<dyn SinkCalls>, String> {
            let instance = SinkInstance::interrupted_by(&again, context.clone(), &interrupt);
            Ok(Box::new(instance.map_err(|error| error.to_string())?))
        };
        let start = SinkStart {
            first,
            make: Box::new(make),
            write_bytes: WRITE_BYTES.min(plugin.limits().memory / 16),
            tracked: plugin.facts().roles.tracked,
        };
        Ok(match watched {
            Some((probe, node)) => probe.watched_sink(node, start),
            None => start,
        })
    }
}

impl RowCalls for StepNode {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let StepAnswers { answered, changes, failures } = self.call_until(batch, rows, allowance);
        RowAnswers { answered: answered as usize, said: Said::Changed(changes), failures }
    }
}

impl RowCalls for ExpandNode {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        of_expander(self.call_until(batch, rows, allowance), rows.len(), |made| made)
    }
}

impl RowCalls for TypedExpandNode {
    fn types(&self) -> TypeNames {
        TypedExpandNode::types(self).clone()
    }

    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let TypedExpandAnswers { made, types } = self.call_until(batch, rows, allowance);
        let names = TypedExpandNode::types(self).clone();
        of_expander(made, rows.len(), |batch| batch.typed(names, types))
    }
}

fn of_expander(answers: ExpandAnswers, rows: usize, typed: impl FnOnce(Batch) -> Batch) -> RowAnswers {
    let ends = (0..rows as u32).map(|position| answers.made_from(position).end).collect();
    let made = Made { batch: Arc::new(typed(answers.rows)), ends };
    RowAnswers { answered: answers.answered as usize, said: Said::Made(made), failures: answers.failures }
}

impl RowCalls for PredicateNode {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let PredicateAnswers { answered, yes, failures } = self.call_until(batch, rows, allowance);
        RowAnswers { answered: answered as usize, said: Said::Is(yes), failures }
    }
}

impl RowCalls for SelectorNode {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let ChoiceAnswers { answered, chosen, failures } = self.call_until(batch, rows, allowance);
        RowAnswers { answered: answered as usize, said: Said::Chose(chosen), failures }
    }
}

impl SinkCalls for SinkInstance {
    fn write(&mut self, batch: &Batch, rows: &[u32], handles: &[u32]) -> Result<(), CallFailure> {
        SinkInstance::write(self, batch, rows, handles)
    }

    fn flush(&mut self) -> Result<(), CallFailure> {
        SinkInstance::flush(self)
    }

    fn close(&mut self) -> Result<(), CallFailure> {
        SinkInstance::close(self)
    }

    fn verdicts(&mut self, out: &mut Vec<(u32, Verdict)>) {
        SinkInstance::verdicts(self, out);
    }

    fn is_usable(&self) -> bool {
        SinkInstance::is_usable(self) && !self.tracker_dropped()
    }

    fn wants_recycling(&self) -> bool {
        SinkInstance::wants_recycling(self)
    }
}

/// An answer of a call on one row.
trait Answer: Send + 'static {
    fn said(self, types: &TypeNames) -> RowAnswer;
}

impl Answer for CallAnswer {
    fn said(self, _: &TypeNames) -> RowAnswer {
        match self {
            CallAnswer::Changed(changes) => RowAnswer::Changed(changes),
            CallAnswer::Is(yes) => RowAnswer::Is(yes),
        }
    }
}

/// Of a selector.
impl Answer for ChoiceAnswers {
    fn said(self, _: &TypeNames) -> RowAnswer {
        RowAnswer::Chose(self.chosen)
    }
}

impl Answer for ExpandAnswers {
    fn said(self, _: &TypeNames) -> RowAnswer {
        RowAnswer::Made(Arc::new(self.rows))
    }
}

impl Answer for TypedExpandAnswers {
    fn said(self, types: &TypeNames) -> RowAnswer {
        RowAnswer::Made(Arc::new(self.made.rows.typed(types.clone(), self.types)))
    }
}

impl<A: Answer> WaitingCalls for CallPool<A> {
    fn types(&self) -> TypeNames {
        CallPool::types(self).clone()
    }

    fn ring(&mut self, bell: Waker) {
        CallPool::ring(self, bell);
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, row: u32) {
        CallPool::start(self, call, batch.clone(), row);
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        let types = CallPool::types(self).clone();
        self.take_answers(|call, answer| {
            let verdict = match answer {
                Ok(answer) => Ok(answer.said(&types)),
                Err(fault) => Err(Fault { cause: fault.cause, reason: fault.reason, waited: fault.waited }),
            };
            out.push(Answered { call, verdict });
        });
    }

    fn abandon(&mut self, call: u64) {
        CallPool::abandon(self, call);
    }
}
