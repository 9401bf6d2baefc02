//! What a role is to the calls that all roles share: how an instance is made ready for it and called, how many rows a call
//! takes, and what its answers are collected in.

use std::sync::Arc;

use loom_types::{Batch, ColumnFull};

use crate::answers::{Cause, RowFailure, told};
use crate::bindings::loom::plugin::types::Failure;
use crate::fault::Fault;
use crate::instance::{CallTime, Instance};
use crate::plugin::{Plugin, StartError};

/// Bytes of answers to one run of calls. Far above what a batch becomes, and below what a column can hold.
const ANSWER_BYTES: usize = 1 << 30;

/// A role in its forms: how an instance is made ready for it, called, and what its answers are collected in.
pub(crate) trait Role: Sized {
    /// The role as people say it, such as `batch step`.
    const NAME: &'static str;

    /// What the answers of one run of calls are collected in.
    type Collector<'a>: Collector + Send;

    /// What a run of calls answers.
    type Answers;

    /// Finds the functions, and asks the plugin what it must be asked first.
    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError>;

    /// How many rows one call takes.
    fn unit(plugin: &Plugin) -> Unit;

    /// The types that it said its rows may have, where it is of a role that says so; a fresh instance must say the same.
    fn types(&self) -> &[Arc<str>] {
        &[]
    }

    /// An empty collector for these rows.
    fn collector<'a>(batch: &'a Batch, rows: &'a [u32]) -> Self::Collector<'a>;

    /// Calls the guest on these rows. Without a fault the answers to all of them are collected; with one, none is.
    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        collector: &mut Self::Collector<'_>,
    ) -> Result<(), Fault>;

    /// What was collected, with answers to so many rows.
    fn answers(collector: Self::Collector<'_>, answered: u32) -> Self::Answers;
}

/// How many rows one call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// One: the plain form of what is about a record.
    Row,
    /// As many as a plugin batch has: the column form, which is used where the plugin has it.
    Batch,
    /// All of the run: what is about a batch gets the batch that the flow made, whose bounds the flow says.
    Whole,
}

/// Collects answers in the order of the rows.
pub(crate) trait Collector {
    /// The next row failed.
    fn fail(&mut self, cause: Cause, reason: String);

    /// The next rows failed together, in the plugin's words.
    fn fail_all(&mut self, rows: usize, failure: Failure) {
        let (cause, reason) = told(failure);
        (1..rows).for_each(|_| self.fail(cause, reason.clone()));
        self.fail(cause, reason);
    }
}

/// Failures of one run of calls.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    pub(crate) booked: Vec<RowFailure>,
}

impl Failures {
    pub(crate) fn book(&mut self, position: usize, cause: Cause, reason: String) {
        self.booked.push(RowFailure { position: position as u32, cause, reason });
    }
}

/// What a row is told whose values have no room beside those of others.
pub(crate) fn no_room(full: ColumnFull) -> String {
    format!("its values have no room beside those of the records that it came with: {full}")
}

/// What the answers of one run of calls may hold, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Room {
    used: usize,
}

impl Room {
    /// Takes room for so many bytes more; an error says that there is none.
    pub(crate) fn take(&mut self, bytes: usize) -> Result<(), String> {
        let used = self.used.saturating_add(bytes);
        if used > ANSWER_BYTES {
            return Err("the answers to this batch are more than 1 GiB together".to_owned());
        }
        self.used = used;
        Ok(())
    }
}
