//! A JSON text as a flat list of its values, in the order of the text: what a payload is decoded into.
//!
//! Nothing is copied: an entry is a kind and a span of the payload, so numbers keep every digit and strings stay
//! where they are. Decoding checks the whole text (a payload is JSON or it is not), and only what an expression
//! touches is turned into a value. An object's keys and values alternate. `next` of an entry is the entry after all
//! that is inside it, so that a value is skipped in one step.

use std::fmt;

/// How deep arrays and objects may be nested, as in serde_json.
const MAX_DEPTH: usize = 128;

/// What is said of a payload that is nested deeper.
const TOO_DEEP: &str = "nested deeper than 128 levels, which is as deep as the host reads,";

/// Entries whose memory a tape keeps: a MiB.
const KEPT: usize = 1 << 16;

/// The place of a value on a tape.
pub(super) type TapeIndex = u32;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    True,
    False,
    /// Digits with an optional sign.
    Integer,
    /// A number with a fraction or an exponent.
    Fraction,
    /// A string whose bytes are its value; the span excludes the quotes.
    Plain,
    /// A string with escapes; the span excludes the quotes.
    Escaped,
    Array,
    Object,
}

/// One value of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// What it is.
    pub(super) kind: Kind,
    /// Whether the text of an array or object has white space between its tokens.
    pub(super) spaced: bool,
    /// Its first byte in the payload.
    pub(super) start: u32,
    /// The byte after its last.
    pub(super) end: u32,
    /// The entry after this value and everything inside it.
    pub(super) next: TapeIndex,
}

/// Why a payload is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NotJson {
    problem: &'static str,
    at: usize,
}

impl fmt::Display for NotJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What is too deep may well be JSON.
        let what = if self.problem == TOO_DEEP { "" } else { "not JSON: " };
        write!(f, "the payload is {what}{} at byte {}", self.problem, self.at)
    }
}

/// The values of many texts.
#[derive(Debug, Default)]
pub(super) struct Tape {
    entries: Vec<Entry>,
    open: Vec<TapeIndex>,
}

