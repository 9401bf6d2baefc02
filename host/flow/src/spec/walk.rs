//! Every place where a node can stand, as one list.
//!
//! Checks go over this list and not over the tree, so that none of them can forget a place: nested branches,
//! `default`, broadcast, expand routes, router branches, error routes.

use super::FlowSpec;
use super::exprs::Choice;
use super::process::{Kind, NodeSpec, ProcessSpec};
use super::switch::{Branches, Default, SwitchSpec};
use super::values::Text;
use crate::ask::Role;

/// What a process belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seat {
    /// The flow itself.
    Top,
    /// A branch or the default of a `fork`.
    ForkBranch,
    /// A branch of a `broadcast`.
    BroadcastBranch,
    /// A branch or the default of a `router`; it has no terminal.
    RouterBranch,
    /// A route of `expand_routes`.
    ExpandRoute,
    /// A route of `errors`.
    ErrorRoute,
}

/// A process in its place.
#[derive(Clone, Copy)]
pub(crate) struct Seated<'f> {
    pub(crate) process: &'f ProcessSpec,
    pub(crate) seat: Seat,
    /// Whether it is an error route or inside one.
    pub(crate) in_route: bool,
}

/// All processes of a flow, outer before inner.
pub(crate) fn processes(flow: &FlowSpec) -> Vec<Seated<'_>> {
    let mut out = Vec::new();
    if let Some(process) = &flow.process {
        visit(Seated { process, seat: Seat::Top, in_route: false }, &mut out);
    }
    for process in flow.errors.iter().flat_map(|errors| errors.routes()) {
        visit(Seated { process, seat: Seat::ErrorRoute, in_route: true }, &mut out);
    }
    out
}

/// All nodes of a flow, with whether they stand inside an error route.
pub(crate) fn nodes<'f>(processes: &[Seated<'f>]) -> impl Iterator<Item = (&'f NodeSpec, bool)> {
    processes.iter().flat_map(|seated| seated.process.nodes.iter().map(|node| (node, seated.in_route)))
}

fn visit<'f>(seated: Seated<'f>, out: &mut Vec<Seated<'f>>) {
    out.push(seated);
    for node in &seated.process.nodes {
        for (seat, process) in inner(node) {
            visit(Seated { process, seat, in_route: seated.in_route }, out);
        }
        for process in node.errors.iter().flat_map(|errors| errors.routes()) {
            visit(Seated { process, seat: Seat::ErrorRoute, in_route: true }, out);
        }
    }
}

/// The processes inside a node, its error routes aside.
pub(crate) fn inner(node: &NodeSpec) -> Vec<(Seat, &ProcessSpec)> {
    match &node.kind {
        Kind::Fork(switch) => branches(switch).map(|process| (Seat::ForkBranch, process)).collect(),
        Kind::Router(switch) => branches(switch).map(|process| (Seat::RouterBranch, process)).collect(),
        Kind::Broadcast(list) => list.iter().map(|process| (Seat::BroadcastBranch, process)).collect(),
        Kind::ExpandRoutes { routes, default, .. } => routes
            .iter()
            .map(|(_, process)| process)
            .chain(default)
            .map(|process| (Seat::ExpandRoute, process))
            .collect(),
        _ => Vec::new(),
    }
}

fn branches(switch: &SwitchSpec) -> impl Iterator<Item = &ProcessSpec> {
    let (when, by) = match &switch.branches {
        Branches::When(branches) => (Some(branches), None),
        Branches::By(_, branches) => (None, Some(branches)),
        Branches::Invalid => (None, None),
    };
    let default = match &switch.default {
        Default::Process(process) => Some(process),
        Default::None | Default::Pass | Default::Invalid => None,
    };
    let when = when.into_iter().flatten().filter_map(|(_, process)| process.as_ref());
    let by = by.into_iter().flatten().map(|(_, process)| process);
    when.chain(by).chain(default)
}

/// The plugins that a node itself names, with the part that each plays.
pub(crate) fn plugin_refs(node: &NodeSpec) -> Vec<(&Text, Role)> {
    let of_choice = |choice: &'_ Choice| matches!(choice, Choice::Plugin(_));
    let mut refs = Vec::new();
    let mut add = |text: Option<_>, role| refs.extend(text.map(|text| (text, role)));
    match &node.kind {
        Kind::Call { role, plugin, .. } => add(plugin.as_ref(), *role),
        Kind::Filter(choice) => add(named(choice), Role::Predicate),
        Kind::CollectBatch { key, .. } => add(key.as_ref().and_then(named), Role::Partitioner),
        Kind::Router(switch) | Kind::Fork(switch) => match &switch.branches {
            Branches::When(branches) => {
                for (choice, _) in branches.iter().filter(|(choice, _)| of_choice(choice)) {
                    add(named(choice), Role::Predicate);
                }
            }
            Branches::By(selector, _) => add(named(selector), Role::Selector),
            Branches::Invalid => {}
        },
        Kind::ExpandRoutes { plugin, .. } => add(plugin.as_ref(), Role::TypedExpander),
        Kind::IntoTopic(topic) => {
            add(topic.key.as_ref().and_then(named), Role::Partitioner);
            add(topic.partitioner.as_ref(), Role::Partitioner);
        }
        Kind::IntoSink { plugin, .. } => add(plugin.as_ref(), Role::Sink),
        Kind::Map(_) | Kind::ForEach | Kind::Broadcast(_) | Kind::Drain | Kind::Unknown => {}
    }
    refs
}

fn named(choice: &Choice) -> Option<&Text> {
    match choice {
        Choice::Plugin(text) => Some(text),
        Choice::Expr(_) | Choice::Invalid => None,
    }
}
