//! The tree: a line for each node, branches below it, error routes after them.

use super::Words;
use crate::plan::{NodeKind, NodePlan, ProcessPlan, RouteId, Switch};

/// A line with what hangs below it.
struct Branch {
    line: String,
    below: Vec<Branch>,
}

impl Branch {
    fn new(line: impl Into<String>, below: Vec<Branch>) -> Branch {
        Branch { line: line.into(), below }
    }
}

/// How lines hang on each other.
struct Strokes {
    inner: &'static str,
    last: &'static str,
    through: &'static str,
    arrow: &'static str,
}

const UNICODE: Strokes = Strokes { inner: "├─ ", last: "└─ ", through: "│  ", arrow: " → " };
const ASCII: Strokes = Strokes { inner: "|- ", last: "`- ", through: "|  ", arrow: " -> " };

pub(super) fn tree(words: &Words<'_>, unicode: bool) -> String {
    let strokes = if unicode { UNICODE } else { ASCII };
    let plan = words.plan;
    let topics = plan.consumer.topics.iter();
    let topics =
        topics.map(|topic| Branch::new(format!("topic {}", words.name(topic)), Vec::new())).collect();
    let mut parts = vec![
        Branch::new(words.source(), topics),
        Branch::new("process", process(words, &plan.process, strokes.arrow)),
    ];
    let mut errors: Vec<Branch> = routes(words, words.top_routes(), strokes.arrow);
    errors.extend(words.unrouted().into_iter().map(|(kinds, what)| {
        Branch::new(format!("on {kinds} without a route{}{what}", strokes.arrow), Vec::new())
    }));
    if !errors.is_empty() {
        parts.push(Branch::new("errors", errors));
    }
    let plugins: Vec<Branch> = plan
        .plugins
        .iter()
        .map(|plugin| {
            let file = words.name(&plugin.component.display().to_string());
            Branch::new(format!("{}: {file}", words.name(&plugin.name)), Vec::new())
        })
        .collect();
    if !plugins.is_empty() {
        parts.push(Branch::new("plugins", plugins));
    }
    let mut out = words.name(&plan.name) + "\n";
    draw(&parts, "", &strokes, &mut out);
    // What ASCII cannot show of a name stays; only what is ours is replaced.
    if unicode { out } else { out.replace('…', "...") }
}

fn draw(branches: &[Branch], indent: &str, strokes: &Strokes, out: &mut String) {
    for (index, branch) in branches.iter().enumerate() {
        let last = index + 1 == branches.len();
        out.push_str(indent);
        out.push_str(if last { strokes.last } else { strokes.inner });
        out.push_str(&branch.line);
        out.push('\n');
        let through = if last { "   " } else { strokes.through };
        draw(&branch.below, &format!("{indent}{through}"), strokes, out);
    }
}

fn process(words: &Words<'_>, process: &ProcessPlan, arrow: &str) -> Vec<Branch> {
    let mut branches: Vec<Branch> = process.nodes.iter().map(|found| node(words, found, arrow)).collect();
    if process.drains() {
        branches.push(Branch::new("(drain)", Vec::new()));
    }
    branches
}

fn node(words: &Words<'_>, node: &NodePlan, arrow: &str) -> Branch {
    let mut line = words.node(node);
    if let NodeKind::IntoTopic { key, partitioner, dlq, .. } = &node.kind {
        for made in words.keys(key.as_ref(), partitioner.as_ref()) {
            line += &format!(", {made}");
        }
        if let Some(dlq) = dlq {
            line += &format!(", dlq {}", words.output(dlq.0));
        }
    }
    let mut below = Vec::new();
    match &node.kind {
        NodeKind::Router(switch) => {
            line += &by(words, switch);
            below.extend(branches(words, switch, arrow, in_place));
        }
        NodeKind::Fork(switch) => {
            line += &by(words, switch);
            below.extend(branches(words, switch, arrow, process));
        }
        NodeKind::Broadcast(branches) => {
            for (index, inner) in branches.iter().enumerate() {
                below.push(titled(format!("branch {index}"), process(words, inner, arrow), arrow));
            }
        }
        NodeKind::ExpandRoutes { routes, default, .. } => {
            for (label, inner) in routes {
                let title = format!("type {}", words.name(label));
                below.push(titled(title, process(words, inner, arrow), arrow));
            }
            below.extend(
                default.iter().map(|inner| titled("default".to_owned(), process(words, inner, arrow), arrow)),
            );
        }
        _ => {}
    }
    below.extend(routes(words, words.routes_of(node), arrow));
    Branch { line, below }
}

/// What a node's selector is, where it has one.
fn by(words: &Words<'_>, switch: &Switch) -> String {
    match switch {
        Switch::When { .. } => String::new(),
        Switch::By { selector, .. } => format!(" by {}", words.by(selector)),
    }
}

/// The branches of a node, each with what takes records there; `inner` draws one.
fn branches(
    words: &Words<'_>,
    switch: &Switch,
    arrow: &str,
    inner: impl Fn(&Words<'_>, &ProcessPlan, &str) -> Vec<Branch>,
) -> Vec<Branch> {
    let (mut titles, default): (Vec<String>, _) = match switch {
        Switch::When { branches, default } => {
            let title = |(condition, _): &(_, _)| format!("if {}", words.by(condition));
            (branches.iter().map(title).collect(), default)
        }
        Switch::By { branches, default, .. } => {
            let title = |(label, _): &(String, _)| format!("branch {}", words.name(label));
            (branches.iter().map(title).collect(), default)
        }
    };
    titles.extend(default.iter().map(|_| "default".to_owned()));
    let processes = titles.into_iter().zip(switch.processes());
    processes.map(|(title, process)| titled(title, inner(words, process, arrow), arrow)).collect()
}

/// The nodes of a branch that comes back to its node.
fn in_place(words: &Words<'_>, branch: &ProcessPlan, arrow: &str) -> Vec<Branch> {
    if branch.nodes.is_empty() {
        return vec![Branch::new("(pass)", Vec::new())];
    }
    branch.nodes.iter().map(|found| node(words, found, arrow)).collect()
}

fn routes(words: &Words<'_>, routes: Vec<(RouteId, String)>, arrow: &str) -> Vec<Branch> {
    routes
        .into_iter()
        .map(|(id, kinds)| {
            titled(format!("on {kinds}"), process(words, &words.plan.routes[id.0].process, arrow), arrow)
        })
        .collect()
}

/// A titled process; one node alone stands on the title's line.
fn titled(title: String, mut nodes: Vec<Branch>, arrow: &str) -> Branch {
    match nodes.pop() {
        Some(only) if nodes.is_empty() => {
            Branch { line: format!("{title}{arrow}{}", only.line), below: only.below }
        }
        Some(last) => {
            nodes.push(last);
            Branch { line: title, below: nodes }
        }
        None => Branch { line: title, below: nodes },
    }
}
