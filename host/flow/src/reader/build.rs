//! From the parser's events to a tree, in one pass and without recursion.
//!
//! Bounds: nesting, so that later recursive walks are safe; and the weight of the *resolved* tree, so that aliases of
//! aliases cannot multiply a small file into all memory. At a bound reading stops with an issue.

use std::collections::HashMap;
use std::str::Chars;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span as ParserSpan, StrInput, Tag};

use super::json::reads_as;
use super::tree::{Content, Entry, Key, Node, Scalar};
use crate::text::{FileId, Pos, Span};

/// Nesting of lists and mappings. A fork in a fork takes five levels.
const MAX_DEPTH: usize = 128;

/// Weight of the resolved tree: about a node each, and one more for every 32 bytes of text.
const MAX_WEIGHT: usize = 400_000;

/// A problem that reading can go on after.
pub(super) enum Fault {
    /// The key is there already.
    Duplicate { key: String, first: Span, again: Span },
    /// A key that is no text.
    KeyNotText { span: Span },
    /// `<<` with something that is no mapping.
    MergeNotMapping { span: Span },
    /// A second document starts here.
    SecondDocument { span: Span },
}

/// Why reading ended early.
pub(super) enum Stop {
    /// What the parser says.
    Syntax { error: ScanError, last_line: u32 },
    /// A bound of ours.
    Bound { span: Span, message: String },
}

/// The first document's tree, none if there is no document.
pub(super) fn build(text: &str, file: FileId, faults: &mut Vec<Fault>) -> Result<Option<Node>, Stop> {
    let mut builder = Builder { stack: Vec::new(), anchors: HashMap::new(), weight: 0, root: None, faults };
    let mut parser = Parser::new_from_str(text);
    let mut blanks = Blanks { rest: text.chars(), at: 0, run: 0 };
    let mut last_line = 0;
    loop {
        let (event, span) = match next(&mut parser) {
            None => return Ok(builder.root),
            Some(Err(error)) => return Err(Stop::Syntax { error, last_line }),
            Some(Ok((event, span))) => {
                let mut here = convert(file, span);
                if let Event::Scalar(_, ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted, ..) = event {
                    let end = here.end.col.saturating_sub(blanks.before(span.end.index()));
                    here.end = Pos { col: end, ..here.end }.max(here.start);
                }
                (event, here)
            }
        };
        last_line = span.start.line;
        if let Event::DocumentStart(_) = event
            && builder.root.is_some()
        {
            builder.faults.push(Fault::SecondDocument { span });
            return Ok(builder.root);
        }
        builder.event(event, span).map_err(|message| Stop::Bound { span, message })?;
    }
}

fn next<'t>(parser: &mut Parser<'t, StrInput<'t>>) -> Option<Result<(Event<'t>, ParserSpan), ScanError>> {
    parser.next_event()
}

/// The parser counts lines from 1 and columns from 0.
pub(super) fn convert(file: FileId, span: ParserSpan) -> Span {
    let pos = |line: usize, col: usize| Pos {
        line: u32::try_from(line.saturating_sub(1)).unwrap_or(u32::MAX),
        col: u32::try_from(col).unwrap_or(u32::MAX),
    };
    let start = pos(span.start.line(), span.start.col());
    Span { file, start, end: pos(span.end.line(), span.end.col()).max(start) }
}

/// Blanks behind quoted values, which the parser counts as theirs.
struct Blanks<'t> {
    rest: Chars<'t>,
    /// Characters that were passed, and the blanks at their end.
    at: usize,
    run: u32,
}

impl Blanks<'_> {
    /// How many stand before this character; asked in the order of the text.
    fn before(&mut self, index: usize) -> u32 {
        while self.at < index
            && let Some(next) = self.rest.next()
        {
            self.at += 1;
            self.run = if matches!(next, ' ' | '\t') { self.run + 1 } else { 0 };
        }
        self.run
    }
}

struct Builder<'f> {
    stack: Vec<Frame>,
    anchors: HashMap<usize, Node>,
    weight: usize,
    root: Option<Node>,
    faults: &'f mut Vec<Fault>,
}

/// A collection that is not closed yet.
struct Frame {
    anchor: usize,
    tag: Option<String>,
    start: Span,
    weight: usize,
    kind: FrameKind,
}

enum FrameKind {
    Sequence(Vec<Node>),
    Mapping(MappingFrame),
}

#[derive(Default)]
struct MappingFrame {
    entries: Vec<Entry>,
    seen: HashMap<String, Span>,
    merges: Vec<Node>,
    key: PendingKey,
}

#[derive(Default)]
enum PendingKey {
    #[default]
    None,
    Text(Key),
    Merge,
    /// No text: its value is read and left out.
    Refused,
}

