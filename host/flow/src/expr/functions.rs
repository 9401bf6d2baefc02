//! The functions that expressions may call: CEL's standard library. A call is checked against this table when it is
//! compiled; arguments whose kinds depend on the record are checked when it runs.

use super::ResultKind;
use super::time::Part;

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Function {
    /// Code points of a string, bytes, elements, entries.
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    ToInt,
    ToUInt,
    ToDouble,
    ToString,
    ToBytes,
    ToBool,
    ToTimestamp,
    ToDuration,
    /// The value itself.
    Dyn,
    TypeOf,
    Part(Part),
}

/// How a function is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `f(x)`.
    Global,
    /// `x.f()`.
    Method,
    /// Either.
    Both,
}

/// A function's entry: arguments count the receiver of a method.
#[derive(Debug)]
pub(super) struct Signature {
    /// Its name.
    pub(super) name: &'static str,
    /// What it is.
    pub(super) function: Function,
    /// How it is called.
    pub(super) form: Form,
    /// The fewest and the most arguments.
    pub(super) arguments: (usize, usize),
    /// Kinds that the first argument may have; empty = any.
    pub(super) first: &'static [ResultKind],
    /// Kinds that further arguments may have; empty = any.
    pub(super) others: &'static [ResultKind],
    /// What it gives.
    pub(super) result: ResultKind,
}

const TEXT: &[ResultKind] = &[ResultKind::String];
const TIME: &[ResultKind] = &[ResultKind::Timestamp];
const TIME_OR_LENGTH: &[ResultKind] = &[ResultKind::Timestamp, ResultKind::Duration];
const SIZED: &[ResultKind] = &[ResultKind::String, ResultKind::Bytes, ResultKind::List, ResultKind::Map];
const TO_INT: &[ResultKind] =
    &[ResultKind::Int, ResultKind::UInt, ResultKind::Double, ResultKind::String, ResultKind::Timestamp];
const TO_NUMBER: &[ResultKind] = &[ResultKind::Int, ResultKind::UInt, ResultKind::Double, ResultKind::String];
const TO_STRING: &[ResultKind] = &[
    ResultKind::String,
    ResultKind::Bytes,
    ResultKind::Int,
    ResultKind::UInt,
    ResultKind::Double,
    ResultKind::Bool,
    ResultKind::Timestamp,
    ResultKind::Duration,
];

const fn signature(
    name: &'static str,
    function: Function,
    form: Form,
    arguments: (usize, usize),
    first: &'static [ResultKind],
    result: ResultKind,
) -> Signature {
    Signature { name, function, form, arguments, first, others: TEXT, result }
}

/// Every function.
pub(super) const FUNCTIONS: &[Signature] = &[
    signature("size", Function::Size, Form::Both, (1, 1), SIZED, ResultKind::Int),
    signature("contains", Function::Contains, Form::Method, (2, 2), TEXT, ResultKind::Bool),
    signature("startsWith", Function::StartsWith, Form::Method, (2, 2), TEXT, ResultKind::Bool),
    signature("endsWith", Function::EndsWith, Form::Method, (2, 2), TEXT, ResultKind::Bool),
    signature("matches", Function::Matches, Form::Both, (2, 2), TEXT, ResultKind::Bool),
    signature("int", Function::ToInt, Form::Global, (1, 1), TO_INT, ResultKind::Int),
    signature("uint", Function::ToUInt, Form::Global, (1, 1), TO_NUMBER, ResultKind::UInt),
    signature("double", Function::ToDouble, Form::Global, (1, 1), TO_NUMBER, ResultKind::Double),
    signature("string", Function::ToString, Form::Global, (1, 1), TO_STRING, ResultKind::String),
    signature(
        "bytes",
        Function::ToBytes,
        Form::Global,
        (1, 1),
        &[ResultKind::String, ResultKind::Bytes],
        ResultKind::Bytes,
    ),
    signature(
        "bool",
        Function::ToBool,
        Form::Global,
        (1, 1),
        &[ResultKind::String, ResultKind::Bool],
        ResultKind::Bool,
    ),
    signature(
        "timestamp",
        Function::ToTimestamp,
        Form::Global,
        (1, 1),
        &[ResultKind::String, ResultKind::Int, ResultKind::Timestamp],
        ResultKind::Timestamp,
    ),
    signature(
        "duration",
        Function::ToDuration,
        Form::Global,
        (1, 1),
        &[ResultKind::String, ResultKind::Duration],
        ResultKind::Duration,
    ),
    signature("dyn", Function::Dyn, Form::Global, (1, 1), &[], ResultKind::Unknown),
    signature("type", Function::TypeOf, Form::Global, (1, 1), &[], ResultKind::Type),
    signature("getFullYear", Function::Part(Part::FullYear), Form::Method, (1, 2), TIME, ResultKind::Int),
    signature("getMonth", Function::Part(Part::Month), Form::Method, (1, 2), TIME, ResultKind::Int),
    signature("getDate", Function::Part(Part::Date), Form::Method, (1, 2), TIME, ResultKind::Int),
    signature("getDayOfMonth", Function::Part(Part::DayOfMonth), Form::Method, (1, 2), TIME, ResultKind::Int),
    signature("getDayOfYear", Function::Part(Part::DayOfYear), Form::Method, (1, 2), TIME, ResultKind::Int),
    signature("getDayOfWeek", Function::Part(Part::DayOfWeek), Form::Method, (1, 2), TIME, ResultKind::Int),
    signature("getHours", Function::Part(Part::Hours), Form::Method, (1, 2), TIME_OR_LENGTH, ResultKind::Int),
    signature(
        "getMinutes",
        Function::Part(Part::Minutes),
        Form::Method,
        (1, 2),
        TIME_OR_LENGTH,
        ResultKind::Int,
    ),
    signature(
        "getSeconds",
        Function::Part(Part::Seconds),
        Form::Method,
        (1, 2),
        TIME_OR_LENGTH,
        ResultKind::Int,
    ),
    signature(
        "getMilliseconds",
        Function::Part(Part::Milliseconds),
        Form::Method,
        (1, 2),
        TIME_OR_LENGTH,
        ResultKind::Int,
    ),
];

/// The macros, which the parser expands; named here for suggestions.
pub(super) const MACROS: [&str; 6] = ["has", "all", "exists", "exists_one", "map", "filter"];

/// The function of that name.
pub(super) fn find(name: &str) -> Option<&'static Signature> {
    FUNCTIONS.iter().find(|signature| signature.name == name)
}

impl Function {
    /// Its name, for messages.
    pub(super) fn name(self) -> &'static str {
        FUNCTIONS.iter().find(|signature| signature.function == self).map_or("?", |signature| signature.name)
    }
}
