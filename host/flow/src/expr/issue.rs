//! What can be wrong with an expression: found when the flow is compiled, or when a record is evaluated.

use std::ops::Range;

/// A finding in the text of an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprIssue {
    /// What is wrong.
    pub message: String,
    /// Where: bytes of the expression's text. Never past its end, always at character boundaries; may be empty.
    pub span: Range<usize>,
    /// What to write instead, where that is known.
    pub hint: Option<String>,
}

/// Why an expression has no value for a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The expression reads the payload, and the payload is not JSON.
    #[error("{0}")]
    Wire(String),
    /// The expression failed on this record. The text names the expression and, where one is missing, the path.
    #[error("{0}")]
    Task(String),
}
