//! Issues as output: for people with excerpts, for machines as JSON.

use std::borrow::Cow;
use std::fmt;

use loom_types::{printable, printable_in_place};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteError};
use miette::{MietteSpanContents, SourceCode, SourceSpan, SpanContents, ThemeCharacters, ThemeStyles};
use serde::Serialize;

use crate::issue::{Issue, Severity, Stretch};

/// How output for people looks. Whether a terminal shows colour is the caller's to find out (`NO_COLOR` included).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HumanStyle {
    /// Whether to use colour.
    pub color: bool,
    /// Whether to draw with characters beyond ASCII.
    pub unicode: bool,
    /// Columns to wrap messages at.
    pub width: usize,
}

impl Default for HumanStyle {
    fn default() -> Self {
        HumanStyle { color: false, unicode: true, width: 110 }
    }
}

mod narrow;

/// The file's text with an index of its lines: an excerpt is cut from the lines around it, where a plain text would be
/// searched from its beginning for each.
struct Excerpts<'t> {
    file: &'t str,
    text: &'t str,
    /// Where each line starts, in bytes, as miette counts lines.
    lines: Vec<usize>,
    /// The column of the issue in its file, where the text is cut.
    column: Option<usize>,
}

impl<'t> Excerpts<'t> {
    fn new(file: &'t str, text: &'t str) -> Excerpts<'t> {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(index, _)| index + 1);
        Excerpts { file, text, lines: std::iter::once(0).chain(ends).collect(), column: None }
    }

    fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset).saturating_sub(1)
    }
}

impl SourceCode for Excerpts<'_> {
    fn read_span<'a>(
        &'a self,
        span: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let first = self.line_of(span.offset()).saturating_sub(before + 1);
        let last = self.line_of(span.offset() + span.len()) + after + 2;
        let start = self.lines[first];
        let end = self.lines.get(last).copied().unwrap_or(self.text.len());
        let window = self.text.as_bytes().get(start..end).ok_or(MietteError::OutOfBounds)?;
        let offset = span.offset().checked_sub(start).ok_or(MietteError::OutOfBounds)?;
        let found = window.read_span(&(offset, span.len()).into(), before, after)?;
        let at = (found.span().offset() + start, found.span().len()).into();
        Ok(Box::new(MietteSpanContents::new_named(
            self.file.to_owned(),
            found.data(),
            at,
            found.line() + first,
            self.column.unwrap_or(found.column()),
            found.line_count(),
        )))
    }
}

/// Characters of a message.
const LONGEST_MESSAGE: usize = 1000;

/// The front of a message that quotes something long.
fn front(message: &str) -> Cow<'_, str> {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => Cow::Owned(format!("{}…", &message[..end])),
        None => Cow::Borrowed(message),
    }
}

/// One issue as miette sees it.
struct Shown<'i> {
    issue: &'i Issue,
    source: &'i Excerpts<'i>,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Issue { severity, code, message, .. } = self.issue;
        write!(f, "{}[{code}]: {}", severity.name(), printable(&front(message)))
    }
}

impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Shown<'_> {}

impl Diagnostic for Shown<'_> {
    fn severity(&self) -> Option<miette::Severity> {
        Some(match self.issue.severity {
            Severity::Error => miette::Severity::Error,
            Severity::Warning => miette::Severity::Warning,
        })
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        let hint = self.issue.hint.as_ref()?;
        Some(Box::new(printable(hint)))
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        Some(self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let Stretch { offset, len, .. } = self.issue.at;
        let label = (!self.issue.path.is_empty()).then(|| printable(&self.issue.path).into_owned());
        let primary = LabeledSpan::new_primary_with_span(label, (offset, len));
        let related = self.issue.related.iter();
        let shown = |label: &String| Some(printable(label).into_owned());
        let related = related.map(move |(at, label)| LabeledSpan::new(shown(label), at.offset, at.len));
        Some(Box::new(std::iter::once(primary).chain(related)))
    }
}