impl Builder<'_> {
    fn event(&mut self, event: Event<'_>, span: Span) -> Result<(), String> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tag = tag.as_deref();
                let plain = style == ScalarStyle::Plain && !is_core(tag, "str");
                let scalar = Scalar { text: text.into_owned(), plain };
                let weight = Node::weight_of_text(scalar.text.len());
                let tag =
                    refused_tag(tag, |suffix| suffix == "str" || plain && reads_as(&scalar.text, suffix));
                let node = Node { span, tag, content: Content::Scalar(scalar), weight };
                self.done(node, anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.open(anchor, tag.as_deref(), span, FrameKind::Sequence(Vec::new()))
            }
            Event::MappingStart(anchor, tag) => {
                self.open(anchor, tag.as_deref(), span, FrameKind::Mapping(MappingFrame::default()))
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.stack.pop() else { return Ok(()) };
                let anchor = frame.anchor;
                let node = self.close(frame, span);
                self.done(node, anchor)
            }
            Event::Alias(anchor) => {
                // Counted before it is copied: the copy is what the bound is against.
                let Some(weight) = self.anchors.get(&anchor).map(|node| node.weight) else {
                    return Err("an alias stands inside the value that it repeats".to_owned());
                };
                self.charge(weight)?;
                match self.anchors.get(&anchor).cloned() {
                    Some(node) => self.place(node),
                    None => Ok(()),
                }
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => Ok(()),
        }
    }

    fn open(&mut self, anchor: usize, tag: Option<&Tag>, start: Span, kind: FrameKind) -> Result<(), String> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(too_deep());
        }
        let of_kind = match kind {
            FrameKind::Sequence(_) => "seq",
            FrameKind::Mapping(_) => "map",
        };
        let tag = refused_tag(tag, |suffix| suffix == of_kind);
        self.stack.push(Frame { anchor, tag, start, weight: 1, kind });
        Ok(())
    }

    fn close(&mut self, frame: Frame, end: Span) -> Node {
        let (content, last) = match frame.kind {
            FrameKind::Sequence(items) => {
                let last = items.last().map(|item| item.span);
                (Content::Sequence(items), last)
            }
            FrameKind::Mapping(mut mapping) => {
                let last = mapping.entries.last().map(|entry| entry.value.span);
                merge(&mut mapping, self.faults);
                (Content::Mapping(mapping.entries), last)
            }
        };
        // A block's end event stands where the next token is, often lines below; its last child says where it ends.
        let span = match last {
            Some(last) if end.start == end.end => frame.start.to(last),
            _ => frame.start.to(end),
        };
        let end = span.end.max(frame.start.start);
        Node { span: Span { end, ..span }, tag: frame.tag, content, weight: frame.weight }
    }

    /// A finished node: counted, remembered under its anchor, and put where it belongs.
    fn done(&mut self, node: Node, anchor: usize) -> Result<(), String> {
        match node.content {
            Content::Scalar(_) => self.charge(node.weight)?,
            _ => self.charge(1)?,
        }
        if anchor != 0 {
            self.charge(node.weight)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.place(node)
    }

    fn charge(&mut self, weight: usize) -> Result<(), String> {
        self.weight += weight;
        if self.weight > MAX_WEIGHT {
            return Err("the file holds too much, counting what its aliases repeat".to_owned());
        }
        Ok(())
    }

    fn place(&mut self, node: Node) -> Result<(), String> {
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        frame.weight += node.weight;
        let mapping = match &mut frame.kind {
            FrameKind::Sequence(items) => {
                items.push(node);
                return Ok(());
            }
            FrameKind::Mapping(mapping) => mapping,
        };
        match std::mem::take(&mut mapping.key) {
            PendingKey::None => mapping.key = pending_key(node, self.faults),
            PendingKey::Refused => {}
            PendingKey::Merge => mapping.merges.push(node),
            PendingKey::Text(key) => {
                if let Some(&first) = mapping.seen.get(&key.text) {
                    self.faults.push(Fault::Duplicate { key: key.text, first, again: key.span });
                } else {
                    mapping.seen.insert(key.text.clone(), key.span);
                    mapping.entries.push(Entry { key, value: node });
                }
            }
        }
        Ok(())
    }
}

fn pending_key(node: Node, faults: &mut Vec<Fault>) -> PendingKey {
    match node.content {
        Content::Scalar(scalar) if scalar.plain && scalar.text == "<<" => PendingKey::Merge,
        Content::Scalar(scalar) if node.tag.is_none() => {
            PendingKey::Text(Key { text: scalar.text, plain: scalar.plain, span: node.span })
        }
        _ => {
            faults.push(Fault::KeyNotText { span: node.span });
            PendingKey::Refused
        }
    }
}

/// Adds what `<<` brings: a key that is there stays, and of several mappings the earlier wins.
fn merge(mapping: &mut MappingFrame, faults: &mut Vec<Fault>) {
    for node in std::mem::take(&mut mapping.merges) {
        let sources = match node.content {
            Content::Sequence(items) => items,
            _ => vec![node],
        };
        for source in sources {
            let Content::Mapping(entries) = source.content else {
                faults.push(Fault::MergeNotMapping { span: source.span });
                continue;
            };
            for entry in entries {
                if !mapping.seen.contains_key(&entry.key.text) {
                    mapping.seen.insert(entry.key.text.clone(), entry.key.span);
                    mapping.entries.push(entry);
                }
            }
        }
    }
}

/// What is said of a file that is nested beyond [`MAX_DEPTH`].
pub(super) fn too_deep() -> String {
    format!("lists and mappings are nested deeper than {MAX_DEPTH} levels")
}

fn is_core(tag: Option<&Tag>, suffix: &str) -> bool {
    tag.is_some_and(|tag| tag.is_yaml_core_schema() && tag.suffix == suffix)
}

/// A tag as it was written, unless it is one of YAML's own that changes nothing.
fn refused_tag(tag: Option<&Tag>, changes_nothing: impl Fn(&str) -> bool) -> Option<String> {
    let tag = tag?;
    match tag.is_yaml_core_schema() {
        true if changes_nothing(&tag.suffix) => None,
        true => Some(format!("!!{}", tag.suffix)),
        false => Some(format!("{}{}", tag.handle, tag.suffix)),
    }
}
