//! Paths with a name that cannot stand behind a dot: `payload.user-id`, `payload.in`, `payload.@timestamp`,
//! `payload.items.0`. They are found in the text, since to the grammar they are something else.

use std::ops::Range;

use super::super::issue::ExprIssue;
use super::super::limits::closing;

/// Words that no dot can come before.
const KEYWORDS: [&str; 4] = ["in", "true", "false", "null"];

/// Variables that every expression has.
const ROOTS: [&str; 3] = ["payload", "msg", "env"];

/// A path that is written otherwise.
pub(super) struct Found {
    /// What is replaced.
    pub(super) range: Range<usize>,
    /// The form that works.
    pub(super) form: String,
    /// What is wrong with it.
    pub(super) problem: String,
}

/// A part of a path, behind its root.
enum Part {
    /// `.name`, with whatever the name is made of.
    Name(String),
    /// `[…]`, and the name if a string alone stands in it.
    Index(String, Option<String>),
}

/// `base` and a field of it, in the form that works.
#[must_use]
pub fn field(base: &str, name: &str) -> String {
    if name.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() {
        format!("{base}[{name}]")
    } else if is_plain(name) {
        format!("{base}.{name}")
    } else {
        format!("{base}[{}]", quoted(name))
    }
}

/// A string of an expression.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && !KEYWORDS.contains(&name)
}

/// The path that an issue is about, if a name in it is what is wrong.
pub(super) fn at(text: &str, issue: &ExprIssue) -> Option<Found> {
    let touches = |range: &Range<usize>| range.start <= issue.span.start && issue.span.start <= range.end;
    paths(text).into_iter().filter(|path| touches(&path.range)).find_map(|path| path.found(text, issue))
}

struct Path {
    range: Range<usize>,
    root: String,
    parts: Vec<Part>,
}

impl Path {
    fn found(&self, text: &str, issue: &ExprIssue) -> Option<Found> {
        let in_has = in_has(text, &self.range);
        let wrong_has = in_has.is_some() && issue.message.starts_with("`has` takes");
        let odd = self.odd()?;
        let bare_root = !is_plain(&self.root);
        // A difference of variables: what comes first would be unknown as well.
        if bare_root && issue.span.start != self.range.start {
            return None;
        }
        let root = if bare_root { field("payload", &self.root) } else { self.root.clone() };
        let step = |base: String, part: &Part| match part {
            Part::Name(name) => field(&base, name),
            Part::Index(written, _) => base + written,
        };
        if let (Some(range), Some((last, before))) = (in_has, self.parts.split_last()) {
            let base = before.iter().fold(root.clone(), step);
            let inner = match last {
                Part::Name(name) if !is_plain(name) => Some(format!("({} in {base})", quoted(name))),
                Part::Index(_, Some(name)) => Some(format!("({} in {base})", quoted(name))),
                Part::Index(written, None) if wrong_has => {
                    let place = written.trim_start_matches('[').trim_end_matches(']').trim();
                    Some(format!("(size({base}) > {place})"))
                }
                _ => None,
            };
            if let Some(form) = inner {
                let problem = "`has` takes a field that stands behind a dot".to_owned();
                return Some(Found { range, form, problem });
            }
        }
        let odd = odd?;
        let form = self.parts.iter().fold(root, step);
        let problem = if KEYWORDS.contains(&odd) {
            format!("`{odd}` is a word of the language, and no dot can stand before it")
        } else if odd.bytes().all(|byte| byte.is_ascii_digit()) {
            format!("an element of a list is `[{odd}]`, not `.{odd}`")
        } else if bare_root && odd == self.root {
            format!("unknown variable `{odd}`")
        } else {
            format!("a name such as `{odd}` cannot stand behind a dot")
        };
        Some(Found { range: self.range.clone(), form, problem })
    }

    /// The first name that is written otherwise; an inner none where only an index can be what is wrong.
    fn odd(&self) -> Option<Option<&str>> {
        let names = self.parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Index(..) => None,
        });
        let odd = std::iter::once(self.root.as_str()).chain(names).find(|name| !is_plain(name));
        match (odd, self.parts.last()) {
            (Some(odd), _) => Some(Some(odd)),
            (None, Some(Part::Index(..))) => Some(None),
            (None, _) => None,
        }
    }
}

