//! The tree that a flow file is read into: what was written, in its order, with the place of everything.
//!
//! A scalar keeps its text and whether it was plain; what it means (a number, a name, an expression) is decided by the
//! field that it stands in. Anchors, aliases and merge keys are resolved; what came through one points at the text
//! that said it.

use crate::text::Span;

/// A value with its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) span: Span,
    /// A tag as written, such as `!x`, unless it is one of YAML's own that changes nothing.
    pub(crate) tag: Option<String>,
    pub(crate) content: Content,
    /// How much it holds; see [`Node::weight_of_text`].
    pub(crate) weight: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Scalar(Scalar),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Neither quoted nor a block nor tagged as text, so that YAML may see more than text in it.
    pub(crate) plain: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: Key,
    pub(crate) value: Node,
}

/// A mapping's key: always text, as written.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) text: String,
    /// As of a [`Scalar`].
    pub(crate) plain: bool,
    pub(crate) span: Span,
}

impl Node {
    /// What a scalar of this many bytes counts towards the bound on a tree.
    pub(crate) fn weight_of_text(bytes: usize) -> usize {
        1 + bytes / 32
    }

    /// Whether nothing was written, or `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(Scalar { text, plain: true })
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
            && self.tag.is_none()
    }

    /// What it is, for messages: `a list`, `a mapping`, `nothing`, `text`.
    pub(crate) fn what(&self) -> &'static str {
        match &self.content {
            _ if self.is_null() => "nothing",
            Content::Scalar(_) => "a single value",
            Content::Sequence(_) => "a list",
            Content::Mapping(_) => "a mapping",
        }
    }
}
