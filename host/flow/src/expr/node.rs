//! A checked expression, ready to evaluate: every name is resolved, every literal is a value, every macro is one node.

use regex::Regex;

use super::ResultKind;
use super::functions::Function;
use super::number::Arithmetic;

/// A part of an expression.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Literal(Literal),
    /// `payload` and the fields below it that the text names.
    Payload(Vec<Box<str>>),
    Msg(MsgField),
    /// All of `msg`.
    WholeMsg,
    /// `msg.headers.NAME`.
    Header(Box<str>),
    Env(Box<str>),
    /// The variable of an enclosing macro.
    Local(usize, Box<str>),
    Select(Box<Node>, Box<str>),
    Has(Box<Node>, Box<str>),
    /// `has(msg.FIELD)`.
    HasMsg(MsgField),
    Index(Box<Node>, Box<Node>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Not(Box<Node>),
    If(Box<[Node; 3]>),
    Negate(Box<Node>),
    Arithmetic(Arithmetic, Box<[Node; 2]>),
    Equal(Box<[Node; 2]>),
    NotEqual(Box<[Node; 2]>),
    Order(Order, Box<[Node; 2]>),
    In(Box<Node>, Box<Node>),
    /// `in` a list of literals: nothing is built for a record.
    InLiterals(Box<Node>, Vec<Literal>),
    Call(Function, Vec<Node>),
    /// `matches` with a literal pattern, compiled.
    Matches(Box<Node>, Regex),
    Each(Box<Each>),
}

/// A value in the text.
#[derive(Clone, Debug)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    UInt(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
    /// The name of a type, as `type` gives it.
    Type(ResultKind),
}

/// A field of `msg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MsgField {
    Key,
    Topic,
    Partition,
    Offset,
    TimestampMs,
    Headers,
    Row,
    Type,
}

impl MsgField {
    /// Every field with its name.
    pub(super) const ALL: [(&'static str, MsgField); 8] = [
        ("key", MsgField::Key),
        ("topic", MsgField::Topic),
        ("partition", MsgField::Partition),
        ("offset", MsgField::Offset),
        ("timestamp_ms", MsgField::TimestampMs),
        ("headers", MsgField::Headers),
        ("row", MsgField::Row),
        ("type", MsgField::Type),
    ];
}

/// Which order a comparison asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

/// A macro over the elements of a list or the keys of a map.
#[derive(Clone, Debug)]
pub(super) struct Each {
    /// Which.
    pub(super) kind: EachKind,
    /// What it goes over.
    pub(super) range: Node,
    /// Where its variable is.
    pub(super) slot: usize,
    /// The condition of `all`, `exists` and `exists_one`; of `filter` and the longer `map` what is taken.
    pub(super) condition: Option<Node>,
    /// What `map` makes of an element; absent, the element itself is taken.
    pub(super) body: Option<Node>,
}

/// Which macro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EachKind {
    All,
    Exists,
    ExistsOne,
    /// `map` and `filter`.
    Collect,
}
