//! Reading: from text to a tree with positions, with every problem that the text itself has.
//!
//! A syntax error usually ends a parse. Where it stands on a line whose expression YAML spoils, that line is put in
//! quotes in memory and reading starts again, so that one missing pair of quotes does not hide all other problems.
//! Lines and columns of everything else stay as they are in the file.

mod build;
#[cfg(test)]
mod differential;
mod json;
mod overlay;
mod quoting;
mod tree;

pub(crate) use json::{NotJson, to_json, zero_led};
pub(crate) use overlay::overlay;
pub(crate) use quoting::{advice, rewrite, truncated};
pub(crate) use tree::{Content, Entry, Key, Node, Scalar};

use build::{Fault, Stop};

use crate::issue::Code;
use crate::report::{Problem, Report};
use crate::text::{FileId, Pos, Span, Text};

/// How many spoiled lines are rewritten before reading gives up.
const MAX_REWRITES: usize = 50;

/// What a file is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It is the flow.
    Flow,
    /// It changes the flow; one without anything in it changes nothing.
    Overlay,
    /// It holds cases of a flow.
    Cases,
}

/// Reads a file of the report. None if there is no tree; of a flow the report then has an error.
pub(crate) fn read(report: &mut Report, file: FileId, part: Part) -> Option<Node> {
    let start = Span::at(file, Pos::default());
    let mut text = report.text(start).clone();
    for _ in 0..=MAX_REWRITES {
        let mut faults = Vec::new();
        match build::build(text.as_str(), file, &mut faults) {
            Ok(root) => {
                report_faults(faults, report);
                let (what, needs) = match part {
                    Part::Flow => ("flow", "a flow needs at least `name`, `kafka` and `process`"),
                    Part::Cases => ("cases", "a test file has `cases`, a list of them"),
                    Part::Overlay => return root,
                };
                if root.is_none() {
                    let problem = Problem::error(Code::FileInvalid, format!("the file holds no {what}"));
                    report.push_at(start, "", problem.hint(needs));
                }
                return root;
            }
            Err(Stop::Bound { span, message }) => {
                report_faults(faults, report);
                report.push_at(span, "", Problem::error(Code::FileInvalid, message));
                return None;
            }
            Err(Stop::Syntax { error, last_line }) => {
                let error_line = u32::try_from(error.marker().line().saturating_sub(1)).unwrap_or(u32::MAX);
                let Some(repaired) = repair(&text, file, error_line, last_line, report) else {
                    report_faults(faults, report);
                    report_syntax(&text, file, &error, report);
                    return None;
                };
                text = repaired;
            }
        }
    }
    report.push_at(start, "", Problem::error(Code::FileInvalid, "too many lines need quotes"));
    None
}

/// Rewrites the line that a syntax error comes from, and says so.
fn repair(text: &Text, file: FileId, error_line: u32, last_line: u32, report: &mut Report) -> Option<Text> {
    let nearby = [error_line, last_line, error_line.saturating_sub(1)];
    let (line, rewritten) =
        nearby.into_iter().find_map(|line| Some((line, quoting::rewrite(text.line(line))?)))?;
    let pos = |col: usize| Pos { line, col: u32::try_from(col).unwrap_or(u32::MAX) };
    let span = Span { file, start: pos(rewritten.columns.0), end: pos(rewritten.columns.1) };
    let problem = Problem::error(Code::ExpressionQuoting, "YAML does not read this expression as one text")
        .hint(format!("write `{}`", rewritten.shown));
    report.push_at(span, "", problem);
    Some(text.with_line(line, &rewritten.line))
}

fn report_syntax(text: &Text, file: FileId, error: &saphyr_parser::ScanError, report: &mut Report) {
    let start = build::convert(file, saphyr_parser::Span::empty(*error.marker())).start;
    // A tab is often met while the text before it is still being read.
    let tab = [start.line, start.line + 1].into_iter().find_map(|line| {
        let indent = text.line(line).chars().take_while(|c| c.is_whitespace()).position(|c| c == '\t')?;
        Some(Pos { line, col: u32::try_from(indent).unwrap_or(u32::MAX) })
    });
    if let Some(tab) = tab {
        let problem = Problem::error(Code::FileInvalid, "this is not YAML: a tab stands in the indentation")
            .hint("indent with spaces; YAML does not allow tabs there");
        report.push_at(Span { file, start: tab, end: Pos { col: tab.col + 1, ..tab } }, "", problem);
        return;
    }
    let hint = text
        .line(start.line)
        .contains("${")
        .then(|| "inside `{ … }` and `[ … ]` a reference needs quotes: `\"${NAME}\"`".to_owned());
    let message = match error.info() {
        // The parser's own bound is above ours, which it meets only after it has read ahead.
        "recursion limit exceeded" => build::too_deep(),
        info => format!("this is not YAML: {info}"),
    };
    let problem = Problem::error(Code::FileInvalid, message).maybe_hint(hint);
    report.push_at(Span::at(file, start), "", problem);
}

fn report_faults(faults: Vec<Fault>, report: &mut Report) {
    for fault in faults {
        match fault {
            Fault::Duplicate { key, first, again } => {
                let message = format!(
                    "`{key}` is given twice; the first one is at line {}, column {}",
                    first.start.line + 1,
                    first.start.col + 1
                );
                let problem = Problem::error(Code::DuplicateKey, message)
                    .related(first, "first given here")
                    .hint("keep one of them");
                report.push_at(again, &key, problem);
            }
            Fault::KeyNotText { span } => {
                report.push_at(span, "", Problem::error(Code::WrongType, "a key must be a single text"));
            }
            Fault::MergeNotMapping { span } => {
                let problem = Problem::error(Code::WrongType, "`<<` takes a mapping or a list of mappings");
                report.push_at(span, "<<", problem);
            }
            Fault::SecondDocument { span } => {
                let problem =
                    Problem::error(Code::FileInvalid, "a second document starts here; a file holds one flow")
                        .hint("move it to a file of its own");
                report.push_at(span, "", problem);
            }
        }
    }
}

/// A snippet of YAML that stands in this program as JSON; `null` where it is no YAML.
pub(crate) fn snippet_to_json(snippet: &str) -> serde_json::Value {
    let root = build::build(snippet, 0, &mut Vec::new()).ok().flatten();
    root.map_or(serde_json::Value::Null, |root| to_json(&root, &mut |_, _| None, &mut Vec::new()))
}
