//! Operators: arithmetic, equality, order, membership.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::super::ResultKind;
use super::super::node::{Literal, Node, Order};
use super::super::number::{Arithmetic, Number};
use super::super::value::{Blob, Value};
use super::{Eval, Evaluator, task};

impl<'v> Evaluator<'v, '_> {
    pub(super) fn negate(&mut self, operand: &'v Node) -> Eval<Value<'v>> {
        let value = self.eval(operand)?;
        match self.read(value)? {
            Value::Number(number) => match number.negate() {
                Ok(number) => Ok(Value::Number(number)),
                Err(error) => task(error.text()),
            },
            other => task(format!("`-` needs a number, not {}", self.kind(&other))),
        }
    }

    pub(super) fn arithmetic(&mut self, op: Arithmetic, a: &'v Node, b: &'v Node) -> Eval<Value<'v>> {
        let a = self.eval(a)?;
        let a = self.read(a)?;
        let b = self.eval(b)?;
        let b = self.read(b)?;
        match (op, &a, &b) {
            (_, Value::Number(a), Value::Number(b)) => match a.apply(op, *b) {
                Ok(number) => Ok(Value::Number(number)),
                Err(error) => task(error.text()),
            },
            (Arithmetic::Add, Value::Text(a), Value::Text(b)) => {
                let (a, b) = (a.as_str(), b.as_str());
                self.spend((a.len() + b.len()) / 32)?;
                Ok(Value::text([a, b].concat()))
            }
            (Arithmetic::Add, Value::Bytes(a), Value::Bytes(b)) => {
                let (a, b) = (a.as_bytes(), b.as_bytes());
                self.spend((a.len() + b.len()) / 32)?;
                Ok(Value::Bytes(Blob::Own([a, b].concat().into())))
            }
            (Arithmetic::Add | Arithmetic::Subtract, Value::Timestamp(at), Value::Duration(length)) => {
                let moved = if op == Arithmetic::Add { at.plus(*length) } else { at.minus(*length) };
                moved.map_or_else(
                    || task("the result is out of range (overflow)"),
                    |at| Ok(Value::Timestamp(at)),
                )
            }
            (Arithmetic::Add, Value::Duration(length), Value::Timestamp(at)) => at
                .plus(*length)
                .map_or_else(|| task("the result is out of range (overflow)"), |at| Ok(Value::Timestamp(at))),
            (Arithmetic::Subtract, Value::Timestamp(a), Value::Timestamp(b)) => a.since(*b).map_or_else(
                || task("the result is out of range (overflow)"),
                |length| Ok(Value::Duration(length)),
            ),
            (Arithmetic::Add | Arithmetic::Subtract, Value::Duration(a), Value::Duration(b)) => {
                let sum = if op == Arithmetic::Add { a.0.checked_add(b.0) } else { a.0.checked_sub(b.0) };
                sum.map_or_else(
                    || task("the result is out of range (overflow)"),
                    |nanos| Ok(Value::Duration(super::super::time::Duration(nanos))),
                )
            }
            _ if op == Arithmetic::Add && self.both(&a, &b, ResultKind::List) => {
                let mut items = self.elements(&a)?;
                items.extend(self.elements(&b)?);
                Ok(Value::List(items.into()))
            }
            _ => task(format!("`{}` does not work on {} and {}", op.sign(), self.kind(&a), self.kind(&b))),
        }
    }

    pub(super) fn order(&mut self, order: Order, a: &'v Node, b: &'v Node) -> Eval<Value<'v>> {
        let a = self.eval(a)?;
        let a = self.read(a)?;
        let b = self.eval(b)?;
        let b = self.read(b)?;
        let found = match (&a, &b) {
            (Value::Number(a), Value::Number(b)) => a.compare(*b),
            // The order of UTF-8 is the order of code points.
            (Value::Text(x), Value::Text(y)) => {
                self.spend(x.as_str().len().min(y.as_str().len()) / 32)?;
                x.as_str().cmp(y.as_str())
            }
            (Value::Bytes(x), Value::Bytes(y)) => {
                self.spend(x.as_bytes().len().min(y.as_bytes().len()) / 32)?;
                x.as_bytes().cmp(y.as_bytes())
            }
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
            (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
            _ => return task(format!("{} and {} cannot be ordered", self.kind(&a), self.kind(&b))),
        };
        Ok(Value::Bool(match order {
            Order::Less => found == Ordering::Less,
            Order::LessEqual => found != Ordering::Greater,
            Order::Greater => found == Ordering::Greater,
            Order::GreaterEqual => found != Ordering::Less,
        }))
    }

    pub(super) fn equal_nodes(&mut self, operands: &'v [Node; 2]) -> Eval<bool> {
        let a = self.eval(&operands[0])?;
        let b = self.eval(&operands[1])?;
        self.equal(a, b)
    }

    /// Values of different kinds are not equal; numbers are equal by value, whatever their kinds.
    pub(super) fn equal(&mut self, a: Value<'v>, b: Value<'v>) -> Eval<bool> {
        self.spend(1)?;
        let (a, b) = (self.read(a)?, self.read(b)?);
        match (&a, &b) {
            (Value::Number(a), Value::Number(b)) => Ok(a.compare(*b) == Ordering::Equal),
            (Value::Text(x), Value::Text(y)) => {
                let (x, y) = (x.as_str(), y.as_str());
                if x.len() == y.len() {
                    self.spend(x.len() / 32)?;
                }
                Ok(x == y)
            }
            (Value::Bytes(x), Value::Bytes(y)) => {
                let (x, y) = (x.as_bytes(), y.as_bytes());
                if x.len() == y.len() {
                    self.spend(x.len() / 32)?;
                }
                Ok(x == y)
            }
            (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
            (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a == b),
            (Value::Duration(a), Value::Duration(b)) => Ok(a == b),
            (Value::Type(a), Value::Type(b)) => Ok(a == b),
            _ if self.both(&a, &b, ResultKind::Null) => Ok(true),
            _ if self.both(&a, &b, ResultKind::List) => {
                let (a, b) = (self.elements(&a)?, self.elements(&b)?);
                if a.len() != b.len() {
                    return Ok(false);
                }
                for (a, b) in a.into_iter().zip(b) {
                    if !self.equal(a, b)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            _ if self.both(&a, &b, ResultKind::Map) => {
                let (a, b) = (self.entries(&a)?, self.entries(&b)?);
                if a.len() != b.len() {
                    return Ok(false);
                }
                let others: HashMap<_, _> = b.into_iter().collect();
                for (key, value) in a {
                    match others.get(&key) {
                        Some(other) if self.equal(value, other.clone())? => {}
                        _ => return Ok(false),
                    }
                }
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// `item in range`.
    pub(super) fn contains(&mut self, range: &Value<'v>, item: &Value<'v>) -> Eval<bool> {
        match self.kind(range) {
            ResultKind::List => {
                for element in self.elements(range)? {
                    if self.equal(element, item.clone())? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            ResultKind::Map => {
                let item = self.read(item.clone())?;
                match self.key_of(&item) {
                    Some(key) => Ok(self.lookup(range, &key)?.is_some()),
                    None => Ok(false),
                }
            }
            kind => task(format!("`in` needs a list or a map, not {kind}")),
        }
    }

    pub(super) fn in_literals(&mut self, item: &Value<'v>, literals: &'v [Literal]) -> Eval<bool> {
        for literal in literals {
            self.spend(1)?;
            let same = match (item, literal) {
                (Value::Text(text), Literal::String(known)) => text.as_str() == &**known,
                (Value::Number(number), Literal::Int(int)) => {
                    number.compare(Number::Int(*int)) == Ordering::Equal
                }
                (item, literal) => self.equal(item.clone(), Value::literal(literal))?,
            };
            if same {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn both(&self, a: &Value<'v>, b: &Value<'v>, kind: ResultKind) -> bool {
        self.kind(a) == kind && self.kind(b) == kind
    }
}
