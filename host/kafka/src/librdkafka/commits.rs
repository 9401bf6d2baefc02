//! The group's offsets, committed without membership.
//!
//! Invariant: a request that was sent is answered once, on a queue of this store alone, with an error for each partition
//! inside the answer. The tag of a list's entry is its place in the request, since librdkafka sorts lists.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use loom_types::PartitionId;

use super::classify::{error, group_kind};
use super::name;
use super::raw::{Client, Code, Event, EventKind, List, Name, Queue};
use crate::contract::{CommitAnswer, CommitEntry, OffsetStore, RequestId, Waker};
use crate::error::KafkaError;
use crate::facts::Assigned;

/// Commits for one reader's partitions.
pub(super) struct Commits {
    last: u64,
    sent: Sent,
    /// Answers that needed no broker.
    ready: Vec<CommitAnswer>,
    waker: Waker,
    replies: Queue,
}

/// What was sent, and for whom.
struct Sent {
    group: String,
    partitions: Vec<(Name, Assigned)>,
    /// Requests without an answer, oldest first: there are seldom two.
    requests: VecDeque<(RequestId, Vec<PartitionId>)>,
}

impl Commits {
    pub(super) fn new(
        client: &Arc<Client>,
        assigned: &[Assigned],
        group: &str,
        waker: &Waker,
    ) -> Result<Commits, KafkaError> {
        let mut partitions = Vec::with_capacity(assigned.len());
        for assigned in assigned {
            partitions.push((name(&assigned.partition.topic)?, assigned.clone()));
        }
        let mut replies = Queue::new(client);
        replies.wake(waker);
        let sent = Sent { group: group.to_owned(), partitions, requests: VecDeque::new() };
        Ok(Commits { last: 0, sent, ready: Vec::new(), waker: waker.clone(), replies })
    }
}

impl Sent {
    fn answer(&mut self, event: &Event<'_>) -> Option<CommitAnswer> {
        let request = RequestId(event.request());
        let place = self.requests.iter().position(|(sent, _)| *sent == request)?;
        let (_, asked) = self.requests.remove(place)?;
        let codes = codes(event, asked.len());
        let results = asked.into_iter().zip(codes).map(|(id, code)| (id, self.result(id, code))).collect();
        Some(CommitAnswer { request, results })
    }

    fn result(&self, id: PartitionId, code: Code) -> Result<(), KafkaError> {
        if !code.is_error() {
            return Ok(());
        }
        let of = self.partitions.get(id.index()).map(|(_, assigned)| &assigned.partition);
        let name = of.map(ToString::to_string).unwrap_or_default();
        let failed = error(group_kind(code), code, format!("committing the offset of {name}"));
        Err(failed.naming_right("Read", of.map_or("", |of| &of.topic), &self.group))
    }
}

impl OffsetStore for Commits {
    fn commit(&mut self, entries: &[CommitEntry]) -> Result<RequestId, KafkaError> {
        let request = RequestId(self.last + 1);
        let asked = entries.iter().map(|entry| entry.partition).collect();
        if entries.is_empty() {
            self.ready.push(CommitAnswer { request, results: Vec::new() });
            (self.waker)();
        } else {
            let mut list = List::new(entries.len());
            for (tag, entry) in entries.iter().enumerate() {
                let (name, assigned) =
                    self.sent.partitions.get(entry.partition.index()).ok_or_else(|| unknown(entry))?;
                let number = assigned.partition.partition;
                list.push_with(name, number, entry.offset.0, tag, &entry.metadata, entry.leader_epoch);
            }
            self.replies.client().commit(&list, &self.replies, request.0).map_err(|code| {
                error(group_kind(code), code, format!("sending a commit of {} partitions", entries.len()))
            })?;
            self.sent.requests.push_back((request, asked));
        }
        self.last = request.0;
        Ok(request)
    }

    fn answers(&mut self, out: &mut Vec<CommitAnswer>) {
        out.append(&mut self.ready);
        while let Some(event) = self.replies.poll(Duration::ZERO) {
            if event.kind() == EventKind::Committed {
                out.extend(self.sent.answer(&event));
            }
        }
    }
}

/// The codes of an answer by the places in the request.
pub(super) fn codes(event: &Event<'_>, asked: usize) -> Vec<Code> {
    let mut codes = vec![Code::NONE; asked];
    for entry in event.partitions() {
        if let Some(code) = codes.get_mut(entry.tag) {
            *code = entry.code;
        }
    }
    // The event's own code repeats one partition's when some failed; alone, it is the whole request's.
    if codes.iter().all(|code| !code.is_error()) {
        codes.fill(event.code());
    }
    codes
}

fn unknown(entry: &CommitEntry) -> KafkaError {
    super::classify::configuration(format!("partition number {} is not this reader's", entry.partition.0))
}
