//! One line of the log as a value, and its two forms.

use std::fmt::{self, Write};
use std::time::SystemTime;

use loom_types::printable;
use serde_json::Value;
use tracing::Level;
use tracing::field::{Field, Visit};

/// Keys that a line has of its own; a field of that name is kept under another.
const RESERVED: [&str; 4] = ["timestamp", "level", "target", "message"];

/// The fields of spans and of an event, in the order they were first given.
#[derive(Clone, Debug, Default)]
pub struct Fields {
    message: String,
    others: Vec<(&'static str, Value)>,
}

impl Fields {
    /// Adds those of an inner span.
    pub fn add(&mut self, inner: &Fields) {
        for (name, value) in &inner.others {
            self.set(name, value.clone());
        }
    }

    /// Hides secrets in what others said: the message, and the reason that a plugin or a client gives.
    pub fn hide(&mut self, redact: impl Fn(&str) -> String) {
        self.message = redact(&self.message);
        for (name, value) in &mut self.others {
            if let ("reason", Value::String(text)) = (*name, value) {
                *text = redact(text);
            }
        }
    }

    fn set(&mut self, name: &'static str, value: Value) {
        match self.others.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.others.push((name, value)),
        }
    }

    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            ("message", other) => self.message = other.to_string(),
            (name, value) => self.set(name, value),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::from(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::from(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::from(format!("{value:?}")));
    }
}

/// One line.
pub struct Line<'a> {
    pub at: SystemTime,
    pub level: Level,
    pub target: &'a str,
    pub fields: &'a Fields,
}

impl Line<'_> {
    /// A JSON object and a line end.
    pub fn json(&self) -> String {
        let mut out = format!(
            "{{\"timestamp\":\"{}\",\"level\":\"{}\",\"target\":{},\"message\":{}",
            humantime::format_rfc3339_micros(self.at),
            self.level,
            quoted(self.target),
            quoted(&self.fields.message),
        );
        for (name, value) in &self.fields.others {
            let own = if RESERVED.contains(name) { "field." } else { "" };
            let _ = write!(out, ",{}:{value}", quoted(&format!("{own}{name}")));
        }
        out.push_str("}\n");
        out
    }

    /// Time of day (UTC), level, message, and the fields behind it, on one line: a message may hold a plugin's own text.
    pub fn human(&self, colour: bool) -> String {
        let time = humantime::format_rfc3339_millis(self.at).to_string();
        let time = time.get(11..23).unwrap_or(&time);
        let (dim, plain) = if colour { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") };
        let strong = self.colour(colour);
        let mut out = format!("{dim}{time}{plain} {strong}{:5}{plain} ", self.level);
        self.said(dim, plain, &mut out);
        out
    }

    /// The same as an error or a warning of a command, not as a line of a log.
    pub fn plain(&self, colour: bool) -> String {
        let level = match self.level {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        let (dim, plain) = if colour { ("\u{1b}[2m", "\u{1b}[0m") } else { ("", "") };
        let mut out = format!("{}{level}{plain}: ", self.colour(colour));
        self.said(dim, plain, &mut out);
        out
    }

    fn colour(&self, colour: bool) -> &'static str {
        match self.level {
            _ if !colour => "",
            Level::ERROR => "\u{1b}[1;31m",
            Level::WARN => "\u{1b}[33m",
            Level::INFO => "\u{1b}[32m",
            _ => "\u{1b}[2m",
        }
    }

    /// The message, the fields and a line end.
    fn said(&self, dim: &str, plain: &str, out: &mut String) {
        out.push_str(&printable(&self.fields.message));
        for (name, value) in &self.fields.others {
            let _ = write!(out, "  {dim}{name}={plain}");
            match value {
                Value::String(text) if plain_word(text) => out.push_str(&printable(text)),
                other => out.push_str(&printable(&other.to_string())),
            }
        }
        out.push('\n');
    }
}

fn quoted(text: &str) -> Value {
    Value::from(text)
}

fn plain_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c == '"' || c == '=')
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::{Value, json};
    use tracing::Level;

    use super::{Fields, Line};

    fn fields() -> Fields {
        let mut outer = Fields::default();
        outer.set("flow", json!("orders"));
        outer.set("worker", json!(0));
        let mut event = Fields { message: "record dropped".to_owned(), others: Vec::new() };
        event.add(&outer);
        event.set("worker", json!(1));
        event.set("reason", json!("no lines\u{1b}[2J in it"));
        event.set("target", json!("mine"));
        event
    }

    fn line(fields: &Fields) -> Line<'_> {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(3_723_000_042);
        Line { at, level: Level::WARN, target: "loom_runtime", fields }
    }

    #[test]
    fn json_is_flat_and_the_innermost_wins() {
        let fields = fields();
        let text = line(&fields).json();
        assert_eq!(text.matches('\n').count(), 1);
        let value: Value = serde_json::from_str(&text).expect("a JSON object");
        let expected = json!({
            "timestamp": "1970-01-01T01:02:03.000042Z", "level": "WARN", "target": "loom_runtime",
            "message": "record dropped", "flow": "orders", "worker": 1,
            "reason": "no lines\u{1b}[2J in it", "field.target": "mine",
        });
        assert_eq!(value, expected);
    }

    #[test]
    fn people_get_no_control_characters() {
        let fields = fields();
        let text = line(&fields).human(false);
        assert_eq!(
            text,
            "01:02:03.000 WARN  record dropped  flow=orders  worker=1  \
             reason=\"no lines\\u001b[2J in it\"  target=mine\n"
        );
        assert!(line(&fields).human(true).contains("\u{1b}[33mWARN"));
    }
}
