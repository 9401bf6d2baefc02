//! A mapping of the language, key by key.
//!
//! What may be taken is what the table of the language (`grammar`) has for the mapping: [`Fields::finish`] reports every
//! other key, with the nearest that there is. Reading code that asks for a key that the table lacks, or forgets one that
//! it has, fails where assertions are checked.

use std::sync::Arc;

use super::cx::{Cx, child, item, key_place};
use super::foreign;
use crate::grammar::{self, Mapping, Value};
use crate::issue::Code;
use crate::reader::{Content, Entry, Key, Node};
use crate::report::{Place, Problem};
use crate::text::Span;

/// A key with its value.
#[derive(Clone)]
pub(crate) struct Field<'n> {
    pub(crate) key: &'n str,
    pub(crate) key_span: Span,
    pub(crate) node: &'n Node,
    pub(crate) path: Arc<str>,
    /// What the language has here.
    pub(crate) value: &'static Value,
}

impl Field<'_> {
    /// The reading code takes this field as something: the table of the language must say the same.
    pub(crate) fn expect(&self, fits: impl FnOnce(&Value) -> bool) {
        debug_assert!(fits(self.value), "`{}` is read otherwise than as {:?}", self.key, self.value);
    }

    /// The place of the value, for what is wrong with it.
    pub(crate) fn place(&self) -> Place {
        Place { span: self.node.span, path: self.path.clone() }
    }

    /// The place of the key, for what is wrong with its being there.
    pub(crate) fn key_place(&self) -> Place {
        Place { span: self.key_span, path: self.path.clone() }
    }

    /// The key in words: `brokers`, or the list's name for an item of it.
    pub(crate) fn wrong_type(&self, cx: &mut Cx<'_>, wants: &str) {
        let message = format!("`{}` takes {wants}, not {}", self.key, self.node.what());
        cx.error(&self.place(), Code::WrongType, message);
    }
}

/// A mapping that is being read.
pub(crate) struct Fields<'n> {
    entries: &'n [Entry],
    mapping: &'static Mapping,
    /// The keys that were asked for.
    asked: Vec<&'static str>,
    pub(crate) path: Arc<str>,
    /// Where the mapping itself is reported.
    pub(crate) place: Place,
}

