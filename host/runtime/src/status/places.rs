//! Where the rows of the oldest unresolved records are, and what would release them.
//!
//! Every place that holds rows is looked through once, whatever the number of partitions: nodes' windows, routers, sinks' lanes,
//! sinks' queues and tables, outputs' queues, and what clients have sent.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use loom_delivery::{Accounts, Token, Tracker};
use loom_plugin::{Breaker, Permit};
use loom_types::{Moment, PartitionId, RecordOffset};

use super::document::{Oldest, Place, Release};
use super::merge::millis;
use super::part::plugin;
use crate::late::Stand;
use crate::nodes::{Flow, Node, Op};
use crate::rows::Row;

/// Places of the oldest record of each partition, by node and what is waited for.
#[derive(Default)]
pub(super) struct Places {
    found: BTreeMap<PartitionId, Vec<Place>>,
}

/// What is looked for: each partition's oldest unresolved record.
struct Search<'a> {
    accounts: &'a Accounts,
    oldest: Vec<Option<RecordOffset>>,
    /// By group: the partitions whose oldest record is among those that the group stands for.
    groups: HashMap<u64, Arc<[PartitionId]>>,
    places: Places,
}

impl Places {
    /// Looks through a flow.
    pub(super) fn of(flow: &Flow, now: Moment) -> Places {
        let accounts = &flow.shared.accounts;
        let oldest: Vec<_> = accounts.partitions().map(|(_, tracker)| tracker.oldest()).collect();
        let mut search = Search { accounts, oldest, groups: HashMap::new(), places: Places::default() };
        if search.oldest.iter().all(Option::is_none) {
            return search.places;
        }
        let room = flow.shared.room();
        for node in &flow.nodes {
            match &node.op {
                Op::Plugin(inner) => {
                    search.rows(node, inner.rows(), &inner.breaker, inner.next_due(room), None, now);
                }
                Op::Waiting(inner) => {
                    let full = inner.is_full().then(|| inner.in_flight() as u64);
                    search.rows(node, inner.rows(), inner.breaker(), inner.next_due(room), full, now);
                }
                Op::Join(inner) => {
                    let due = flow.due_inside(inner);
                    let release = Release::Turn { in_ms: due.map_or(0, |due| millis(due.since(now))) };
                    inner.rows().for_each(|row| search.row(node, row, None, release.clone()));
                }
                Op::Batch(inner) => {
                    let full = (inner.is_full() && !inner.is_direct()).then(|| inner.in_flight() as u64);
                    search.rows(node, inner.rows(), inner.breaker(), inner.next_due(room), full, now);
                }
                Op::Collect(inner) => {
                    for (window, leaves) in inner.windows() {
                        let in_ms = leaves.map(|at| millis(at.since(now)));
                        for token in window.tokens() {
                            search.token(
                                (&node.path, node.name.as_deref()),
                                token,
                                0,
                                None,
                                Release::Batch { in_ms },
                            );
                        }
                    }
                }
                Op::Sink(inner) => inner.sink.each_row(now, |row, attempt, release| {
                    let answer = row.answer.as_deref().or(inner.sink.answer());
                    search.attempt(node, row, attempt, answer, release);
                }),
                _ => {}
            }
        }
        let topic = |output: loom_flow::plan::OutputId| flow.shared.plan.outputs[output.0].topic.clone();
        flow.outputs.each_pending(|output, token, what, answer| {
            let release = what.map_or(Release::Room, |what| Release::Output { what: what.to_owned() });
            search.sent(&topic(output), token, answer, release);
        });
        flow.outputs.each_in_flight(|output, token, answer| {
            search.sent(&topic(output), token, answer, Release::Acknowledgement);
        });
        search.places
    }

    /// The partition's oldest record, with what was found of it.
    pub(super) fn oldest(&mut self, id: PartitionId, tracker: &Tracker, now: Moment) -> Option<Oldest> {
        let offset = tracker.oldest()?;
        let since = tracker.oldest_since()?;
        let places = self.found.remove(&id).unwrap_or_default();
        Some(Oldest { offset: offset.0, age_ms: millis(now.since(since)), places })
    }
}