/// All of `has(PATH)` where a path is the whole of it.
fn in_has(text: &str, path: &Range<usize>) -> Option<Range<usize>> {
    let before = text[..path.start].trim_end().strip_suffix('(')?.trim_end().strip_suffix("has")?;
    let after = text[path.end..].trim_start();
    let end = text.len() - after.strip_prefix(')')?.len();
    Some(before.len()..end)
}

/// Every path of a text, outside of its strings and comments.
fn paths(text: &str) -> Vec<Path> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let c = char_at(text, at);
        match c {
            '"' | '\'' => at = string_end(text, at),
            '/' if text[at..].starts_with("//") => {
                at = text[at..].find('\n').map_or(text.len(), |end| at + end)
            }
            c if begins_name(c) => {
                let path = path_at(text, at);
                at = path.range.end.max(at + c.len_utf8());
                found.push(path);
            }
            c if c.is_ascii_digit() => at = name_end(text, at),
            c => at += c.len_utf8(),
        }
    }
    found
}

fn path_at(text: &str, start: usize) -> Path {
    let mut at = name_end(text, start);
    let root = text[start..at].to_owned();
    let mut parts = Vec::new();
    loop {
        let rest = &text[at..];
        let behind = rest.strip_prefix("?.").or_else(|| rest.strip_prefix('.'));
        if let Some(behind) = behind {
            let name_at = text.len() - behind.len();
            let end = match behind.chars().next() {
                Some('"' | '\'') => string_end(text, name_at),
                Some(c) if begins_name(c) || c.is_ascii_digit() => name_end(text, name_at),
                _ => break,
            };
            // A method is no field.
            if end == name_at || text[end..].starts_with('(') || rest.starts_with('?') {
                break;
            }
            let name = text[name_at..end].trim_matches(['"', '\'']);
            parts.push(Part::Name(name.to_owned()));
            at = end;
        } else if rest.starts_with('[') {
            let end = closing(text, at);
            let inner = text[at + 1..end].strip_suffix(']').unwrap_or_default().trim();
            if end <= at + 1 || inner.is_empty() {
                break;
            }
            let is_string =
                inner.starts_with(['"', '\'']) && string_end(inner, 0) == inner.len() && inner.len() > 1;
            let name = (is_string && !inner.contains('\\')).then(|| inner[1..inner.len() - 1].to_owned());
            parts.push(Part::Index(text[at..end].to_owned(), name));
            at = end;
        } else {
            break;
        }
    }
    Path { range: start..at, root, parts }
}

fn begins_name(c: char) -> bool {
    c.is_alphabetic() || matches!(c, '_' | '@' | '$' | '#')
}

/// The end of a name, with signs that join words to one: a dash between letters is one, before a variable it is not.
fn name_end(text: &str, start: usize) -> usize {
    let mut end = start;
    for (at, c) in text[start..].char_indices() {
        let at = start + at;
        let joins = match c {
            '-' => text[at + 1..].starts_with(begins_name) && !begins_root(&text[at + 1..]),
            ':' => at > start && !text.contains('?') && text[at + 1..].starts_with(begins_name),
            c => c.is_alphanumeric() || matches!(c, '_' | '@' | '$' | '#' | '~'),
        };
        if !joins {
            break;
        }
        end = at + c.len_utf8();
    }
    end
}

fn begins_root(text: &str) -> bool {
    ROOTS.iter().any(|root| {
        text.strip_prefix(root)
            .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    })
}

fn char_at(text: &str, at: usize) -> char {
    text[at..].chars().next().unwrap_or('\0')
}

/// The byte after the string that begins at `at`, or the end of the text.
fn string_end(text: &str, at: usize) -> usize {
    let quote = char_at(text, at);
    let mut escaped = false;
    for (offset, c) in text[at + 1..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1 + offset + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}
