//! How problems are told. The forms themselves are `loom-flow`'s; what is chosen here is where they go: on a terminal, and by
//! a verb that answers once, they are shown with the flow's lines; `run` and `dev` write them to the log elsewhere.

use loom_flow::{Code, Compiled, HumanStyle, Issue, Severity};
use loom_runtime::AssemblyError;
use loom_types::printable;

use crate::{hidden, logs, terminal};

/// What `check` prints for people: all issues with their lines and a count, or that there is none.
pub fn human(compiled: &Compiled, name: &str, colour: bool) -> String {
    if compiled.issues.is_empty() {
        return format!("{}: no problems\n", printable(name));
    }
    compiled.render(style(colour))
}

/// What `check` prints for programs: one JSON object and a line end.
pub fn json(issues: &[Issue]) -> String {
    loom_flow::to_json(issues) + "\n"
}

/// An issue of a file that there is no text of.
pub fn plain(issue: &Issue, colour: bool) -> String {
    let hint = issue.hint.as_ref().map(|hint| format!("  help: {}\n", printable(hint))).unwrap_or_default();
    format!("{}{hint}", error_line(Some(issue.code.as_str()), &issue.message, colour))
}

/// Shows issues on standard error, for a command whose answer is on standard output.
pub fn beside(compiled: &Compiled) {
    terminal::print_error(&compiled.render(style(terminal::stderr_takes_colour())));
}

/// Tells the issues of a flow that is about to run, or will not.
pub fn issues(compiled: &Compiled) {
    if compiled.issues.is_empty() {
    } else if logs::tells_plainly() {
        terminal::print_error(&compiled.render(style(terminal::stderr_takes_colour())));
    } else {
        compiled.issues.iter().for_each(log);
    }
}

/// Tells of a flow file that cannot be read.
pub fn unreadable(issue: &Issue) {
    if logs::tells_plainly() {
        terminal::print_error(&plain(issue, terminal::stderr_takes_colour()));
    } else {
        log(issue);
    }
}

/// Tells why nothing runs, where there is no place in the flow to point at.
pub fn refusal(code: Option<&str>, message: &str) {
    if logs::tells_plainly() {
        let message = hidden::redact(message);
        terminal::print_error(&error_line(code, &message, terminal::stderr_takes_colour()));
    } else {
        tracing::error!(code, "{message}");
    }
}

/// Tells why a flow cannot start: what a broker showed with the flow's line that it is about, all else in its words.
pub fn at_start(errors: &[AssemblyError]) {
    let mut placed = Vec::new();
    for error in errors {
        let code = error.code.and_then(|code| Code::parse(code).ok());
        match (code, &error.about) {
            (Some(code), Some(about)) => {
                placed.push((about.clone(), code, error.message.clone(), error.hint.clone()));
            }
            _ => refusal(error.code, &error.message),
        }
    }
    if placed.is_empty() {
        return;
    }
    match hidden::placed(&placed, style(terminal::stderr_takes_colour())) {
        Some((_, text)) if logs::tells_plainly() => terminal::print_error(&text),
        Some((issues, _)) => issues.iter().for_each(log),
        None => placed.iter().for_each(|(_, code, message, _)| refusal(Some(code.as_str()), message)),
    }
}

fn log(issue: &Issue) {
    let (line, column) = (issue.at.line, issue.at.column);
    let (code, file, path) = (issue.code.as_str(), issue.file.as_str(), issue.path.as_str());
    let hint = issue.hint.as_deref();
    match issue.severity {
        Severity::Error => tracing::error!(code, file, line, column, path, hint, "{}", issue.message),
        Severity::Warning => tracing::warn!(code, file, line, column, path, hint, "{}", issue.message),
    }
}

fn error_line(code: Option<&str>, message: &str, colour: bool) -> String {
    let (red, plain) = if colour { ("\u{1b}[1;31m", "\u{1b}[0m") } else { ("", "") };
    let code = code.map(|code| format!("[{code}]")).unwrap_or_default();
    format!("{red}error{code}{plain}: {}\n", printable(message))
}

/// How issues look here.
pub fn style(color: bool) -> HumanStyle {
    HumanStyle { color, unicode: terminal::takes_unicode(), width: terminal::width() }
}

#[cfg(test)]
mod tests {
    use loom_flow::{Code, Issue, Severity, Stretch};

    use super::{error_line, plain};

    #[test]
    fn a_problem_without_lines_has_code_message_and_help() {
        let issue = Issue {
            severity: Severity::Error,
            code: Code::FileInvalid,
            message: "cannot read the flow f.yaml: no such file".to_owned(),
            file: "f.yaml".to_owned(),
            at: Stretch { line: 1, column: 1, offset: 0, len: 0 },
            related: None,
            path: String::new(),
            hint: Some("did you mean ./flow.yaml?".to_owned()),
        };
        assert_eq!(
            plain(&issue, false),
            "error[FILE_INVALID]: cannot read the flow f.yaml: no such file\n  help: did you mean ./flow.yaml?\n"
        );
        assert_eq!(error_line(None, "no", true), "\u{1b}[1;31merror\u{1b}[0m: no\n");
    }
}
