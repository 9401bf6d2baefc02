//! A small ordered document, and how it is written as YAML: what people and later versions read of a plan.
//!
//! The order is the writer's, one thing stands on a line, and the same document is the same text always. What fits on a
//! line and holds no further structure is written in one. Text that YAML would take for something else is quoted as JSON
//! quotes it.

use loom_types::is_acting;
use serde_json::Value as Json;

/// Longer lists and mappings go one item a line.
const LINE: usize = 100;

/// A part of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outline {
    /// A text that somebody else chose.
    Text(String),
    /// A number or word of ours, written as it is.
    Word(String),
    List(Vec<Outline>),
    Mapping(Vec<(String, Outline)>),
}

impl Outline {
    pub(crate) fn word(word: impl ToString) -> Outline {
        Outline::Word(word.to_string())
    }

    /// JSON as it is, its keys in the order of the alphabet.
    pub(crate) fn json(value: &Json, text: &dyn Fn(&str) -> String) -> Outline {
        match value {
            Json::Null | Json::Bool(_) | Json::Number(_) => Outline::word(value),
            Json::String(value) => Outline::Text(text(value)),
            Json::Array(items) => Outline::List(items.iter().map(|item| Outline::json(item, text)).collect()),
            Json::Object(entries) => {
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_by_key(|(key, _)| key.as_str());
                Outline::Mapping(
                    sorted.into_iter().map(|(key, value)| (text(key), Outline::json(value, text))).collect(),
                )
            }
        }
    }

    /// The document as YAML, with a line end.
    pub(crate) fn to_yaml(&self) -> String {
        let mut out = String::new();
        self.block(0, &mut out);
        out
    }

    /// Writes lines, each with its indent.
    fn block(&self, indent: usize, out: &mut String) {
        match self {
            Outline::Mapping(entries) if !entries.is_empty() => {
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push_str(&" ".repeat(indent));
                    }
                    out.push_str(&scalar(key, Within::Block));
                    out.push(':');
                    value.after_key(indent, out);
                }
            }
            Outline::List(items) if !items.is_empty() => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(&" ".repeat(indent));
                    }
                    out.push_str("- ");
                    match item.line(indent + 2) {
                        Some(line) => {
                            out.push_str(&line);
                            out.push('\n');
                        }
                        None => item.block(indent + 2, out),
                    }
                }
            }
            _ => {
                out.push_str(&self.flow(Within::Block));
                out.push('\n');
            }
        }
    }

    fn after_key(&self, indent: usize, out: &mut String) {
        if let Some(line) = self.line(indent + 2) {
            out.push(' ');
            out.push_str(&line);
            out.push('\n');
            return;
        }
        out.push('\n');
        // A list stands under its key, two to the right, as everything.
        out.push_str(&" ".repeat(indent + 2));
        self.block(indent + 2, out);
    }

    /// The whole value in one line, where that is readable.
    fn line(&self, indent: usize) -> Option<String> {
        let leaf = |value: &Outline| matches!(value, Outline::Text(_) | Outline::Word(_));
        let single = match self {
            Outline::Text(_) | Outline::Word(_) => return Some(self.flow(Within::Block)),
            Outline::List(items) => items.iter().all(leaf),
            // A node is a mapping of several keys, which people look for at the start of a line.
            Outline::Mapping(entries) => entries.iter().all(|(_, value)| leaf(value)) && entries.len() < 2,
        };
        let line = self.flow(Within::Block);
        (single && indent + line.len() <= LINE).then_some(line)
    }

    fn flow(&self, within: Within) -> String {
        match self {
            Outline::Text(text) => scalar(text, within),
            Outline::Word(word) => word.clone(),
            Outline::List(items) => {
                let items: Vec<String> = items.iter().map(|item| item.flow(Within::Flow)).collect();
                format!("[{}]", items.join(", "))
            }
            Outline::Mapping(entries) if entries.is_empty() => "{}".to_owned(),
            Outline::Mapping(entries) => {
                let entry = |(key, value): &(String, Outline)| {
                    format!("{}: {}", scalar(key, Within::Flow), value.flow(Within::Flow))
                };
                let entries: Vec<String> = entries.iter().map(entry).collect();
                format!("{{ {} }}", entries.join(", "))
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Block,
    Flow,
}

/// A text as YAML reads it back: plain where nothing in it means anything, else quoted.
fn scalar(text: &str, within: Within) -> String {
    let plain = is_plain(text) && (within == Within::Block || !text.contains([',', '[', ']', '{', '}']));
    if plain { text.to_owned() } else { quoted(text) }
}

/// As JSON quotes it, and what YAML takes for no text as an escape too.
fn quoted(text: &str) -> String {
    let mut out = String::new();
    // Strings always have a JSON form.
    for c in serde_json::to_string(text).unwrap_or_default().chars() {
        match c {
            c if is_acting(c) && u32::from(c) > 0xffff => out += &format!("\\U{:08x}", u32::from(c)),
            c if is_acting(c) => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out
}

fn is_plain(text: &str) -> bool {
    let first = text.chars().next();
    let starts = first.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '$' | '('));
    let quiet = !text.contains(": ") && !text.contains(" #") && !text.ends_with(':') && !text.ends_with(' ');
    let quiet = quiet && !text.starts_with("...");
    let known = text.chars().all(|c| c.is_alphanumeric() || (' '..='~').contains(&c));
    starts && quiet && known && !means_something(text)
}

/// Whether YAML, old or new, reads the text as something else than text.
fn means_something(text: &str) -> bool {
    const WORDS: [&str; 9] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n"];
    let lower = text.to_ascii_lowercase();
    let digits = text.trim_start_matches(['+', '-', '.']);
    let numeric = digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.chars().all(|c| {
            c.is_ascii_hexdigit() || matches!(c, '.' | '_' | ':' | '-' | '+' | 'x' | 'o' | 'T' | 'Z')
        });
    WORDS.contains(&lower.as_str()) || numeric || lower.trim_start_matches('.') == "inf" || lower == ".nan"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::Outline;

    #[test]
    fn what_is_written_is_read_back() {
        let odd = [
            "",
            " ",
            "a: b",
            "a #b",
            "#a",
            "- a",
            "[a]",
            "{a}",
            "a, b",
            "true",
            "NO",
            "~",
            "null",
            "007",
            "1.5",
            "1e3",
            "0x1f",
            "12:30",
            "2026-01-01",
            "é",
            "a\nb",
            "\t",
            "\"",
            "'",
            "a'b",
            "a\"b",
            "\\",
            "a:",
            ":a",
            "a:b",
            "*a",
            "&a",
            "!a",
            "%a",
            "@a",
            "`a`",
            "|",
            ">",
            "?",
            "-",
            "--- a",
            "...",
            ".inf",
            ".nan",
            "<<",
            "=",
            "\u{7f}",
            "\u{feff}",
            "payload.x > 3 ? 1 : 2",
        ];
        let value = json!({
            "texts": odd.to_vec(),
            "keys": odd.iter().map(|key| ((*key).to_owned(), json!(1))).collect::<serde_json::Map<_, _>>(),
            "nested": [[], {}, [[1, 2], [{"a": [{"b": {"c": null, "d": false}}]}]], {"e": {"f": 1.5, "g": [{"h": 1, "i": 2}]}}],
            "long": vec!["word"; 40],
        });
        let yaml = Outline::json(&value, &str::to_owned).to_yaml();
        let read: Json = serde_yaml::from_str(&yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
        assert_eq!(read, value, "{yaml}");
    }
}
