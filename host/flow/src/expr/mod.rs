//! Expressions: CEL over one record.
//!
//! The `cel` crate parses the text; compiling and evaluating are ours, because the number rules (`number`), the
//! payload that is decoded lazily and once (`tape`, `cache`), digits that pass through, the cost limit (`eval`) and
//! findings with places (`lower`) are.
//!
//! An expression sees `payload` (the decoded JSON; null for a record without payload), `msg` and `env.NAME`, and CEL's
//! operators, macros and standard functions. Choices where CEL leaves one, or where this differs:
//!
//! - Numbers as `number` says. `10 / 4` is 2 and `10.0 / 4` is 2.5; `%` works on doubles too.
//! - Of duplicate keys in a JSON object the last counts; `map` passes an untouched object on with its duplicates, in
//!   its order, with every number and string as it was written, and without white space between tokens.
//! - `-0.0` stays `-0.0` when passed through, and equals 0. `1e400` is passed through, and out of range when computed
//!   with. Integers beyond 64 bits are doubles when computed with, and keep their digits in `map`, `string`, keys and
//!   labels.
//! - `map: payload` keeps a record without payload as it is (a tombstone); `map: "null"` writes the text `null`.
//! - `has(payload.a.b)` fails as a task error when `payload.a` is missing, as in CEL.
//! - `has(msg.key)` asks whether there is a key, `has(msg.timestamp_ms)` whether there is a time.
//!
//! A panic in the parser or the evaluator is caught and becomes an error, see [`in_guarded_evaluation`].

mod cache;
mod eval;
mod exact;
mod functions;
mod guard;
mod issue;
mod limits;
mod lower;
mod node;
mod number;
mod output;
mod parse;
mod pattern;
mod repair;
mod suggest;
mod tape;
mod time;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use loom_types::Batch;

pub use cache::PayloadCache;
pub use exact::{ExactJson, same_number};
pub use guard::in_guarded_evaluation;
pub use issue::{EvalError, ExprIssue};
pub(crate) use repair::{field, repaired};

use eval::{Eval, Evaluator, Fault};
use node::Node;
use value::Value;

/// A compiled expression.
#[derive(Clone)]
pub struct Expr {
    source: Box<str>,
    node: Node,
    kind: ResultKind,
    env: Box<[String]>,
    reads_payload: bool,
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// What an expression is known to give before any record is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    /// Null.
    Null,
    /// A boolean.
    Bool,
    /// A signed 64-bit integer.
    Int,
    /// An unsigned 64-bit integer.
    UInt,
    /// A double.
    Double,
    /// Text.
    String,
    /// Bytes.
    Bytes,
    /// A list.
    List,
    /// A map.
    Map,
    /// A point in time.
    Timestamp,
    /// A length of time.
    Duration,
    /// A type.
    Type,
    /// It depends on the record.
    Unknown,
}

impl fmt::Display for ResultKind {
    /// With an article, for messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResultKind::Null => "null",
            ResultKind::Bool => "a boolean",
            ResultKind::Int => "an int",
            ResultKind::UInt => "a uint",
            ResultKind::Double => "a double",
            ResultKind::String => "a string",
            ResultKind::Bytes => "bytes",
            ResultKind::List => "a list",
            ResultKind::Map => "a map",
            ResultKind::Timestamp => "a timestamp",
            ResultKind::Duration => "a duration",
            ResultKind::Type => "a type",
            ResultKind::Unknown => "a value of the record",
        })
    }
}

/// What `map` makes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a tombstone is no value, not the text `null`"]
pub enum Mapped {
    /// JSON text was appended.
    Json,
    /// The record has no payload and the expression passed it through: nothing was appended, and the record stays
    /// without payload.
    Tombstone,
}

/// One record's bindings.
#[derive(Debug)]
pub struct Scope<'a> {
    batch: &'a Batch,
    row: u32,
    env: &'a BTreeMap<String, String>,
    cache: &'a mut PayloadCache,
}

impl<'a> Scope<'a> {
    /// For row `row` of `batch`. `env` holds the variables that the flow may read; `cache` is the worker's.
    pub fn new(
        batch: &'a Batch,
        row: u32,
        env: &'a BTreeMap<String, String>,
        cache: &'a mut PayloadCache,
    ) -> Self {
        Scope { batch, row, env, cache }
    }
}

