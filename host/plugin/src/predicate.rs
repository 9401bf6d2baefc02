//! A predicate at a node: records in, yes or no or a failure out. The column form is used where the plugin has it.

use loom_types::Batch;

use crate::answers::{Cause, PredicateAnswers, told};
use crate::bindings::exports::loom::plugin::{column_predicate, predicate};
use crate::bindings::loom::plugin::types::Failure;
use crate::calls::checked_failures;
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, role_missing};
use crate::lower::Crossing;
use crate::node::node;
use crate::plain::with_message;
use crate::plugin::{Plugin, StartError};
use crate::role::{Collector, Failures, Role, Unit};

node! {
    /// A predicate plugin at one node, on one worker.
    PredicateNode, Predicate, PredicateAnswers
}

pub(crate) enum Predicate {
    Plain(predicate::Guest),
    Columns(column_predicate::Guest, Box<Crossing>),
}

/// Verdicts and failures so far, and of how many rows in all.
pub(crate) struct PredicateOut {
    yes: Vec<bool>,
    failures: Failures,
    rows: usize,
}

impl Collector for PredicateOut {
    fn fail(&mut self, cause: Cause, reason: String) {
        self.failures.book(self.yes.len(), cause, reason);
        self.yes.push(false);
    }
}

impl PredicateOut {
    /// The answer to the next row.
    pub(crate) fn answer(&mut self, answer: Result<bool, Failure>) {
        match answer {
            Ok(yes) => self.yes.push(yes),
            Err(failure) => self.fail_all(1, failure),
        }
    }

    /// The answers to the next rows, in one: taken whole, or not at all with an error that names what breaks the contract.
    pub(crate) fn columns(
        &mut self,
        rows: usize,
        yes: &[u8],
        mut failures: Vec<(u32, Failure)>,
    ) -> Result<(), String> {
        if yes.len() != rows {
            return Err(format!("it gave {} answers to {rows} rows", yes.len()));
        }
        if let Some((row, byte)) = yes.iter().enumerate().find(|(_, byte)| **byte > 1) {
            return Err(format!("its answer to row {row} is {byte}; it must be 0 or 1"));
        }
        checked_failures(rows, &mut failures)?;
        let done = self.yes.len();
        self.yes.extend(yes.iter().map(|byte| *byte == 1));
        for (row, failure) in failures {
            let (cause, reason) = told(failure);
            self.yes[done + row as usize] = false;
            self.failures.book(done + row as usize, cause, reason);
        }
        Ok(())
    }
}

impl Role for Predicate {
    const NAME: &'static str = "predicate";
    type Collector<'a> = PredicateOut;
    type Answers = PredicateAnswers;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let exports = &plugin.loaded().exports;
        if let Some(indices) = &exports.column_predicate {
            let guest =
                instance.find(plugin, "column-predicate", |store, guest| indices.load(store, guest))?;
            let reads = instance.starting(plugin, "reads", |store| guest.call_reads(store))?;
            return Ok(Predicate::Columns(guest, Box::new(Crossing::new(reads))));
        }
        let Some(indices) = &exports.predicate else { return Err(role_missing(plugin, Self::NAME)) };
        instance.find(plugin, "predicate", |store, guest| indices.load(store, guest)).map(Predicate::Plain)
    }

    fn unit(plugin: &Plugin) -> Unit {
        if plugin.loaded().exports.column_predicate.is_some() { Unit::Batch } else { Unit::Row }
    }

    fn collector<'a>(_: &'a Batch, rows: &'a [u32]) -> PredicateOut {
        PredicateOut { yes: Vec::with_capacity(rows.len()), failures: Failures::default(), rows: rows.len() }
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut PredicateOut,
    ) -> Result<(), Fault> {
        match self {
            Predicate::Plain(guest) => {
                let answer = with_message(batch, rows[0], |message| {
                    instance.call(time, |store| guest.call_test(store, message))
                })?;
                out.answer(answer);
            }
            Predicate::Columns(guest, crossing) => {
                let topics = crossing.topics(batch);
                let lowered = crossing.lower(batch, rows, &topics);
                match instance.call(time.of_batch(rows.len()), |store| guest.call_test(store, lowered))? {
                    Ok(verdicts) => {
                        out.columns(rows.len(), &verdicts.yes, verdicts.failures).map_err(Fault::protocol)?
                    }
                    Err(failure) => out.fail_all(rows.len(), failure),
                }
            }
        }
        Ok(())
    }

    fn answers(mut out: PredicateOut, answered: u32) -> PredicateAnswers {
        out.yes.resize(out.rows, false);
        PredicateAnswers { answered, yes: out.yes, failures: out.failures.booked }
    }
}

#[cfg(test)]
mod tests {
    use super::PredicateOut;
    use crate::answers::Cause;
    use crate::bindings::loom::plugin::types::Failure;
    use crate::role::Failures;

    #[test]
    fn an_answer_is_taken_whole_or_not_at_all() {
        let mut out = PredicateOut { yes: vec![true], failures: Failures::default(), rows: 3 };
        let failure = || Failure::Reject("bad".to_owned());
        let none = Vec::new;
        for (yes, failures) in [
            (vec![1], none()),
            (vec![0, 2], none()),
            (vec![0, 1], vec![(2, failure())]),
            (vec![0, 1, 1], none()),
        ] {
            assert!(out.columns(2, &yes, failures).is_err());
            assert_eq!(out.yes, [true]);
        }
        out.columns(2, &[1, 1], vec![(1, failure())]).unwrap();
        assert_eq!(out.yes, [true, true, false]);
        let booked = &out.failures.booked[0];
        assert_eq!((booked.position, booked.cause, &*booked.reason), (2, Cause::Reject, "bad"));
    }
}
