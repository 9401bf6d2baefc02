//! Commit requests on their way: applied later, answered later, or both, whatever becomes of who sent them.

use loom_types::{Moment, PartitionId};

use super::faults::{Call, CommitFault};
use super::offsets::not_answered;
use super::state::State;
use crate::contract::{CommitAnswer, RequestId};
use crate::error::KafkaError;
use crate::facts::GroupEntry;

#[derive(Debug)]
pub(super) struct LateCommit {
    pub call: Call,
    pub group: String,
    pub entries: Vec<GroupEntry>,
    /// When it arrives at the coordinator; none when it did, or never does.
    pub arrives: Option<Moment>,
    /// When its answer comes, and whose it is.
    pub answered: Option<(Moment, Asker)>,
    pub results: Vec<Result<(), KafkaError>>,
}

/// A request of a reader.
#[derive(Clone, Debug)]
pub(super) struct Asker {
    pub reader: usize,
    pub request: RequestId,
    pub partitions: Vec<PartitionId>,
}

impl LateCommit {
    pub fn due(&self) -> Option<Moment> {
        self.arrives.or(self.answered.as_ref().map(|(at, _)| *at))
    }
}

impl State {
    /// Puts a request on its way, as its fault says. `asker` is who gets an answer.
    pub fn send_late(
        &mut self,
        call: Call,
        group: &str,
        entries: Vec<GroupEntry>,
        asker: Option<Asker>,
        fault: &CommitFault,
    ) {
        let now = self.now();
        let (arrives, answered) = match fault {
            CommitFault::Late { arrives, answered } => {
                (Some(now + *arrives), now + (*arrives).max(*answered))
            }
            CommitFault::Lost { answered } => (None, now + *answered),
            _ => return,
        };
        let results = entries.iter().map(|_| Err(not_answered())).collect();
        let answered = asker.map(|asker| (answered, asker));
        let group = group.to_owned();
        self.late_commits.push(LateCommit { call, group, entries, arrives, answered, results });
    }

    /// Does what is due of requests on their way.
    pub fn run_late_commits(&mut self) {
        let now = self.now();
        while !self.down {
            let due = self.late_commits.iter().enumerate().filter_map(|(at, late)| Some((late.due()?, at)));
            let Some((_, at)) = due.min().filter(|(due, _)| *due <= now) else { break };
            let mut late = self.late_commits.remove(at);
            if late.arrives.take().is_some() {
                late.results = self.set_offsets(late.call, &late.group, &late.entries, None);
                self.late_commits.insert(at, late);
            } else if let Some((_, asker)) = late.answered {
                let Some(reader) = self.readers[asker.reader].as_mut() else { continue };
                let results = asker.partitions.into_iter().zip(late.results).collect();
                reader.answers.push(CommitAnswer { request: asker.request, results });
                (reader.waker)();
            }
        }
        self.late_commits.retain(|late| late.due().is_some());
    }
}
