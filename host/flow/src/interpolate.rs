//! `${NAME}`, `${NAME:-default}` and `${file:PATH}` inside the text of a leaf; `$${` is a literal `${`.
//!
//! Substitution happens after parsing and in one leaf at a time, so a value can never change the structure. A reference
//! ends at the brace that closes it: a default may hold references and braces in pairs, and where its end cannot be
//! told that is said. Every value that comes in is told to the caller, who remembers it: messages that pass through
//! foreign hands (a component reader's, the Kafka client's) are cleared of it.

use std::path::Path;

use crate::ask::Environment;

/// How deep references may stand in defaults of one another.
const MAX_DEPTH: usize = 8;

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
    /// What is not a reference at all: the text without its default, and what is wrong with it.
    pub(crate) malformed: Vec<(String, &'static str)>,
    /// The reference, without its default, behind which a brace stands that closes nothing.
    pub(crate) stray: Option<String>,
}

/// A value that came from outside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outside {
    pub(crate) value: String,
    /// Files hold secrets; variables hold all kinds of things.
    pub(crate) from_file: bool,
    /// The reference, without its default.
    pub(crate) written: String,
}

/// Whether a text would be changed by interpolation.
pub(crate) fn has_reference(text: &str) -> bool {
    text.contains("${")
}

/// Resolves the references of one text.
pub(crate) fn interpolate(text: &str, dir: &Path, env: &dyn Environment) -> Interpolated {
    let mut resolver = Resolver { dir, env, idle: false, out: Interpolated::default() };
    let value = resolver.text(text, 0);
    Interpolated { value, ..resolver.out }
}

struct Resolver<'r> {
    dir: &'r Path,
    env: &'r dyn Environment,
    /// The text is a default that is not used: only its form is looked at.
    idle: bool,
    out: Interpolated,
}

enum Refusal {
    Malformed(&'static str),
    Unset(String),
}

impl Resolver<'_> {
    fn text(&mut self, text: &str, depth: usize) -> String {
        let mut value = String::new();
        let mut rest = text;
        let mut braces = Braces { open: 0, last: None };
        while let Some(at) = rest.find("${") {
            let (before, found) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                braces.pass(before, &mut self.out);
                braces.open += 1;
                value.push_str(before);
                value.push_str("${");
                rest = &found[2..];
                continue;
            }
            braces.pass(before, &mut self.out);
            value.push_str(before);
            let Some(end) = closing(found) else {
                self.out
                    .malformed
                    .push((begun(found), "it has no closing `}`; braces in a default come in pairs"));
                value.push_str(found);
                return value;
            };
            let (written, behind) = found.split_at(end + 1);
            rest = behind;
            self.out.sealed = true;
            match self.reference(&written[2..end], written, depth) {
                Ok(found) => value.push_str(&found),
                Err(Refusal::Malformed(why)) => {
                    self.out.malformed.push((begun(written), why));
                    value.push_str(written);
                }
                Err(Refusal::Unset(why)) => {
                    self.out.unset.push((written.to_owned(), why));
                    value.push_str(written);
                }
            }
            braces.last = (depth == 0).then_some(written);
        }
        braces.pass(rest, &mut self.out);
        value.push_str(rest);
        value
    }

    fn reference(&mut self, inner: &str, written: &str, depth: usize) -> Result<String, Refusal> {
        if let Some(path) = inner.strip_prefix("file:") {
            let value = self.file(path)?;
            self.came_in(&value, true, written);
            return Ok(value);
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
        if depth == MAX_DEPTH && default.is_some_and(has_reference) {
            return Err(Refusal::Malformed("too many references stand in one another"));
        }
        let set = if self.idle { None } else { self.env.var(name) };
        match (set, default) {
            (Some(value), default) if !value.is_empty() || default.is_none() => {
                if let Some(default) = default {
                    let idle = std::mem::replace(&mut self.idle, true);
                    self.text(default, depth + 1);
                    self.idle = idle;
                }
                self.came_in(&value, false, written);
                Ok(value)
            }
            // It stands in the file, so it is no secret.
            (_, Some(default)) => Ok(self.text(default, depth + 1)),
            (_, None) if self.idle => Ok(String::new()),
            (_, None) => Err(Refusal::Unset(format!("the variable `{name}` is not set"))),
        }
    }

    fn came_in(&mut self, value: &str, from_file: bool, written: &str) {
        if !self.idle {
            self.out.outside.push(Outside { value: value.to_owned(), from_file, written: brief(written) });
        }
    }

    fn file(&self, path: &str) -> Result<String, Refusal> {
        if path.is_empty() {
            return Err(Refusal::Malformed("`file:` needs a path"));
        }
        if has_reference(path) {
            return Err(Refusal::Malformed("a path is written as it is, without references"));
        }
        if self.idle {
            return Ok(String::new());
        }
        let bytes = self
            .env
            .file(&self.dir.join(path))
            .map_err(|error| Refusal::Unset(format!("the file `{path}` cannot be read: {error}")))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| Refusal::Unset(format!("the file `{path}` does not hold UTF-8 text")))?;
        // Exactly one line end: editors and `echo` add one, and a second would be the secret's own.
        let text =
            text.strip_suffix('\n').map(|text| text.strip_suffix('\r').unwrap_or(text)).unwrap_or(&text);
        Ok(text.to_owned())
    }
}

