//! The flow file as text: decoding, and places in it.
//!
//! The parser counts lines and characters, people read lines and columns, and excerpts need bytes; this is the one
//! place that knows all three. A [`Pos`] is what the tree keeps: it stays right when a line is rewritten in memory to
//! read on after an error, and a place beyond the end of its line is the end of that line.

use crate::issue::Stretch;

/// Larger files are refused: a flow is written by hand, and its tree takes some thirty times its size.
pub(crate) const MAX_BYTES: usize = 4 << 20;

/// A place: line and column in characters, both from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Pos {
    pub(crate) line: u32,
    pub(crate) col: u32,
}

/// Which of the files that make a flow: 0 is the flow itself, overlays follow in their order.
pub(crate) type FileId = u16;

/// A stretch of one file's text, its end excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) file: FileId,
    pub(crate) start: Pos,
    pub(crate) end: Pos,
}

impl Span {
    /// The place itself, without length.
    pub(crate) fn at(file: FileId, pos: Pos) -> Span {
        Span { file, start: pos, end: pos }
    }

    /// From the start of this one to the end of the other.
    pub(crate) fn to(self, other: Span) -> Span {
        Span { end: other.end, ..self }
    }
}

/// Why bytes are no text that can be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotText {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    pub(crate) at: Pos,
}

/// Decoded text with an index of its lines.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    text: String,
    /// Where each line starts, in bytes.
    lines: Vec<usize>,
}

impl Text {
    /// Decodes a file: UTF-8, with or without a byte order mark, without control characters.
    ///
    /// A file that cannot be decoded comes back with its readable beginning, for the excerpt.
    pub(crate) fn decode(bytes: &[u8]) -> (Text, Option<NotText>) {
        if bytes.len() > MAX_BYTES {
            let (has, may) = (bytes.len() >> 20, MAX_BYTES >> 20);
            let message = format!("the file has more than {has} MiB; a flow may have {may} MiB at most");
            return (Text::new(String::new()), Some(NotText { message, hint: None, at: Pos::default() }));
        }
        if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
            let message = "the file is UTF-16; a flow is UTF-8".to_owned();
            let hint = Some("save it as UTF-8".to_owned());
            return (Text::new(String::new()), Some(NotText { message, hint, at: Pos::default() }));
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let (valid, bad) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let (head, tail) = bytes.split_at(error.valid_up_to());
                (std::str::from_utf8(head).unwrap_or_default(), tail.first().copied())
            }
        };
        let text = Text::new(valid.to_owned());
        if let Some(byte) = bad {
            let at = text.pos(text.text.len());
            let message = format!("the file is not UTF-8: byte 0x{byte:02x} stands here");
            return (text, Some(NotText { message, hint: Some("save it as UTF-8".to_owned()), at }));
        }
        let control = valid.char_indices().find(
            |(_, c)| matches!(c, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f' | '\x7f' | '\u{feff}'),
        );
        if let Some((offset, c)) = control {
            let at = text.pos(offset);
            let message = format!("YAML does not allow the control character U+{:04X}", u32::from(c));
            let hint = Some("write it as an escape in double quotes, or remove it".to_owned());
            return (text, Some(NotText { message, hint, at }));
        }
        (text, None)
    }

    pub(crate) fn new(text: String) -> Text {
        let mut lines = vec![0];
        let bytes = text.as_bytes();
        for (index, byte) in bytes.iter().enumerate() {
            let ends = match byte {
                b'\n' => true,
                b'\r' => bytes.get(index + 1) != Some(&b'\n'),
                _ => false,
            };
            if ends {
                lines.push(index + 1);
            }
        }
        Text { text, lines }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// How many lines there are.
    pub(crate) fn line_count(&self) -> u32 {
        clamp(self.lines.len())
    }

    /// A line without its end; empty beyond the last.
    pub(crate) fn line(&self, line: u32) -> &str {
        let line = line as usize;
        let Some(&start) = self.lines.get(line) else { return "" };
        let end = self.lines.get(line + 1).copied().unwrap_or(self.text.len());
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }

    /// The text with one line replaced.
    pub(crate) fn with_line(&self, line: u32, new: &str) -> Text {
        let start = self.lines.get(line as usize).copied().unwrap_or(self.text.len());
        let end = start + self.line(line).len();
        Text::new(format!("{}{new}{}", &self.text[..start], &self.text[end..]))
    }

    /// The place of a byte offset.
    pub(crate) fn pos(&self, offset: usize) -> Pos {
        let line = self.lines.partition_point(|&start| start <= offset).saturating_sub(1);
        let start = self.lines[line];
        let col = self.text.get(start..offset).map_or(0, |head| head.chars().count());
        Pos { line: clamp(line), col: clamp(col) }
    }

    /// The byte offset of a place.
    pub(crate) fn offset(&self, pos: Pos) -> usize {
        let Some(&start) = self.lines.get(pos.line as usize) else { return self.text.len() };
        let line = self.line(pos.line);
        start + line.char_indices().nth(pos.col as usize).map_or(line.len(), |(offset, _)| offset)
    }

    /// The text of a span.
    pub(crate) fn slice(&self, span: Span) -> &str {
        let start = self.offset(span.start);
        &self.text[start..self.offset(span.end).max(start)]
    }

    /// The text with stretches of it made unreadable, every byte offset kept. Line ends and the first character of a
    /// quoted text stay, so that an excerpt still looks like its line.
    pub(crate) fn masked(&self, spans: &[Span]) -> String {
        let mut bytes = self.text.clone().into_bytes();
        for span in spans {
            let start = self.offset(span.start);
            let end = self.offset(span.end).max(start);
            for byte in &mut bytes[start..end] {
                if !matches!(*byte, b'\n' | b'\r' | b'"' | b'\'') {
                    *byte = b'*';
                }
            }
        }
        String::from_utf8(bytes).unwrap_or_default()
    }

    /// A span as people and excerpts need it.
    pub(crate) fn stretch(&self, span: Span) -> Stretch {
        let offset = self.offset(span.start);
        Stretch {
            line: span.start.line as usize + 1,
            column: span.start.col as usize + 1,
            offset,
            len: self.offset(span.end).saturating_sub(offset),
        }
    }
}

/// Files are bounded by [`MAX_BYTES`], far below what a `u32` counts.
fn clamp(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::{Pos, Text};

    #[test]
    fn places_survive_every_kind_of_line_end() {
        let text = Text::new("a\r\nbé\rc\nd".to_owned());
        for (offset, line, col) in [(0, 0, 0), (3, 1, 0), (6, 1, 2), (7, 2, 0), (9, 3, 0), (10, 3, 1)] {
            assert_eq!(text.pos(offset), Pos { line, col }, "offset {offset}");
            assert_eq!(text.offset(Pos { line, col }), offset, "line {line} col {col}");
        }
        assert_eq!(text.line(1), "bé");
        assert_eq!(text.with_line(1, "xyz").as_str(), "a\r\nxyz\rc\nd");
    }

    #[test]
    fn what_is_no_text_is_refused_with_its_place() {
        let (_, bad) = Text::decode(b"name: x\nb: \xff\n");
        assert_eq!(bad.map(|bad| bad.at), Some(Pos { line: 1, col: 3 }));
        let (_, bad) = Text::decode(b"name: x\0\n");
        assert_eq!(bad.map(|bad| bad.at), Some(Pos { line: 0, col: 7 }));
        assert!(Text::decode(&[0xff, 0xfe, b'a', 0]).1.is_some());
        assert_eq!(Text::decode(b"\xef\xbb\xbfname: x").0.as_str(), "name: x");
    }
}