/// All issues for people, each with its excerpt, and a line that counts them; nothing if there is none.
///
/// `files` are the texts that issues are in, by name; the first is the flow's.
pub(crate) fn human(issues: &[Issue], files: &[(String, String)], style: HumanStyle) -> String {
    if issues.is_empty() {
        return String::new();
    }
    let characters = if style.unicode { ThemeCharacters::unicode() } else { ThemeCharacters::ascii() };
    // The severity is the first word of each message, so no sign stands before it.
    let characters = ThemeCharacters { error: String::new(), warning: String::new(), ..characters };
    let handler = |severity: Severity| {
        let theme = GraphicalTheme { characters: characters.clone(), styles: styles(severity, style.color) };
        GraphicalReportHandler::new_themed(theme).with_width(style.width).with_context_lines(1)
    };
    let handlers = (handler(Severity::Error), handler(Severity::Warning));
    let files: Vec<_> =
        files.iter().map(|(name, text)| (printable(name), printable_in_place(text))).collect();
    let sources: Vec<Excerpts<'_>> = files.iter().map(|(name, text)| Excerpts::new(name, text)).collect();
    let empty = Excerpts::new("", "");
    let file = files.first().map_or("", |(name, _)| &**name);
    let mut out = String::new();
    for issue in issues {
        let mut block = String::new();
        let name = printable(&issue.file);
        let source = sources.iter().find(|source| source.file == name).unwrap_or(&empty);
        let narrow = narrow::around(source, issue);
        let (narrow, moved) = match &narrow {
            Some((text, moved)) => {
                let column = Some(issue.at.column.saturating_sub(1));
                (Some(Excerpts { column, ..Excerpts::new(source.file, text) }), Some(moved))
            }
            None => (None, None),
        };
        let shown = Shown { issue: moved.unwrap_or(issue), source: narrow.as_ref().unwrap_or(source) };
        let handler = if issue.severity == Severity::Error { &handlers.0 } else { &handlers.1 };
        if handler.render_report(&mut block, &shown).is_err() {
            // An excerpt is a help; the issue itself must not be lost with it.
            block = format!("{}\n", printable(&issue.to_string()));
        }
        // What stands before it is the room of the sign that there is none of, in colour where there is colour.
        let start = block.find(issue.severity.name()).unwrap_or_default();
        let head = format!("{}[{}]", issue.severity.name(), issue.code);
        match block[start..].strip_prefix(&head).filter(|_| style.color) {
            Some(rest) => out.push_str(&format!("{}{head}\u{1b}[0m{rest}", colour(issue.severity))),
            None => out.push_str(&block[start..]),
        }
        out.push('\n');
    }
    let errors = issues.iter().filter(|issue| issue.severity == Severity::Error).count();
    out.push_str(&format!("{file}: {}\n", counts(errors, issues.len() - errors)));
    out
}

/// The colour of a severity: the head of an issue, and the place that it points at, have the same.
fn colour(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "\u{1b}[1;31m",
        Severity::Warning => "\u{1b}[1;33m",
    }
}

fn styles(severity: Severity, color: bool) -> ThemeStyles {
    if !color {
        return ThemeStyles::none();
    }
    let ansi = ThemeStyles::ansi();
    let own = match severity {
        Severity::Error => ansi.error,
        Severity::Warning => ansi.warning,
    };
    ThemeStyles { highlights: vec![own, ansi.help], ..ansi }
}

/// Numbers of errors and warnings in words, such as `1 error, 0 warnings`.
#[must_use]
pub fn counts(errors: usize, warnings: usize) -> String {
    format!("{}, {}", counted(errors, "error"), counted(warnings, "warning"))
}

fn counted(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

#[derive(Serialize)]
struct Output<'i> {
    version: u32,
    issues: Vec<JsonIssue<'i>>,
    errors: usize,
    warnings: usize,
}

#[derive(Serialize)]
struct JsonIssue<'i> {
    severity: &'static str,
    code: &'static str,
    message: &'i str,
    file: &'i str,
    line: usize,
    column: usize,
    path: &'i str,
    hint: Option<&'i str>,
}

/// Issues for machines: `{"version":1,"issues":[…],"errors":n,"warnings":n}` on one line, without a line end.
#[must_use]
pub fn to_json(issues: &[Issue]) -> String {
    let errors = issues.iter().filter(|issue| issue.severity == Severity::Error).count();
    let output = Output {
        version: 1,
        issues: issues
            .iter()
            .map(|issue| JsonIssue {
                severity: issue.severity.name(),
                code: issue.code.as_str(),
                message: &issue.message,
                file: &issue.file,
                line: issue.at.line,
                column: issue.at.column,
                path: &issue.path,
                hint: issue.hint.as_deref(),
            })
            .collect(),
        errors,
        warnings: issues.len() - errors,
    };
    // Strings and numbers always have a JSON form.
    serde_json::to_string(&output).unwrap_or_default()
}