/// Where the reference that a text begins with is closed. Braces of a default count in pairs, and what stands in double
/// quotes within them does not, as JSON has it.
fn closing(text: &str) -> Option<usize> {
    // Of each brace that is open, whether it is a reference's.
    let mut open: Vec<bool> = Vec::new();
    let mut at = 0;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'{' => open.push(at > 0 && bytes[at - 1] == b'$'),
            b'}' => {
                open.pop();
                if open.is_empty() {
                    return Some(at);
                }
            }
            b'"' if open.last() == Some(&false) => at = end_of_quotes(bytes, at)?,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the double quotes end that begin here.
fn end_of_quotes(bytes: &[u8], begin: usize) -> Option<usize> {
    let mut at = begin + 1;
    loop {
        match bytes.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at),
            _ => at += 1,
        }
    }
}

/// Braces of a text between its references.
struct Braces<'t> {
    open: usize,
    /// The last reference.
    last: Option<&'t str>,
}

impl Braces<'_> {
    /// Counts those of a stretch, and notes one that closes nothing behind a reference: it may have been meant to be the
    /// reference's.
    fn pass(&mut self, stretch: &str, out: &mut Interpolated) {
        for byte in stretch.bytes() {
            match byte {
                b'{' => self.open += 1,
                b'}' if self.open > 0 => self.open -= 1,
                b'}' => out.stray = out.stray.take().or_else(|| self.last.map(brief)),
                _ => {}
            }
        }
    }
}

/// A reference without its default, which may be a password.
fn brief(written: &str) -> String {
    match written.split_once(":-") {
        Some((name, _)) => format!("{name}:-…}}"),
        None => written.to_owned(),
    }
}

/// The beginning of what is no reference: all behind its name may be a default, and that a password.
fn begun(written: &str) -> String {
    let end = written.bytes().skip(2).take_while(|byte| byte.is_ascii_alphanumeric() || b"_!".contains(byte));
    format!("{}…", &written[..2 + end.count()])
}

/// Whether a text can name a variable.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;

    use super::{Environment, interpolate};

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
            ("${A:-${B", "${A:-${B", 0, 1),
            // Defaults hold references, and braces in pairs.
            ("${NONE:-a${A:-b}c}", "a1c", 0, 0),
            ("${A:-a${NONE:-b}c}|", "1|", 0, 0),
            ("${NONE:-${A}}", "1", 0, 0),
            ("${NONE:-${ALSO}}", "${ALSO}", 1, 0),
            ("${EMPTY:-${NONE:-${A}}}", "1", 0, 0),
            ("${NONE:-{\"k\":1}}", "{\"k\":1}", 0, 0),
            ("${A:-{\"k\":1}}", "1", 0, 0),
            ("${NONE:-{\"k\":\"}\\\"}\",\"v\":\"${A}\"}}", "{\"k\":\"}\\\"}\",\"v\":\"1\"}", 0, 0),
            ("${NONE:-{{a},{b}}}x", "{{a},{b}}x", 0, 0),
            ("${NONE:-$${A}}", "${A}", 0, 0),
            ("${NONE:-{}", "${NONE:-{}", 0, 1),
            ("${NONE:-{\"}}", "${NONE:-{\"}}", 0, 1),
            // What is wrong with a default is said whether it is used or not.
            ("${A:-${1}}", "1", 0, 1),
            ("${A:-${NONE}${file:none}}", "1", 0, 0),
            ("${NONE:-${1}}", "${1}", 0, 1),
            ("${${A}}", "${${A}}", 0, 1),
            ("${file:${A}/x}", "${file:${A}/x}", 0, 1),
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
    fn a_brace_behind_a_reference_that_closes_nothing_is_noted() {
        let stray = |text: &str| interpolate(text, Path::new("dir"), &Env).stray;
        for (text, of) in
            [("${A}}", "${A}"), ("${A:-a}b}", "${A:-…}"), ("{${A}}}", "${A}"), ("${A} }", "${A}")]
        {
            assert_eq!(stray(text).as_deref(), Some(of), "{text}");
        }
        for text in
            ["}${A}", "{${A}}", "{\"a\": \"${A}\"}", "$${A}", "$${A}${A}", "a}", "${A:-{b}}", "{{${A:-b}}}"]
        {
            assert_eq!(stray(text), None, "{text}");
        }
    }

    #[test]
    fn references_in_one_another_have_an_end() {
        let nested = |depth: usize| format!("{}x{}", "${NONE:-".repeat(depth), "}".repeat(depth));
        let whole = interpolate(&nested(9), Path::new("dir"), &Env);
        assert_eq!((whole.value.as_str(), whole.malformed.len()), ("x", 0));
        for depth in [10, 100_000] {
            let out = interpolate(&nested(depth), Path::new("dir"), &Env);
            assert_eq!(out.malformed.len(), 1, "{depth}");
        }
        let open = "${A:-{".repeat(100_000);
        assert_eq!(interpolate(&open, Path::new("dir"), &Env).malformed.len(), 1);
    }

    #[test]
    fn a_default_is_not_shown_with_what_is_wrong() {
        for text in [
            "${a b:-hunter2}",
            "${A:-hunter2",
            "${NONE:-{hunter2}",
            "${A:-x}hunter2}",
            "${A-hunter2}",
            "${A:=hunter2}",
            "${NONE:-${A:=hunter2}}",
            "${A and hunter2",
        ] {
            let out = interpolate(text, Path::new("dir"), &Env);
            let said = format!("{:?} {:?} {:?}", out.malformed, out.unset, out.stray);
            assert!(said.contains('…') && !said.contains("hunter2"), "{said}");
        }
    }
}
