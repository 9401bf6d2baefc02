//! Random flows, and what each record must come to in them.
//!
//! The naive half of the simulation: a flow is a tree, a record walks it alone, and where it arrives is written down as
//! [`Need`]s. It shares no code with the runtime, and knows nothing of batches, tokens, workers or time.

use std::fmt::Write as _;

use fastrand::Rng;
use loom_types::ErrorKind;

use super::fates::{Answer, Fates};

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
}

#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub nodes: Vec<Node>,
    pub end: End,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Step { step: usize, waits: Option<Waits> },
    Map,
    Filter(Cond),
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
    },
    Sink {
        sink: usize,
        flush: Flush,
        terminal: usize,
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

/// Where a row ends that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Place {
    Topic(usize),
    Sink(usize),
}

/// One row that has to be written.
#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub place: Place,
    pub label: String,
    pub terminal: usize,
    /// It was made by an error route, or behind a node that keeps no order: none is promised.
    pub error: bool,
    /// The first leaf that looks the same: what is written cannot be told apart.
    pub like: usize,
    /// How often it was written in this run.
    pub done: u32,
    /// A sink was given it in this run.
    pub wrote: bool,
}

/// What has to be, before a record is resolved.
#[derive(Clone, Debug)]
pub(super) enum Need {
    /// The leaf is written; or, where its output refused it, this instead. None: the flow stops.
    Written { leaf: usize, refused: Option<Vec<Need>> },
    /// The leaf is completed; or, where its sink rejected it or could not take it, one of these.
    Sunk { leaf: usize, business: Option<Vec<Need>>, delivery: Option<Vec<Need>> },
}

/// All that a record must come to.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    pub leaves: Vec<Leaf>,
    pub all: Vec<Need>,
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
    fn marked(&mut self, mark: char) {
        if let Payload::Json(v) = self {
            v.push(mark);
        }
    }
}

/// The letter that a step adds.
pub(super) fn mark(step: usize) -> char {
    char::from(b'a' + step as u8)
}

/// A row of the naive walk.
#[derive(Clone)]
struct Row {
    payload: Payload,
    route: Option<ErrorKind>,
    ordered: bool,
}

struct Walk<'a> {
    flow: &'a Flow,
    fates: &'a Fates,
    input: &'a Input,
    leaves: Vec<Leaf>,
}

impl Flow {
    /// What a record comes to.
    pub(super) fn needs(&self, fates: &Fates, input: &Input) -> Needs {
        let mut walk = Walk { flow: self, fates, input, leaves: Vec::new() };
        let all =
            walk.process(&self.process, Row { payload: input.payload.clone(), route: None, ordered: true });
        Needs { leaves: walk.leaves, all }
    }
}

