//! Plugins that are WebAssembly components.

use std::sync::Arc;

use loom_flow::plan::{OnTrap, PluginId};
use loom_kafka::Waker;
use loom_plugin::{
    CallAnswer, CallFailure, CallPool, Interrupt, NodeContext, Plugin, PredicateNode, SinkInstance,
    StartError, StepNode, Verdict,
};
use loom_types::{Batch, Changes};

use super::plugins::{Label, Plugins, RowAnswers, RowCalls, SinkStart, WaitingRole};
use super::sink::SinkCalls;
use super::waiting::{Answered, Fault, RowAnswer, WaitingCalls};

/// Bytes of one `write`, at most, where a sixteenth of the plugin's memory is not less.
const WRITE_BYTES: u64 = 1 << 20;

/// A plan's plugins, loaded, by [`PluginId`].
pub(crate) struct Components(pub Vec<Plugin>);

impl Plugins for Components {
    fn label(&self, plugin: PluginId) -> Label {
        let plugin = &self.0[plugin.0];
        Label { name: plugin.name().into(), digest: plugin.digest().into() }
    }

    fn step(
        &self,
        plugin: PluginId,
        context: NodeContext,
        on_trap: OnTrap,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn RowCalls>, StartError> {
        let step = StepNode::new(&self.0[plugin.0], context)?.interrupted_by(interrupt.clone());
        Ok(Box::new(if on_trap == OnTrap::FailBatch { step.failing_batches() } else { step }))
    }

    fn predicate(
        &self,
        plugin: PluginId,
        context: NodeContext,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn RowCalls>, StartError> {
        let predicate = PredicateNode::new(&self.0[plugin.0], context)?;
        Ok(Box::new(predicate.interrupted_by(interrupt.clone())))
    }

    fn waiting(
        &self,
        plugin: PluginId,
        context: NodeContext,
        role: WaitingRole,
        calls: usize,
    ) -> Result<Box<dyn WaitingCalls>, StartError> {
        let plugin = &self.0[plugin.0];
        let pool = match role {
            WaitingRole::Step => CallPool::step(plugin, context, calls)?,
            WaitingRole::Predicate => CallPool::predicate(plugin, context, calls)?,
        };
        Ok(Box::new(pool))
    }

    fn sink(&self, plugin: PluginId, context: NodeContext) -> Result<SinkStart, StartError> {
        let plugin = &self.0[plugin.0];
        let first = Box::new(SinkInstance::new(plugin, context.clone())?);
        let again = plugin.clone();
        let make = move || -> Result<Box<dyn SinkCalls>, String> {
            let instance = SinkInstance::new(&again, context.clone()).map_err(|error| error.to_string())?;
            Ok(Box::new(instance))
        };
        Ok(SinkStart {
            first,
            make: Box::new(make),
            write_bytes: WRITE_BYTES.min(plugin.limits().memory / 16),
            tracked: plugin.facts().roles.tracked,
        })
    }
}

impl RowCalls for StepNode {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let answers = self.call_until(batch, rows, allowance);
        RowAnswers {
            answered: answers.answered as usize,
            changes: answers.changes,
            yes: None,
            failures: answers.failures,
        }
    }
}

impl RowCalls for PredicateNode {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> RowAnswers {
        let answers = self.call_until(batch, rows, allowance);
        RowAnswers {
            answered: answers.answered as usize,
            changes: Changes::default(),
            yes: Some(answers.yes),
            failures: answers.failures,
        }
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

impl WaitingCalls for CallPool {
    fn ring(&mut self, bell: Waker) {
        CallPool::ring(self, bell);
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, row: u32) {
        CallPool::start(self, call, batch.clone(), row);
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        self.take_answers(|call, answer| {
            let verdict = match answer {
                Ok(CallAnswer::Changed(changes)) => Ok(RowAnswer::Changed(changes)),
                Ok(CallAnswer::Is(yes)) => Ok(RowAnswer::Is(yes)),
                Err(fault) => Err(Fault { cause: fault.cause, reason: fault.reason, waited: fault.waited }),
            };
            out.push(Answered { call, verdict });
        });
    }

    fn abandon(&mut self, call: u64) {
        CallPool::abandon(self, call);
    }
}
