//! The group's offsets, read back each beat: anybody may set or delete them at any time.

use std::time::Duration;

use loom_delivery::readback::{Expected, Finding, Stored, judge};
use loom_delivery::{Mutation, mutated};
use loom_kafka::{Committed, Group};
use loom_types::TopicPartition;

use super::desk::Commits;
use super::errands::Errand;
use super::{Keeper, Note};
use crate::failure::Failure;

impl Keeper {
    /// `topics_are_known`: they were looked at since an offset was found to have vanished.
    pub(super) fn read_back(&mut self, topics_are_known: bool, timeout: Duration) {
        let names: Vec<TopicPartition> = self.parts.partitions.iter().map(|kept| kept.name.clone()).collect();
        if names.is_empty() {
            return;
        }
        // Before the question: a commit that is acknowledged meanwhile cannot seem to be lost.
        let expected: Vec<Expected> = self
            .parts
            .partitions
            .iter()
            .map(|kept| Expected {
                initial: kept.initial.clone(),
                predecessor: self.parts.predecessor,
                acknowledged: self.parts.desks[kept.worker].acknowledged(kept.id),
            })
            .collect();
        let answers = match self.parts.broker.committed(Group::Input, &names, timeout) {
            Ok(answers) => answers,
            Err(error) => {
                tracing::debug!(reason = %error, "the group's offsets could not be read back; the next beat tries again");
                return;
            }
        };
        if self.parts.gate.get() == Commits::Shut {
            // A worker has seen it meanwhile, and said so.
            return;
        }
        let mut findings = Vec::new();
        for ((at, expected), answer) in expected.iter().enumerate().zip(answers) {
            let Ok(seen) = answer else { continue };
            let seen = seen.map(|Committed { offset, metadata, .. }| Stored { offset, metadata });
            findings.push((at, judge(self.parts.run, expected, seen.as_ref()), seen));
        }
        let foreign: Vec<String> = findings
            .iter()
            .filter(|(_, finding, _)| *finding == Finding::Foreign)
            .filter_map(|(at, _, seen)| {
                let told = expected[*at].told(seen.as_ref()?.offset);
                Some(format!("{} {told}", self.parts.partitions[*at].name))
            })
            .collect();
        if !foreign.is_empty() {
            self.parts.gate.moved(foreign.len() as u64);
            let why = set_from_outside(&foreign);
            tracing::warn!("{why}");
            return self.end(Failure::new(why));
        }
        if !topics_are_known && findings.iter().any(|(_, finding, _)| *finding == Finding::Vanished) {
            // A topic that was deleted takes its offsets along; that is another matter.
            return self.errands.add_first(&[Errand::Topics, Errand::ReadBack { topics_are_known: true }]);
        }
        for (at, finding, seen) in findings {
            match finding {
                // Where it went with its topic, it cannot be committed.
                Finding::Vanished if self.is_missing(&self.parts.partitions[at].name.topic) => {}
                Finding::Vanished if mutated(Mutation::VanishedIsForgotten) => {}
                Finding::Vanished | Finding::Behind => self.commit_again(at, finding, seen.as_ref()),
                Finding::Predecessor => {
                    // The start does not stand on it, and its worker takes what was there before for committed.
                    let kept = &mut self.parts.partitions[at];
                    kept.initial = seen;
                    self.parts.desks[kept.worker].tell(Note::CommitAgain { partition: kept.id });
                }
                Finding::Fine | Finding::Foreign => {}
            }
        }
    }

    fn commit_again(&mut self, at: usize, finding: Finding, seen: Option<&Stored>) {
        let kept = &self.parts.partitions[at];
        // A commit waits for its interval, and may fail: it is told once.
        if !self.parts.desks[kept.worker].commit_again(kept.id) {
            return;
        }
        let name = &kept.name;
        let what = match finding {
            Finding::Vanished => "the group's offset has vanished; it is committed again",
            _ => "the group's offset fell back behind what was acknowledged; it is committed again",
        };
        tracing::warn!(
            topic = &*name.topic,
            partition = name.partition,
            offset = seen.map(|seen| seen.offset.0),
            "{what}"
        );
        self.parts.board.write(|status| status.committed_again += 1);
    }
}

/// What is said of offsets that somebody else set; each with its partition, and both offsets.
pub(crate) fn set_from_outside<T: AsRef<str>>(moved: &[T]) -> String {
    let list: Vec<&str> = moved.iter().map(AsRef::as_ref).collect();
    format!(
        "offsets of the group were set from outside while the flow runs: {}; the flow stops and leaves them as they are: the \
         next start goes on from them",
        list.join(", ")
    )
}
