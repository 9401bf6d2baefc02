//! A simulated flow: a tree of nodes, and its text in YAML.
//!
//! `draw.rs` draws one; `needs.rs` says what a record comes to in it.

use std::fmt::Write as _;

use loom_types::ErrorKind;

/// A flow.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub process: Process,
    /// By [`ErrorKind::index`].
    pub routes: [Option<Process>; ErrorKind::ALL.len()],
    pub default_route: Option<Process>,
    pub steps: usize,
    pub predicates: usize,
    pub sinks: usize,
    pub terminals: usize,
    /// Some node's calls answer later.
    pub waits: bool,
    /// Nodes that make rows of rows.
    pub expanders: usize,
    /// Predicates that use the network, so that their calls answer later.
    pub remote: Vec<usize>,
    /// Steps whose retries are counted, and to how many.
    pub counted: Vec<(usize, u32)>,
    /// A record whose error has no route stops the flow.
    pub stops: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub nodes: Vec<Node>,
    pub end: End,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub what: What,
    pub errors: Option<Own>,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// `retries`: after so many a record is an error; a step that has them stands at one node only.
    Step {
        step: usize,
        waits: Option<Waits>,
        retries: Option<u32>,
    },
    /// Makes rows of each row, see [`super::fates::Fates::rows`]; its plugin is a step's in all else.
    Expand {
        step: usize,
        waits: Option<Waits>,
    },
    Map,
    Filter(Cond),
    /// Each record through one of these branches, and on.
    Router {
        branches: Vec<(Cond, Vec<Node>)>,
        /// None: what no branch takes is an error.
        default: Option<Vec<Node>>,
    },
}

/// A node's own error route.
#[derive(Clone, Debug)]
pub(super) struct Own {
    /// For this kind; none for all of them.
    pub kind: Option<ErrorKind>,
    pub route: Box<Process>,
}

/// Calls that answer later, so many at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    pub concurrency: usize,
    pub ordered: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Cond {
    /// `msg.offset % modulo == rest`
    Offset { modulo: i64, rest: i64 },
    /// A predicate component.
    Plugin(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) enum End {
    /// No terminal: what comes here drains.
    #[default]
    Open,
    Drain,
    Topic {
        output: usize,
        keyed: bool,
        now: bool,
        terminal: usize,
        /// The output that takes what the first one refuses.
        dlq: Option<usize>,
        errors: Option<Own>,
    },
    Sink {
        sink: usize,
        flush: Flush,
        terminal: usize,
        errors: Option<Own>,
    },
    When {
        branches: Vec<(Cond, Process)>,
        default: Box<Process>,
    },
    /// `msg.offset % modulo` chooses one of these branches.
    By {
        modulo: i64,
        branches: Vec<Process>,
        default: Box<Process>,
    },
    Broadcast(Vec<Process>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub records: usize,
    pub interval_ms: u64,
}

/// What a record's payload is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// `{"n":…,"v":"…"}`: each node that changes it adds a letter to `v`.
    Json(String),
    /// No JSON.
    Broken,
    Tombstone,
    /// The envelope of a failure.
    Envelope(ErrorKind),
}

/// A record as it was produced.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// Its number: no two have the same.
    pub number: u64,
    pub offset: i64,
    pub payload: Payload,
}

impl Payload {
    /// How a payload is told from others of the same record.
    pub(super) fn label(&self, number: u64) -> String {
        match self {
            Payload::Json(v) => format!("{{\"n\":{number},\"v\":\"{v}\"}}"),
            Payload::Broken => format!("broken {number}"),
            Payload::Tombstone => "tombstone".to_owned(),
            Payload::Envelope(kind) => format!("error {kind}"),
        }
    }

    /// The same with a letter more, where there is room for one.
    pub(super) fn marked(&mut self, mark: char) {
        if let Payload::Json(v) = self {
            v.push(mark);
        }
    }
}

/// The letter that a step adds.
pub(super) fn mark(step: usize) -> char {
    char::from(b'a' + step as u8)
}

/// What is added to a row that was made, by its place among those of its row.
pub(super) fn place_mark(place: usize) -> char {
    char::from(b'0' + place as u8)
}

impl Flow {
    /// One step, and what it lets pass goes to the first output. `stops`: a record without route stops it.
    pub(super) fn one_step(stops: bool) -> Flow {
        let end = End::Topic { output: 0, keyed: false, now: false, terminal: 0, dlq: None, errors: None };
        let step = Node { what: What::Step { step: 0, waits: None, retries: None }, errors: None };
        Flow {
            process: Process { nodes: vec![step], end },
            routes: Default::default(),
            default_route: None,
            steps: 1,
            predicates: 0,
            sinks: 0,
            terminals: 1,
            waits: false,
            expanders: 0,
            remote: Vec::new(),
            counted: Vec::new(),
            stops,
        }
    }

