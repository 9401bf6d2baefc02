//! Random flows.

use fastrand::Rng;
use loom_types::ErrorKind;

use super::Focus;
use super::flow::{Cond, End, Flow, Flush, Node, Own, Process, Waits, What};

/// Draws flows.
pub(super) struct Draw<'a> {
    pub dice: &'a mut Rng,
    pub outputs: usize,
    pub focus: Focus,
    /// Nodes may wait.
    pub waits: bool,
    pub flow: Flow,
}

impl Draw<'_> {
    /// A flow that writes to so many outputs.
    pub(super) fn flow(dice: &mut Rng, outputs: usize, focus: Focus) -> Flow {
        let flow = Flow {
            process: Process::default(),
            routes: Default::default(),
            default_route: None,
            steps: 0,
            predicates: 0,
            sinks: 0,
            terminals: 0,
            waits: false,
            expanders: 0,
            remote: Vec::new(),
            counted: Vec::new(),
            stops: dice.f64() < 0.05,
        };
        let waits = dice.f64() < 0.4;
        let mut draw = Draw { dice, outputs, waits, focus, flow };
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
        if self.focus == Focus::Routers && self.dice.f64() < 0.5 {
            return self.router(route);
        }
        self.plain_node(route)
    }

    /// A node that may stand in a router.
    fn plain_node(&mut self, route: bool) -> Node {
        let expands = self.focus == Focus::Expanders && self.flow.expanders < 3 && self.dice.f64() < 0.4;
        let what = match self.dice.usize(..10) {
            _ if expands => self.expander(),
            0..6 => self.step(route),
            6..8 if !route => What::Map,
            _ => What::Filter(self.cond()),
        };
        Node { what, errors: self.own(route) }
    }

    fn router(&mut self, route: bool) -> Node {
        let branch = |draw: &mut Self| -> Vec<Node> {
            (0..[0, 1, 1, 2][draw.dice.usize(..4)]).map(|_| draw.plain_node(route)).collect()
        };
        let branches = (0..self.dice.usize(1..3)).map(|_| (self.cond(), branch(self))).collect();
        let default = (self.dice.f64() < 0.8).then(|| branch(self));
        Node { what: What::Router { branches, default }, errors: None }
    }

    /// A node's own route; inside of routes none counts.
    fn own(&mut self, route: bool) -> Option<Own> {
        if route || self.dice.f64() > 0.12 {
            return None;
        }
        let kinds = [ErrorKind::Wire, ErrorKind::Task, ErrorKind::Business, ErrorKind::Delivery];
        let kind = (self.dice.f64() < 0.6).then(|| kinds[self.dice.usize(..kinds.len())]);
        Some(Own { kind, route: Box::new(self.process(0, true, true)) })
    }

    fn expander(&mut self) -> What {
        let waits = self.waits();
        self.flow.expanders += 1;
        self.flow.steps += 1;
        What::Expand { step: self.flow.steps - 1, waits }
    }

    fn waits(&mut self) -> Option<Waits> {
        let waits = (self.waits && self.dice.f64() < 0.4).then(|| {
            let concurrency = self.dice.usize(1..5);
            Waits { concurrency, ordered: self.dice.f64() < 0.7 }
        });
        self.flow.waits |= waits.is_some();
        waits
    }

    /// Now and then a plugin that another node has too; never one whose retries are counted.
    fn step(&mut self, route: bool) -> What {
        let waits = self.waits();
        let full = self.flow.steps >= 8;
        if full || self.flow.steps > 0 && self.dice.f64() < 0.2 {
            let step = self.dice.usize(..self.flow.steps);
            if self.flow.counted.iter().all(|(counted, _)| *counted != step) {
                return What::Step { step, waits, retries: None };
            }
            if full {
                return What::Filter(Cond::Offset { modulo: 2, rest: 0 });
            }
        }
        self.flow.steps += 1;
        let step = self.flow.steps - 1;
        // Rows of one record share the count of their attempts.
        let counts = !route && self.focus != Focus::Expanders;
        let retries = (counts && self.dice.f64() < 0.1).then(|| self.dice.u32(0..4));
        self.flow.counted.extend(retries.map(|retries| (step, retries)));
        What::Step { step, waits, retries }
    }

    fn cond(&mut self) -> Cond {
        if self.dice.bool() {
            let predicate = self.flow.predicates;
            self.flow.predicates += 1;
            if self.waits && self.dice.f64() < 0.3 {
                self.flow.waits = true;
                self.flow.remote.push(predicate);
            }
            return Cond::Plugin(predicate);
        }
        let modulo = self.dice.i64(2..4);
        Cond::Offset { modulo, rest: self.dice.i64(0..modulo) }
    }

    fn end(&mut self, depth: usize, route: bool, open: bool) -> End {
        let nested = depth > 0 && self.dice.f64() < 0.5;
        if !nested {
            self.flow.terminals += 1;
            let terminal = self.flow.terminals - 1;
            let (output, other) = (self.dice.usize(..self.outputs), self.dice.usize(..self.outputs));
            return match self.dice.usize(..20) {
                0..12 => End::Topic {
                    output,
                    keyed: self.dice.f64() < 0.3,
                    now: self.dice.f64() < 0.2,
                    terminal,
                    dlq: (other != output && self.dice.f64() < 0.3).then_some(other),
                    errors: self.own(route),
                },
                12..18 if self.flow.sinks < 4 => {
                    self.flow.sinks += 1;
                    let late = self.focus == Focus::TightBounds;
                    // Only a bound that is reached makes it earlier.
                    let flush = if late {
                        Flush { records: 1000, interval_ms: 600_000 }
                    } else {
                        Flush {
                            records: [1, 2, 5, 1000][self.dice.usize(..4)],
                            interval_ms: [1, 50, 1000, 10_000][self.dice.usize(..4)],
                        }
                    };
                    let sink = self.flow.sinks - 1;
                    End::Sink { sink, flush, terminal, errors: self.own(route) }
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
