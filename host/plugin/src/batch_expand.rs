//! A batch expander at a node: a batch in, whole, in one call, and any number of new rows out, each with the records that it
//! stands for.

use loom_types::Batch;

use crate::answers::{BatchExpandAnswers, Cause, Origins};
use crate::bindings::exports::loom::plugin::batch_expand;
use crate::bindings::loom::plugin::types::{Derived, Failure};
use crate::changes::Assembler;
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, role_missing};
use crate::node::node;
use crate::plain::with_messages;
use crate::plugin::{Plugin, StartError};
use crate::role::{Collector, Failures, Role, Room, Unit};
use crate::rows::{Names, cost};

node! {
    /// A batch expander at one node, on one worker. The rows of one call are one batch, and the plugin gets them together:
    /// callers cut nothing that the flow made one batch.
    BatchExpandNode, BatchExpand, BatchExpandAnswers
}

pub(crate) struct BatchExpand(batch_expand::Guest);

/// Rows with their origins, and failures, so far.
pub(crate) struct DerivedOut<'a> {
    batch: &'a Batch,
    inputs: &'a [u32],
    /// How many inputs have an answer.
    done: usize,
    assembler: Assembler<'a>,
    names: Names,
    /// How many rows have each input as the first that they name.
    named: Vec<u32>,
    origins: Origins,
    failures: Failures,
    room: Room,
}

impl Collector for DerivedOut<'_> {
    fn fail(&mut self, cause: Cause, reason: String) {
        self.failures.book(self.done, cause, reason);
        self.done += 1;
    }
}

impl<'a> DerivedOut<'a> {
    pub(crate) fn new(batch: &'a Batch, inputs: &'a [u32]) -> Self {
        DerivedOut {
            batch,
            inputs,
            done: 0,
            assembler: Assembler::empty(batch),
            names: Names::with_capacity(inputs.len()),
            named: vec![0; inputs.len()],
            origins: Origins::new(),
            failures: Failures::default(),
            room: Room::default(),
        }
    }

    /// What was made of the next inputs together; an error names what breaks the contract.
    pub(crate) fn answer(
        &mut self,
        inputs: usize,
        answer: Result<Vec<Derived>, Failure>,
    ) -> Result<(), String> {
        let derived = match answer {
            Ok(derived) => derived,
            Err(failure) => {
                self.fail_all(inputs, failure);
                return Ok(());
            }
        };
        for (row, made) in derived.iter().enumerate() {
            if let Some(origin) = made.origins.iter().find(|origin| **origin as usize >= inputs) {
                return Err(format!(
                    "its row {row} stands for record {origin}, and there are {inputs} records"
                ));
            }
        }
        let about = &self.inputs[self.done..self.done + inputs];
        let longest = about.iter().map(|input| self.batch.name(*input).len()).max().unwrap_or(0);
        let bytes = derived.iter().map(|made| longest + cost(&made.row) + 4 * made.origins.len());
        if let Err(reason) = self.room.take(bytes.sum()) {
            (0..inputs).for_each(|_| self.fail(Cause::Fail, reason.clone()));
            return Ok(());
        }
        let mut sets = Sets::default();
        derived.into_iter().for_each(|made| self.push(made, inputs as u32, &mut sets));
        self.done += inputs;
        Ok(())
    }

    fn push(&mut self, made: Derived, inputs: u32, sets: &mut Sets) {
        let Derived { row, mut origins } = made;
        let base = self.done as u32;
        let first = self.done + origins.first().map_or(0, |origin| *origin as usize);
        let input = self.inputs[first];
        self.assembler.made_from([input]);
        let pushed = self.assembler.row(row);
        debug_assert!(pushed.is_ok(), "rows are counted against a lower bound");
        self.names.push(self.batch.name(input), self.named[first]);
        self.named[first] += 1;

        origins.sort_unstable();
        origins.dedup();
        let set = if origins.is_empty() {
            *sets.all.get_or_insert_with(|| self.origins.add_set(base..base + inputs))
        } else {
            origins.iter_mut().for_each(|origin| *origin += base);
            match sets.last {
                Some(set) if self.origins.set(set as usize) == origins => set,
                _ => *sets.last.insert(self.origins.add_set(origins)),
            }
        };
        self.origins.add_row(set);
    }

    pub(crate) fn finish(self, answered: u32) -> BatchExpandAnswers {
        BatchExpandAnswers {
            answered,
            rows: self.assembler.finish_batch().named(self.names.finish()),
            origins: self.origins,
            failures: self.failures.booked,
        }
    }
}

/// The sets that the next rows of a call may share.
#[derive(Default)]
struct Sets {
    /// That of rows which name none.
    all: Option<u32>,
    /// That of the last row which named some.
    last: Option<u32>,
}

impl Role for BatchExpand {
    const NAME: &'static str = "batch expander";
    type Collector<'a> = DerivedOut<'a>;
    type Answers = BatchExpandAnswers;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let Some(indices) = &plugin.loaded().exports.batch_expand else {
            return Err(role_missing(plugin, Self::NAME));
        };
        instance.find(plugin, "batch-expand", |store, guest| indices.load(store, guest)).map(BatchExpand)
    }

    fn unit(_: &Plugin) -> Unit {
        Unit::Whole
    }

    fn collector<'a>(batch: &'a Batch, rows: &'a [u32]) -> DerivedOut<'a> {
        DerivedOut::new(batch, rows)
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut DerivedOut<'_>,
    ) -> Result<(), Fault> {
        let BatchExpand(guest) = self;
        let answer = with_messages(batch, rows, |messages| {
            instance.call(time.of_batch(rows.len()), |store| guest.call_expand(store, messages))
        })?;
        out.answer(rows.len(), answer).map_err(Fault::protocol)
    }

    fn answers(out: DerivedOut<'_>, answered: u32) -> BatchExpandAnswers {
        out.finish(answered)
    }
}
