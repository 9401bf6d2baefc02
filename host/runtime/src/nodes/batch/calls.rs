//! What a batch node calls: the rows of a batch in, answers by position out, at once or later.
//!
//! The seam for tests: they answer from a script. Production answers on the worker's thread, before `start` comes back
//! ([`Direct`]), or from a pool of instances beside it, with a ring of the worker's bell.

use std::sync::Arc;

use loom_kafka::Waker;
use loom_plugin::{
    BatchExpandAnswers, BatchExpandNode, BatchStepNode, CallFault, CallPool, RowFailure, StepAnswers,
};
use loom_types::Batch;

use crate::nodes::plugins::made_memory;
use crate::nodes::waiting::Fault;

/// What a batch node asks its plugin for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchRole {
    Step,
    Expand,
}

/// What a call answered, by position in the rows that it was given.
#[derive(Debug)]
pub(crate) enum BatchAnswer {
    /// A batch step's: each row goes on, changed.
    Changed(StepAnswers),
    /// A batch expander's: new rows, each with those that it stands for.
    Made(BatchExpandAnswers),
}

impl BatchAnswer {
    /// How many of the rows have an answer.
    pub(crate) fn answered(&self) -> usize {
        match self {
            BatchAnswer::Changed(answers) => answers.answered as usize,
            BatchAnswer::Made(answers) => answers.answered as usize,
        }
    }

    /// The bytes that were made with it.
    pub(crate) fn memory(&self) -> usize {
        match self {
            BatchAnswer::Changed(answers) => answers.changes.memory(),
            BatchAnswer::Made(answers) => made_memory(&answers.rows),
        }
    }

    /// Ascending by position.
    pub(crate) fn failures(&self) -> &[RowFailure] {
        match self {
            BatchAnswer::Changed(answers) => &answers.failures,
            BatchAnswer::Made(answers) => &answers.failures,
        }
    }

    /// Takes the failures out.
    pub(super) fn take_failures(&mut self) -> Vec<RowFailure> {
        match self {
            BatchAnswer::Changed(answers) => std::mem::take(&mut answers.failures),
            BatchAnswer::Made(answers) => std::mem::take(&mut answers.failures),
        }
    }
}

/// A call's answer, or why there is none: that is the fault of all its rows, and none was tried by itself.
pub(crate) type Answered = (u64, Result<BatchAnswer, Fault>);

/// See the module's description. Calls are named by whoever starts them; names are not used twice.
pub(crate) trait BatchCalls: Send {
    /// Rings this whenever an answer came.
    fn ring(&mut self, bell: Waker);

    /// Whether a call is made on the worker's thread, and has its answer when `start` comes back. Where it has not, `start`
    /// never blocks, and one row that is to blame for a call that did not come back is left to be found.
    fn is_direct(&self) -> bool;

    /// Calls the plugin with these rows of a batch, as one batch. Calls that are direct end early when `allowance` rows
    /// in a row ended in a trap or time-out.
    fn start(&mut self, call: u64, batch: &Arc<Batch>, rows: &[u32], allowance: u32);

    /// Appends the answers that came since this was last asked. Every call that was started answers once, within its
    /// time, unless it was abandoned.
    fn answers(&mut self, out: &mut Vec<Answered>);

    /// Ends a call; it answers no more.
    fn abandon(&mut self, call: u64);
}

/// A plugin that is called on the worker's thread.
pub(crate) struct Direct<N> {
    node: N,
    answered: Option<Answered>,
}

impl<N> Direct<N> {
    pub(crate) fn new(node: N) -> Self {
        Direct { node, answered: None }
    }
}

/// A plugin's instance that is called with a batch.
pub(crate) trait BatchInstance: Send {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> BatchAnswer;
}

impl BatchInstance for BatchStepNode {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> BatchAnswer {
        BatchAnswer::Changed(self.call_until(batch, rows, allowance))
    }
}

impl BatchInstance for BatchExpandNode {
    fn call(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> BatchAnswer {
        BatchAnswer::Made(self.call_until(batch, rows, allowance))
    }
}

impl<N: BatchInstance> BatchCalls for Direct<N> {
    fn ring(&mut self, _: Waker) {}

    fn is_direct(&self) -> bool {
        true
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, rows: &[u32], allowance: u32) {
        self.answered = Some((call, Ok(self.node.call(batch, rows, allowance))));
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        out.extend(self.answered.take());
    }

    fn abandon(&mut self, _: u64) {}
}

/// What a pool's calls answer.
pub(crate) trait PoolAnswer: Send + 'static {
    fn into_answer(self) -> BatchAnswer;
}

impl PoolAnswer for StepAnswers {
    fn into_answer(self) -> BatchAnswer {
        BatchAnswer::Changed(self)
    }
}

impl PoolAnswer for BatchExpandAnswers {
    fn into_answer(self) -> BatchAnswer {
        BatchAnswer::Made(self)
    }
}

impl<A: PoolAnswer> BatchCalls for CallPool<A> {
    fn ring(&mut self, bell: Waker) {
        CallPool::ring(self, bell);
    }

    fn is_direct(&self) -> bool {
        false
    }

    fn start(&mut self, call: u64, batch: &Arc<Batch>, rows: &[u32], _: u32) {
        self.start_batch(call, batch.clone(), rows);
    }

    fn answers(&mut self, out: &mut Vec<Answered>) {
        self.take_answers(|call, answer| {
            let fault = |CallFault { cause, reason, waited }| Fault { cause, reason, waited };
            out.push((call, answer.map(PoolAnswer::into_answer).map_err(fault)));
        });
    }

    fn abandon(&mut self, call: u64) {
        CallPool::abandon(self, call);
    }
}