impl Search<'_> {
    /// The partitions whose oldest record a row stands for: its own, if any; of a row that stands for several records, each.
    fn wanted_by(&mut self, token: &Token) -> impl Iterator<Item = PartitionId> + use<> {
        let group = self.accounts.group_number(token);
        let own = || {
            let oldest = self.oldest[token.partition().index()];
            oldest.is_some() && self.accounts.offset(token) == oldest
        };
        let own = (group.is_none() && own()).then_some(token.partition());
        let grouped = group.map(|group| self.of_group(group, token));
        let grouped = grouped.into_iter().flat_map(|found| (0..found.len()).map(move |at| found[at]));
        own.into_iter().chain(grouped)
    }

    fn of_group(&mut self, group: u64, token: &Token) -> Arc<[PartitionId]> {
        if let Some(known) = self.groups.get(&group) {
            return known.clone();
        }
        let mut found = Vec::new();
        self.accounts.each_record(token, |partition, offset| {
            if self.oldest[partition.index()] == Some(offset) && !found.contains(&partition) {
                found.push(partition);
            }
        });
        let found: Arc<[PartitionId]> = found.into();
        self.groups.insert(group, found.clone());
        found
    }

    fn add(&mut self, partition: PartitionId, place: Place) {
        let places = self.places.found.entry(partition).or_default();
        let same = places.iter_mut().find(|other| {
            other.node == place.node && other.attempt == place.attempt && other.release == place.release
        });
        match same {
            Some(same) => same.rows += 1,
            None => places.push(place),
        }
    }

    fn rows<'r>(
        &mut self,
        node: &Node,
        rows: impl Iterator<Item = (&'r Row, Moment, Stand)>,
        breaker: &Breaker,
        next: Option<Moment>,
        full: Option<u64>,
        now: Moment,
    ) {
        for (row, _, stand) in rows {
            // What was said of a row that is through by now is no reason any more.
            let answer = row.answer.as_deref().filter(|_| stand != Stand::Answered);
            self.row(node, row, answer, of_stand(breaker, next, full, stand, now));
        }
    }

    fn row(&mut self, node: &Node, row: &Row, answer: Option<&str>, release: Release) {
        self.attempt(node, row, row.attempts, answer, release);
    }

    fn attempt(&mut self, node: &Node, row: &Row, attempt: u32, answer: Option<&str>, release: Release) {
        for partition in self.wanted_by(&row.token) {
            let place = Place {
                node: node.path.to_string(),
                name: node.name.as_deref().map(str::to_owned),
                plugin: plugin(&node.op),
                attempt,
                rows: 1,
                answer: answer.map(str::to_owned),
                release: release.clone(),
            };
            self.add(partition, place);
        }
    }

    fn sent(&mut self, topic: &str, token: &Token, answer: Option<&str>, release: Release) {
        self.token((topic, None), token, 1, answer, release);
    }

    /// A row at a place that has no plugin.
    fn token(
        &mut self,
        (node, name): (&str, Option<&str>),
        token: &Token,
        attempt: u32,
        answer: Option<&str>,
        release: Release,
    ) {
        for partition in self.wanted_by(token) {
            let place = Place {
                node: node.to_owned(),
                name: name.map(str::to_owned),
                plugin: None,
                attempt,
                rows: 1,
                answer: answer.map(str::to_owned),
                release: release.clone(),
            };
            self.add(partition, place);
        }
    }
}

/// What releases a row at a node that calls next at this moment. `full`: the calls under way, where they are as many as it may
/// have.
fn of_stand(
    breaker: &Breaker,
    next: Option<Moment>,
    full: Option<u64>,
    stand: Stand,
    now: Moment,
) -> Release {
    match (stand, full) {
        (Stand::Called { until }, _) => Release::Answer { in_ms: millis(until.since(now)) },
        _ if breaker.is_open() => Release::Probe { in_ms: until_probe(breaker, now) },
        (Stand::Fresh, Some(under_way)) => Release::Call { under_way },
        (Stand::Waits { due: Some(due) }, Some(under_way)) if due <= now => Release::Call { under_way },
        (Stand::Waits { due: Some(due) }, _) => Release::Retry { in_ms: millis(due.since(now)) },
        (Stand::Fresh | Stand::Waits { due: None } | Stand::Answered, _) => {
            Release::Turn { in_ms: next.map_or(0, |due| millis(due.since(now))) }
        }
    }
}

/// When an open breaker lets the next row through.
pub(super) fn until_probe(breaker: &Breaker, now: Moment) -> u64 {
    match breaker.permit(now) {
        Permit::Wait { until } => millis(until.since(now)),
        Permit::Probe | Permit::Rows { .. } => 0,
    }
}
