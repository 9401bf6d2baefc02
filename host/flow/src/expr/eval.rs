//! Evaluates nodes over one record.
//!
//! Every visit of a node, every element and every few bytes that are handled cost a unit, and an evaluation has a
//! bounded number of them: nested macros over long lists end as a task error instead of holding their worker. `&&`,
//! `||`, `all` and `exists` are CEL's: where one side decides, a task error of the other does not matter. A payload
//! that is not JSON and an evaluation that is spent always matter.

mod calls;
mod operations;
mod read;

use std::collections::BTreeMap;
use std::rc::Rc;

use loom_types::Batch;

use super::cache::PayloadCache;
use super::node::{Each, EachKind, Literal, MsgField, Node};
use super::value::{Json, Key, Text, Value};

/// Units of an evaluation: some tens of milliseconds at most.
const MAX_COST: u64 = 1_000_000;

/// Why an evaluation has no value.
#[derive(Debug)]
pub(super) enum Fault {
    /// The payload is not JSON.
    Wire(String),
    /// The expression failed.
    Task(String),
    /// It took too long.
    Spent,
}

/// A result; the fault is boxed, so that the way without one stays small.
pub(super) type Eval<T> = Result<T, Box<Fault>>;

/// A task error.
pub(super) fn task<T>(text: impl Into<String>) -> Eval<T> {
    Err(Box::new(Fault::Task(text.into())))
}

/// One evaluation.
pub(super) struct Evaluator<'v, 'c> {
    batch: &'v Batch,
    row: u32,
    env: &'v BTreeMap<String, String>,
    cache: &'c mut PayloadCache,
    locals: Vec<Value<'v>>,
    left: u64,
}

impl<'v, 'c> Evaluator<'v, 'c> {
    pub(super) fn new(
        batch: &'v Batch,
        row: u32,
        env: &'v BTreeMap<String, String>,
        cache: &'c mut PayloadCache,
    ) -> Self {
        Evaluator { batch, row, env, cache, locals: Vec::new(), left: MAX_COST }
    }

