//! The group's offsets, committed without membership.
//!
//! What the group has is looked at before each guarded commit, which is a question that blocks, so that all of it is done on a
//! thread of its own: a request goes there, and its answer comes back and wakes. The commit follows the look at once,
//! however long the worker is in a call of a plugin.
//!
//! Invariant: a request is answered at most once, with an error for each partition inside the answer. The tag of a list's
//! entry is its place in the request, since librdkafka sorts lists.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loom_delivery::ANSWER_WITHIN;
use loom_delivery::readback::Stored;
use loom_types::CommitOffset;

use super::classify::{configuration, error, group_kind};
use super::name;
use super::raw::{self, Client, Code, Event, EventKind, List, Name, Queue};
use crate::contract::{CommitAnswer, CommitEntry, OffsetStore, RequestId, Waker};
use crate::error::{KafkaError, moved};
use crate::facts::Assigned;

/// How long a look at what the group has may take.
const LOOK: Duration = Duration::from_secs(5);

/// Between two looks at whether anybody still waits for an answer.
const SLICE: Duration = Duration::from_millis(100);

/// How long the end waits for the thread.
const RELEASE: Duration = Duration::from_secs(1);

/// Commits for one reader's partitions.
pub(super) struct Commits {
    last: u64,
    partitions: usize,
    shared: Arc<Shared>,
    /// None at the end.
    requests: Option<Sender<(RequestId, Vec<CommitEntry>)>>,
    ended: Receiver<()>,
}

/// What the thread and the worker share.
struct Shared {
    answers: Mutex<Vec<CommitAnswer>>,
    waker: Waker,
    closed: AtomicBool,
}

impl Shared {
    fn answer(&self, answer: CommitAnswer) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(answer);
        (self.waker)();
    }

    /// Nobody waits for answers any more.
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
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
        let shared = Arc::new(Shared {
            answers: Mutex::default(),
            waker: waker.clone(),
            closed: AtomicBool::new(false),
        });
        let (requests, to_do) = channel();
        let (alive, ended) = channel();
        let (count, told) = (partitions.len(), shared.clone());
        let committer =
            Committer { group: group.to_owned(), partitions, shared: told, replies: Queue::new(client) };
        std::thread::Builder::new()
            .name("kafka-commits".into())
            .spawn(move || {
                committer.run(&to_do);
                drop(committer);
                drop::<Sender<()>>(alive);
            })
            .map_err(|error| configuration(format!("the thread that commits cannot be started: {error}")))?;
        Ok(Commits { last: 0, partitions: count, shared, requests: Some(requests), ended })
    }
}

impl OffsetStore for Commits {
    fn commit(&mut self, entries: &[CommitEntry]) -> Result<RequestId, KafkaError> {
        let request = RequestId(self.last + 1);
        if let Some(entry) = entries.iter().find(|entry| entry.partition.index() >= self.partitions) {
            return Err(configuration(format!(
                "partition number {} is not this reader's",
                entry.partition.0
            )));
        }
        if entries.is_empty() {
            self.shared.answer(CommitAnswer { request, results: Vec::new() });
            self.last = request.0;
            return Ok(request);
        }
        let requests =
            self.requests.as_ref().filter(|requests| requests.send((request, entries.to_vec())).is_ok());
        requests.ok_or_else(|| configuration("the thread that commits has ended".to_owned()))?;
        self.last = request.0;
        Ok(request)
    }

    fn answers(&mut self, out: &mut Vec<CommitAnswer>) {
        out.append(&mut self.shared.answers.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        self.requests = None;
        // The thread holds the client.
        if self.ended.recv_timeout(RELEASE) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!(target: "kafka", "a broker does not answer about the group's offsets; not waited for");
        }
    }
}

/// The thread's own.
struct Committer {
    group: String,
    partitions: Vec<(Name, Assigned)>,
    shared: Arc<Shared>,
    replies: Queue,
}

type Outcome = Result<(), KafkaError>;

