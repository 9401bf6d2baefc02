//! A flow drawn: as a tree for a terminal, as Mermaid, as DOT.
//!
//! The tree follows the plan. The two pictures share one [`drawing`], which places every node, terminal, error route and
//! implicit drain once, so that they cannot show different flows.

mod dot;
mod drawing;
mod mermaid;
mod tree;

use loom_types::{ErrorKind, is_acting};

use crate::plan::{By, CollectPlan, NodeKind, NodePlan, Partitioner, Plan, RouteId, Unrouted};

/// How a flow is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphFormat {
    /// A tree of lines.
    Text {
        /// Whether to draw with characters beyond ASCII.
        unicode: bool,
    },
    /// A Mermaid flowchart.
    Mermaid,
    /// A Graphviz digraph.
    Dot,
}

/// Draws a plan. `shown` takes secrets out of a text of the flow's.
pub(crate) fn draw(plan: &Plan, format: GraphFormat, shown: &dyn Fn(&str) -> String) -> String {
    let words = Words { plan, shown };
    match format {
        GraphFormat::Text { unicode } => tree::tree(&words, unicode),
        GraphFormat::Mermaid => mermaid::mermaid(&drawing::drawing(&words)),
        GraphFormat::Dot => dot::dot(&drawing::drawing(&words), &words.name(&plan.name)),
    }
}

/// Longer expressions are cut: a graph shows where records go, the flow says the rest.
const LONGEST: usize = 60;

/// What is written beside nodes and edges.
struct Words<'p> {
    plan: &'p Plan,
    shown: &'p dyn Fn(&str) -> String,
}

