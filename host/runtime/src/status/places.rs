//! Where the rows of the oldest unresolved records are, and what would release them.
//!
//! Every place that holds rows is looked through once, whatever the number of partitions: lanes of plugins and sinks,
//! sinks' queues and tables, outputs' queues, and what clients have sent.

use std::collections::BTreeMap;

use loom_delivery::{Accounts, Token, Tracker};
use loom_plugin::{Breaker, Permit};
use loom_types::{Moment, PartitionId, RecordOffset};

use super::document::{Oldest, Place, Release};
use super::merge::millis;
use super::part::plugin;
use crate::late::{Lane, Late, Stand};
use crate::nodes::{Flow, Node, Op, PluginNode, WaitingNode};
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
    places: Places,
}

impl Places {
    /// Looks through a flow.
    pub(super) fn of(flow: &Flow, now: Moment) -> Places {
        let accounts = &flow.shared.accounts;
        let oldest: Vec<_> = accounts.partitions().map(|(_, tracker)| tracker.oldest()).collect();
        let mut search = Search { accounts, oldest, places: Places::default() };
        if search.oldest.iter().all(Option::is_none) {
            return search.places;
        }
        for node in &flow.nodes {
            match &node.op {
                Op::Plugin(inner) => search.plugin(node, inner, now),
                Op::Waiting(inner) => {
                    for (row, _, stand) in inner.rows() {
                        let answer = row.answer.as_deref().filter(|_| stand != Stand::Answered);
                        search.row(node, row, answer, of_stand(inner, stand, now));
                    }
                }
                Op::Sink(inner) => inner.sink.each_row(now, |row, release| {
                    let answer = row.answer.as_deref().or(inner.sink.answer());
                    search.row(node, row, answer, release);
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
    fn is_wanted(&self, token: &Token) -> bool {
        let oldest = self.oldest[token.partition().index()];
        oldest.is_some() && self.accounts.offset(token) == oldest
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

    fn row(&mut self, node: &Node, row: &Row, answer: Option<&str>, release: Release) {
        if self.is_wanted(&row.token) {
            let place = Place {
                node: node.path.to_string(),
                plugin: plugin(&node.op),
                attempt: row.attempts,
                rows: 1,
                answer: answer.map(str::to_owned),
                release,
            };
            self.add(row.partition(), place);
        }
    }

    fn sent(&mut self, topic: &str, token: &Token, answer: Option<&str>, release: Release) {
        if self.is_wanted(token) {
            let place = Place {
                node: topic.to_owned(),
                plugin: None,
                attempt: 1,
                rows: 1,
                answer: answer.map(str::to_owned),
                release,
            };
            self.add(token.partition(), place);
        }
    }

    fn plugin(&mut self, node: &Node, inner: &PluginNode, now: Moment) {
        for lane in inner.lanes.iter() {
            for (index, late) in lane.rows.iter().enumerate() {
                let release = released(inner, lane, index, late, now);
                let row = late.row();
                self.row(node, row, row.answer.as_deref(), release);
            }
        }
    }
}

/// What releases a row at a node whose calls overlap.
fn of_stand(node: &WaitingNode, stand: Stand, now: Moment) -> Release {
    match stand {
        Stand::Called { until } => Release::Answer { in_ms: millis(until.since(now)) },
        _ if node.breaker().is_open() => Release::Probe { in_ms: until_probe(node.breaker(), now) },
        Stand::Fresh if node.is_full() => Release::Call { under_way: node.in_flight() as u64 },
        Stand::Waits { due: Some(due) } if due <= now && node.is_full() => {
            Release::Call { under_way: node.in_flight() as u64 }
        }
        Stand::Waits { due: Some(due) } => Release::Retry { in_ms: millis(due.since(now)) },
        Stand::Fresh | Stand::Waits { due: None } | Stand::Answered => {
            Release::Turn { in_ms: node.next_due().map_or(0, |due| millis(due.since(now))) }
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

/// What releases a row of a lane.
fn released(node: &PluginNode, lane: &Lane, index: usize, late: &Late, now: Moment) -> Release {
    if node.breaker.is_open() {
        return Release::Probe { in_ms: until_probe(&node.breaker, now) };
    }
    let in_ms = millis(lane.due.since(now));
    match late {
        Late::Again(_) if index == 0 => Release::Retry { in_ms },
        Late::Again(_) | Late::Done { .. } => Release::Turn { in_ms },
    }
}
