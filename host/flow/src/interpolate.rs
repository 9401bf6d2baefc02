//! `${NAME}`, `${NAME:-default}` and `${file:PATH}` inside the text of a leaf; `$${` is a literal `${`.
//!
//! Substitution happens after parsing and in one leaf at a time, so a value can never change the structure. Every
//! value that comes in is told to the caller, who remembers it: messages that pass through foreign hands (a component
//! reader's, the Kafka client's) are cleared of it.

use std::path::Path;

use crate::ask::Environment;

/// The outcome for one leaf.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Interpolated {
    /// The text with its references resolved; a reference that cannot be stays as written.
    pub(crate) value: String,
    /// Whether there was a reference.
    pub(crate) sealed: bool,
    /// Values that came from outside.
    pub(crate) outside: Vec<Outside>,
    /// References to what is not set or cannot be read: the reference, and why.
    pub(crate) unset: Vec<(String, String)>,
    /// What is not a reference at all: the text, and what is wrong with it.
    pub(crate) malformed: Vec<(String, &'static str)>,
}

/// A value that came from outside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) value: String,
    /// Files hold secrets; variables hold all kinds of things.
    pub(crate) from_file: bool,
}

/// Whether a text would be changed by interpolation.
pub(crate) fn has_reference(text: &str) -> bool {
    text.contains("${")
}

/// Resolves the references of one text.
pub(crate) fn interpolate(text: &str, dir: &Path, env: &dyn Environment) -> Interpolated {
    let mut out = Interpolated::default();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.value.push_str(&rest[..at - 1]);
            out.value.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        out.value.push_str(&rest[..at]);
        let Some(end) = rest[at..].find('}') else {
            out.malformed.push((rest[at..].to_owned(), "it has no closing `}`"));
            out.value.push_str(&rest[at..]);
            return out;
        };
        let written = &rest[at..=at + end];
        rest = &rest[at + end + 1..];
        out.sealed = true;
        match resolve(&written[2..written.len() - 1], dir, env) {
            Ok(Found::Outside(outside)) => {
                out.value.push_str(&outside.value);
                out.outside.push(outside);
            }
            Ok(Found::Default(value)) => out.value.push_str(value),
            Err(Refusal::Malformed(why)) => {
                out.malformed.push((written.to_owned(), why));
                out.value.push_str(written);
            }
            Err(Refusal::Unset(why)) => {
                out.unset.push((written.to_owned(), why));
                out.value.push_str(written);
            }
        }
    }
    out.value.push_str(rest);
    out
}

enum Found<'t> {
    Outside(Outside),
    /// It stands in the file, so it is no secret.
    Default(&'t str),
}

enum Refusal {
    Malformed(&'static str),
    Unset(String),
}

fn resolve<'t>(inner: &'t str, dir: &Path, env: &dyn Environment) -> Result<Found<'t>, Refusal> {
    if let Some(path) = inner.strip_prefix("file:") {
        return file(path, dir, env).map(|value| Found::Outside(Outside { value, from_file: true }));
    }
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    if !is_name(name) {
        return Err(Refusal::Malformed(
            "a name is made of letters, digits and `_`, and starts with no digit",
        ));
    }
    match (env.var(name), default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(Found::Default(default)),
        (Some(value), _) => Ok(Found::Outside(Outside { value, from_file: false })),
        (None, Some(default)) => Ok(Found::Default(default)),
        (None, None) => Err(Refusal::Unset(format!("the variable `{name}` is not set"))),
    }
}

fn file(path: &str, dir: &Path, env: &dyn Environment) -> Result<String, Refusal> {
    if path.is_empty() {
        return Err(Refusal::Malformed("`file:` needs a path"));
    }
    let bytes = env
        .file(&dir.join(path))
        .map_err(|error| Refusal::Unset(format!("the file `{path}` cannot be read: {error}")))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Refusal::Unset(format!("the file `{path}` does not hold UTF-8 text")))?;
    // Exactly one line end: editors and `echo` add one, and a second would be the secret's own.
    let text = text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text);
    Ok(text.to_owned())
}

/// Whether a text can name a variable.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Values that must not be printed.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    values: Vec<String>,
}

