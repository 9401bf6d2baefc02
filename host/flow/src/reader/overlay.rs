//! One tree over another: what `--overlay` does.
//!
//! Mappings merge by key; `null` deletes the key; every other value replaces what was there, lists as a whole. A value
//! keeps its place, so that an issue points into the file that says it; a key keeps the flow's place while the flow still
//! holds a part of its value.

use super::tree::{Content, Entry, Node};
use crate::issue::Code;
use crate::report::{Problem, Report};
use crate::text::Span;

/// The tree with the overlay over it. An overlay that is no mapping is reported and changes nothing.
pub(crate) fn overlay(base: Node, over: Node, report: &mut Report) -> Node {
    if over.is_null() {
        return base;
    }
    let what = over.what();
    let Content::Mapping(entries) = over.content else {
        let message = format!("an overlay is a mapping, not {what}");
        let problem = Problem::error(Code::FileInvalid, message)
            .hint("it has the keys of a flow, and only those that it changes");
        report.push_at(over.span, "", problem);
        return base;
    };
    merge(base, entries, over.span, "", report)
}

/// A mapping over a value.
fn merge(base: Node, over: Vec<Entry>, span: Span, path: &str, report: &mut Report) -> Node {
    let Node { span: base_span, tag, content, weight } = base;
    let (mut entries, span, tag) = match content {
        Content::Mapping(entries) => (entries, base_span, tag),
        // Nothing of it is left.
        Content::Scalar(_) | Content::Sequence(_) => (Vec::new(), span, None),
    };
    for Entry { key, value } in over {
        let path = if path.is_empty() { key.text.clone() } else { format!("{path}.{}", key.text) };
        let at = entries.iter().position(|entry| entry.key.text == key.text);
        match (at, value) {
            (Some(at), value) if value.is_null() => drop(entries.remove(at)),
            (None, value) if value.is_null() => {
                let message = format!("`null` deletes `{}`, and there is none", key.text);
                report.push_at(key.span, &path, Problem::warning(Code::ValueInvalid, message));
            }
            (Some(at), Node { content: Content::Mapping(inner), tag: None, span, .. }) => {
                let Entry { key: old, value } = entries.remove(at);
                let held = matches!(value.content, Content::Mapping(_));
                let value = merge(value, inner, span, &path, report);
                entries.insert(at, Entry { key: if held { old } else { key }, value });
            }
            (Some(at), value) => entries[at] = Entry { key, value },
            // A new mapping may delete nothing: what is `null` in it is reported as everywhere.
            (None, Node { content: Content::Mapping(inner), tag: None, span, weight }) => {
                let empty = Node { span, tag: None, content: Content::Mapping(Vec::new()), weight };
                let value = merge(empty, inner, span, &path, report);
                entries.push(Entry { key, value });
            }
            (None, value) => entries.push(Entry { key, value }),
        }
    }
    Node { span, tag, content: Content::Mapping(entries), weight }
}