impl Words<'_> {
    /// A text of the flow's on one line, without what would move a terminal's cursor.
    fn name(&self, text: &str) -> String {
        let shown = (self.shown)(text);
        let words = shown.split(|c: char| c.is_whitespace() || is_acting(c)).filter(|word| !word.is_empty());
        let line = words.collect::<Vec<_>>().join(" ");
        if line.is_empty() { "\"\"".to_owned() } else { line }
    }

    fn expression(&self, source: &str) -> String {
        let line = self.name(source);
        if line.chars().count() <= LONGEST {
            return line;
        }
        line.chars().take(LONGEST - 1).chain(['…']).collect()
    }

    fn by(&self, by: &By) -> String {
        match by {
            By::Expr(expr) => self.expression(expr.source()),
            By::Plugin(id) => format!("plugin {}", self.name(&self.plan.plugins[id.0].name)),
        }
    }

    /// A node in words: its key and what it names.
    fn node(&self, node: &NodePlan) -> String {
        let plugin = |id: &crate::plan::PluginId| self.name(&self.plan.plugins[id.0].name);
        match &node.kind {
            NodeKind::Step(call) => format!("step {}", plugin(&call.plugin)),
            NodeKind::Expand(call) => format!("expand {}", plugin(&call.plugin)),
            NodeKind::Explode(call) => format!("explode {}", plugin(&call.plugin)),
            NodeKind::ExpandRoutes { call, .. } => format!("expand_routes {}", plugin(&call.plugin)),
            NodeKind::Map(expr) => format!("map {}", self.expression(expr.source())),
            NodeKind::BatchStep(call) => format!("batch_step {}", plugin(&call.plugin)),
            NodeKind::BatchExpand(call) => format!("batch_expand {}", plugin(&call.plugin)),
            NodeKind::Filter(predicate) => format!("filter {}", self.by(predicate)),
            NodeKind::CollectBatch(collect) => format!("collect_batch {}", self.bounds(collect)),
            NodeKind::ForEach => "for_each".to_owned(),
            NodeKind::Router(_) => "router".to_owned(),
            NodeKind::Fork(_) => "fork".to_owned(),
            NodeKind::Broadcast(_) => "broadcast".to_owned(),
            NodeKind::IntoTopic { output, .. } => format!("into_topic {}", self.output(output.0)),
            NodeKind::IntoSink { plugin: id, .. } => format!("into_sink {}", plugin(id)),
            NodeKind::Drain => "drain".to_owned(),
        }
    }

    /// What makes the keys of an output's records.
    fn keys(&self, key: Option<&By>, partitioner: Option<&Partitioner>) -> Vec<String> {
        let key = key.map(|key| format!("key {}", self.by(key)));
        let partitioner = partitioner.map(|Partitioner { plugin, repartition }| {
            let of = if *repartition { " of all" } else { "" };
            format!("partitioner {}{of}", self.name(&self.plan.plugins[plugin.0].name))
        });
        key.into_iter().chain(partitioner).collect()
    }

    /// When a batch leaves, and what is gathered in one.
    fn bounds(&self, collect: &CollectPlan) -> String {
        let CollectPlan { max_records, max_bytes, timeout, key } = collect;
        let parts = [
            max_records.map(
                |records| if records == 1 { "1 record".to_owned() } else { format!("{records} records") },
            ),
            max_bytes.map(crate::plan::text::size_text),
            timeout.map(|time| humantime::format_duration(time).to_string()),
        ];
        let bounds = parts.into_iter().flatten().collect::<Vec<_>>().join(" or ");
        match key {
            Some(key) => format!("of {bounds}, by {}", self.by(key)),
            None => format!("of {bounds}"),
        }
    }

    /// An output's name, and its topic where that is another.
    fn output(&self, index: usize) -> String {
        let output = &self.plan.outputs[index];
        let name = self.name(&output.name);
        if *output.topic == *output.name {
            name
        } else {
            format!("{name} (topic {})", self.name(&output.topic))
        }
    }

    /// What the flow reads, in a line.
    fn source(&self) -> String {
        let consumer = &self.plan.consumer;
        let brokers: Vec<String> = consumer.brokers.iter().map(|broker| self.name(broker)).collect();
        format!(
            "kafka.{} at {}, group {}, {}",
            self.name(&consumer.name),
            brokers.join(", "),
            self.name(&consumer.group_id),
            crate::plan::text::delivery_word(consumer.delivery)
        )
    }

    /// The routes that are declared at a path (a node's, or the flow's for the empty one), each with the kinds that it takes
    /// of the errors in hand, in the order of the kinds.
    fn routes(&self, path: &str, taken: impl Fn(RouteId) -> Vec<ErrorKind>) -> Vec<(RouteId, String)> {
        let prefix = if path.is_empty() { "errors.".to_owned() } else { format!("{path}.errors.") };
        let routes = self.plan.routes.iter().enumerate();
        let declared = routes.filter(|(_, route)| {
            route.path.strip_prefix(&prefix).is_some_and(|kind| !kind.contains(['.', '[']))
        });
        let mut declared: Vec<_> = declared
            .map(|(index, route)| {
                let kinds = taken(RouteId(index));
                let first = kinds.first().map_or(usize::MAX, |kind| kind.index());
                let default = route.path.ends_with(".default");
                let label = match (default, kinds.is_empty()) {
                    (true, true) => "the rest".to_owned(),
                    _ if kinds.is_empty() => route.path[prefix.len()..].to_owned(),
                    _ => kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "),
                };
                (first, RouteId(index), label)
            })
            .collect();
        declared.sort_by_key(|(first, id, _)| (*first, *id));
        declared.into_iter().map(|(_, id, label)| (id, label)).collect()
    }

    /// The routes of a node's own.
    fn routes_of(&self, node: &NodePlan) -> Vec<(RouteId, String)> {
        self.routes(&node.path, |route| {
            ErrorKind::ALL.into_iter().filter(|kind| node.errors[kind.index()] == Some(route)).collect()
        })
    }

    /// The routes of the flow, with the kinds for which they are the last resort.
    fn top_routes(&self) -> Vec<(RouteId, String)> {
        let own = |kind: &ErrorKind| format!("errors.{}", kind.name());
        let has_own = |kind: &ErrorKind| self.plan.routes.iter().any(|route| *route.path == *own(kind));
        self.routes("", |route| {
            let path = &self.plan.routes[route.0].path;
            let default = &**path == "errors.default";
            ErrorKind::ALL
                .into_iter()
                .filter(|kind| if default { !has_own(kind) } else { **path == *own(kind) })
                .collect()
        })
    }

    /// What becomes of records that fail where no route takes them, in words, with the kinds that some node leaves open;
    /// empty if every kind has a route everywhere.
    fn unrouted(&self) -> Vec<(String, &'static str)> {
        let mut open = [false; ErrorKind::ALL.len()];
        self.plan.process.visit(&mut |node| {
            for (open, route) in open.iter_mut().zip(&node.errors) {
                *open |= route.is_none();
            }
        });
        let stops = |kind: &ErrorKind| {
            self.plan.unrouted == Unrouted::Stop
                || (*kind == ErrorKind::Delivery
                    && self.plan.consumer.delivery == crate::plan::Delivery::AtLeastOnce)
        };
        let open: Vec<ErrorKind> = ErrorKind::ALL.into_iter().filter(|kind| open[kind.index()]).collect();
        let (stop, drop): (Vec<ErrorKind>, Vec<ErrorKind>) = open.into_iter().partition(stops);
        let said = |kinds: Vec<ErrorKind>, what| {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            (!names.is_empty()).then(|| (names.join(", "), what))
        };
        [said(drop, "dropped"), said(stop, "the flow stops")].into_iter().flatten().collect()
    }
}
