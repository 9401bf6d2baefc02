//! Processes and their nodes, as written.
//!
//! A node that cannot be understood stays in its process as [`Kind::Unknown`], so that checks of its neighbours go on
//! and do not report what follows from it.

use std::time::Duration;

use super::cx::{Cx, child};
use super::errors::ErrorsSpec;
use super::exprs::{Choice, ExprSpec};
use super::fields::{Field, Fields, items, nearest, unknown_key};
use super::foreign;
use super::nodes;
use super::switch::SwitchSpec;
use super::values::{self, At, Text};
use crate::ask::Role;
use crate::grammar::{self, Mapping};
use crate::issue::Code;
use crate::plan::{FlushBounds, OnTrap, Timestamp};
use crate::reader::{Content, Entry, Scalar};
use crate::report::{Place, Problem};

/// A list of nodes.
#[derive(Debug)]
pub(crate) struct ProcessSpec {
    pub(crate) nodes: Vec<NodeSpec>,
    /// Where the list is, or the key that it belongs to.
    pub(crate) place: Place,
}

/// One node.
#[derive(Debug)]
pub(crate) struct NodeSpec {
    /// The node key's place; the path is the node's.
    pub(crate) place: Place,
    pub(crate) name: Option<Text>,
    pub(crate) kind: Kind,
    pub(crate) errors: Option<ErrorsSpec>,
}

#[derive(Debug)]
pub(crate) enum Kind {
    /// `step`, `expand`, `batch_step`, `batch_expand` and `explode`: one call of a plugin.
    Call {
        key: &'static str,
        role: Role,
        plugin: Option<Text>,
        options: CallOptions,
    },
    Map(ExprSpec),
    Filter(Choice),
    CollectBatch {
        max_records: Option<usize>,
        max_bytes: Option<u64>,
        timeout: Option<Duration>,
        key: Option<Choice>,
    },
    ForEach,
    Router(SwitchSpec),
    Fork(SwitchSpec),
    Broadcast(Vec<ProcessSpec>),
    ExpandRoutes {
        plugin: Option<Text>,
        options: CallOptions,
        routes: Vec<(String, ProcessSpec)>,
        default: Option<ProcessSpec>,
    },
    IntoTopic(IntoTopic),
    IntoSink {
        plugin: Option<Text>,
        timeout: Option<Duration>,
        retries: Option<u32>,
        flush: FlushBounds,
    },
    Drain,
    /// Reported already.
    Unknown,
}

/// Options of a plugin's call.
#[derive(Debug, Default)]
pub(crate) struct CallOptions {
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: Option<u32>,
    pub(crate) on_trap: Option<OnTrap>,
    pub(crate) concurrency: Option<usize>,
    /// `ordered` as written, with its place.
    pub(crate) ordered: Option<At<bool>>,
}

#[derive(Debug)]
pub(crate) struct IntoTopic {
    /// The logical name; none if it was not understood.
    pub(crate) output: Option<Text>,
    pub(crate) key: Option<Choice>,
    pub(crate) partitioner: Option<Text>,
    pub(crate) allow_repartition: bool,
    pub(crate) dlq: Option<Text>,
    pub(crate) timestamp: Timestamp,
}

/// The node key that may only be a bare word or have nothing beside it.
const DRAIN: &str = "drain";

impl Kind {
    /// Whether records end here.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(
            self,
            Kind::Fork(_)
                | Kind::Broadcast(_)
                | Kind::ExpandRoutes { .. }
                | Kind::IntoTopic(_)
                | Kind::IntoSink { .. }
                | Kind::Drain
        )
    }
}