impl<'n> Fields<'n> {
    pub(crate) fn new(entries: &'n [Entry], place: Place, mapping: &'static Mapping) -> Fields<'n> {
        let path = place.path.clone();
        Fields { entries, mapping, asked: Vec::new(), path, place }
    }

    /// The mapping of a field; none, with an issue, if it is something else. Nothing at all is an empty mapping.
    pub(crate) fn of(cx: &mut Cx<'_>, field: &Field<'n>) -> Option<Fields<'n>> {
        let place = field.key_place();
        let mapping = match field.value {
            Value::Mapping(mapping) => mapping,
            _ => {
                field.expect(|value| matches!(value, Value::Named { .. } | Value::Nothing));
                &grammar::NONE
            }
        };
        match &field.node.content {
            _ if refuse_tag(cx, field) => None,
            Content::Mapping(entries) => Some(Fields::new(entries, place, mapping)),
            _ if field.node.is_null() => Some(Fields::new(&[], place, mapping)),
            _ => {
                field.wrong_type(cx, "a mapping");
                None
            }
        }
    }

    pub(crate) fn take(&mut self, key: &'static str) -> Option<Field<'n>> {
        let known = self.mapping.key(key);
        debug_assert!(known.is_some(), "the language has no `{key}` in `{}`", self.mapping.name);
        let known = known?;
        self.asked.push(key);
        let index = self.entries.iter().position(|entry| entry.key.text == key)?;
        Some(self.field(index, &known.value))
    }

    /// As [`Fields::take`]; reports a key that is not there.
    pub(crate) fn need(&mut self, cx: &mut Cx<'_>, key: &'static str) -> Option<Field<'n>> {
        let field = self.take(key);
        if field.is_none() {
            let problem = Problem::error(Code::MissingKey, missing(&self.path, key));
            cx.push(
                &self.place,
                problem.maybe_hint(example(key).map(|example| format!("write `{example}`"))),
            );
        }
        field
    }

    /// Whether the language has a key here.
    pub(crate) fn knows(&self, key: &str) -> bool {
        self.mapping.key(key).is_some()
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a key is there, without taking it.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key.text == key)
    }

    /// Whether there is a key that the mapping does not have.
    pub(crate) fn has_unknown(&self) -> bool {
        self.entries.iter().any(|entry| !self.knows(&entry.key.text))
    }

    /// Reports every key that the mapping does not have. `what` is the mapping in words, such as "`kafka.consumer`".
    pub(crate) fn finish(self, cx: &mut Cx<'_>, what: &str) {
        debug_assert!(
            self.mapping.names().iter().all(|name| self.asked.contains(name)),
            "of `{}` only {:?} are read",
            self.mapping.name,
            self.asked
        );
        for entry in self.entries.iter().filter(|entry| self.mapping.key(&entry.key.text).is_none()) {
            match self.mapping.section_with(&entry.key.text) {
                Some(section) => {
                    let hint = format!("it stands in `{}`: write it there", child(&self.path, section));
                    push_unknown(cx, &self.path, &entry.key, what, hint);
                }
                None if self.path.is_empty() && holds_anchor(cx, entry) => {
                    push_unknown(cx, &self.path, &entry.key, what, ANCHORS.to_owned());
                }
                None => unknown_key(cx, &self.path, &entry.key, what, &self.mapping.names()),
            }
        }
    }

    fn field(&self, index: usize, value: &'static Value) -> Field<'n> {
        let Entry { key, value: node } = &self.entries[index];
        Field { key: &key.text, key_span: key.span, node, path: child(&self.path, &key.text), value }
    }
}

/// Every key with its value, for mappings whose keys are the user's; none, with an issue, if it is no mapping.
pub(crate) fn named<'n>(cx: &mut Cx<'_>, field: &Field<'n>) -> Option<Vec<Field<'n>>> {
    let fields = Fields::of(cx, field)?;
    field.expect(|value| matches!(value, Value::Named { .. }));
    let Value::Named { of, .. } = field.value else { return None };
    Some((0..fields.entries.len()).map(|index| fields.field(index, of)).collect())
}

fn missing(path: &str, key: &str) -> String {
    if path.is_empty() { format!("the flow needs `{key}`") } else { format!("`{path}` needs `{key}`") }
}

/// What a key that must be there looks like.
pub(crate) fn example(key: &str) -> Option<&'static str> {
    Some(match key {
        "name" => "name: NAME",
        "process" => "process: [ … ]",
        "brokers" => "brokers: [\"localhost:9092\"]",
        "group_id" => "group_id: NAME",
        "topics" => "topics: [TOPIC]",
        "component" => "component: FILE.wasm",
        "if" => "if: payload.total > 10",
        "plugin" => "plugin: NAME",
        "routes" => "routes: { TYPE: [ … ] }",
        "host" => "host: FOLDER",
        "guest" => "guest: /FOLDER",
        _ => return None,
    })
}

/// Reports a key that its mapping does not know.
pub(crate) fn unknown_key(cx: &mut Cx<'_>, path: &str, key: &Key, what: &str, known: &[&str]) {
    let foreign = match what {
        "a node" => foreign::node(&key.text),
        "a flow" => foreign::flow(&key.text),
        _ => None,
    };
    let hint = match (foreign, nearest(&key.text, known)) {
        (Some(foreign), _) => foreign.to_owned(),
        (None, Some(near)) => format!("did you mean `{near}`?"),
        (None, None) => format!("its keys are {}", list(known)),
    };
    push_unknown(cx, path, key, what, hint);
}

fn push_unknown(cx: &mut Cx<'_>, path: &str, key: &Key, what: &str, hint: String) {
    let message = format!("{what} has no key `{}`", key.text);
    cx.push(&key_place(path, key), Problem::error(Code::UnknownKey, message).hint(hint));
}

