//! A step at a node: records in, changed fields or failures out. The column form is used where the plugin has it; a batch
//! step gets its batch whole, in one call.

use loom_types::{Batch, Changes};

use crate::answers::{Cause, StepAnswers, told};
use crate::bindings::exports::loom::plugin::{batch_step, column_step, step};
use crate::bindings::loom::plugin::columns;
use crate::bindings::loom::plugin::types::{Change, Failure, Patch};
use crate::calls::checked_failures;
use crate::changes::{Assembler, HEADER_BYTES, bytes_of, checked};
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, role_missing};
use crate::lower::Crossing;
use crate::node::node;
use crate::plain::{with_message, with_messages};
use crate::plugin::{Plugin, StartError};
use crate::role::{Collector, Failures, Role, Room, Unit, no_room};

node! {
    /// A step plugin at one node, on one worker.
    StepNode, Step, StepAnswers
}

node! {
    /// A batch step at one node, on one worker. The rows of one call are one batch, and the plugin gets them together:
    /// callers cut nothing that the flow made one batch.
    BatchStepNode, BatchStep, StepAnswers
}

pub(crate) enum Step {
    Plain(step::Guest),
    Columns(column_step::Guest, Box<Crossing>),
}

pub(crate) struct BatchStep(batch_step::Guest);

/// Changes and failures so far.
pub(crate) struct StepOut<'a> {
    assembler: Assembler<'a>,
    failures: Failures,
    room: Room,
    /// How many rows the run of calls is about.
    rows: usize,
}

impl Collector for StepOut<'_> {
    fn fail(&mut self, cause: Cause, reason: String) {
        self.failures.book(self.assembler.done(), cause, reason);
        self.assembler.keep();
    }
}

impl<'a> StepOut<'a> {
    pub(crate) fn new(batch: &'a Batch, rows: &'a [u32]) -> Self {
        StepOut {
            assembler: Assembler::new(batch, rows),
            failures: Failures::default(),
            room: Room::default(),
            rows: rows.len(),
        }
    }

    pub(crate) fn finish(self, answered: u32) -> StepAnswers {
        StepAnswers { answered, changes: self.assembler.finish(), failures: self.failures.booked }
    }

    /// The answer to the next row.
    pub(crate) fn answer(&mut self, answer: Result<Patch, Failure>) {
        let patch = match answer {
            Ok(patch) => patch,
            Err(failure) => return self.fail_all(1, failure),
        };
        let size = |change: &Change| match change {
            Change::Set(value) => value.len(),
            Change::Keep | Change::Clear => 0,
        };
        let headers = patch.headers.iter().flatten();
        let headers = headers.map(|h| h.name.len() + h.value.as_ref().map_or(0, Vec::len) + HEADER_BYTES);
        if let Err(reason) = self.room.take(size(&patch.payload) + size(&patch.key) + headers.sum::<usize>())
        {
            return self.fail(Cause::Fail, reason);
        }
        let row = self.assembler.done();
        if let Err(full) = self.assembler.patch(patch) {
            self.failures.book(row, Cause::Fail, no_room(full));
        }
    }

    /// The answers to the next rows, in one; an error names what breaks the contract.
    pub(crate) fn columns(&mut self, rows: usize, answer: columns::Changes) -> Result<(), String> {
        let (changes, failures) = check(rows, answer)?;
        if let Err(reason) = self.room.take(bytes_of(&changes)) {
            (0..rows).for_each(|_| self.fail(Cause::Fail, reason.clone()));
            return Ok(());
        }
        let done = self.assembler.done();
        let mut full = Vec::new();
        self.assembler.columns(rows, changes, rows == self.rows, |row, error| full.push((row, error)));
        let mut full = full.into_iter().peekable();
        let no_room = |row, error| (row, Cause::Fail, no_room(error));
        let mut booked = Vec::new();
        for (row, failure) in failures {
            let row = row as usize;
            while let Some((at, error)) = full.next_if(|(at, _)| *at <= row) {
                // What failed anyway needs no room.
                booked.extend((at < row).then(|| no_room(at, error)));
            }
            let (cause, reason) = told(failure);
            booked.push((row, cause, reason));
        }
        booked.extend(full.map(|(row, error)| no_room(row, error)));
        for (row, cause, reason) in booked {
            self.failures.book(done + row, cause, reason);
        }
        Ok(())
    }

