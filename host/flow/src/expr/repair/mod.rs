//! What an expression that is wrong most probably means: names that cannot stand behind a dot, and words of other
//! languages.
//!
//! It is asked only of texts that did not compile, and never makes one compile: it says what to write. What it gives as
//! a whole expression was compiled before.

mod names;
mod words;

use super::Expr;
use super::issue::ExprIssue;

pub use names::field;

/// Repairs of one text, at most: one for each thing that is wrong with it.
const MOST: usize = 16;

/// The issue with what to write instead, where that is known better than by the place alone.
pub(super) fn explained(text: &str, issue: ExprIssue) -> ExprIssue {
    if let Some(found) = names::at(text, &issue) {
        let hint = Some(format!("write `{}`", found.form));
        return ExprIssue { message: found.problem, span: found.range, hint };
    }
    match words::at(text, &issue) {
        Some(words::Word { message, hint, .. }) => {
            ExprIssue { message: message.unwrap_or(issue.message), hint: Some(hint), span: issue.span }
        }
        None => issue,
    }
}

/// The expression as it was meant, which compiles; none where that is not known.
pub fn repaired(text: &str) -> Option<String> {
    let mut text = text.to_owned();
    for _ in 0..MOST {
        let issue = match Expr::compiled(&text) {
            Ok(_) => return Some(text),
            Err(issue) => issue,
        };
        let (range, instead) = match names::at(&text, &issue) {
            Some(found) => (found.range, found.form),
            None => words::at(&text, &issue)?.instead?,
        };
        text.replace_range(range, &instead);
    }
    None
}

#[cfg(test)]
mod tests;
