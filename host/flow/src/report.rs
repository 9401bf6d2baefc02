//! Where issues are collected.
//!
//! A problem is made where it is found and pushed with its place; the report turns it into an [`Issue`], orders all of
//! them by their place in the file at the end, and bounds their number, so that a generated file cannot fill the
//! memory with its own faults.

use std::sync::Arc;

use crate::issue::{Code, Issue, Severity};
use crate::text::{FileId, Span, Text};

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

/// All problems of one flow: of its file, and of the overlays that change it.
pub(crate) struct Report {
    /// By [`FileId`]; there is at least the flow's.
    files: Vec<(String, Text)>,
    /// With the file that each is in.
    issues: Vec<(FileId, Issue)>,
    has_errors: bool,
    /// How many were not kept.
    left_out: usize,
}

impl Report {
    pub(crate) fn new(files: Vec<(String, Text)>) -> Report {
        Report { files, issues: Vec::new(), has_errors: false, left_out: 0 }
    }

    /// The text, as it was written, of the file that a span is in.
    pub(crate) fn text(&self, span: Span) -> &Text {
        &self.files[usize::from(span.file)].1
    }

    /// The files with their texts.
    pub(crate) fn files(&self) -> &[(String, Text)] {
        &self.files
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
        let Problem { severity, code, message, mut hint, related } = problem;
        let (file, text) = &self.files[usize::from(span.file)];
        let related = related.and_then(|(other, label)| {
            let at = self.text(other).stretch(other);
            if other.file == span.file {
                return Some((at, label));
            }
            // An excerpt shows one file; what is in another is said in words.
            let said =
                format!("{label}: {}:{}:{}", self.files[usize::from(other.file)].0, at.line, at.column);
            hint = Some(hint.take().map_or_else(|| said.clone(), |hint| format!("{hint} ({said})")));
            None
        });
        let issue = Issue {
            severity,
            code,
            message,
            file: file.clone(),
            at: text.stretch(span),
            related,
            path: path.to_owned(),
            hint,
        };
        self.issues.push((span.file, issue));
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.has_errors
    }

    /// The issues in the order of the files, and in each in its order.
    pub(crate) fn finish(mut self) -> Vec<Issue> {
        if self.left_out > 0 {
            let (file, text) = &self.files[0];
            let end = text.pos(text.as_str().len());
            let message = format!("{} more problems are not shown", self.left_out);
            let issue = Issue {
                severity: if self.has_errors { Severity::Error } else { Severity::Warning },
                code: Code::FileInvalid,
                message,
                file: file.clone(),
                at: text.stretch(Span::at(0, end)),
                related: None,
                path: String::new(),
                hint: None,
            };
            self.issues.push((0, issue));
        }
        self.issues.sort_by_key(|(file, issue)| (*file, issue.at.offset));
        self.issues.into_iter().map(|(_, issue)| issue).collect()
    }
}
