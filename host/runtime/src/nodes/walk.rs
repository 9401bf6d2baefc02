//! The walk: rows go depth first from a target to where they end or wait.

use loom_delivery::Token;
use loom_types::{Ending, ErrorKind, Moment};

use super::{Flow, NodeId, Op, Shared, Target};
use crate::rows::{FailedRow, RowSet, ending};

impl Flow {
    /// Takes rows from a target on, as far as they go now.
    pub(crate) fn run(&mut self, target: Target, from: NodeId, rows: RowSet) {
        if rows.is_empty() {
            return;
        }
        match target {
            Target::End(natural) => self.end(rows, natural),
            Target::Unmatched => {
                let failed = rows.into_rows(1).map(|row| FailedRow {
                    row,
                    kind: ErrorKind::Routing,
                    reason: "no branch matches, and there is no `default`".to_owned(),
                });
                let failed = failed.collect();
                self.failed(from, failed);
            }
            Target::NoRoute => {
                let failed = rows.into_rows(1).map(|row| {
                    let name = row.batch.type_of(row.id).map_or("", |name| name);
                    let reason =
                        format!("no route takes rows of the type `{name}`, and there is no `default`");
                    FailedRow { row, kind: ErrorKind::Routing, reason }
                });
                let failed = failed.collect();
                self.failed(from, failed);
            }
            Target::Node(id) => self.at_node(id, rows),
        }
    }

    /// When something is due at a node, whether or not anything comes.
    pub(crate) fn next_due(&self, id: NodeId) -> Option<Moment> {
        match &self.nodes[id.0].op {
            Op::Plugin(node) => node.next_due(self.shared.room()),
            Op::Waiting(node) => node.next_due(self.shared.room()),
            Op::Collect(node) => node.next_due(),
            Op::Batch(node) => node.next_due(self.shared.room()),
            Op::Sink(node) => node.next_due(),
            _ => None,
        }
    }

    /// Where rows wait or are held, with how many.
    pub(crate) fn waiting(&self) -> Vec<(String, usize)> {
        let mut places = Vec::new();
        for node in &self.nodes {
            let (what, rows) = match &node.op {
                Op::Plugin(plugin) => {
                    (format!("{} (plugin {})", node.label(), plugin.name().0), plugin.waiting())
                }
                Op::Waiting(plugin) => {
                    (format!("{} (plugin {})", node.label(), plugin.name().0), plugin.waiting())
                }
                Op::Join(join) => (format!("{} (router)", node.label()), join.waiting()),
                Op::Batch(plugin) => {
                    (format!("{} (plugin {})", node.label(), plugin.name().0), plugin.waiting())
                }
                Op::Collect(collect) => (format!("{} (a batch)", node.label()), collect.waiting()),
                Op::Sink(sink) => (
                    format!("{} (sink {})", node.label(), sink.name().0),
                    sink.sink.waiting() + sink.sink.open(),
                ),
                _ => continue,
            };
            if rows > 0 {
                places.push((what, rows));
            }
        }
        places.extend(self.outputs.waiting());
        let sent = self.outputs.in_flight();
        if sent > 0 {
            places.push(("Kafka outputs, sent and not acknowledged".to_owned(), sent));
        }
        places
    }

    /// Hands rows that wait at outputs to the clients. What a topic does not take goes its way at once, which may bring
    /// more to send; a row comes to this at most three times, with its first choice, its `dlq` and an error route.
    pub(crate) fn send_outputs(&mut self) {
        let mut refused = Vec::new();
        loop {
            let Shared { now, wall_ms, random, accounts, .. } = &self.shared;
            self.outputs.send((*now, *wall_ms), *random, accounts, &mut refused);
            if refused.is_empty() {
                return;
            }
            self.refused(std::mem::take(&mut refused));
        }
    }

    /// Ends rows that need nothing more.
    pub(super) fn end(&mut self, rows: RowSet, natural: Ending) {
        let ending = ending(rows.route, natural);
        for token in rows.tokens {
            self.shared.accounts.redeem(token, ending);
        }
    }

    fn at_node(&mut self, id: NodeId, rows: RowSet) {
        self.nodes[id.0].rows += rows.len() as u64;
        match &self.nodes[id.0].op {
            Op::Plugin(_) => self.arrive(id, rows),
            Op::Waiting(_) => self.waiting_arrive(id, rows),
            Op::Collect(_) => self.collect_arrive(id, rows),
            Op::Batch(_) => self.batch_arrive(id, rows),
            Op::Sink(_) => self.sink_arrive(id, rows),
            Op::Map { .. } => self.map(id, rows),
            Op::Test { .. } => self.test(id, rows),
            Op::Key { .. } => self.rekey(id, rows),
            Op::Select { .. } => self.select(id, rows),
            Op::Router { .. } => self.enter(id, rows),
            Op::Join(_) => self.joins(id, rows),
            Op::Broadcast(branches) => {
                let branches = branches.clone();
                self.broadcast(id, &branches, rows);
            }
            Op::Topic { output, .. } => {
                let ending = ending(rows.route, Ending::Topic);
                self.outputs.push(*output, id, ending, rows);
            }
        }
    }

    fn broadcast(&mut self, id: NodeId, branches: &[Target], rows: RowSet) {
        let mut copies: Vec<Vec<Token>> = branches.iter().map(|_| Vec::with_capacity(rows.len())).collect();
        for token in rows.tokens {
            self.shared.accounts.split(token, branches.len(), |branch, share| copies[branch].push(share));
        }
        for (branch, tokens) in branches.iter().zip(copies) {
            let copy = RowSet { batch: rows.batch.clone(), ids: rows.ids.clone(), tokens, route: rows.route };
            self.run(*branch, id, copy);
        }
    }
}
