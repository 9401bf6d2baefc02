//! A selector or partitioner at a node: for each record one value or none, a label or a key.

use loom_types::{Batch, BytesBuilder};

use crate::answers::{Cause, ChoiceAnswers};
use crate::bindings::exports::loom::plugin::{partitioner, selector};
use crate::bindings::loom::plugin::types::Failure;
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, role_missing};
use crate::node::node;
use crate::plain::with_message;
use crate::plugin::{Plugin, StartError};
use crate::role::{Collector, Failures, Role, Room, Unit, no_room};

node! {
    /// A selector plugin at one node, on one worker.
    SelectorNode, Selector, ChoiceAnswers
}

node! {
    /// A partitioner plugin at one node, on one worker.
    PartitionerNode, Partitioner, ChoiceAnswers
}

pub(crate) struct Selector(selector::Guest);

pub(crate) struct Partitioner(partitioner::Guest);

/// Values and failures so far, and of how many rows in all.
pub(crate) struct ChoiceOut {
    chosen: BytesBuilder,
    failures: Failures,
    room: Room,
    rows: usize,
}

impl Collector for ChoiceOut {
    fn fail(&mut self, cause: Cause, reason: String) {
        self.failures.book(self.chosen.len(), cause, reason);
        self.none();
    }
}

impl ChoiceOut {
    pub(crate) fn new(rows: usize) -> Self {
        ChoiceOut { chosen: BytesBuilder::new(), failures: Failures::default(), room: Room::default(), rows }
    }

    /// The answer to the next row.
    pub(crate) fn answer(&mut self, answer: Result<Option<Vec<u8>>, Failure>) {
        let chosen = match answer {
            Ok(chosen) => chosen,
            Err(failure) => return self.fail_all(1, failure),
        };
        let room = self.room.take(chosen.as_ref().map_or(0, Vec::len));
        let pushed = room.and_then(|()| self.chosen.push(chosen.as_deref()).map_err(no_room));
        if let Err(reason) = pushed {
            self.fail(Cause::Fail, reason);
        }
    }

    fn none(&mut self) {
        let pushed = self.chosen.push(None);
        debug_assert!(pushed.is_ok(), "nothing always has room");
    }

    pub(crate) fn finish(mut self, answered: u32) -> ChoiceAnswers {
        (self.chosen.len()..self.rows).for_each(|_| self.none());
        ChoiceAnswers { answered, chosen: self.chosen.finish(), failures: self.failures.booked }
    }
}

impl Role for Selector {
    const NAME: &'static str = "selector";
    type Collector<'a> = ChoiceOut;
    type Answers = ChoiceAnswers;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let Some(indices) = &plugin.loaded().exports.selector else {
            return Err(role_missing(plugin, Self::NAME));
        };
        instance.find(plugin, "selector", |store, guest| indices.load(store, guest)).map(Selector)
    }

    fn unit(_: &Plugin) -> Unit {
        Unit::Row
    }

    fn collector<'a>(_: &'a Batch, rows: &'a [u32]) -> ChoiceOut {
        ChoiceOut::new(rows.len())
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut ChoiceOut,
    ) -> Result<(), Fault> {
        let Selector(guest) = self;
        let answer = with_message(batch, rows[0], |message| {
            instance.call(time, |store| guest.call_select(store, message))
        })?;
        out.answer(answer.map(|label| label.map(String::into_bytes)));
        Ok(())
    }

    fn answers(out: ChoiceOut, answered: u32) -> ChoiceAnswers {
        out.finish(answered)
    }
}

impl Role for Partitioner {
    const NAME: &'static str = "partitioner";
    type Collector<'a> = ChoiceOut;
    type Answers = ChoiceAnswers;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let Some(indices) = &plugin.loaded().exports.partitioner else {
            return Err(role_missing(plugin, Self::NAME));
        };
        instance.find(plugin, "partitioner", |store, guest| indices.load(store, guest)).map(Partitioner)
    }

    fn unit(_: &Plugin) -> Unit {
        Unit::Row
    }

    fn collector<'a>(_: &'a Batch, rows: &'a [u32]) -> ChoiceOut {
        ChoiceOut::new(rows.len())
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut ChoiceOut,
    ) -> Result<(), Fault> {
        let Partitioner(guest) = self;
        let answer = with_message(batch, rows[0], |message| {
            instance.call(time, |store| guest.call_key(store, message))
        })?;
        out.answer(answer);
        Ok(())
    }

    fn answers(out: ChoiceOut, answered: u32) -> ChoiceAnswers {
        out.finish(answered)
    }
}
