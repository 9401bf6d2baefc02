//! Bounds of an expression's text, checked before it is parsed: the parser recurses, and a stack that overflows takes
//! the process with it.
//!
//! What is counted is an upper bound of the depth of the tree: brackets, and operators in a row within them. `&&` and
//! `||` are balanced by the parser, so a long list of conditions is not deep.

use super::issue::ExprIssue;

/// The longest expression, in bytes.
pub(super) const MAX_LENGTH: usize = 4096;
/// Brackets inside brackets.
const MAX_BRACKETS: usize = 24;
/// Brackets, and operators in a row in each of them.
const MAX_DEPTH: usize = 120;

/// What is open at a place of the text.
#[derive(Clone, Copy, Default)]
struct Level {
    /// Operators and selections of the current operand.
    chain: usize,
    /// `?` of the current element.
    choices: usize,
}

/// Refuses a text that is too long or too deep.
pub(super) fn check(text: &str) -> Result<(), ExprIssue> {
    if text.len() > MAX_LENGTH {
        let mut start = MAX_LENGTH;
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        return Err(ExprIssue {
            message: format!("the expression has {} bytes; at most {MAX_LENGTH} are allowed", text.len()),
            span: start..text.len(),
            hint: Some("move the logic into a predicate or step component".to_owned()),
        });
    }
    if text.trim().is_empty() {
        return Err(ExprIssue {
            message: "the expression is empty".to_owned(),
            span: 0..text.len(),
            hint: None,
        });
    }
    let bytes = text.as_bytes();
    let mut levels = vec![Level::default()];
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        let nested = levels.len() > 1;
        let level = levels.last_mut().expect("one level stays");
        match bytes[at] {
            b'"' | b'\'' => {
                at = string_end(bytes, at, false);
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = bytes[at..]
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(bytes.len(), |length| at + length);
                continue;
            }
            byte if byte.is_ascii_alphanumeric() || byte == b'_' => {
                while bytes.get(at).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_') {
                    at += 1;
                }
                let word = &bytes[start..at];
                if word == b"in" {
                    level.chain += 1;
                } else if matches!(bytes.get(at), Some(b'"' | b'\'')) && word.len() <= 2 {
                    // A prefix of a string: raw ones have no escapes.
                    at = string_end(bytes, at, word.iter().any(|byte| byte.eq_ignore_ascii_case(&b'r')));
                    continue;
                }
            }
            b'(' | b'{' => levels.push(Level::default()),
            b'[' => {
                level.chain += 1;
                levels.push(Level::default());
            }
            b')' | b']' | b'}' if nested => {
                levels.pop();
            }
            b',' => *level = Level::default(),
            b'?' => {
                level.choices += 1;
                level.chain = 0;
            }
            b':' | b'&' | b'|' => level.chain = 0,
            b'.' | b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' => level.chain += 1,
            _ => {}
        }
        at = at.max(start + 1);
        let depth: usize = levels.iter().map(|level| 1 + level.chain + level.choices).sum();
        if levels.len() - 1 > MAX_BRACKETS || depth > MAX_DEPTH {
            while !text.is_char_boundary(at) {
                at += 1;
            }
            return Err(ExprIssue {
                message: "the expression is nested too deeply".to_owned(),
                span: start..at,
                hint: Some(format!(
                    "at most {MAX_BRACKETS} brackets inside one another, and about {MAX_DEPTH} operators in a row"
                )),
            });
        }
    }
    Ok(())
}

/// The byte after the string that begins at `at`, or the end of the text.
fn string_end(bytes: &[u8], at: usize, raw: bool) -> usize {
    let quote = bytes[at];
    let triple = bytes.get(at + 1) == Some(&quote) && bytes.get(at + 2) == Some(&quote);
    let close: &[u8] = if triple { &[quote, quote, quote] } else { &[quote] };
    let mut at = at + close.len();
    while at < bytes.len() {
        if bytes[at] == b'\\' && !raw {
            at += 2;
        } else if bytes[at..].starts_with(close) {
            return at + close.len();
        } else {
            at += 1;
        }
    }
    bytes.len()
}

/// The byte after the bracket that closes the one at `open`, or after `open` where none does.
pub(super) fn closing(text: &str, open: usize) -> usize {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    let mut at = open;
    while at < bytes.len() {
        match bytes[at] {
            b'"' | b'\'' => {
                let raw = at > 0 && bytes[at - 1].eq_ignore_ascii_case(&b'r');
                at = string_end(bytes, at, raw);
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    open + 1
}

#[cfg(test)]
mod tests {
    use super::{MAX_LENGTH, check};

    #[test]
    fn long_lists_of_conditions_are_not_deep() {
        let conditions = vec!["payload.kind == 'abc'"; 150].join(" || ");
        assert!(conditions.len() < MAX_LENGTH);
        assert_eq!(check(&conditions), Ok(()));
        let list = format!("payload.kind in [{}]", vec!["'a.b.c'"; 300].join(", "));
        assert_eq!(check(&list), Ok(()));
    }

    #[test]
    fn depth_is_found_in_every_form() {
        for text in [
            "(".repeat(500),
            "[".repeat(500),
            "a".to_owned() + &".a".repeat(500),
            "1".to_owned() + &"+1".repeat(500),
            "1".to_owned() + &" in a".repeat(500),
            "a ? b : ".repeat(300) + "c",
            "-(".repeat(200) + "1",
            "a".to_owned() + &"[0]".repeat(500),
            "f(a, ".repeat(60),
        ] {
            assert!(check(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn brackets_in_strings_and_comments_do_not_count() {
        let many = "(".repeat(100);
        for text in [
            format!("payload.a == '{many}'"),
            format!("payload.a == '\\'{many}'"),
            format!("payload.a == '''a'{many}'''"),
            format!("payload.a == r'{many}\\'"),
            format!("payload.a == 1 // {many}"),
        ] {
            assert_eq!(check(&text), Ok(()), "{text}");
        }
    }
}
