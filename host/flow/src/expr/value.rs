//! Values during an evaluation. They borrow from the record, the expression and the environment; nothing of the
//! payload is copied unless an operation makes something new.
//!
//! A value of the payload stays a place on the tape until an operation needs it, so that what passes through keeps its
//! text: every digit of a number, the escapes of a string, the order and duplicates of an object.

use std::hash::{Hash, Hasher};
use std::rc::Rc;

use super::ResultKind;
use super::node::Literal;
use super::number::Number;
use super::tape::TapeIndex;
use super::time::{Duration, Timestamp};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value<'v> {
    Null,
    /// The payload of a record that has none: null, except that `map` keeps it a tombstone.
    Tombstone,
    Bool(bool),
    Number(Number),
    Text(Text<'v>),
    Bytes(Blob<'v>),
    List(Rc<[Value<'v>]>),
    /// In the order in which it was written; keys differ.
    Map(Rc<[(Key<'v>, Value<'v>)]>),
    Json(Json<'v>),
    Timestamp(Timestamp),
    Duration(Duration),
    Type(ResultKind),
}

/// A value of the payload that was not read yet, or is an array or object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Json<'v> {
    /// The payload.
    pub(super) payload: &'v [u8],
    /// The cache's page.
    pub(super) page: u32,
    /// The place on its tape.
    pub(super) at: TapeIndex,
}

/// Text of the record or the expression, or made by an operation.
#[derive(Clone, Debug)]
pub(super) enum Text<'v> {
    Ref(&'v str),
    Own(Rc<str>),
}

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Text::Ref(text) => text,
            Text::Own(text) => text,
        }
    }
}

/// Bytes of the record or the expression, or made by an operation.
#[derive(Clone, Debug)]
pub(super) enum Blob<'v> {
    Ref(&'v [u8]),
    Own(Rc<[u8]>),
}

impl Blob<'_> {
    pub(super) fn as_bytes(&self) -> &[u8] {
        match self {
            Blob::Ref(bytes) => bytes,
            Blob::Own(bytes) => bytes,
        }
    }
}

/// The key of a map. Whole numbers are one kind, so that `1` finds `1u`.
#[derive(Clone, Debug)]
pub(super) enum Key<'v> {
    Bool(bool),
    Whole(i128),
    Text(Text<'v>),
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Key::Bool(a), Key::Bool(b)) => a == b,
            (Key::Whole(a), Key::Whole(b)) => a == b,
            (Key::Text(a), Key::Text(b)) => a.as_str() == b.as_str(),
            _ => false,
        }
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Key::Bool(bool) => bool.hash(state),
            Key::Whole(whole) => whole.hash(state),
            Key::Text(text) => text.as_str().hash(state),
        }
    }
}

impl<'v> Key<'v> {
    /// As a value again.
    pub(super) fn to_value(&self) -> Value<'v> {
        match self {
            Key::Bool(bool) => Value::Bool(*bool),
            Key::Whole(whole) => Value::Number(match i64::try_from(*whole) {
                Ok(int) => Number::Int(int),
                Err(_) => Number::UInt(*whole as u64),
            }),
            Key::Text(text) => Value::Text(text.clone()),
        }
    }
}

impl<'v> Value<'v> {
    /// Text that an operation made.
    pub(super) fn text(text: String) -> Value<'v> {
        Value::Text(Text::Own(text.into()))
    }

    /// Bytes of a record: text if they are UTF-8.
    pub(super) fn text_or_bytes(bytes: &'v [u8]) -> Value<'v> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(Text::Ref(text)),
            Err(_) => Value::Bytes(Blob::Ref(bytes)),
        }
    }

    pub(super) fn int(int: i64) -> Value<'v> {
        Value::Number(Number::Int(int))
    }

    pub(super) fn literal(literal: &'v Literal) -> Value<'v> {
        match literal {
            Literal::Null => Value::Null,
            Literal::Bool(bool) => Value::Bool(*bool),
            Literal::Int(int) => Value::Number(Number::Int(*int)),
            Literal::UInt(uint) => Value::Number(Number::UInt(*uint)),
            Literal::Double(double) => Value::Number(Number::Double(*double)),
            Literal::String(text) => Value::Text(Text::Ref(text)),
            Literal::Bytes(bytes) => Value::Bytes(Blob::Ref(bytes)),
            Literal::Type(kind) => Value::Type(*kind),
        }
    }
}
