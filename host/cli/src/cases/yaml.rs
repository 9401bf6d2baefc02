//! A little YAML, written: an expectation as a block, or between braces.

use loom_flow::cases::ExpectPlace;
use loom_flow::expr::ExactJson;

/// Words that some reader of YAML takes for something else than text.
const NOT_TEXT: [&str; 11] = ["null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf"];

/// What is written.
pub enum Yaml {
    /// On one line.
    Inline(String),
    /// Each on a line of its own.
    List(Vec<String>),
    Map(Vec<(String, Yaml)>),
}

impl Yaml {
    /// The value of a key that stands at this column, from behind the key's colon on.
    fn block(&self, column: usize, out: &mut String) {
        let indent = |out: &mut String, column: usize| {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', column));
        };
        match self {
            Yaml::Inline(text) => out.extend([" ", text]),
            Yaml::List(items) if items.is_empty() => out.push_str(" []"),
            Yaml::List(items) => {
                for item in items {
                    indent(out, column + 2);
                    out.extend(["- ", item]);
                }
            }
            Yaml::Map(entries) if entries.is_empty() => out.push_str(" {}"),
            Yaml::Map(entries) => {
                for (key, value) in entries {
                    indent(out, column + 2);
                    out.push_str(&format!("{}:", text(key)));
                    value.block(column + 2, out);
                }
            }
        }
    }

    /// On one line.
    fn flow(&self) -> String {
        match self {
            Yaml::Inline(text) => text.clone(),
            Yaml::List(items) => list(items),
            Yaml::Map(entries) => {
                mapping(entries.iter().map(|(key, value)| format!("{}: {}", text(key), value.flow())))
            }
        }
    }

    /// A file's text with this in place of what stands there, its line ends those of the file.
    pub fn put(&self, file: &str, place: ExpectPlace) -> String {
        let written = match place.indent {
            Some(column) => {
                let mut out = String::new();
                self.block(column, &mut out);
                out
            }
            None => format!(" {}", self.flow()),
        };
        let written = if file.contains("\r\n") { written.replace('\n', "\r\n") } else { written };
        format!("{}{written}{}", &file[..place.start], &file[place.end..])
    }
}

/// Between braces, on one line.
pub fn mapping(entries: impl Iterator<Item = String>) -> String {
    let entries: Vec<String> = entries.collect();
    if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
}

fn list(items: &[String]) -> String {
    if items.is_empty() { "[]".to_owned() } else { format!("[ {} ]", items.join(", ")) }
}

/// JSON on one line, its numbers with their digits.
pub fn of_json(json: &ExactJson) -> String {
    match json {
        ExactJson::Text(value) => text(value),
        ExactJson::List(items) => list(&items.iter().map(of_json).collect::<Vec<_>>()),
        ExactJson::Object(fields) => {
            mapping(fields.iter().map(|(name, value)| format!("{}: {}", text(name), of_json(value))))
        }
        other => other.to_string(),
    }
}

/// Text, in quotes unless it is a plain word.
pub fn text(text: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(is_part)
        && !NOT_TEXT.contains(&text.to_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            // What cannot be seen, turns the line round, or is no text to a reader of YAML.
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
                || matches!(c, '\u{feff}' | '\u{fff9}'..='\u{ffff}') =>
            {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use loom_flow::SourceFile;
    use loom_flow::cases::{ExpectPlace, read};
    use loom_flow::expr::ExactJson;

    use super::{Yaml, of_json, text};

    #[test]
    fn text_is_plain_only_where_every_reader_takes_it_for_text() {
        for (value, written) in [
            ("c-1", "c-1"),
            ("No", "\"No\""),
            ("1", "\"1\""),
            ("", "\"\""),
            ("a: b", "\"a: b\""),
            ("\u{1b}[1m\u{202e}\u{85}\"\\\n", "\"\\u001b[1m\\u202e\\u0085\\\"\\\\\\n\""),
            ("é", "\"é\""),
        ] {
            assert_eq!(text(value), written);
            let file = format!("cases: [ {{ name: x, records: [ {{ value: {written} }} ], expect: {{}} }} ]");
            let source = SourceFile { name: "x".to_owned(), bytes: file.into_bytes(), dir: ".".into() };
            let read = read(&source).file.expect("it is YAML");
            assert_eq!(read.cases[0].records[0].payload.as_deref(), Some(value.as_bytes()));
        }
    }

    #[test]
    fn json_keeps_its_digits() {
        let json = ExactJson::parse(br#"{"a":[1.50,9007199254740993],"b c":{},"m":null}"#).expect("JSON");
        assert_eq!(of_json(&json), r#"{ a: [ 1.50, 9007199254740993 ], "b c": {}, m: null }"#);
    }

    #[test]
    fn an_expectation_replaces_what_stands_there() {
        let topics = vec![
            ("out".to_owned(), Yaml::List(vec!["{ value: a }".to_owned()])),
            ("failed".to_owned(), Yaml::List(Vec::new())),
        ];
        let yaml = Yaml::Map(vec![
            ("topics".to_owned(), Yaml::Map(topics)),
            ("order".to_owned(), Yaml::Inline("any".to_owned())),
        ]);
        let block = ExpectPlace { start: 11, end: 14, indent: Some(2) };
        assert_eq!(
            yaml.put("- \n  expect: {}\n- b\n", ExpectPlace { end: 15, start: 12, ..block }),
            "- \n  expect:\n    topics:\n      out:\n        - { value: a }\n      failed: []\n    order: any\n- b\n"
        );
        let flow = ExpectPlace { start: 10, end: 13, indent: None };
        assert_eq!(
            yaml.put("- { expect: {} }\n", ExpectPlace { start: 11, end: 14, ..flow }),
            "- { expect: { topics: { out: [ { value: a } ], failed: [] }, order: any } }\n"
        );
    }
}
