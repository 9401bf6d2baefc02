//! What ends a run, and with which exit status.

use std::fmt;

use loom_flow::{Code, Need};

/// Whose fault an ending is; of several failures, the lowest status is the process's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// The flow or a file of it is wrong.
    Flow = 1,
    /// The flow is right, its pairing with this runtime is refused.
    Runtime = 3,
    /// Starting or running failed.
    Failed = 4,
}

impl Status {
    /// The process's exit status.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Why a flow cannot run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct AssemblyError {
    /// Whose fault it is.
    pub status: Status,
    /// The code, where it has one.
    pub code: Option<&'static str>,
    /// What is wrong, where, and what to do.
    pub message: String,
    /// What to do, where one thing is certain.
    pub hint: Option<String>,
    /// What of the flow it is about, where a broker was asked.
    pub about: Option<Need>,
}

impl fmt::Display for AssemblyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "[{code}] {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl AssemblyError {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        AssemblyError { status: Status::Failed, code: None, message: message.into(), hint: None, about: None }
    }

    pub(crate) fn refused(code: &'static str, message: impl Into<String>) -> Self {
        AssemblyError {
            status: Status::Runtime,
            code: Some(code),
            message: message.into(),
            hint: None,
            about: None,
        }
    }

    /// The same with a code and with what it is about.
    pub(crate) fn at_broker(self, code: Code, about: Need) -> Self {
        AssemblyError { code: Some(code.as_str()), about: Some(about), ..self }
    }
}

/// Why a run ended before it was asked to, or not cleanly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whose fault it is.
    pub status: Status,
    /// What happened, to which record, and what to do.
    pub message: String,
}

impl From<AssemblyError> for Failure {
    fn from(error: AssemblyError) -> Self {
        Failure { status: error.status, message: error.to_string() }
    }
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Failure { status: Status::Failed, message: message.into() }
    }
}