const ANCHORS: &str = "no key is there for anchors alone: an anchor stands at the first place that uses its value, as \
                       `security: &login { … }`, and `security: *login` or `<<: *login` repeats it further down";

/// Whether an anchor stands in the text of an entry: other tools have keys of any name for those.
fn holds_anchor(cx: &Cx<'_>, entry: &Entry) -> bool {
    let (key, value) = (entry.key.span, entry.value.span);
    // What came through an alias stands elsewhere.
    if key.file != value.file || value.end < key.end {
        return false;
    }
    let written = cx.report.text(key).slice(Span { start: key.end, ..value });
    let names = |rest: &str| rest.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '-'));
    written.match_indices('&').any(|(at, _)| {
        let opens = written[..at]
            .chars()
            .next_back()
            .is_none_or(|c| c.is_whitespace() || matches!(c, '[' | '{' | ','));
        opens && names(&written[at + 1..])
    })
}

/// The candidate that a mistyped word most probably means.
#[must_use]
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // Of thousands of names one is always near, and looking for it takes its time for each word.
    const MOST: usize = 1000;
    if known.len() > MOST {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .iter()
        .map(|candidate| (strsim::jaro_winkler(&lower, &candidate.to_lowercase()), *candidate))
        .filter(|(likeness, _)| *likeness >= 0.82)
        .max_by(|one, two| one.0.total_cmp(&two.0))
        .map(|(_, candidate)| candidate)
}

/// Words as a list for people.
pub(crate) fn list(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    quoted.join(", ")
}

/// Words as alternatives.
pub(crate) fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => format!("`{only}`"),
        [head @ .., last] => format!("{} or `{last}`", list(head)),
    }
}

/// The items of a list; none, with an issue, if it is no list. Items are fields without a key of their own.
pub(crate) fn items<'n>(cx: &mut Cx<'_>, field: &Field<'n>, of: &str) -> Option<Vec<Field<'n>>> {
    if refuse_tag(cx, field) {
        return None;
    }
    let Content::Sequence(nodes) = &field.node.content else {
        let message = format!("`{}` takes a list of {of}, not {}", field.key, field.node.what());
        let hint = as_list(cx.report.text(field.node.span).slice(field.node.span));
        cx.push(&field.place(), Problem::error(Code::WrongType, message).maybe_hint(hint));
        return None;
    };
    field.expect(|value| matches!(value, Value::List { .. } | Value::Process { .. } | Value::PassOrProcess));
    let value = match field.value {
        Value::List { of, .. } => of,
        _ => &Value::Node,
    };
    let items = nodes.iter().enumerate().map(|(index, node)| Field {
        key: field.key,
        key_span: node.span,
        node,
        path: item(&field.path, index),
        value,
    });
    Some(items.collect())
}

/// One value as a list of it, where it stands on one line.
fn as_list(written: &str) -> Option<String> {
    // A block mapping needs its own line, and its first key may stand anywhere on it.
    let one = !written.is_empty() && !written.contains(['\n', '\r', '|', '>']) && written.len() < 80;
    let block = written.contains(": ") && !written.starts_with(['{', '"', '\'']);
    match (one, block) {
        (true, false) if written.starts_with('{') => Some(format!("write `[ {written} ]`")),
        // Braces mean something inside of brackets.
        (true, false) if written.starts_with("${") => Some(format!("write `[\"{written}\"]`")),
        (true, false) => Some(format!("write `[{written}]`")),
        _ => None,
    }
}

/// Tags mean nothing in the language; mostly they are text that starts with `!`.
pub(crate) fn refuse_tag(cx: &mut Cx<'_>, field: &Field<'_>) -> bool {
    let Some(tag) = &field.node.tag else { return false };
    let message = format!("the tag `{tag}` means nothing here");
    let problem = Problem::error(Code::WrongType, message).hint("text that starts with `!` needs quotes");
    cx.push(&field.place(), problem);
    true
}