    /// The answers to the next rows, one by one; an error names what breaks the contract.
    pub(crate) fn answers(
        &mut self,
        rows: usize,
        answers: Result<Vec<Result<Patch, Failure>>, Failure>,
    ) -> Result<(), String> {
        match answers {
            Ok(answers) if answers.len() != rows => {
                return Err(format!("it gave {} answers to {rows} records", answers.len()));
            }
            Ok(answers) => answers.into_iter().for_each(|answer| self.answer(answer)),
            Err(failure) => self.fail_all(rows, failure),
        }
        Ok(())
    }
}

impl Role for Step {
    const NAME: &'static str = "step";
    type Collector<'a> = StepOut<'a>;
    type Answers = StepAnswers;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let exports = &plugin.loaded().exports;
        if let Some(indices) = &exports.column_step {
            let guest = instance.find(plugin, "column-step", |store, guest| indices.load(store, guest))?;
            let reads = instance.starting(plugin, "reads", |store| guest.call_reads(store))?;
            return Ok(Step::Columns(guest, Box::new(Crossing::new(reads))));
        }
        let Some(indices) = &exports.step else { return Err(role_missing(plugin, Self::NAME)) };
        instance.find(plugin, "step", |store, guest| indices.load(store, guest)).map(Step::Plain)
    }

    fn unit(plugin: &Plugin) -> Unit {
        if plugin.loaded().exports.column_step.is_some() { Unit::Batch } else { Unit::Row }
    }

    fn collector<'a>(batch: &'a Batch, rows: &'a [u32]) -> StepOut<'a> {
        StepOut::new(batch, rows)
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut StepOut<'_>,
    ) -> Result<(), Fault> {
        match self {
            Step::Plain(guest) => {
                let answer = with_message(batch, rows[0], |message| {
                    instance.call(time, |store| guest.call_process(store, message))
                })?;
                out.answer(answer);
            }
            Step::Columns(guest, crossing) => {
                let topics = crossing.topics(batch);
                let lowered = crossing.lower(batch, rows, &topics);
                match instance.call(time.of_batch(rows.len()), |store| guest.call_process(store, lowered))? {
                    Ok(answer) => out.columns(rows.len(), answer).map_err(Fault::protocol)?,
                    Err(failure) => out.fail_all(rows.len(), failure),
                }
            }
        }
        Ok(())
    }

    fn answers(out: StepOut<'_>, answered: u32) -> StepAnswers {
        out.finish(answered)
    }
}

impl Role for BatchStep {
    const NAME: &'static str = "batch step";
    type Collector<'a> = StepOut<'a>;
    type Answers = StepAnswers;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let Some(indices) = &plugin.loaded().exports.batch_step else {
            return Err(role_missing(plugin, Self::NAME));
        };
        instance.find(plugin, "batch-step", |store, guest| indices.load(store, guest)).map(BatchStep)
    }

    fn unit(_: &Plugin) -> Unit {
        Unit::Whole
    }

    fn collector<'a>(batch: &'a Batch, rows: &'a [u32]) -> StepOut<'a> {
        StepOut::new(batch, rows)
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut StepOut<'_>,
    ) -> Result<(), Fault> {
        let BatchStep(guest) = self;
        let answers = with_messages(batch, rows, |messages| {
            instance.call(time.of_batch(rows.len()), |store| guest.call_process(store, messages))
        })?;
        out.answers(rows.len(), answers).map_err(Fault::protocol)
    }

    fn answers(out: StepOut<'_>, answered: u32) -> StepAnswers {
        out.finish(answered)
    }
}

/// The changes of a column answer, and its failures by row; an error names what breaks the contract.
fn check(rows: usize, mut answer: columns::Changes) -> Result<(Changes, Vec<(u32, Failure)>), String> {
    let mut failures = std::mem::take(&mut answer.failures);
    checked_failures(rows, &mut failures)?;
    Ok((checked(rows, answer)?, failures))
}