impl Walk<'_> {
    fn process(&mut self, process: &Process, mut row: Row) -> Vec<Need> {
        for node in &process.nodes {
            match node {
                Node::Step { step, waits } => {
                    match self.fates.step(*step, self.input.number) {
                        Answer::Pass => {}
                        Answer::Mark => row.payload.marked(mark(*step)),
                        Answer::Fails(kind) => return self.failed(kind, &row).unwrap_or_default(),
                    }
                    row.ordered &= waits.is_none_or(|waits| waits.ordered);
                }
                Node::Map => match &mut row.payload {
                    Payload::Json(v) => v.push('_'),
                    Payload::Broken => return self.failed(ErrorKind::Wire, &row).unwrap_or_default(),
                    Payload::Tombstone | Payload::Envelope(_) => {
                        return self.failed(ErrorKind::Task, &row).unwrap_or_default();
                    }
                },
                Node::Filter(cond) => match self.test(*cond) {
                    Ok(true) => {}
                    Ok(false) => return Vec::new(),
                    Err(kind) => return self.failed(kind, &row).unwrap_or_default(),
                },
            }
        }
        self.end(&process.end, row)
    }

    fn end(&mut self, end: &End, row: Row) -> Vec<Need> {
        match end {
            End::Open | End::Drain => Vec::new(),
            End::Topic { output, terminal, .. } => {
                let leaf = self.leaf(Place::Topic(*output), *terminal, &row);
                vec![Need::Written { leaf, refused: self.failed(ErrorKind::Delivery, &row) }]
            }
            End::Sink { sink, terminal, .. } => {
                let leaf = self.leaf(Place::Sink(*sink), *terminal, &row);
                let business = self.failed(ErrorKind::Business, &row);
                vec![Need::Sunk { leaf, business, delivery: self.failed(ErrorKind::Delivery, &row) }]
            }
            End::When { branches, default } => {
                for (cond, branch) in branches {
                    match self.test(*cond) {
                        Ok(true) => return self.process(branch, row),
                        Ok(false) => {}
                        Err(kind) => return self.failed(kind, &row).unwrap_or_default(),
                    }
                }
                self.process(default, row)
            }
            End::By { modulo, branches, default } => {
                let branch = branches.get((self.input.offset % modulo) as usize).unwrap_or(default);
                self.process(branch, row)
            }
            End::Broadcast(branches) => {
                branches.iter().flat_map(|branch| self.process(branch, row.clone())).collect()
            }
        }
    }

    fn leaf(&mut self, place: Place, terminal: usize, row: &Row) -> usize {
        let label = row.payload.label(self.input.number);
        let like = self.leaves.iter().position(|leaf| leaf.place == place && leaf.label == label);
        let (number, error) = (self.leaves.len(), row.route.is_some() || !row.ordered);
        let like = like.unwrap_or(number);
        self.leaves.push(Leaf { place, label, terminal, error, like, done: 0, wrote: false });
        number
    }

    fn test(&self, cond: Cond) -> Result<bool, ErrorKind> {
        match cond {
            Cond::Offset { modulo, rest } => Ok(self.input.offset % modulo == rest),
            Cond::Plugin(plugin) => self.fates.predicate(plugin, self.input.number),
        }
    }

    /// What a failure of this kind comes to; none where it stops the flow.
    fn failed(&mut self, kind: ErrorKind, row: &Row) -> Option<Vec<Need>> {
        let route = self.flow.routes[kind.index()].as_ref().or(self.flow.default_route.as_ref());
        match route {
            Some(route) if row.route.is_none() => {
                Some(self.process(
                    route,
                    Row { payload: Payload::Envelope(kind), route: Some(kind), ordered: false },
                ))
            }
            _ if kind == ErrorKind::Delivery => None,
            _ => Some(Vec::new()),
        }
    }
}

/// Draws flows.
pub(super) struct Draw<'a> {
    pub dice: &'a mut Rng,
    pub outputs: usize,
    /// Nodes may wait.
    pub waits: bool,
    pub flow: Flow,
}

