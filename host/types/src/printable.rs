//! Text from outside as it may stand on a person's terminal.
//!
//! Names, payloads, reasons and file contents are written by others: by plugins, by producers of records, by whoever named a
//! group or a file. A character that moves the cursor, ends a line, colours what follows or turns its direction would let
//! them write what the reader takes for ours. This is the one place that says which characters those are, and how they are
//! shown instead; what goes to programs (JSON) is exact and does not come here.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Text from outside on one line: every character that would act is shown as an escape, a line end too.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_acting) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    text.chars().for_each(|c| push(c, &mut out));
    Cow::Owned(out)
}

/// A text of several lines that is put together of printable pieces: line ends stay, and so do the colours that are ours.
/// Everything else is shown, should a piece have been forgotten.
#[must_use]
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    if !text.contains(|c: char| is_acting(c) && c != '\n') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let (piece, after) = rest.split_at(colour(rest).unwrap_or(c.len_utf8()));
        if piece.len() > c.len_utf8() || c == '\n' {
            out.push_str(piece)
        } else {
            push(c, &mut out)
        }
        rest = after;
    }
    Cow::Owned(out)
}

/// The same text with as many bytes in it, so that places in it stay what they are: what would act is replaced. Line ends and
/// tabs stay.
#[must_use]
pub fn printable_in_place(text: &str) -> Cow<'_, str> {
    let acts = |c: char| is_acting(c) && !matches!(c, '\n' | '\t');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    // A mark of byte order at a file's beginning is none of its text.
    out.extend(chars.next_if_eq(&'\u{feff}'));
    while let Some(c) = chars.next() {
        let ends_line = c == '\r' && chars.peek() == Some(&'\n');
        out.push(match c.len_utf8() {
            _ if !acts(c) || ends_line => c,
            1 => '?',
            2 => '¿',
            3 => '\u{fffd}',
            _ => '𝌆',
        });
    }
    Cow::Owned(out)
}

fn push(c: char, out: &mut String) {
    match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if is_acting(c) => {
            let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
        }
        c => out.push(c),
    }
}

/// Whether a character does something to a terminal, or to how the characters around it are read: control characters (C0, DEL,
/// C1), marks of direction, ends of lines and paragraphs, and characters that nobody sees.
#[must_use]
pub fn is_acting(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// How long the colour is that the text begins with, as `ESC [ 1 ; 31 m`; none if it begins with something else.
fn colour(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\u{1b}[")?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    rest[end..].starts_with('m').then_some("\u{1b}[".len() + end + 1)
}

#[cfg(test)]
mod tests {
    use super::{is_acting, printable, printable_in_place, printable_lines};

    #[test]
    fn what_acts_is_shown_and_all_else_stays() {
        assert_eq!(printable("Grüße, 日本 👩‍👩‍👧 {\"a\":\"\\n\"}"), "Grüße, 日本 👩‍👩‍👧 {\"a\":\"\\n\"}");
        assert_eq!(printable("a\nb\r\tc\u{1b}[31m\u{7f}\u{9b}2J"), "a\\nb\\r\\tc\\u{1b}[31m\\u{7f}\\u{9b}2J");
        assert_eq!(printable("x\u{202e}y\u{2066}\u{200f}\u{61c}"), "x\\u{202e}y\\u{2066}\\u{200f}\\u{61c}");
        for c in ('\0'..='\u{10ffff}').filter(|c| c.is_control()) {
            assert!(is_acting(c) && !printable(&c.to_string()).contains(c), "{c:?}");
        }
    }

    #[test]
    fn lines_and_colours_of_ours_stay_and_other_sequences_do_not() {
        let ours = "\u{1b}[1;31merror\u{1b}[0m: no\n  at 1\n";
        assert_eq!(printable_lines(ours), ours);
        assert_eq!(
            printable_lines("\u{1b}[2J\u{1b}]0;t\u{7}\r\u{1b}[31x\u{1b}"),
            "\\u{1b}[2J\\u{1b}]0;t\\u{7}\\r\\u{1b}[31x\\u{1b}"
        );
    }

    #[test]
    fn in_place_no_byte_moves() {
        let text = "a\tb\u{1b}c\u{85}d\u{202e}e\u{e0041}f\r\ng\rh\n";
        let shown = printable_in_place(text);
        assert_eq!(shown, "a\tb?c¿d\u{fffd}e𝌆f\r\ng?h\n");
        assert_eq!(shown.len(), text.len());
    }
}
