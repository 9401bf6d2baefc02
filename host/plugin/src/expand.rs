//! An expander at a node: records in, any number of new ones out of each. The column form of the plain expander is used
//! where the plugin has it; the rows of a typed expander each have one of the types that the plugin named at its start.

use std::collections::HashMap;
use std::sync::Arc;

use loom_types::Batch;

use crate::answers::{Cause, ExpandAnswers, TypedExpandAnswers};
use crate::bindings::exports::loom::plugin::{column_expand, expand, typed_expand};
use crate::bindings::loom::plugin::types::{Failure, Row, TypedRow};
use crate::fault::Fault;
use crate::instance::{CallTime, Instance, role_missing};
use crate::log::cut;
use crate::lower::Crossing;
use crate::node::node;
use crate::plain::with_message;
use crate::plugin::{Plugin, StartError};
use crate::role::{Collector, Role, Unit};
use crate::rows::RowsOut;

/// The longest name of a type in a message.
const TYPE_BYTES: usize = 100;

node! {
    /// An expander plugin at one node, on one worker.
    ExpandNode, Expand, ExpandAnswers
}

node! {
    /// A typed expander at one node, on one worker.
    TypedExpandNode, TypedExpand, TypedExpandAnswers
}

impl TypedExpandNode {
    /// The types that rows may have, in the plugin's order: at least one, each once.
    #[must_use]
    pub fn types(&self) -> &Arc<[Arc<str>]> {
        self.slot.types()
    }
}

pub(crate) enum Expand {
    Plain(expand::Guest),
    Columns(column_expand::Guest, Box<Crossing>),
}

impl Role for Expand {
    const NAME: &'static str = "expander";
    type Collector<'a> = RowsOut<'a>;
    type Answers = ExpandAnswers;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let exports = &plugin.loaded().exports;
        if let Some(indices) = &exports.column_expand {
            let guest = instance.find(plugin, "column-expand", |store, guest| indices.load(store, guest))?;
            let reads = instance.starting(plugin, "reads", |store| guest.call_reads(store))?;
            return Ok(Expand::Columns(guest, Box::new(Crossing::new(reads))));
        }
        let Some(indices) = &exports.expand else { return Err(role_missing(plugin, Self::NAME)) };
        instance.find(plugin, "expand", |store, guest| indices.load(store, guest)).map(Expand::Plain)
    }

    fn unit(plugin: &Plugin) -> Unit {
        if plugin.loaded().exports.column_expand.is_some() { Unit::Batch } else { Unit::Row }
    }

    fn collector<'a>(batch: &'a Batch, rows: &'a [u32]) -> RowsOut<'a> {
        RowsOut::new(batch, rows)
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut RowsOut<'_>,
    ) -> Result<(), Fault> {
        match self {
            Expand::Plain(guest) => {
                let answer = with_message(batch, rows[0], |message| {
                    instance.call(time, |store| guest.call_expand(store, message))
                })?;
                out.answer(answer);
            }
            Expand::Columns(guest, crossing) => {
                let topics = crossing.topics(batch);
                let lowered = crossing.lower(batch, rows, &topics);
                match instance.call(time.of_batch(rows.len()), |store| guest.call_expand(store, lowered))? {
                    Ok(answer) => out.columns(rows.len(), answer).map_err(Fault::protocol)?,
                    Err(failure) => out.fail_all(rows.len(), failure),
                }
            }
        }
        Ok(())
    }

    fn answers(out: RowsOut<'_>, answered: u32) -> ExpandAnswers {
        out.finish(answered)
    }
}

pub(crate) struct TypedExpand {
    guest: typed_expand::Guest,
    types: Types,
}

/// The types that a plugin named: at least one, each once.
pub(crate) struct Types {
    names: Vec<Arc<str>>,
    places: HashMap<Arc<str>, u32>,
}