impl Committer {
    fn run(&self, requests: &Receiver<(RequestId, Vec<CommitEntry>)>) {
        while let Ok((request, entries)) = requests.recv() {
            let Some(results) = self.request(request, &entries) else { continue };
            let results = entries.iter().map(|entry| entry.partition).zip(results).collect();
            self.shared.answer(CommitAnswer { request, results });
        }
    }

    /// Looks and commits; what came of each entry. None where no answer came.
    fn request(&self, request: RequestId, entries: &[CommitEntry]) -> Option<Vec<Outcome>> {
        let mut results = match self.look(entries) {
            Ok(results) => results,
            Err(error) => return Some(vec![Err(error); entries.len()]),
        };
        if self.shared.is_closed() {
            return None;
        }
        let open: Vec<usize> = (0..entries.len()).filter(|place| results[*place].is_ok()).collect();
        if open.is_empty() {
            return Some(results);
        }
        let mut list = List::new(open.len());
        for (tag, place) in open.iter().enumerate() {
            let entry = &entries[*place];
            let (name, assigned) = self.partition(entry);
            let number = assigned.partition.partition;
            list.push_with(name, number, entry.offset.0, tag, &entry.metadata, entry.leader_epoch);
        }
        let codes = match self.replies.client().commit(&list, &self.replies, request.0) {
            Ok(()) => self.answer(request, open.len())?,
            Err(code) => vec![code; open.len()],
        };
        for (place, code) in open.into_iter().zip(codes) {
            results[place] = self.outcome(&entries[place], code);
        }
        Some(results)
    }

    /// Looks at what the group has where an entry has a guard: an error where somebody else set it.
    fn look(&self, entries: &[CommitEntry]) -> Result<Vec<Outcome>, KafkaError> {
        let mut results: Vec<Outcome> = vec![Ok(()); entries.len()];
        let guarded: Vec<_> =
            entries.iter().enumerate().filter_map(|(at, entry)| Some((at, entry.guard.as_ref()?))).collect();
        if guarded.is_empty() {
            return Ok(results);
        }
        let mut list = List::new(guarded.len());
        for (tag, (place, _)) in guarded.iter().enumerate() {
            let (name, assigned) = self.partition(&entries[*place]);
            list.push(name, assigned.partition.partition, -1, tag);
        }
        raw::committed(self.replies.client(), &mut list, LOOK).map_err(|code| {
            error(group_kind(code), code, "looking at the group's offsets before they are committed")
        })?;
        for found in list.iter() {
            let Some((place, guard)) = guarded.get(found.tag) else { continue };
            results[*place] = if found.code.is_error() {
                self.outcome(&entries[*place], found.code)
            } else if found.offset < 0 {
                Ok(())
            } else {
                let metadata = String::from_utf8_lossy(found.metadata).into_owned();
                let seen = Stored { offset: CommitOffset(found.offset), metadata };
                let partition = &self.partition(&entries[*place]).1.partition;
                if guard.lets(Some(&seen)) { Ok(()) } else { Err(moved(partition, guard, seen.offset)) }
            };
        }
        Ok(results)
    }

    /// The codes of a request's answer, as long as somebody waits for it.
    fn answer(&self, request: RequestId, asked: usize) -> Option<Vec<Code>> {
        let began = Instant::now();
        while began.elapsed() < ANSWER_WITHIN && !self.shared.is_closed() {
            let Some(event) = self.replies.poll(SLICE) else { continue };
            // The answer to one that was given up says nothing of this one.
            if event.kind() == EventKind::Committed && event.request() == request.0 {
                return Some(codes(&event, asked));
            }
        }
        None
    }

    fn partition(&self, entry: &CommitEntry) -> &(Name, Assigned) {
        &self.partitions[entry.partition.index()]
    }

    fn outcome(&self, entry: &CommitEntry, code: Code) -> Outcome {
        if !code.is_error() {
            return Ok(());
        }
        let partition = &self.partition(entry).1.partition;
        let failed = error(group_kind(code), code, format!("committing the offset of {partition}"));
        Err(failed.naming_right("Read", &partition.topic, &self.group))
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
