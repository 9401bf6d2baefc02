//! Expressions that YAML takes for something else: found, explained and rewritten in quotes.
//!
//! CEL and YAML share `!`, `[`, `{`, quotes, `: ` and ` #`. Where a line holds the value of a key that takes an
//! expression, what the user meant is everything after the key; that is certain enough to write the line anew, and to
//! read on with it so that the rest of the file is checked as well.

use crate::expr::repaired;
use crate::text::{Span, Text};

/// Keys whose value may be an expression.
const KEYS: [&str; 5] = ["filter", "map", "if", "key", "by"];

/// A line as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewritten {
    /// The whole line.
    pub(crate) line: String,
    /// From the key to the end, for a hint.
    pub(crate) shown: String,
    /// The expression as it stands, in characters of the line.
    pub(crate) columns: (usize, usize),
}

/// The line anew, if it holds an expression that YAML would spoil.
pub(crate) fn rewrite(line: &str) -> Option<Rewritten> {
    let (start, key, in_braces) = find_key(line)?;
    let value_at = start + key.len() + 1;
    let raw = &line[value_at..];
    let value = raw.trim();
    let at = value_at + (raw.len() - raw.trim_start().len());
    let (value, tail) = if in_braces { (value.strip_suffix('}')?.trim_end(), " }") } else { (value, "") };
    if value.is_empty() || !spoiled(value) {
        return None;
    }
    if in_braces && !value.starts_with(['"', '\'', '[', '!']) {
        // `{ if: a ? b : c, process: … }`: where the expression ends is a guess.
        return None;
    }
    let (value, rest) = if in_braces { expression_of(value) } else { (value, "") };
    let quoted = quote(value)?;
    let columns = (line[..at].chars().count(), line[..at + value.len()].chars().count());
    // The hint is of an expression that compiles, where it is known what was meant.
    let meant = repaired(value).and_then(|meant| quote(&meant));
    Some(Rewritten {
        line: format!("{}{quoted}{rest}{tail}", &line[..at]),
        shown: format!("{key}: {}", meant.as_ref().unwrap_or(&quoted)),
        columns,
    })
}

/// The expression that a value between braces begins with, and what comes behind it: keys that stand beside.
fn expression_of(value: &str) -> (&str, &str) {
    let ends = value.match_indices(',').map(|(at, _)| at);
    let mut ends: Vec<usize> = ends.filter(|at| value[at + 1..].contains(':')).collect();
    ends.push(value.len());
    ends.into_iter()
        .rev()
        .map(|end| value.split_at(end))
        .find(|(head, _)| repaired(head).is_some())
        .unwrap_or((value, ""))
}

/// The expression in quotes that keep every character, if one pair of quotes can.
pub(crate) fn quote(expression: &str) -> Option<String> {
    if expression.contains(['\n', '\r']) {
        None
    } else if !expression.contains(['"', '\\']) {
        Some(format!("\"{expression}\""))
    } else {
        Some(format!("'{}'", expression.replace('\'', "''")))
    }
}

/// What a value of `key` should look like when its text is `expression`: in quotes, or as a block.
pub(crate) fn advice(key: &str, expression: &str) -> String {
    match quote(expression.trim()) {
        Some(quoted) => format!("write `{key}: {quoted}`"),
        None => format!("write it as a block: `{key}: >-` and the expression on the lines below, indented"),
    }
}

/// The rest of the line after a scalar, if a comment cuts it short.
pub(crate) fn truncated(text: &Text, span: Span) -> Option<&str> {
    let line = text.line(span.end.line);
    let end = line.char_indices().nth(span.end.col as usize)?.0;
    let rest = &line[end..];
    let comment = rest.trim_start();
    (comment.len() < rest.len() && comment.starts_with('#')).then(|| rest.trim_end())
}

/// Where a key of ours starts on a line, which one, and whether it stands in `{ … }` of its own.
fn find_key(line: &str) -> Option<(usize, &'static str, bool)> {
    let mut at = line.len() - line.trim_start().len();
    while line[at..].starts_with("- ") {
        at += 2;
        at += line[at..].len() - line[at..].trim_start().len();
    }
    let in_braces = line[at..].starts_with('{');
    if in_braces {
        at += 1;
        at += line[at..].len() - line[at..].trim_start().len();
    }
    let key = KEYS.into_iter().find(|key| {
        line[at..]
            .strip_prefix(key)
            .and_then(|rest| rest.strip_prefix(':'))
            .is_some_and(|rest| rest.starts_with(' '))
    })?;
    Some((at, key, in_braces))
}

/// Whether YAML would not read all of a value as one text.
fn spoiled(value: &str) -> bool {
    match value.as_bytes()[0] {
        quote @ (b'"' | b'\'') => !closes_at_end(value, quote),
        b'!' | b'&' | b'*' | b'[' | b'%' | b'@' | b'`' => true,
        b'{' => !value.contains("plugin"),
        b'|' | b'>' => false,
        _ => value.contains(": ") || value.ends_with(':') || value.contains(" #"),
    }
}

/// Whether a quoted value is one quoted scalar and nothing else.
fn closes_at_end(value: &str, quote: u8) -> bool {
    let bytes = value.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if quote == b'"' && bytes[at] == b'\\' {
            at += 2;
        } else if bytes[at] == quote {
            if quote == b'\'' && bytes.get(at + 1) == Some(&quote) {
                at += 2;
            } else {
                let rest = value[at + 1..].trim_start();
                return rest.is_empty() || rest.starts_with('#');
            }
        } else {
            at += 1;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::rewrite;

    #[test]
    fn spoiled_lines_are_written_anew() {
        for (line, expected) in [
            ("  - filter: !has(payload.x)", Some("  - filter: \"!has(payload.x)\"")),
            ("  - filter: \"a\" in payload.tags", Some("  - filter: '\"a\" in payload.tags'")),
            ("  - filter: payload.x == \"a: b\"", Some("  - filter: 'payload.x == \"a: b\"'")),
            ("  - filter: [1] == payload.x", Some("  - filter: \"[1] == payload.x\"")),
            ("    key: 'a' + \"b\"", Some("    key: '''a'' + \"b\"'")),
            ("  - { filter: !payload.ok }", Some("  - { filter: \"!payload.ok\" }")),
            (
                "  - { if: !payload.ok, process: [ drain, { step: x } ] }",
                Some("  - { if: \"!payload.ok\", process: [ drain, { step: x } ] }"),
            ),
            ("  - filter: payload.x > 1", None),
            ("  - filter: 'payload.x > 1' # why", None),
            ("  - step: !x", None),
        ] {
            assert_eq!(rewrite(line).map(|rewritten| rewritten.line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn the_hint_is_of_an_expression_that_compiles() {
        for (line, expected) in [
            ("  - filter: !has(payload[\"user-id\"])", "filter: \"!('user-id' in payload)\""),
            ("  - filter: !payload.user-id", "filter: \"!payload['user-id']\""),
            (
                "  - filter: \"a\" in payload.tags and payload.b",
                "filter: '\"a\" in payload.tags && payload.b'",
            ),
            ("  - { if: !payload.in, process: [ drain ] }", "if: \"!payload['in']\""),
        ] {
            assert_eq!(rewrite(line).map(|rewritten| rewritten.shown).as_deref(), Some(expected), "{line}");
        }
    }
}
