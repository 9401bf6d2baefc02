//! Values that are likely secrets, whatever became of the tree: behind a key that is given twice, mistyped or misplaced, or
//! in a file that is no YAML. Excerpts mask them, beside what is known to be a secret.
//!
//! Invariant: too much is masked rather than too little. A reference such as `${NAME}` stays, since it is no secret.

use crate::text::{FileId, Pos, Span, Text};

/// Parts of keys whose values are secrets, typing errors included.
const WORDS: [&str; 10] =
    ["pass", "pasw", "psw", "pwd", "secret", "secert", "token", "credential", "pem", "sasl_p"];

/// Keys of a `security` that hold none.
const OPEN: [&str; 3] = ["protocol", "sasl_mechanism", "sasl_username"];

/// How much of a file was understood.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// It was read: a value ends where YAML ends it.
    Read,
    /// Nobody knows where its values end, and what is a name.
    Unread,
}

/// The stretches that hold them.
pub(crate) fn secrets(text: &Text, file: FileId, form: Form) -> Vec<Span> {
    let mut spans = Vec::new();
    // The indentation of the `security` that lines are in, and of the key whose value goes on below it.
    let (mut security, mut below): (Option<usize>, Option<usize>) = (None, None);
    for number in 0..text.line_count() {
        let line: Vec<char> = text.line(number).chars().collect();
        let Some(indent) = line.iter().position(|c| !c.is_whitespace()) else { continue };
        security = security.filter(|of| indent > *of);
        below = below.filter(|of| indent > *of);
        let mut mask = |start: usize, end: usize| {
            let blanks = line[..end].iter().rev().take_while(|c| c.is_whitespace()).count();
            let end = end - blanks;
            if start < end {
                let [start, end] = [start, end].map(|col| Pos { line: number, col: to_u32(col) });
                spans.push(Span { file, start, end });
            }
        };
        if below.is_some() {
            mask(indent, line.len());
            continue;
        }
        let mut in_flow = false;
        for (colon, _) in line.iter().enumerate().filter(|(_, c)| **c == ':') {
            let key = key_before(&line[..colon]);
            if key.is_empty() {
                continue;
            }
            let start = (colon + 1..line.len()).find(|at| !line[*at].is_whitespace()).unwrap_or(line.len());
            if key == "security" {
                in_flow = line.get(start) == Some(&'{');
                security = security.or(Some(indent).filter(|_| !in_flow));
                continue;
            }
            let named = WORDS.iter().any(|word| key.contains(word))
                || form == Form::Unread && key.contains("username");
            let within = (security.is_some() || in_flow) && !OPEN.contains(&&*key);
            if !named && !within {
                continue;
            }
            let opens = line[indent..colon].iter().any(|c| matches!(c, '{' | ','));
            let end = if form == Form::Unread || !opens { line.len() } else { end_of(&line, start) };
            match line.get(start) {
                Some('|' | '>') => below = Some(indent),
                None if form == Form::Unread => below = Some(indent),
                // What is in it has keys of its own.
                None | Some('{' | '[' | '*') => {}
                _ if is_reference(&line[start..end]) => {}
                _ => mask(start, end),
            }
        }
    }
    spans
}

/// The key that ends here, in lower case and without quotes.
fn key_before(line: &[char]) -> String {
    let quote = |c: &char| matches!(c, '"' | '\'');
    let line = match line.split_last() {
        Some((last, rest)) if quote(last) => rest,
        _ => line,
    };
    let is_part = |c: &&char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut key: Vec<char> = line.iter().rev().take_while(is_part).copied().collect();
    key.reverse();
    key.into_iter().collect::<String>().to_lowercase()
}

/// Where a value ends that stands among others on its line.
fn end_of(line: &[char], start: usize) -> usize {
    let rest = &line[start..];
    let length = match rest.first() {
        Some(quote @ ('"' | '\'')) => rest[1..].iter().position(|c| c == quote).map(|at| at + 2),
        _ => rest.iter().position(|c| matches!(c, ',' | '}' | ']')),
    };
    start + length.unwrap_or(rest.len())
}

/// Whether a value names where it comes from, and nothing else.
fn is_reference(value: &[char]) -> bool {
    let text: String = value.iter().collect();
    let text = text.trim().trim_matches(|c| matches!(c, '"' | '\''));
    text.starts_with("${") && text.ends_with('}') && !text.contains(":-")
}

/// Files are bounded far below what a `u32` counts.
fn to_u32(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Form, secrets};
    use crate::text::Text;

    fn masked(text: &str, form: Form) -> String {
        let text = Text::new(text.to_owned());
        text.masked(&secrets(&text, 0, form))
    }

    #[test]
    fn whatever_sounds_like_a_secret_is_masked_and_nothing_else_on_its_line() {
        for (text, expected) in [
            ("sasl_password: hunter2", "sasl_password: *******"),
            ("sasl_pasword: a,b}c", "sasl_pasword: *****"),
            ("  Sasl_Password: \"x y\"", "  Sasl_Password: \"***\""),
            (
                "extra: { ssl.key.pasword: top, fetch.min.bytes: 1 }",
                "extra: { ssl.key.pasword: ***, fetch.min.bytes: 1 }",
            ),
            ("sasl_password: \"${PW}\"", "sasl_password: \"${PW}\""),
            ("sasl_password: ${PW:-hunter2}", "sasl_password: **************"),
            (
                "security:\n  protocol: SSL\n  kee: x\nother: y",
                "security:\n  protocol: SSL\n  kee: *\nother: y",
            ),
            (
                "security: { protocol: SSL, kee: x, sasl_username: u }",
                "security: { protocol: SSL, kee: *, sasl_username: u }",
            ),
            ("token: |\n  one\n  two\nnext: three", "token: |\n  ***\n  ***\nnext: three"),
            ("name: orders\ntopics: [a, b]", "name: orders\ntopics: [a, b]"),
        ] {
            assert_eq!(masked(text, Form::Read), expected);
        }
    }

    #[test]
    fn of_a_file_that_is_no_yaml_the_whole_line_is_masked() {
        let text = "{ sasl_password: a, b: c\n sasl_username:\n   me\nx: y";
        assert_eq!(masked(text, Form::Unread), "{ sasl_password: *******\n sasl_username:\n   **\nx: y");
    }
}
