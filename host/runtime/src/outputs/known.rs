//! What a topic takes, as it was told last, and the question for it.
//!
//! A topic may be configured anew while the flow runs: an objection counts only by what was told lately, and is asked about
//! first otherwise. There is one question at a time; what is told unasked counts as well.

use loom_delivery::Backoff;
use loom_kafka::{KafkaError, Kind};
use loom_types::Moment;

use super::limits::Limits;
use super::queue::WAITS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Answered,
    Wanted(Moment),
    Asked,
}

/// See the module's description.
pub(super) struct Known {
    limits: Limits,
    /// Counts readings of the limits.
    epoch: u64,
    question: Question,
    backoff: Backoff,
    /// The topic's configuration is not told any more, for a reason that will not pass by itself.
    withheld: bool,
}

impl Known {
    pub(super) fn new(limits: Limits) -> Self {
        let backoff = Backoff::new(WAITS.0, WAITS.1);
        Known { limits, epoch: 0, question: Question::Answered, backoff, withheld: false }
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The reading that [`Known::limits`] is of.
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Whether an answer is waited for.
    pub(super) fn is_in_question(&self) -> bool {
        self.question != Question::Answered
    }

    /// Whether what the limits say against a row counts; where they are not fresh they are asked for.
    pub(super) fn may_object(&mut self, now: Moment) -> bool {
        let fresh = self.limits.are_fresh(now);
        if !fresh {
            self.want(now);
        }
        fresh
    }

    /// Has the limits asked for, where they are not yet.
    pub(super) fn want(&mut self, at: Moment) {
        if self.question == Question::Answered {
            self.question = Question::Wanted(at);
        }
    }

    /// Takes a question that is to be asked now.
    pub(super) fn take_question(&mut self, now: Moment) -> bool {
        match self.question {
            Question::Wanted(at) if at <= now => {
                self.question = Question::Asked;
                true
            }
            _ => false,
        }
    }

    /// When a question is to be asked.
    pub(super) fn next_due(&self) -> Option<Moment> {
        match self.question {
            Question::Wanted(at) => Some(at),
            Question::Answered | Question::Asked => None,
        }
    }

    /// Takes what is told of the topic.
    pub(super) fn learned(&mut self, topic: &str, limits: Limits) {
        if limits.is_compacted() && !self.limits.is_compacted() {
            tracing::warn!(
                output = topic,
                "the output topic is compacted now: records without a key are refused from here on"
            );
        }
        if limits.max_bytes() != self.limits.max_bytes() {
            tracing::info!(
                output = topic,
                before = self.limits.max_bytes(),
                limit = limits.max_bytes(),
                "the output topic's max.message.bytes changed"
            );
        }
        self.limits = limits;
        self.epoch += 1;
        self.answered();
        self.withheld = false;
    }

    fn answered(&mut self) {
        self.question = Question::Answered;
        self.backoff.reset();
    }

    /// The question was not answered, which changes nothing of what is known: it is asked again later, or, where it will not
    /// be answered, what is known counts.
    pub(super) fn failed(&mut self, topic: &str, error: &KafkaError, now: Moment, random: f64) {
        let passes = matches!(error.kind, Kind::Transient | Kind::Coordinator | Kind::UnknownTopic);
        if !passes {
            if !std::mem::replace(&mut self.withheld, true) {
                tracing::warn!(
                    output = topic,
                    reason = %error,
                    limit = self.limits.max_bytes(),
                    "the output topic's configuration is not told; records are judged by what is known of it"
                );
            }
            self.limits.confirm(now);
            return self.answered();
        }
        tracing::warn!(
            output = topic,
            reason = %error,
            "the output topic's configuration could not be read; asking again"
        );
        self.question = Question::Wanted(now + self.backoff.failed(random));
    }
}