impl Draw<'_> {
    /// A flow that writes to so many outputs.
    pub(super) fn flow(dice: &mut Rng, outputs: usize) -> Flow {
        let flow = Flow {
            process: Process::default(),
            routes: Default::default(),
            default_route: None,
            steps: 0,
            predicates: 0,
            sinks: 0,
            terminals: 0,
            waits: false,
        };
        let waits = dice.f64() < 0.4;
        let mut draw = Draw { dice, outputs, waits, flow };
        let process = draw.process(3, false, false);
        for kind in ErrorKind::ALL {
            if draw.dice.f64() < 0.3 {
                draw.flow.routes[kind.index()] = Some(draw.process(1, true, true));
            }
        }
        if draw.dice.f64() < 0.5 {
            draw.flow.default_route = Some(draw.process(1, true, true));
        }
        Flow { process, ..draw.flow }
    }

    /// `open`: it may end without a terminal.
    fn process(&mut self, depth: usize, route: bool, open: bool) -> Process {
        let count = [0, 0, 1, 1, 2, 3][self.dice.usize(..6)];
        let nodes = (0..count).map(|_| self.node(route)).collect();
        Process { nodes, end: self.end(depth, route, open) }
    }

    fn node(&mut self, route: bool) -> Node {
        match self.dice.usize(..10) {
            0..6 => {
                let step = self.step();
                let waits = (self.waits && self.dice.f64() < 0.4).then(|| {
                    let concurrency = self.dice.usize(1..5);
                    Waits { concurrency, ordered: self.dice.f64() < 0.7 }
                });
                self.flow.waits |= waits.is_some();
                Node::Step { step, waits }
            }
            6..8 if !route => Node::Map,
            _ => Node::Filter(self.cond()),
        }
    }

    /// Now and then a plugin that another node has too.
    fn step(&mut self) -> usize {
        if self.flow.steps > 0 && (self.flow.steps == 8 || self.dice.f64() < 0.2) {
            return self.dice.usize(..self.flow.steps);
        }
        self.flow.steps += 1;
        self.flow.steps - 1
    }

    fn cond(&mut self) -> Cond {
        if self.dice.bool() {
            self.flow.predicates += 1;
            return Cond::Plugin(self.flow.predicates - 1);
        }
        let modulo = self.dice.i64(2..4);
        Cond::Offset { modulo, rest: self.dice.i64(0..modulo) }
    }

    fn end(&mut self, depth: usize, route: bool, open: bool) -> End {
        let nested = depth > 0 && self.dice.f64() < 0.5;
        if !nested {
            self.flow.terminals += 1;
            let terminal = self.flow.terminals - 1;
            return match self.dice.usize(..20) {
                0..12 => End::Topic {
                    output: self.dice.usize(..self.outputs),
                    keyed: self.dice.f64() < 0.3,
                    now: self.dice.f64() < 0.2,
                    terminal,
                },
                12..18 if self.flow.sinks < 4 => {
                    self.flow.sinks += 1;
                    let flush = Flush {
                        records: [1, 2, 5, 1000][self.dice.usize(..4)],
                        interval_ms: [1, 50, 1000, 10_000][self.dice.usize(..4)],
                    };
                    End::Sink { sink: self.flow.sinks - 1, flush, terminal }
                }
                18 if open => End::Open,
                _ => End::Drain,
            };
        }
        match self.dice.usize(..3) {
            0 => {
                let branches = (0..self.dice.usize(1..3))
                    .map(|_| (self.cond(), self.process(depth - 1, route, false)))
                    .collect();
                End::When { branches, default: Box::new(self.process(depth - 1, route, false)) }
            }
            1 => {
                let branches = self.branches(depth, route, false);
                let modulo = branches.len() as i64 + 1;
                End::By { modulo, branches, default: Box::new(self.process(depth - 1, route, false)) }
            }
            _ => End::Broadcast(self.branches(depth, route, true)),
        }
    }

    fn branches(&mut self, depth: usize, route: bool, open: bool) -> Vec<Process> {
        (0..self.dice.usize(1..4)).map(|_| self.process(depth - 1, route, open)).collect()
    }
}

impl Flow {
    /// The `process` and `errors` sections in YAML.
    pub(super) fn yaml(&self) -> String {
        let mut text = "process: ".to_owned();
        self.process.yaml(&mut text);
        text.push('\n');
        let routes = ErrorKind::ALL.into_iter().zip(&self.routes);
        let routes = routes.filter_map(|(kind, route)| Some((kind.name(), route.as_ref()?)));
        let routes: Vec<_> =
            routes.chain(self.default_route.iter().map(|route| ("default", route))).collect();
        if !routes.is_empty() {
            text.push_str("errors:\n");
        }
        for (kind, route) in routes {
            let _ = write!(text, "  {kind}: ");
            route.yaml(&mut text);
            text.push('\n');
        }
        text
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

impl Process {
    fn yaml(&self, text: &mut String) {
        let mut nodes: Vec<String> = self
            .nodes
            .iter()
            .map(|node| match node {
                Node::Step { step, waits: None } => format!("{{ step: s{step} }}"),
                Node::Step { step, waits: Some(Waits { concurrency, ordered }) } => {
                    format!("{{ step: s{step}, concurrency: {concurrency}, ordered: {ordered} }}")
                }
                Node::Map => "{ map: \"{'n': payload.n, 'v': payload.v + '_'}\" }".to_owned(),
                Node::Filter(cond) => format!("{{ filter: {} }}", cond.yaml()),
            })
            .collect();
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
            End::Topic { output, keyed, now, .. } => {
                let key = if *keyed { ", key: \"string(msg.offset % 5)\"" } else { "" };
                let now = if *now { ", timestamp: now" } else { "" };
                format!("{{ into_topic: out{output}{key}{now} }}")
            }
            End::Sink { sink, flush: Flush { records, interval_ms }, .. } => format!(
                "{{ into_sink: k{sink}, flush: {{ records: {records}, interval: {interval_ms}ms }} }}"
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
