//! What both pictures show: boxes in groups, and arrows between them.
//!
//! A group is the input, the process, or an error route. Routes of the whole flow are joined by one arrow from the whole
//! process; with one from every node, a flow of forty nodes would be all arrows.

use super::Words;
use crate::plan::{NodeKind, NodePlan, ProcessPlan, RouteId, Switch};

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A Kafka topic.
    Topic,
    /// A node that runs a plugin.
    Plugin,
    /// A node that an expression does.
    Expression,
    /// A node that makes batches of records, or records of batches.
    Batches,
    /// A node that parts records.
    Switch,
    /// A sink component.
    Sink,
    /// Where records end without a trace.
    End,
}

/// A box. Its id is its index.
pub(super) struct Vertex {
    pub(super) shape: Shape,
    /// Lines of text.
    pub(super) lines: Vec<String>,
}

/// Boxes that belong together.
pub(super) struct Group {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) vertices: Vec<usize>,
}

/// Where an arrow ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Vertex(usize),
    /// A whole group, by its index.
    Group(usize),
}

pub(super) struct Arrow {
    pub(super) from: End,
    pub(super) to: End,
    pub(super) label: Option<String>,
    /// Whether failed records take it.
    pub(super) error: bool,
}

/// A box that records leave for the next one.
struct Exit {
    from: usize,
    label: Option<String>,
}

pub(super) struct Drawing {
    pub(super) vertices: Vec<Vertex>,
    pub(super) groups: Vec<Group>,
    pub(super) arrows: Vec<Arrow>,
}

pub(super) fn drawing(words: &Words<'_>) -> Drawing {
    let drawing = Drawing { vertices: Vec::new(), groups: Vec::new(), arrows: Vec::new() };
    let mut pen = Pen { words, drawing };
    let plan = words.plan;
    let source = pen.group("source", words.source());
    let topics: Vec<usize> = plan
        .consumer
        .topics
        .iter()
        .map(|topic| pen.vertex(source, Shape::Topic, vec![words.name(topic)]))
        .collect();
    let process = pen.group("process", "process".to_owned());
    let first = pen.process(process, &plan.process);
    for topic in topics {
        pen.arrow(End::Vertex(topic), End::Vertex(first), None, false);
    }
    for (id, kinds) in words.top_routes() {
        let route = pen.route(id);
        pen.arrow(End::Group(process), End::Group(route), Some(kinds), true);
    }
    let unrouted = words.unrouted();
    if !unrouted.is_empty() {
        let group = pen.group("unrouted", "errors without a route".to_owned());
        for (kinds, what) in unrouted {
            let end = pen.vertex(group, Shape::End, vec![what.to_owned()]);
            pen.arrow(End::Group(process), End::Vertex(end), Some(kinds), true);
        }
    }
    pen.drawing
}

struct Pen<'w, 'p> {
    words: &'w Words<'p>,
    drawing: Drawing,
}

impl Pen<'_, '_> {
    fn group(&mut self, id: &str, title: String) -> usize {
        self.drawing.groups.push(Group { id: id.to_owned(), title, vertices: Vec::new() });
        self.drawing.groups.len() - 1
    }

    fn vertex(&mut self, group: usize, shape: Shape, lines: Vec<String>) -> usize {
        self.drawing.vertices.push(Vertex { shape, lines });
        let id = self.drawing.vertices.len() - 1;
        self.drawing.groups[group].vertices.push(id);
        id
    }

    fn arrow(&mut self, from: End, to: End, label: Option<String>, error: bool) {
        self.drawing.arrows.push(Arrow { from, to, label, error });
    }

    /// Draws a route as a group of its own.
    fn route(&mut self, id: RouteId) -> usize {
        let route = &self.words.plan.routes[id.0];
        let group = self.group(&format!("route{}", id.0), route.path.to_string());
        self.process(group, &route.process);
        group
    }

    /// Draws a process; answers its first box.
    fn process(&mut self, group: usize, process: &ProcessPlan) -> usize {
        let (mut first, exits) = self.nodes(group, process);
        if process.drains() {
            let end = self.vertex(group, Shape::End, vec!["(drain)".to_owned()]);
            self.lead(exits, end);
            first.get_or_insert(end);
        }
        // A process without nodes drains, so there is a first.
        first.unwrap_or_default()
    }

    /// Draws the nodes of a process; answers its first box, and where records come out behind the last.
    fn nodes(&mut self, group: usize, process: &ProcessPlan) -> (Option<usize>, Vec<Exit>) {
        let (mut first, mut exits) = (None, Vec::new());
        for node in &process.nodes {
            let (next, out) = self.node(group, node);
            self.lead(std::mem::replace(&mut exits, out), next);
            first.get_or_insert(next);
        }
        (first, exits)
    }

