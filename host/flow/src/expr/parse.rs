//! Parsing, and the parser's complaints in words that help.

use cel::common::ast::{IdedExpr, SourceInfo};
use cel::parser::{ParseError, Parser};

use super::issue::ExprIssue;
use super::lower::byte_of;

/// Parses a text within the limits.
pub(super) fn parse(text: &str) -> Result<(IdedExpr, SourceInfo), ExprIssue> {
    let parser = Parser::new().max_recursion_depth(160).enable_ident_escape_syntax(true);
    parser.parse_with_source_info(text).map_err(|found| match found.errors.first() {
        Some(error) => issue(text, error),
        None => ExprIssue { message: "syntax error".to_owned(), span: 0..text.len(), hint: None },
    })
}

fn issue(text: &str, error: &ParseError) -> ExprIssue {
    let start = position(text, error.pos);
    let problem = error.msg.trim_start_matches("Syntax error: ");
    let unexpected = quoted(problem).map(str::trim_end);
    let word = text[start..].bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let (message, length, hint) = match unexpected {
        Some("<EOF>") => ("syntax error: the expression ends too early".to_owned(), 0, None),
        Some(token) if token.len() <= 40 => {
            (format!("syntax error: unexpected `{token}`"), token.len(), hint(token))
        }
        _ if problem.starts_with("invalid argument to has()") => {
            ("`has` takes a field".to_owned(), word.max(1), Some("write `has(payload.field)`"))
        }
        _ => (format!("syntax error: {}", first_line(problem)), word.max(1), None),
    };
    let mut end = (start + length).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    ExprIssue { message, span: start..end, hint: hint.map(str::to_owned) }
}

/// The token that the parser stumbled over.
fn quoted(problem: &str) -> Option<&str> {
    let known = ["mismatched input ", "extraneous input ", "token recognition error at: "];
    let rest = match known.iter().find_map(|start| problem.strip_prefix(start)) {
        Some(rest) => rest,
        // What is missing is said better by what is there instead.
        None => {
            &problem.strip_prefix("missing ")?[problem.find(" at '")? + " at ".len() - "missing ".len()..]
        }
    };
    let end = rest.find("' expecting").unwrap_or(rest.len().saturating_sub(1));
    rest.get(1..end)
}

fn hint(token: &str) -> Option<&'static str> {
    Some(match token {
        "=" => "equality is `==`",
        "and" | "AND" => "and is `&&`",
        "or" | "OR" => "or is `||`",
        "not" | "NOT" => "not is `!`",
        "&" => "and is `&&`",
        "|" => "or is `||`",
        _ if token.starts_with('\'') || token.starts_with('"') => {
            "a string must be closed with the quote that opens it"
        }
        _ => return None,
    })
}

/// The byte at a line and column, both counted from 1, in characters.
fn position(text: &str, (line, column): (isize, isize)) -> usize {
    let (line, column) = (usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1));
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    start + byte_of(&text[start..], column.saturating_sub(1))
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}
