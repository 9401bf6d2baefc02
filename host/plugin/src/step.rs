//! A step at a node: records in, changed fields or failures out. The column form is used where the plugin has it.

use loom_types::{Batch, Changes};

use crate::answers::{Cause, StepAnswers, told};
use crate::bindings::exports::loom::plugin::{column_step, step};
use crate::bindings::loom::plugin::columns;
use crate::bindings::loom::plugin::types::{Change, Failure, Patch};
use crate::calls::{ANSWER_BYTES, Answers, Failures, Guest, Slot, checked_failures};
use crate::changes::{Assembler, checked};
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, role_missing};
use crate::lower::Crossing;
use crate::node::{Interrupt, NodeContext};
use crate::plain::{headers, message, names};
use crate::plugin::{Plugin, StartError};

/// A step plugin at one node, on one worker.
#[derive(Debug)]
pub struct StepNode {
    slot: Slot<StepGuest>,
}

impl StepNode {
    /// Instantiates the plugin and configures it.
    pub fn new(plugin: &Plugin, context: NodeContext) -> Result<StepNode, StartError> {
        Ok(StepNode { slot: Slot::new(plugin, context)? })
    }

    /// The same, for a step whose effects must not be repeated: when a plugin batch traps or times out, all its rows fail,
    /// and none is run again to find the one to blame.
    #[must_use]
    pub fn failing_batches(mut self) -> Self {
        self.slot.fails_batches = true;
        self
    }

    /// The same, ending a run of calls early when this is set: the rows from `answered` on were not tried then.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.slot.interrupt = Some(interrupt);
        self
    }

    /// Calls the step on these rows of a batch, in this order.
    ///
    /// A poison row costs its own time-out, and that of the plugin batch it was in; its neighbours get their answers.
    pub fn call(&mut self, batch: &Batch, rows: &[u32]) -> StepAnswers {
        self.call_until(batch, rows, u32::MAX)
    }

    /// The same, ending early when `allowance` rows in a row ended in a trap or time-out: see
    /// [`Breaker`](crate::Breaker). The rows from [`StepAnswers::answered`] on were not tried.
    pub fn call_until(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> StepAnswers {
        let mut answers =
            StepOut { assembler: Assembler::new(batch, rows), failures: Failures::default(), bytes: 0 };
        let answered = self.slot.run(batch, rows, allowance.max(1), &mut answers) as u32;
        StepAnswers { answered, changes: answers.assembler.finish(), failures: answers.failures.booked }
    }
}

enum StepGuest {
    Plain(step::Guest),
    Columns(column_step::Guest, Box<Crossing>),
}

struct StepOut<'a> {
    assembler: Assembler<'a>,
    failures: Failures,
    bytes: usize,
}

impl Answers for StepOut<'_> {
    fn fail(&mut self, cause: Cause, reason: String) {
        self.failures.book(self.assembler.done(), cause, reason);
        self.assembler.keep(1);
    }
}

impl StepOut<'_> {
    /// Whether so many bytes more can be kept.
    fn fits(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        self.bytes <= ANSWER_BYTES
    }

    fn patch(&mut self, patch: Patch) {
        let size = |change: &Change| match change {
            Change::Set(value) => value.len(),
            Change::Keep | Change::Clear => 0,
        };
        let headers =
            patch.headers.iter().flatten().map(|h| h.name.len() + h.value.as_ref().map_or(0, Vec::len));
        if self.fits(size(&patch.payload) + size(&patch.key) + headers.sum::<usize>()) {
            self.assembler.patch(patch);
        } else {
            self.fail(Cause::Fail, too_much());
        }
    }

    fn columns(&mut self, rows: usize, changes: Changes, failures: Vec<(u32, Failure)>) {
        let bytes =
            |column: &Option<loom_types::BytesColumn>| column.as_ref().map_or(0, |c| c.values().len());
        let headers =
            changes.headers.as_ref().map_or(0, |h| h.names().values().len() + h.values().values().len());
        if !self.fits(bytes(&changes.payload) + bytes(&changes.key) + headers) {
            return (0..rows).for_each(|_| self.fail(Cause::Fail, too_much()));
        }
        let done = self.assembler.done();
        for (row, failure) in failures {
            let (cause, reason) = told(failure);
            self.failures.book(done + row as usize, cause, reason);
        }
        self.assembler.columns(rows, changes);
    }
}

fn too_much() -> String {
    "the answers to this batch are more than 1 GiB together".to_owned()
}

impl Guest for StepGuest {
    type Answers<'a> = StepOut<'a>;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let exports = &plugin.loaded().exports;
        if let Some(indices) = &exports.column_step {
            let guest = instance.find(plugin, "column-step", |store, guest| indices.load(store, guest))?;
            let reads = instance.starting(plugin, "reads", |store| guest.call_reads(store))?;
            return Ok(StepGuest::Columns(guest, Box::new(Crossing::new(reads))));
        }
        let Some(indices) = &exports.step else { return Err(role_missing(plugin, "step")) };
        instance.find(plugin, "step", |store, guest| indices.load(store, guest)).map(StepGuest::Plain)
    }

    fn takes_batches(plugin: &Plugin) -> bool {
        plugin.loaded().exports.column_step.is_some()
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        answers: &mut StepOut<'_>,
    ) -> Result<(), Fault> {
        match self {
            StepGuest::Plain(guest) => {
                let row = rows[0];
                let names = names(batch, rows);
                let headers = headers(batch, rows, &names);
                let message = message(batch, row, &headers);
                match instance.call(time, |store| guest.call_process(store, message))? {
                    Ok(patch) => answers.patch(patch),
                    Err(failure) => {
                        let (cause, reason) = told(failure);
                        answers.fail(cause, reason);
                    }
                }
            }
            StepGuest::Columns(guest, crossing) => {
                let topics = crossing.topics(batch);
                let lowered = crossing.lower(batch, rows, &topics);
                match instance.call(time.of_batch(rows.len()), |store| guest.call_process(store, lowered))? {
                    Ok(answer) => {
                        let (changes, failures) = check(rows.len(), answer).map_err(Fault::protocol)?;
                        answers.columns(rows.len(), changes, failures);
                    }
                    Err(failure) => {
                        let (cause, reason) = told(failure);
                        rows.iter().for_each(|_| answers.fail(cause, reason.clone()));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The changes of a column answer, and its failures by row; an error names what breaks the contract.
pub(crate) fn check(
    rows: usize,
    mut answer: columns::Changes,
) -> Result<(Changes, Vec<(u32, Failure)>), String> {
    let mut failures = std::mem::take(&mut answer.failures);
    checked_failures(rows, &mut failures)?;
    Ok((checked(rows, answer)?, failures))
}
