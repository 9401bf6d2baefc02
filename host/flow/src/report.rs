//! Where issues are collected.
//!
//! A problem is made where it is found and pushed with its place; the report turns it into an [`Issue`], orders all of
//! them by their place in the file at the end, and bounds their number, so that a generated file cannot fill the
//! memory with its own faults.

use std::sync::Arc;

use crate::issue::{Code, Issue, Severity};
use crate::text::{Span, Text};

/// More issues than this are counted and not kept.
const MAX_ISSUES: usize = 1000;

/// A place in the file and in the flow.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) span: Span,
    pub(crate) path: Arc<str>,
}

/// A problem before it has a place.
#[must_use = "a problem is reported with `Report::push`"]
pub(crate) struct Problem {
    severity: Severity,
    code: Code,
    message: String,
    hint: Option<String>,
    related: Option<(Span, String)>,
}

impl Problem {
    pub(crate) fn error(code: Code, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Error, code, message: message.into(), hint: None, related: None }
    }

    pub(crate) fn warning(code: Code, message: impl Into<String>) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(code, message) }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Problem {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn maybe_hint(mut self, hint: Option<String>) -> Problem {
        self.hint = hint.or(self.hint);
        self
    }

    pub(crate) fn related(mut self, span: Span, label: impl Into<String>) -> Problem {
        self.related = Some((span, label.into()));
        self
    }
}

/// All problems of one file.
pub(crate) struct Report {
    file: String,
    text: Text,
    issues: Vec<Issue>,
    has_errors: bool,
    /// How many were not kept.
    left_out: usize,
}

impl Report {
    pub(crate) fn new(file: &str, text: Text) -> Report {
        Report { file: file.to_owned(), text, issues: Vec::new(), has_errors: false, left_out: 0 }
    }

    /// The file's text as it was written.
    pub(crate) fn text(&self) -> &Text {
        &self.text
    }

    pub(crate) fn push(&mut self, place: &Place, problem: Problem) {
        self.push_at(place.span, &place.path, problem);
    }

    pub(crate) fn push_at(&mut self, span: Span, path: &str, problem: Problem) {
        // The first error is kept even so, or a flow that is wrong would look right.
        if self.issues.len() >= MAX_ISSUES && (self.has_errors || problem.severity == Severity::Warning) {
            self.left_out += 1;
            return;
        }
        self.has_errors |= problem.severity == Severity::Error;
        self.issues.push(Issue {
            severity: problem.severity,
            code: problem.code,
            message: problem.message,
            file: self.file.clone(),
            at: self.text.stretch(span),
            related: problem.related.map(|(span, label)| (self.text.stretch(span), label)),
            path: path.to_owned(),
            hint: problem.hint,
        });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// The issues in the order of the file.
    pub(crate) fn finish(mut self) -> Vec<Issue> {
        if self.left_out > 0 {
            let end = self.text.pos(self.text.as_str().len());
            let message = format!("{} more problems are not shown", self.left_out);
            let at = self.text.stretch(Span { start: end, end });
            self.issues.push(Issue {
                severity: if self.has_errors { Severity::Error } else { Severity::Warning },
                code: Code::FileInvalid,
                message,
                file: self.file.clone(),
                at,
                related: None,
                path: String::new(),
                hint: None,
            });
        }
        self.issues.sort_by_key(|issue| issue.at.offset);
        self.issues
    }
}