impl Types {
    /// What a plugin answered; an error names what breaks the contract.
    pub(crate) fn new(plugin: &Plugin, types: Vec<String>) -> Result<Self, StartError> {
        let names: Vec<Arc<str>> = types.into_iter().map(Arc::from).collect();
        let places: HashMap<_, _> = names.iter().cloned().zip(0_u32..).collect();
        let reason = if names.is_empty() {
            "named no type"
        } else if names.iter().any(|name| name.is_empty()) {
            "named a type without a name"
        } else if places.len() < names.len() {
            "named a type twice"
        } else {
            return Ok(Types { names, places });
        };
        let (plugin, reason) = (plugin.name().to_owned(), reason.to_owned());
        Err(StartError::Trap { plugin, during: "types", reason })
    }

    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.names
    }
}

/// Rows with their types, and failures, so far.
pub(crate) struct TypedOut<'a> {
    rows: RowsOut<'a>,
    types: Vec<u32>,
}

impl Collector for TypedOut<'_> {
    fn fail(&mut self, cause: Cause, reason: String) {
        self.rows.fail(cause, reason);
    }
}

impl<'a> TypedOut<'a> {
    pub(crate) fn new(batch: &'a Batch, rows: &'a [u32]) -> Self {
        TypedOut { rows: RowsOut::new(batch, rows), types: Vec::new() }
    }

    /// What was made of the next input, of these types; an error names what breaks the contract.
    pub(crate) fn answer(
        &mut self,
        types: &Types,
        answer: Result<Vec<TypedRow>, Failure>,
    ) -> Result<(), String> {
        let typed = match answer {
            Ok(typed) => typed,
            Err(failure) => {
                self.fail_all(1, failure);
                return Ok(());
            }
        };
        let mut rows: Vec<(u32, Row)> = Vec::with_capacity(typed.len());
        for TypedRow { type_, row } in typed {
            // Most rows have the type of the row before them.
            let last = rows.last().map(|(number, _)| *number);
            let number = match last.filter(|last| *types.names[*last as usize] == *type_) {
                Some(number) => number,
                None => *types.places.get(&*type_).ok_or_else(|| {
                    let (named, known) = (cut(&type_, TYPE_BYTES), types.names.join(", "));
                    let known = cut(&known, 10 * TYPE_BYTES);
                    format!("its row {} is of the type {named:?}, and its types are {known}", rows.len())
                })?,
            };
            rows.push((number, row));
        }
        rows.sort_by_key(|(number, _)| *number);
        let before = self.types.len();
        let mut taken = Vec::with_capacity(rows.len());
        for (number, row) in rows {
            self.types.push(number);
            taken.push(row);
        }
        if !self.rows.answer(Ok(taken)) {
            self.types.truncate(before);
        }
        Ok(())
    }

    pub(crate) fn finish(self, answered: u32) -> TypedExpandAnswers {
        TypedExpandAnswers { made: self.rows.finish(answered), types: self.types }
    }
}

impl Role for TypedExpand {
    const NAME: &'static str = "typed expander";
    type Collector<'a> = TypedOut<'a>;
    type Answers = TypedExpandAnswers;

    fn open(plugin: &Plugin, instance: &mut Instance) -> Result<Self, StartError> {
        let Some(indices) = &plugin.loaded().exports.typed_expand else {
            return Err(role_missing(plugin, Self::NAME));
        };
        let guest = instance.find(plugin, "typed-expand", |store, guest| indices.load(store, guest))?;
        let types = instance.starting(plugin, "types", |store| guest.call_types(store))?;
        Ok(TypedExpand { guest, types: Types::new(plugin, types)? })
    }

    fn unit(_: &Plugin) -> Unit {
        Unit::Row
    }

    fn types(&self) -> &[Arc<str>] {
        self.types.names()
    }

    fn collector<'a>(batch: &'a Batch, rows: &'a [u32]) -> TypedOut<'a> {
        TypedOut::new(batch, rows)
    }

    fn call(
        &mut self,
        instance: &mut Instance,
        time: CallTime,
        batch: &Batch,
        rows: &[u32],
        out: &mut TypedOut<'_>,
    ) -> Result<(), Fault> {
        let guest = &self.guest;
        let answer = with_message(batch, rows[0], |message| {
            instance.call(time, |store| guest.call_expand(store, message))
        })?;
        out.answer(&self.types, answer).map_err(Fault::protocol)
    }

    fn answers(out: TypedOut<'_>, answered: u32) -> TypedExpandAnswers {
        out.finish(answered)
    }
}
