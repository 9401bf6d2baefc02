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
    let problem = error.msg.trim_start_matches("Syntax error: ");
    let start = stumbled(text, position(text, error.pos), problem);
    let unexpected = quoted(problem).map(str::trim_end);
    let word = text[start..].bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
    let (message, length, hint) = match unexpected {
        Some("<EOF>") => ("syntax error: the expression ends too early".to_owned(), 0, None),
        Some(token) => (format!("syntax error: unexpected `{}`", front(token)), token.len(), hint(token)),
        None if problem.starts_with("invalid argument to has()") => {
            ("`has` takes a field".to_owned(), word.max(1), Some("write `has(payload.field)`"))
        }
        None => (other(&text[start..], word, problem), word.max(1), None),
    };
    let mut end = (start + length).min(text.len());
    while !text.is_char_boundary(end) {
        end += 1;
    }
    ExprIssue { message, span: start..end, hint: hint.map(str::to_owned) }
}

/// Where the parser could not go on. Of what has no reading at all it tells the beginning, and what it read up to there, without
/// white space.
fn stumbled(text: &str, from: usize, problem: &str) -> usize {
    let read =
        problem.strip_prefix("no viable alternative at input '").and_then(|read| read.strip_suffix('\''));
    let Some(read) = read else { return from };
    let read = read.trim_end_matches("<EOF>");
    let mut wanted = read.chars().filter(|c| !c.is_whitespace()).peekable();
    let mut last = from;
    for (at, c) in text[from..].char_indices() {
        match wanted.peek() {
            None => break,
            Some(next) if *next == c => {
                wanted.next();
                last = from + at;
            }
            Some(_) if c.is_whitespace() => {}
            // Not the text that was read.
            Some(_) => return from,
        }
    }
    if problem.ends_with("<EOF>'") {
        return text.len();
    }
    // The last token is what has no place there.
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text[..last]
        .rfind(|c: char| !word(c))
        .filter(|_| text[last..].starts_with(word))
        .map_or(last, |at| at + text[at..].chars().next().map_or(1, char::len_utf8))
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

/// What is said of a `?` without all that belongs to it.
pub(super) const CHOICE: &str = "syntax error: a choice is `condition ? a : b`, and a part of it is missing";

/// What the parser says in other words; its own are of its grammar.
fn other(rest: &str, word: usize, problem: &str) -> String {
    const LITERALS: [&str; 5] = ["int", "uint", "double", "string", "bytes"];
    let literal = problem.strip_prefix("invalid ").and_then(|kind| {
        LITERALS
            .into_iter()
            .find(|known| kind.strip_prefix(known).is_some_and(|rest| rest.starts_with(" literal")))
    });
    if let Some(kind) = literal {
        return format!("syntax error: invalid {kind} literal");
    }
    if let Some(name) = problem.strip_prefix("reserved identifier: ") {
        return format!("syntax error: `{name}` is kept for the language, and is no name");
    }
    if problem.starts_with("unsupported syntax") {
        return "syntax error: there are no optional fields, `.?` and `[?`".to_owned();
    }
    if problem.starts_with("Incomplete `ExprContext`") {
        return CHOICE.to_owned();
    }
    // What the tree of the grammar lacks.
    if problem.starts_with("Incomplete `IndexContext`") {
        return "syntax error: a `[` has nothing in it, or is not closed".to_owned();
    }
    if problem.starts_with("Incomplete") || problem.starts_with("No `") {
        return "syntax error: the expression is not complete".to_owned();
    }
    match rest.chars().next() {
        None => "syntax error: the expression ends too early".to_owned(),
        Some(_) if word > 0 => format!("syntax error: unexpected `{}`", front(&rest[..word])),
        Some(sign) => format!("syntax error: unexpected `{sign}`"),
    }
}

/// The front of a long token, on one line.
fn front(token: &str) -> String {
    const SHOWN: usize = 40;
    let line = token.lines().next().unwrap_or_default();
    match line.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn hint(token: &str) -> Option<&'static str> {
    token.starts_with(['\'', '"']).then_some("a string must be closed with the quote that opens it")
}

/// The byte at a line and column, both counted from 1, in characters.
fn position(text: &str, (line, column): (isize, isize)) -> usize {
    let (line, column) = (usize::try_from(line).unwrap_or(1), usize::try_from(column).unwrap_or(1));
    let start: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    start + byte_of(&text[start..], column.saturating_sub(1))
}