    /// Takes units from what is left.
    pub(super) fn spend(&mut self, units: usize) -> Eval<()> {
        match self.left.checked_sub(units as u64) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Box::new(Fault::Spent)),
        }
    }

    /// The value of a node. What it gives of the payload may still have to be read, see [`Evaluator::read`].
    pub(super) fn eval(&mut self, node: &'v Node) -> Eval<Value<'v>> {
        self.spend(1)?;
        match node {
            Node::Literal(literal) => Ok(Value::literal(literal)),
            Node::Payload(path) => self.payload(path),
            Node::Msg(field) => self.msg(*field),
            Node::WholeMsg => {
                let mut entries = Vec::with_capacity(MsgField::ALL.len());
                for (name, field) in MsgField::ALL {
                    entries.push((Key::Text(Text::Ref(name)), self.msg(field)?));
                }
                Ok(Value::Map(entries.into()))
            }
            Node::Header(name) => match self.header(name) {
                Some(value) => Ok(value),
                None => task(format!("`msg.headers.{name}` is missing")),
            },
            Node::Env(name) => match self.env.get(&**name) {
                Some(value) => Ok(Value::Text(Text::Ref(value))),
                None => task(format!("the variable `env.{name}` is not set")),
            },
            Node::Local(slot, _) => Ok(self.locals[*slot].clone()),
            Node::Select(operand, field) => {
                let value = self.eval(operand)?;
                match self.member(&value, field)? {
                    Some(found) => Ok(found),
                    None => task(self.missing(operand, &value, field)),
                }
            }
            Node::Has(operand, field) => self.has(operand, field),
            Node::HasMsg(field) => Ok(Value::Bool(match field {
                MsgField::Key => self.batch.key(self.row).is_some(),
                MsgField::TimestampMs => self.batch.source(self.row).timestamp_ms.is_some(),
                MsgField::Type => false,
                _ => true,
            })),
            Node::Index(range, index) => self.index(range, index),
            Node::List(items) => {
                let items = items.iter().map(|item| self.eval(item)).collect::<Eval<Vec<_>>>()?;
                Ok(Value::List(items.into()))
            }
            Node::Map(entries) => self.map(entries),
            Node::And(a, b) => self.short(a, b, false),
            Node::Or(a, b) => self.short(a, b, true),
            Node::Not(operand) => Ok(Value::Bool(!self.truth(operand)?)),
            Node::If(parts) => {
                let [condition, a, b] = &**parts;
                if self.truth(condition)? { self.eval(a) } else { self.eval(b) }
            }
            Node::Negate(operand) => self.negate(operand),
            Node::Arithmetic(op, operands) => self.arithmetic(*op, &operands[0], &operands[1]),
            Node::Equal(operands) => Ok(Value::Bool(self.equal_nodes(operands)?)),
            Node::NotEqual(operands) => Ok(Value::Bool(!self.equal_nodes(operands)?)),
            Node::Order(order, operands) => self.order(*order, &operands[0], &operands[1]),
            Node::In(item, range) => {
                let item = self.eval(item)?;
                let range = self.eval(range)?;
                self.contains(&range, &item).map(Value::Bool)
            }
            Node::InLiterals(item, literals) => {
                let item = self.eval(item)?;
                let item = self.read(item)?;
                self.in_literals(&item, literals).map(Value::Bool)
            }
            Node::Call(function, arguments) => self.call(*function, arguments),
            Node::Matches(subject, pattern) => {
                let subject = self.eval(subject)?;
                match self.read(subject)? {
                    Value::Text(text) => {
                        self.spend(text.as_str().len() / 32)?;
                        Ok(Value::Bool(pattern.is_match(text.as_str())))
                    }
                    other => task(format!("`matches` does not take {}", self.kind(&other))),
                }
            }
            Node::Each(each) => self.each(each),
        }
    }

    /// A value that must be a boolean.
    pub(super) fn truth(&mut self, node: &'v Node) -> Eval<bool> {
        let value = self.eval(node)?;
        match self.read(value)? {
            Value::Bool(bool) => Ok(bool),
            other => task(format!("{} must be a boolean; it is {}", name_of(node), self.kind(&other))),
        }
    }

    /// `&&` and `||`: `decisive` is the value of one side that decides, whatever the other is.
    fn short(&mut self, a: &'v Node, b: &'v Node, decisive: bool) -> Eval<Value<'v>> {
        match self.truth(a) {
            Ok(value) if value == decisive => Ok(Value::Bool(decisive)),
            Ok(_) => self.truth(b).map(Value::Bool),
            Err(fault) if matches!(*fault, Fault::Task(_)) => match self.truth(b) {
                Ok(value) if value == decisive => Ok(Value::Bool(decisive)),
                Err(other) if !matches!(*other, Fault::Task(_)) => Err(other),
                _ => Err(fault),
            },
            Err(fault) => Err(fault),
        }
    }

    fn map(&mut self, entries: &'v [(Node, Node)]) -> Eval<Value<'v>> {
        let mut map: Vec<(Key<'v>, Value<'v>)> = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let found = self.eval(key)?;
            let found = self.read(found)?;
            let Some(found) = self.key_of(&found) else {
                return task(format!("{} cannot be the key of a map", self.kind(&found)));
            };
            self.spend(map.len() / 8)?;
            if map.iter().any(|(known, _)| *known == found) {
                return task(format!("a map has the key {} twice", name_of(key)));
            }
            map.push((found, self.eval(value)?));
        }
        Ok(Value::Map(map.into()))
    }

    fn each(&mut self, each: &'v Each) -> Eval<Value<'v>> {
        let range = self.eval(&each.range)?;
        let range = self.read(range)?;
        let Some(mut cursor) = self.cursor(&range)? else {
            let text = format!("a macro goes over a list or a map; {}", name_of(&each.range));
            return task(format!("{text} is {}", self.kind(&range)));
        };
        let mut found = 0_usize;
        let mut taken = Vec::new();
        let mut fault = None;
        while let Some(item) = cursor.next(self) {
            self.spend(1)?;
            self.locals.truncate(each.slot);
            self.locals.push(item.clone());
            let holds = match each.condition.as_ref().map(|condition| self.truth(condition)) {
                None => true,
                Some(Ok(holds)) => holds,
                // Another element may still decide.
                Some(Err(error))
                    if matches!(each.kind, EachKind::All | EachKind::Exists)
                        && matches!(*error, Fault::Task(_)) =>
                {
                    fault.get_or_insert(error);
                    continue;
                }
                Some(Err(error)) => return Err(error),
            };
            match each.kind {
                EachKind::All if !holds => return Ok(Value::Bool(false)),
                EachKind::Exists if holds => return Ok(Value::Bool(true)),
                EachKind::ExistsOne => found += usize::from(holds),
                EachKind::Collect if holds => taken.push(match &each.body {
                    Some(body) => self.eval(body)?,
                    None => item,
                }),
                _ => {}
            }
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
        Ok(match each.kind {
            EachKind::All => Value::Bool(true),
            EachKind::Exists => Value::Bool(false),
            EachKind::ExistsOne => Value::Bool(found == 1),
            EachKind::Collect => Value::List(taken.into()),
        })
    }

    fn cursor(&mut self, range: &Value<'v>) -> Eval<Option<Cursor<'v>>> {
        Ok(match range {
            Value::List(items) => Some(Cursor::Items(items.clone(), 0)),
            Value::Json(json) if self.is_array(*json) => {
                let end = self.cache.tape(json.page).entry(json.at).next;
                Some(Cursor::Tape(Json { at: json.at + 1, ..*json }, end))
            }
            Value::Map(_) | Value::Json(_) => {
                let keys: Vec<_> = self.entries(range)?.iter().map(|(key, _)| key.to_value()).collect();
                Some(Cursor::Items(keys.into(), 0))
            }
            _ => None,
        })
    }
}

/// Where a macro is in what it goes over.
enum Cursor<'v> {
    Items(Rc<[Value<'v>]>, usize),
    /// The next element of an array, and the entry after the array.
    Tape(Json<'v>, u32),
}

impl<'v> Cursor<'v> {
    fn next(&mut self, evaluator: &Evaluator<'v, '_>) -> Option<Value<'v>> {
        match self {
            Cursor::Items(items, at) => {
                let item = items.get(*at).cloned();
                *at += 1;
                item
            }
            Cursor::Tape(json, end) if json.at < *end => {
                let item = *json;
                json.at = evaluator.cache.tape(json.page).entry(json.at).next;
                Some(Value::Json(item))
            }
            Cursor::Tape(..) => None,
        }
    }
}

/// How a message calls the value of a node.
pub(super) fn name_of(node: &Node) -> String {
    match path(node) {
        Some(path) => format!("`{path}`"),
        None => "the value".to_owned(),
    }
}

/// A node as it is written, where it is a path.
pub(super) fn path(node: &Node) -> Option<String> {
    Some(match node {
        Node::Payload(path) => path.iter().fold("payload".to_owned(), |text, field| join(text, field)),
        Node::Msg(field) => {
            let name = MsgField::ALL.iter().find(|(_, known)| known == field).map_or("", |(name, _)| name);
            format!("msg.{name}")
        }
        Node::WholeMsg => "msg".to_owned(),
        Node::Header(name) => join("msg.headers".to_owned(), name),
        Node::Env(name) => format!("env.{name}"),
        Node::Local(_, name) => name.to_string(),
        Node::Select(operand, field) => join(path(operand)?, field),
        Node::Index(range, index) => match &**index {
            Node::Literal(Literal::Int(int)) => format!("{}[{int}]", path(range)?),
            index => format!("{}[{}]", path(range)?, path(index)?),
        },
        Node::Literal(Literal::String(text)) => format!("'{text}'"),
        _ => return None,
    })
}

/// `base.field`, or `base['field']` where the field is no identifier.
pub(super) fn join(mut base: String, field: &str) -> String {
    let identifier = !field.starts_with(|first: char| first.is_ascii_digit())
        && !field.is_empty()
        && field.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if identifier {
        base.push('.');
        base.push_str(field);
    } else {
        base.push_str("['");
        base.push_str(field);
        base.push_str("']");
    }
    base
}