impl Secrets {
    pub(crate) fn remember(&mut self, value: &str) {
        if !value.is_empty() && !self.values.iter().any(|known| known == value) {
            self.values.push(value.to_owned());
        }
    }

    /// A text without them. A short value is taken out only where it stands alone: `1` would eat every number, and a
    /// password that is also a word would make messages unreadable.
    pub(crate) fn redact(&self, text: &str) -> String {
        let mut longest_first: Vec<&str> = self.values.iter().map(String::as_str).collect();
        longest_first.sort_by_key(|value| std::cmp::Reverse(value.len()));
        longest_first.into_iter().fold(text.to_owned(), |text, value| redact_one(&text, value))
    }
}

/// Shorter values are taken out only where nothing is joined to them.
const LONG: usize = 8;

fn redact_one(text: &str, value: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(value) {
        let end = at + value.len();
        if value.len() < LONG && (continues(text[..at].chars().rev()) || continues(text[end..].chars())) {
            continue;
        }
        out.push_str(&text[done..at]);
        out.push_str("***");
        done = end;
    }
    out.push_str(&text[done..]);
    out
}

/// Whether these characters, from a value outwards, belong to one word, name or address with it.
fn continues(mut outwards: impl Iterator<Item = char>) -> bool {
    match outwards.next() {
        Some('.' | '-' | '_' | ':' | '/') => outwards.next().is_some_and(char::is_alphanumeric),
        Some(next) => next.is_alphanumeric(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::{Environment, Secrets, interpolate};

    struct Env;

    impl Environment for Env {
        fn var(&self, name: &str) -> Option<String> {
            match name {
                "A" => Some("1".to_owned()),
                "EMPTY" => Some(String::new()),
                "YAML" => Some("x: [\"${A}\"]\n".to_owned()),
                _ => None,
            }
        }

        fn file(&self, path: &Path) -> io::Result<Vec<u8>> {
            match path.to_str() {
                Some("dir/two") => Ok(b"secret\n\n".to_vec()),
                Some("dir/crlf") => Ok(b"secret\r\n".to_vec()),
                Some("dir/bytes") => Ok(vec![0xff]),
                _ => Err(io::ErrorKind::NotFound.into()),
            }
        }
    }

    #[test]
    fn references_are_replaced_once_and_only_where_they_are_whole() {
        for (text, value, unset, malformed) in [
            ("plain $A {A}", "plain $A {A}", 0, 0),
            ("<${A}>", "<1>", 0, 0),
            ("${EMPTY}|${EMPTY:-d}|${NONE:-}|${NONE:-a:b}", "|d||a:b", 0, 0),
            ("$${A}-${A}", "${A}-1", 0, 0),
            ("${YAML}", "x: [\"${A}\"]\n", 0, 0),
            ("${file:two}|${file:crlf}", "secret\n|secret", 0, 0),
            ("${NONE}", "${NONE}", 1, 0),
            ("${file:none}${file:bytes}", "${file:none}${file:bytes}", 2, 0),
            ("${}${a b}${file:}${1A}", "${}${a b}${file:}${1A}", 0, 4),
            ("${A", "${A", 0, 1),
        ] {
            let out = interpolate(text, Path::new("dir"), &Env);
            assert_eq!(
                (out.value.as_str(), out.unset.len(), out.malformed.len()),
                (value, unset, malformed),
                "{text}"
            );
        }
    }

    #[test]
    fn what_came_in_is_taken_out_of_foreign_words() {
        let mut secrets = Secrets::default();
        secrets.remember("hunter2");
        secrets.remember("1");
        assert_eq!(secrets.redact("bad value hunter2 for 1 of 10"), "bad value *** for *** of 10");
        assert_eq!(secrets.redact("(hunter2): 'hunter2'; hunter2."), "(***): '***'; ***.");
    }

    #[test]
    fn what_only_looks_like_a_short_secret_stays() {
        let mut secrets = Secrets::default();
        secrets.remember("1");
        secrets.remember("flow");
        secrets.remember("a-long-secret");
        let said = "127.0.0.1:9092/1-a, 11: flows, orders.flow, dataflow, flow-1 and flow_2";
        assert_eq!(secrets.redact(said), said);
        assert_eq!(secrets.redact("xa-long-secrety"), "x***y");
    }
}
