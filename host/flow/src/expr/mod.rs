//! Expressions: CEL over one record.
//!
//! The text is parsed by the `cel` crate; evaluation is ours, because the number rules, the lazy payload, exact
//! digits, the cost limit and typed errors are.

mod cache;
mod issue;
mod tape;

use std::collections::BTreeMap;
use std::fmt;

use loom_types::Batch;

pub use cache::PayloadCache;
pub use issue::{EvalError, ExprIssue};

/// A compiled expression.
#[derive(Clone)]
pub struct Expr {
    source: String,
    env: Vec<String>,
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
    /// It depends on the record.
    Unknown,
}

/// What `map` makes of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a tombstone is no value, not the text `null`"]
pub enum Mapped {
    /// JSON text was written.
    Json,
    /// The record had no payload and the expression passed it through: nothing was written, and the record stays
    /// without payload.
    Tombstone,
}

/// One record's bindings.
pub struct Scope<'a> {
    batch: &'a Batch,
    row: u32,
    env: &'a BTreeMap<String, String>,
    cache: &'a mut PayloadCache,
}

impl<'a> Scope<'a> {
    /// For row `row` of `batch`.
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
    /// Compiles an expression.
    pub fn compile(text: &str) -> Result<Expr, ExprIssue> {
        Ok(Expr { source: text.to_owned(), env: Vec::new() })
    }

    /// The text as it was written.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The names of the variables that it reads as `env.NAME`, each once.
    pub fn env_names(&self) -> impl Iterator<Item = &str> {
        self.env.iter().map(String::as_str)
    }

    /// What it gives, as far as that is known.
    #[must_use]
    pub fn result_kind(&self) -> ResultKind {
        ResultKind::Unknown
    }

    /// Whether it may read the payload.
    #[must_use]
    pub fn reads_payload(&self) -> bool {
        true
    }

    /// As a predicate. Anything but a boolean is a task error.
    pub fn test(&self, scope: &mut Scope<'_>) -> Result<bool, EvalError> {
        Err(self.missing(scope))
    }

    /// As the new payload: appends compact JSON to `out`, or nothing when the record stays a tombstone.
    pub fn json(&self, scope: &mut Scope<'_>, out: &mut Vec<u8>) -> Result<Mapped, EvalError> {
        let _ = out;
        Err(self.missing(scope))
    }

    /// As a key: string, bytes, int (decimal) or bool (text); null is no key. Anything else is a task error.
    pub fn key(&self, scope: &mut Scope<'_>) -> Result<Option<Vec<u8>>, EvalError> {
        Err(self.missing(scope))
    }

    /// As a selector's answer: strings as they are, whole numbers in decimal, booleans as text. Anything else is a
    /// task error.
    pub fn label(&self, scope: &mut Scope<'_>) -> Result<String, EvalError> {
        Err(self.missing(scope))
    }

    fn missing(&self, scope: &mut Scope<'_>) -> EvalError {
        let _ = (scope.batch.source(scope.row), scope.env.len(), scope.cache.clear());
        EvalError::Task(format!("expression `{}`: evaluation is not built yet", self.source))
    }
}

/// Whether this thread is inside the evaluation or compiling of an expression, where a panic is caught and becomes an
/// error. The process's panic hook asks; everywhere else a panic ends the process.
#[must_use]
pub fn in_guarded_evaluation() -> bool {
    false
}
