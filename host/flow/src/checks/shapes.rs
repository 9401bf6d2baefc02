//! What goes between nodes: records, batches of them, or the typed rows of an `explode`.
//!
//! Every process begins with records, so each can be followed alone. What comes after a node that was not understood,
//! or after one where records end, is not known, and no rule speaks about it.

use std::fmt;

use crate::ask::Role;
use crate::spec::{Kind, NodeSpec, ProcessSpec, SwitchDefault, inner};

/// What a node takes or gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Records,
    Batches,
    /// Rows with types, which only a `router` at once after them takes.
    Typed,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Shape::Records => "records",
            Shape::Batches => "batches",
            Shape::Typed => "typed rows",
        })
    }
}

/// What comes to a node.
#[derive(Clone, Copy)]
pub(super) struct Came<'f> {
    pub(super) shape: Shape,
    /// From which node; none at the start of its process.
    pub(super) from: Option<&'f NodeSpec>,
}

/// What a node takes; none if it takes anything, or was not understood.
pub(super) fn takes(kind: &Kind) -> Option<Shape> {
    match kind {
        Kind::Call { role: Role::BatchStep | Role::BatchExpand, .. } | Kind::ForEach => Some(Shape::Batches),
        Kind::Call { .. }
        | Kind::Map(_)
        | Kind::Filter(_)
        | Kind::CollectBatch { .. }
        | Kind::Router(_)
        | Kind::Fork(_)
        | Kind::Broadcast(_)
        | Kind::ExpandRoutes { .. }
        | Kind::IntoTopic(_)
        | Kind::IntoSink { .. } => Some(Shape::Records),
        Kind::Drain | Kind::Unknown => None,
    }
}

/// What comes out of a node; none if nothing does, or it is not known.
fn gives(node: &NodeSpec) -> Option<Shape> {
    match &node.kind {
        Kind::Call { role: Role::BatchStep, .. } | Kind::CollectBatch { .. } => Some(Shape::Batches),
        Kind::Call { role: Role::TypedExpander, .. } => Some(Shape::Typed),
        Kind::Call { .. } | Kind::Map(_) | Kind::Filter(_) | Kind::ForEach => Some(Shape::Records),
        Kind::Router(switch) => {
            let passes = matches!(switch.default, SwitchDefault::Pass).then_some(Shape::Records);
            let mut ends =
                passes.into_iter().chain(inner(node).into_iter().filter_map(|(_, branch)| end(branch)));
            let first = ends.next()?;
            ends.all(|shape| shape == first).then_some(first)
        }
        Kind::Fork(_)
        | Kind::Broadcast(_)
        | Kind::ExpandRoutes { .. }
        | Kind::IntoTopic(_)
        | Kind::IntoSink { .. }
        | Kind::Drain
        | Kind::Unknown => None,
    }
}

/// The nodes of a process, each with what comes to it, where that is known.
pub(super) fn followed(process: &ProcessSpec) -> impl Iterator<Item = (&NodeSpec, Option<Came<'_>>)> {
    let start = Some(Came { shape: Shape::Records, from: None });
    process.nodes.iter().scan(start, |came, node| {
        let next = gives(node).map(|shape| Came { shape, from: Some(node) });
        Some((node, std::mem::replace(came, next)))
    })
}

/// What comes out of a process, where that is known.
pub(super) fn end(process: &ProcessSpec) -> Option<Shape> {
    match process.nodes.last() {
        Some(last) => gives(last),
        None => Some(Shape::Records),
    }
}

/// A node's key, for messages.
pub(super) fn name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Call { key, .. } => key,
        Kind::Map(_) => "map",
        Kind::Filter(_) => "filter",
        Kind::CollectBatch { .. } => "collect_batch",
        Kind::ForEach => "for_each",
        Kind::Router(_) => "router",
        Kind::Fork(_) => "fork",
        Kind::Broadcast(_) => "broadcast",
        Kind::ExpandRoutes { .. } => "expand_routes",
        Kind::IntoTopic(_) => "into_topic",
        Kind::IntoSink { .. } => "into_sink",
        Kind::Drain => "drain",
        Kind::Unknown => "node",
    }
}