impl Tape {
    /// Forgets every text; keeps the memory, except what an unusually large batch has taken.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(KEPT);
    }

    /// The entry at a place.
    pub(super) fn entry(&self, at: TapeIndex) -> Entry {
        self.entries[at as usize]
    }

    /// Appends the values of a text; gives the place of the outermost.
    pub(super) fn decode(&mut self, text: &[u8]) -> Result<TapeIndex, NotJson> {
        let root = self.entries.len();
        if let Err(error) = std::str::from_utf8(text) {
            return Err(NotJson { problem: "bytes that are not UTF-8", at: error.valid_up_to() });
        }
        self.open.clear();
        let mut reader = Reader { text, at: 0, entries: &mut self.entries, open: &mut self.open };
        match reader.document() {
            Ok(()) => Ok(root as TapeIndex),
            Err(problem) => {
                let at = reader.at;
                self.entries.truncate(root);
                Err(NotJson { problem, at })
            }
        }
    }
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    entries: &'a mut Vec<Entry>,
    open: &'a mut Vec<TapeIndex>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), &'static str> {
        self.space();
        if self.at == self.text.len() {
            return Err(if self.text.is_empty() { "it is empty" } else { "it is blank" });
        }
        self.value()?;
        loop {
            // A value has just ended; what may follow depends on what is open.
            let Some(&container) = self.open.last() else {
                self.space();
                return if self.at == self.text.len() { Ok(()) } else { Err("text after the end") };
            };
            let object = self.entries[container as usize].kind == Kind::Object;
            self.inner_space(container);
            match self.peek() {
                Some(b',') => {
                    self.at += 1;
                    self.inner_space(container);
                    if object {
                        self.key(container)?;
                    }
                    self.value()?;
                }
                Some(b'}') if object => self.close(container),
                Some(b']') if !object => self.close(container),
                Some(_) if object => return Err("expected `,` or `}`"),
                Some(_) => return Err("expected `,` or `]`"),
                None => return Err("it ends inside a value"),
            }
        }
    }

    /// Reads a value up to its end, or, of a container that is not empty, up to the end of its first scalar.
    fn value(&mut self) -> Result<(), &'static str> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.string()?;
                    return Ok(());
                }
                Some(b'-' | b'0'..=b'9') => return self.number(),
                Some(b't') => return self.word(b"true", Kind::True),
                Some(b'f') => return self.word(b"false", Kind::False),
                Some(b'n') => return self.word(b"null", Kind::Null),
                Some(opening @ (b'{' | b'[')) => {
                    if self.open.len() == MAX_DEPTH {
                        return Err(TOO_DEEP);
                    }
                    let object = opening == b'{';
                    let container = self.entries.len() as TapeIndex;
                    self.push(if object { Kind::Object } else { Kind::Array }, self.at, self.at);
                    self.open.push(container);
                    self.at += 1;
                    self.inner_space(container);
                    match self.peek() {
                        Some(b'}') if object => {
                            self.close(container);
                            return Ok(());
                        }
                        Some(b']') if !object => {
                            self.close(container);
                            return Ok(());
                        }
                        _ if object => self.key(container)?,
                        _ => {}
                    }
                }
                Some(_) => return Err("expected a value"),
                None => return Err("it ends where a value is expected"),
            }
        }
    }

    fn key(&mut self, container: TapeIndex) -> Result<(), &'static str> {
        match self.peek() {
            Some(b'"') => self.string()?,
            Some(_) => return Err("expected a key in quotes"),
            None => return Err("it ends where a key is expected"),
        }
        self.inner_space(container);
        if self.peek() != Some(b':') {
            return Err("expected `:`");
        }
        self.at += 1;
        self.inner_space(container);
        Ok(())
    }

    fn close(&mut self, container: TapeIndex) {
        self.at += 1;
        let next = self.entries.len() as TapeIndex;
        let spaced = self.entries[container as usize].spaced;
        let entry = &mut self.entries[container as usize];
        entry.end = self.at as u32;
        entry.next = next;
        self.open.pop();
        if spaced && let Some(&outer) = self.open.last() {
            self.entries[outer as usize].spaced = true;
        }
    }

    fn string(&mut self) -> Result<(), &'static str> {
        let start = self.at + 1;
        let mut at = start;
        let mut kind = Kind::Plain;
        loop {
            match self.text.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    at = self.escape(at)?;
                }
                Some(byte) if *byte < 0x20 => {
                    self.at = at;
                    return Err("a control character in a string");
                }
                Some(_) => at += 1,
                None => {
                    self.at = at;
                    return Err("it ends inside a string");
                }
            }
        }
        self.push(kind, start, at);
        self.at = at + 1;
        Ok(())
    }

    /// Checks the escape at `at`; gives the byte after it. Surrogates must come in pairs.
    fn escape(&mut self, at: usize) -> Result<usize, &'static str> {
        self.at = at;
        match self.text.get(at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
            Some(b'u') => {
                let first = hex(self.text, at + 2).ok_or("an invalid \\u escape")?;
                match first {
                    0xD800..=0xDBFF => {
                        let paired = self.text.get(at + 6..at + 8) == Some(br"\u")
                            && matches!(hex(self.text, at + 8), Some(0xDC00..=0xDFFF));
                        if paired { Ok(at + 12) } else { Err("half of a surrogate pair") }
                    }
                    0xDC00..=0xDFFF => Err("half of a surrogate pair"),
                    _ => Ok(at + 6),
                }
            }
            Some(_) => Err("an invalid escape"),
            None => Err("it ends inside a string"),
        }
    }

    fn number(&mut self) -> Result<(), &'static str> {
        let start = self.at;
        let mut kind = Kind::Integer;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => {
                self.at += 1;
                if matches!(self.peek(), Some(b'0'..=b'9')) {
                    return Err("a number with a leading zero");
                }
            }
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err("expected a digit"),
        }
        if self.peek() == Some(b'.') {
            kind = Kind::Fraction;
            self.at += 1;
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err("expected a digit");
            }
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            kind = Kind::Fraction;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !matches!(self.peek(), Some(b'0'..=b'9')) {
                return Err("expected a digit");
            }
            self.digits();
        }
        self.push(kind, start, self.at);
        Ok(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<(), &'static str> {
        let end = self.at + word.len();
        if self.text.get(self.at..end) != Some(word) {
            return Err("expected a value");
        }
        self.push(kind, self.at, end);
        self.at = end;
        Ok(())
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize) {
        let next = self.entries.len() as TapeIndex + 1;
        self.entries.push(Entry { kind, spaced: false, start: start as u32, end: end as u32, next });
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    #[inline]
    fn inner_space(&mut self, container: TapeIndex) {
        if matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.entries[container as usize].spaced = true;
            self.space();
        }
    }
}

/// Four hexadecimal digits.
fn hex(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..at + 4)?;
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}

/// The value of a string with escapes that decoding has checked.
pub(super) fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let bytes = rest.as_bytes();
        let mut after = at + 2;
        match bytes[at + 1] {
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'n' => out.push('\n'),
            b'r' => out.push('\r'),
            b't' => out.push('\t'),
            b'u' => {
                let unit = hex(bytes, at + 2).unwrap_or(0xFFFD);
                after = at + 6;
                let code = if (0xD800..0xDC00).contains(&unit) {
                    after = at + 12;
                    0x10000 + ((unit - 0xD800) << 10) + (hex(bytes, at + 8).unwrap_or(0xDC00) - 0xDC00)
                } else {
                    unit
                };
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            other => out.push(char::from(other)),
        }
        rest = &rest[after..];
    }
    out.push_str(rest);
    out
}