    /// The `process` and `errors` sections in YAML.
    pub(super) fn yaml(&self) -> String {
        let mut text = "process: ".to_owned();
        self.process.yaml(&mut text);
        text.push('\n');
        let routes = ErrorKind::ALL.into_iter().zip(&self.routes);
        let routes = routes.filter_map(|(kind, route)| Some((kind.name(), route.as_ref()?)));
        let routes: Vec<_> =
            routes.chain(self.default_route.iter().map(|route| ("default", route))).collect();
        let unrouted = if self.stops { "stop" } else { "drop" };
        let _ = writeln!(text, "errors:\n  unrouted: {unrouted}");
        for (kind, route) in routes {
            let _ = write!(text, "  {kind}: ");
            route.yaml(&mut text);
            text.push('\n');
        }
        text
    }
}

impl Waits {
    fn yaml(self) -> String {
        let Waits { concurrency, ordered } = self;
        format!(", concurrency: {concurrency}, ordered: {ordered}")
    }
}

impl Cond {
    fn yaml(self) -> String {
        match self {
            Cond::Offset { modulo, rest } => format!("msg.offset % {modulo} == {rest}"),
            Cond::Plugin(plugin) => format!("{{ plugin: p{plugin} }}"),
        }
    }
}

impl Own {
    /// As an option of a node.
    fn yaml(own: Option<&Own>) -> String {
        let Some(Own { kind, route }) = own else { return String::new() };
        let mut text = format!(", errors: {{ {}: ", kind.map_or("default", ErrorKind::name));
        route.yaml(&mut text);
        text + " }"
    }
}

impl Node {
    fn yaml(&self) -> String {
        let errors = Own::yaml(self.errors.as_ref());
        match &self.what {
            What::Step { step, waits, retries } => {
                let waits = waits.map_or_else(String::new, Waits::yaml);
                let retries = retries.map_or_else(String::new, |retries| format!(", retries: {retries}"));
                format!("{{ step: s{step}{waits}{retries}{errors} }}")
            }
            What::Expand { step, waits } => {
                format!("{{ expand: s{step}{}{errors} }}", waits.map_or_else(String::new, Waits::yaml))
            }
            What::Map => format!("{{ map: \"{{'n': payload.n, 'v': payload.v + '_'}}\"{errors} }}"),
            What::Filter(cond) => format!("{{ filter: {}{errors} }}", cond.yaml()),
            What::Router { branches, default } => {
                let nodes = |nodes: &[Node]| {
                    let nodes: Vec<String> = nodes.iter().map(Node::yaml).collect();
                    format!("[ {} ]", nodes.join(", "))
                };
                let branches: Vec<String> = branches
                    .iter()
                    .map(|(cond, branch)| format!("{{ if: {}, process: {} }}", cond.yaml(), nodes(branch)))
                    .collect();
                let default = match default {
                    None => String::new(),
                    Some(branch) if branch.is_empty() => ", default: pass".to_owned(),
                    Some(branch) => format!(", default: {}", nodes(branch)),
                };
                format!("{{ router: {{ when: [ {} ]{default} }}{errors} }}", branches.join(", "))
            }
        }
    }
}

impl Process {
    fn yaml(&self, text: &mut String) {
        let mut nodes: Vec<String> = self.nodes.iter().map(Node::yaml).collect();
        nodes.extend(self.end.yaml());
        let _ = write!(text, "[ {} ]", nodes.join(", "));
    }
}

impl End {
    fn yaml(&self) -> Option<String> {
        let text = |process: &Process| {
            let mut text = String::new();
            process.yaml(&mut text);
            text
        };
        Some(match self {
            End::Open => return None,
            End::Drain => "drain".to_owned(),
            End::Topic { output, keyed, now, dlq, errors, .. } => {
                let key = if *keyed { ", key: \"string(msg.offset % 5)\"" } else { "" };
                let now = if *now { ", timestamp: now" } else { "" };
                let dlq = dlq.map_or_else(String::new, |dlq| format!(", dlq: out{dlq}"));
                let errors = Own::yaml(errors.as_ref());
                format!("{{ into_topic: out{output}{key}{now}{dlq}{errors} }}")
            }
            End::Sink { sink, flush: Flush { records, interval_ms }, errors, .. } => format!(
                "{{ into_sink: k{sink}, flush: {{ records: {records}, interval: {interval_ms}ms }}{} }}",
                Own::yaml(errors.as_ref())
            ),
            End::When { branches, default } => {
                let branches: Vec<String> = branches
                    .iter()
                    .map(|(cond, branch)| format!("{{ if: {}, process: {} }}", cond.yaml(), text(branch)))
                    .collect();
                format!("{{ fork: {{ when: [ {} ], default: {} }} }}", branches.join(", "), text(default))
            }
            End::By { modulo, branches, default } => {
                let branches: Vec<String> = branches
                    .iter()
                    .enumerate()
                    .map(|(label, branch)| format!("{label}: {}", text(branch)))
                    .collect();
                format!(
                    "{{ fork: {{ by: msg.offset % {modulo}, branches: {{ {} }}, default: {} }} }}",
                    branches.join(", "),
                    text(default)
                )
            }
            End::Broadcast(branches) => {
                let branches: Vec<String> = branches.iter().map(text).collect();
                format!("{{ broadcast: [ {} ] }}", branches.join(", "))
            }
        })
    }
}
