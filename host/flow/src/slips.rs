//! What in a text, or at the ends of a value that came from outside, runs and is hardly meant.

use crate::interpolate::is_name;

/// A variable as shells and Kubernetes have it, `$NAME` or `$(NAME)`, which is not replaced here. In the middle of a text
/// only names in capitals count; what is nothing but a name counts if `any_case`.
pub(crate) fn bare_reference(text: &str, any_case: bool) -> Option<&str> {
    text.match_indices('$').find_map(|(at, _)| {
        if text[..at].ends_with('$') {
            return None;
        }
        let behind = &text[at + 1..];
        let inner = behind.strip_prefix('(').unwrap_or(behind);
        let length = inner.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inner.len());
        let name = &inner[..length];
        let bracketed = inner.len() < behind.len();
        if !is_name(name) || bracketed && !inner[length..].starts_with(')') {
            return None;
        }
        let written = &text[at..at + 1 + length + 2 * usize::from(bracketed)];
        let capitals = name.bytes().any(|byte| byte.is_ascii_uppercase())
            && !name.bytes().any(|byte| byte.is_ascii_lowercase());
        (capitals || any_case && written.len() == text.trim().len()).then_some(written)
    })
}

/// What stands unseen at an end of a value, and is hardly meant to be a part of it.
pub(crate) fn unseen_edge(value: &str) -> Option<(&'static str, &'static str)> {
    // Line ends around a certificate mean nothing.
    if value.starts_with("-----BEGIN ") {
        return None;
    }
    let unseen = |c: char| match c {
        ' ' => Some("a blank"),
        '\t' => Some("a tab"),
        '\n' | '\r' => Some("a line end"),
        '\u{feff}' => Some("a byte-order mark"),
        '\u{200b}'..='\u{200d}' | '\u{2060}' => Some("a character that is not seen"),
        c if c.is_whitespace() || c.is_control() => Some("a character that is not seen"),
        _ => None,
    };
    let begins = value.chars().next().and_then(unseen).map(|what| ("begins", what));
    begins.or_else(|| value.chars().next_back().and_then(unseen).map(|what| ("ends", what)))
}

#[cfg(test)]
mod tests {
    use super::{bare_reference, unseen_edge};

    #[test]
    fn variables_of_other_tools_are_seen_where_they_are_surely_meant() {
        for (text, any_case, found) in [
            ("$NAME", false, Some("$NAME")),
            ("a-$NAME-b", false, Some("$NAME")),
            ("http://$HOST:9092/", true, Some("$HOST")),
            ("$(NAME)", false, Some("$(NAME)")),
            ("x$(POD_NAME)y", true, Some("$(POD_NAME)")),
            ("$name", true, Some("$name")),
            ("${A}$B", true, Some("$B")),
            ("$name", false, None),
            ("x$name", true, None),
            ("$Name-x", true, None),
            ("$$NAME", true, None),
            ("${NAME}", true, None),
            ("$${NAME}", true, None),
            ("$.a.B", true, None),
            ("$1", true, None),
            ("$_", false, None),
            ("^a$", true, None),
            ("$(NAME", true, None),
            ("5$", true, None),
        ] {
            assert_eq!(bare_reference(text, any_case), found, "{text}");
        }
    }

    #[test]
    fn what_is_unseen_at_the_ends_of_a_value_is_named() {
        for (value, edge) in [
            ("\u{feff}x", Some(("begins", "a byte-order mark"))),
            (" x", Some(("begins", "a blank"))),
            ("x ", Some(("ends", "a blank"))),
            ("x\t", Some(("ends", "a tab"))),
            ("x\n", Some(("ends", "a line end"))),
            ("x\r", Some(("ends", "a line end"))),
            ("x\u{200b}", Some(("ends", "a character that is not seen"))),
            ("\u{a0}x", Some(("begins", "a character that is not seen"))),
            ("x y\nz", None),
            ("", None),
            ("-----BEGIN CERTIFICATE-----\nx\n\n", None),
        ] {
            assert_eq!(unseen_edge(value), edge, "{value:?}");
        }
    }
}