impl Expr {
    /// Compiles an expression: at most 4 KiB, nested to a bounded depth. The issue is the first that was found.
    pub fn compile(text: &str) -> Result<Expr, ExprIssue> {
        Self::compiled(text).map_err(|issue| repair::explained(text, issue))
    }

    /// As [`Expr::compile`], with the issue as it was found.
    fn compiled(text: &str) -> Result<Expr, ExprIssue> {
        limits::check(text)?;
        let compiled = guard::guarded(|| {
            let (tree, info) = parse::parse(text)?;
            lower::lower(text, &tree, &info)
        });
        let (typed, reads) = compiled.unwrap_or_else(|panic| {
            Err(ExprIssue {
                message: format!("the expression cannot be compiled: {panic}"),
                span: 0..text.len(),
                hint: Some("this is a defect of the parser; write the expression in another way".to_owned()),
            })
        })?;
        Ok(Expr {
            source: text.into(),
            node: typed.node,
            kind: typed.kind,
            env: reads.env.into_iter().collect(),
            reads_payload: reads.payload,
        })
    }

    /// The text as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names of the variables that it reads as `env.NAME`, sorted, each once.
    pub fn env_names(&self) -> impl Iterator<Item = &str> {
        self.env.iter().map(String::as_str)
    }

    /// What it gives, as far as that is known.
    #[must_use]
    pub fn result_kind(&self) -> ResultKind {
        self.kind
    }

    /// Whether it may read the payload.
    #[must_use]
    pub fn reads_payload(&self) -> bool {
        self.reads_payload
    }

    /// As a predicate. Anything but a boolean is a task error.
    pub fn test(&self, scope: &mut Scope<'_>) -> Result<bool, EvalError> {
        self.run(scope, |evaluator, node| evaluator.truth(node))
    }

    /// As the new payload: appends compact JSON to `out`, or nothing when the record stays a tombstone. After an
    /// error `out` is as it was.
    pub fn json(&self, scope: &mut Scope<'_>, out: &mut Vec<u8>) -> Result<Mapped, EvalError> {
        let length = out.len();
        let written = self.run(scope, |evaluator, node| match evaluator.eval(node)? {
            Value::Tombstone => Ok(Mapped::Tombstone),
            value => evaluator.write_json(&value, out).map(|()| Mapped::Json),
        });
        if written.is_err() {
            out.truncate(length);
        }
        written
    }

    /// As a key: string, bytes, int (decimal) or bool (text); null is no key. Anything else is a task error.
    pub fn key(&self, scope: &mut Scope<'_>) -> Result<Option<Vec<u8>>, EvalError> {
        self.run(scope, |evaluator, node| {
            let value = evaluator.eval(node)?;
            evaluator.key_bytes(value)
        })
    }

    /// As a selector's answer: strings as they are, whole numbers in decimal, booleans as text. Anything else is a
    /// task error.
    pub fn label(&self, scope: &mut Scope<'_>) -> Result<String, EvalError> {
        self.run(scope, |evaluator, node| {
            let value = evaluator.eval(node)?;
            evaluator.label_text(value)
        })
    }

    fn run<'v, T>(
        &'v self,
        scope: &'v mut Scope<'_>,
        work: impl FnOnce(&mut Evaluator<'v, '_>, &'v Node) -> Eval<T>,
    ) -> Result<T, EvalError> {
        let cache = &mut *scope.cache;
        let outcome = guard::guarded(|| {
            let mut evaluator = Evaluator::new(scope.batch, scope.row, scope.env, cache);
            work(&mut evaluator, &self.node)
        });
        match outcome {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(fault)) => Err(self.error(*fault)),
            Err(panic) => {
                // What was decoded may be half there.
                scope.cache.clear();
                Err(self.error(Fault::Task(format!("the evaluation panicked: {panic}"))))
            }
        }
    }

    /// The cause first, and behind it so much of the expression that it is recognised.
    #[cold]
    fn error(&self, fault: Fault) -> EvalError {
        const SHOWN: usize = 60;
        let line = self.source.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = match line.char_indices().nth(SHOWN) {
            Some((at, _)) => format!("in `{}…`", &line[..at]),
            None => format!("in `{line}`"),
        };
        match fault {
            Fault::Wire(problem) => EvalError::Wire(format!("{problem} ({text})")),
            Fault::Task(problem) => EvalError::Task(format!("{problem} ({text})")),
            Fault::Spent => {
                EvalError::Task(format!("it takes too long for this record (cost limit) ({text})"))
            }
        }
    }
}