/// A process: a list of nodes.
pub(crate) fn process(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<ProcessSpec> {
    if let Content::Scalar(Scalar { text, .. }) = &field.node.content
        && (text == DRAIN || text == "for_each")
    {
        let message = format!("`{}` takes a list of nodes, not a single word", field.key);
        cx.push(&field.place(), Problem::error(Code::WrongType, message).hint(format!("write `[ {text} ]`")));
        return None;
    }
    if let Content::Scalar(Scalar { text, .. }) = &field.node.content
        && text == "pass"
    {
        let message = format!("`{}` takes a list of nodes, and `pass` is none", field.key);
        let problem = Problem::error(Code::WrongType, message).hint(format!(
            "write `{}: []`: a router's branch without nodes passes records on; `pass` is for its `default`",
            field.key
        ));
        cx.push(&field.place(), problem);
        return None;
    }
    let items = if field.node.is_null() { Vec::new() } else { items(cx, field, "nodes")? };
    let nodes = items.iter().map(|item| node(cx, item)).collect();
    Some(ProcessSpec { nodes, place: field.key_place() })
}

fn node(cx: &mut Cx<'_>, item: &Field<'_>) -> NodeSpec {
    let bare = |place, kind| NodeSpec { place, name: None, kind, errors: None };
    let unknown = |place| bare(place, Kind::Unknown);
    match &item.node.content {
        Content::Scalar(scalar) if item.node.tag.is_none() => match scalar.text.as_str() {
            DRAIN => bare(item.place(), Kind::Drain),
            "for_each" => bare(item.place(), Kind::ForEach),
            word => {
                bare_word(cx, &item.place(), word);
                unknown(item.place())
            }
        },
        Content::Mapping(entries) if item.node.tag.is_none() => match node_key(cx, item, entries) {
            Some((mapping, entry)) => {
                let key = mapping.keys[0].name;
                let place = Place { span: entry.key.span, path: item.path.clone() };
                let mut fields = Fields::new(entries, place.clone(), mapping);
                let field = fields.take(key).unwrap_or_else(|| item.clone());
                let (kind, errors) = nodes::node(cx, key, &field, &mut fields);
                let name = fields.take("name").and_then(|field| values::name(cx, &field));
                fields.finish(cx, &format!("`{key}`"));
                NodeSpec { place, name, kind, errors }
            }
            None => unknown(item.place()),
        },
        _ => {
            let message = format!("a node is a mapping with a node key, not {}", item.node.what());
            cx.error(&item.place(), Code::NodeInvalid, message);
            unknown(item.place())
        }
    }
}

fn bare_word(cx: &mut Cx<'_>, place: &Place, word: &str) {
    if grammar::node(word).is_some() {
        let message = format!("`{word}` needs a value");
        let problem = Problem::error(Code::NodeInvalid, message).hint(format!("write `{word}: …`"));
        cx.push(place, problem);
        return;
    }
    let hint = match (nearest(word, &[DRAIN, "for_each"]), foreign::node(word)) {
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, Some(foreign)) => foreign.to_owned(),
        (None, None) if word == "pass" => "a router's `default` alone takes `pass`".to_owned(),
        (None, None) => "only `drain` and `for_each` may be bare words".to_owned(),
    };
    cx.push(place, Problem::error(Code::NodeInvalid, format!("`{word}` is no node")).hint(hint));
}

/// The one node key of a mapping.
fn node_key<'n>(
    cx: &mut Cx<'_>,
    item: &Field<'n>,
    entries: &'n [Entry],
) -> Option<(&'static Mapping, &'n Entry)> {
    let mut found =
        entries.iter().filter_map(|entry| grammar::node(&entry.key.text).map(|mapping| (mapping, entry)));
    let first = found.next();
    let second = found.next();
    if let (Some((first, _)), Some((second, entry))) = (first, second) {
        let (first, second) = (first.keys[0].name, second.keys[0].name);
        let message = format!("one node has both `{first}` and `{second}`");
        let place = Place { span: entry.key.span, path: child(&item.path, second) };
        let problem = Problem::error(Code::NodeInvalid, message)
            .hint(format!("make `- {second}: …` a node of its own"));
        cx.push(&place, problem);
        return None;
    }
    if first.is_some() {
        return first;
    }
    let candidates: Vec<&str> = grammar::NODES.iter().map(|node| node.keys[0].name).collect();
    let mistyped = entries.iter().find(|entry| {
        foreign::node(&entry.key.text).is_some() || nearest(&entry.key.text, &candidates).is_some()
    });
    match mistyped.or(entries.first()) {
        Some(entry) => unknown_key(cx, &item.path, &entry.key, "a node", &candidates),
        None => cx.error(&item.place(), Code::NodeInvalid, "a node needs a node key, and this one is empty"),
    }
    None
}
