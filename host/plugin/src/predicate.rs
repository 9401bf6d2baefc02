//! A predicate at a node: records in, yes or no or a failure out. The column form is used where the plugin has it.

use loom_types::Batch;

use crate::answers::{Cause, PredicateAnswers, told};
use crate::bindings::exports::loom::plugin::{column_predicate, predicate};
use crate::calls::{Answers, Failures, Guest, Slot, checked_failures};
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, role_missing};
use crate::lower::Crossing;
use crate::node::{Interrupt, NodeContext};
use crate::plain::{headers, message, names};
use crate::plugin::{Plugin, StartError};

/// A predicate plugin at one node, on one worker.
#[derive(Debug)]
pub struct PredicateNode {
    slot: Slot<PredicateGuest>,
}

impl PredicateNode {
    /// Instantiates the plugin and configures it.
    pub fn new(plugin: &Plugin, context: NodeContext) -> Result<PredicateNode, StartError> {
        Ok(PredicateNode { slot: Slot::new(plugin, context)? })
    }

    /// The same, ending a run of calls early when this is set: the rows from `answered` on were not tried then.
    #[must_use]
    pub fn interrupted_by(mut self, interrupt: Interrupt) -> Self {
        self.slot.interrupt = Some(interrupt);
        self
    }

    /// Asks the predicate about these rows of a batch, in this order. As [`StepNode::call`](crate::StepNode::call).
    pub fn call(&mut self, batch: &Batch, rows: &[u32]) -> PredicateAnswers {
        self.call_until(batch, rows, u32::MAX)
    }

    /// The same, ending early when `allowance` rows in a row ended in a trap or time-out: see
    /// [`Breaker`](crate::Breaker). The rows from [`PredicateAnswers::answered`] on were not tried.
    pub fn call_until(&mut self, batch: &Batch, rows: &[u32], allowance: u32) -> PredicateAnswers {
        let mut answers = PredicateOut { yes: Vec::with_capacity(rows.len()), failures: Failures::default() };
        let answered = self.slot.run(batch, rows, allowance.max(1), &mut answers) as u32;
        answers.yes.resize(rows.len(), false);
        PredicateAnswers { answered, yes: answers.yes, failures: answers.failures.booked }
    }
}

enum PredicateGuest {
    Plain(predicate::Guest),
    Columns(column_predicate::Guest, Box<Crossing>),
}

struct PredicateOut {
    yes: Vec<bool>,
    failures: Failures,
}

impl Answers for PredicateOut {
    fn fail(&mut self, cause: Cause, reason: String) {
        self.failures.book(self.yes.len(), cause, reason);
        self.yes.push(false);
    }
}

impl Guest for PredicateGuest {
    type Answers<'a> = PredicateOut;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let exports = &plugin.loaded().exports;
        if let Some(indices) = &exports.column_predicate {
            let guest =
                instance.find(plugin, "column-predicate", |store, guest| indices.load(store, guest))?;
            let reads = instance.starting(plugin, "reads", |store| guest.call_reads(store))?;
            return Ok(PredicateGuest::Columns(guest, Box::new(Crossing::new(reads))));
        }
        let Some(indices) = &exports.predicate else { return Err(role_missing(plugin, "predicate")) };
        instance
            .find(plugin, "predicate", |store, guest| indices.load(store, guest))
            .map(PredicateGuest::Plain)
    }

    fn takes_batches(plugin: &Plugin) -> bool {
        plugin.loaded().exports.column_predicate.is_some()
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        answers: &mut PredicateOut,
    ) -> Result<(), Fault> {
        match self {
            PredicateGuest::Plain(guest) => {
                let names = names(batch, rows);
                let headers = headers(batch, rows, &names);
                let message = message(batch, rows[0], &headers);
                match instance.call(time, |store| guest.call_test(store, message))? {
                    Ok(yes) => answers.yes.push(yes),
                    Err(failure) => {
                        let (cause, reason) = told(failure);
                        answers.fail(cause, reason);
                    }
                }
            }
            PredicateGuest::Columns(guest, crossing) => {
                let topics = crossing.topics(batch);
                let lowered = crossing.lower(batch, rows, &topics);
                match instance.call(time.of_batch(rows.len()), |store| guest.call_test(store, lowered))? {
                    Ok(verdicts) => collect(rows.len(), verdicts, answers).map_err(Fault::protocol)?,
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

/// Checks a column answer, and then takes it.
fn collect(
    rows: usize,
    mut verdicts: column_predicate::Verdicts,
    answers: &mut PredicateOut,
) -> Result<(), String> {
    if verdicts.yes.len() != rows {
        return Err(format!("it gave {} answers to {rows} rows", verdicts.yes.len()));
    }
    if let Some((row, byte)) = verdicts.yes.iter().enumerate().find(|(_, byte)| **byte > 1) {
        return Err(format!("its answer to row {row} is {byte}; it must be 0 or 1"));
    }
    checked_failures(rows, &mut verdicts.failures)?;
    let done = answers.yes.len();
    answers.yes.extend(verdicts.yes.iter().map(|byte| *byte == 1));
    for (row, failure) in verdicts.failures {
        let (cause, reason) = told(failure);
        answers.yes[done + row as usize] = false;
        answers.failures.book(done + row as usize, cause, reason);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{PredicateOut, collect};
    use crate::answers::Cause;
    use crate::bindings::exports::loom::plugin::column_predicate::Verdicts;
    use crate::bindings::loom::plugin::types::Failure;
    use crate::calls::Failures;

    #[test]
    fn an_answer_is_taken_whole_or_not_at_all() {
        let mut out = PredicateOut { yes: vec![true], failures: Failures::default() };
        let failure = || Failure::Reject("bad".to_owned());
        let none = Vec::new;
        for (yes, failures) in [
            (vec![1], none()),
            (vec![0, 2], none()),
            (vec![0, 1], vec![(2, failure())]),
            (vec![0, 1, 1], none()),
        ] {
            assert!(collect(2, Verdicts { yes, failures }, &mut out).is_err());
            assert_eq!(out.yes, [true]);
        }
        collect(2, Verdicts { yes: vec![1, 1], failures: vec![(1, failure())] }, &mut out).unwrap();
        assert_eq!(out.yes, [true, true, false]);
        let booked = &out.failures.booked[0];
        assert_eq!((booked.position, booked.cause, &*booked.reason), (2, Cause::Reject, "bad"));
    }
}