    fn lead(&mut self, exits: Vec<Exit>, to: usize) {
        for Exit { from, label } in exits {
            self.arrow(End::Vertex(from), End::Vertex(to), label, false);
        }
    }

    /// Draws a node; answers its box, and where records come out of it.
    fn node(&mut self, group: usize, node: &NodePlan) -> (usize, Vec<Exit>) {
        let mut lines = vec![self.words.node(node)];
        let file = |id: &crate::plan::PluginId| {
            self.words.name(&self.words.plan.plugins[id.0].component.display().to_string())
        };
        let shape = match &node.kind {
            NodeKind::Step(call)
            | NodeKind::Expand(call)
            | NodeKind::BatchStep(call)
            | NodeKind::BatchExpand(call)
            | NodeKind::Explode(call)
            | NodeKind::ExpandRoutes { call, .. } => {
                lines.push(file(&call.plugin));
                Shape::Plugin
            }
            NodeKind::IntoSink { plugin, .. } => {
                lines.push(file(plugin));
                Shape::Sink
            }
            NodeKind::Filter(crate::plan::By::Plugin(plugin)) => {
                lines.push(file(plugin));
                Shape::Plugin
            }
            NodeKind::Map(_) | NodeKind::Filter(_) => Shape::Expression,
            NodeKind::CollectBatch(_) | NodeKind::ForEach => Shape::Batches,
            NodeKind::Router(Switch::By { selector, .. }) | NodeKind::Fork(Switch::By { selector, .. }) => {
                lines.push(format!("by {}", self.words.by(selector)));
                Shape::Switch
            }
            NodeKind::Router(_) | NodeKind::Fork(_) | NodeKind::Broadcast(_) => Shape::Switch,
            NodeKind::IntoTopic { key, partitioner, .. } => {
                lines.extend(self.words.keys(key.as_ref(), partitioner.as_ref()));
                Shape::Topic
            }
            NodeKind::Drain => Shape::End,
        };
        let id = self.vertex(group, shape, lines);
        let in_place = matches!(node.kind, NodeKind::Router(_));
        let mut exits = if in_place { Vec::new() } else { vec![Exit { from: id, label: None }] };
        for (label, branch) in self.branches(node) {
            if !in_place {
                let first = self.process(group, branch);
                self.arrow(End::Vertex(id), End::Vertex(first), Some(label), false);
                continue;
            }
            // The branches come together again at the next node; one without nodes leads there itself.
            match self.nodes(group, branch) {
                (Some(first), out) => {
                    self.arrow(End::Vertex(id), End::Vertex(first), Some(label), false);
                    exits.extend(out);
                }
                (None, _) => exits.push(Exit { from: id, label: Some(label) }),
            }
        }
        if let NodeKind::IntoTopic { dlq: Some(dlq), .. } = &node.kind {
            let dead = self.vertex(group, Shape::Topic, vec![self.words.output(dlq.0)]);
            self.arrow(End::Vertex(id), End::Vertex(dead), Some("dlq".to_owned()), true);
        }
        for (route, kinds) in self.words.routes_of(node) {
            let route = self.route(route);
            self.arrow(End::Vertex(id), End::Group(route), Some(kinds), true);
        }
        (id, exits)
    }

    /// The processes inside a node, with what leads there.
    fn branches<'n>(&self, node: &'n NodePlan) -> Vec<(String, &'n ProcessPlan)> {
        let default =
            |default: &'n Option<ProcessPlan>| default.iter().map(|inner| ("default".to_owned(), inner));
        match &node.kind {
            NodeKind::Router(Switch::When { branches, default: rest })
            | NodeKind::Fork(Switch::When { branches, default: rest }) => branches
                .iter()
                .map(|(condition, inner)| (self.words.by(condition), inner))
                .chain(default(rest))
                .collect(),
            NodeKind::Router(Switch::By { branches, default: rest, .. })
            | NodeKind::Fork(Switch::By { branches, default: rest, .. }) => branches
                .iter()
                .map(|(label, inner)| (self.words.name(label), inner))
                .chain(default(rest))
                .collect(),
            NodeKind::Broadcast(branches) => {
                branches.iter().enumerate().map(|(index, inner)| (format!("branch {index}"), inner)).collect()
            }
            NodeKind::ExpandRoutes { routes, default: rest, .. } => routes
                .iter()
                .map(|(label, inner)| (self.words.name(label), inner))
                .chain(default(rest))
                .collect(),
            _ => Vec::new(),
        }
    }
}
