//! The topics, looked at again while the flow runs: whether the inputs are still there and the same, and whether they
//! grew; what the outputs take.

use std::time::Duration;

use loom_flow::plan::OutputId;
use loom_kafka::Kind;
use loom_types::{Moment, TopicPartition};

use super::Keeper;
use crate::failure::Failure;
use crate::status::AddedPartition;

/// A topic that brokers do not know for so long was deleted: one that comes back knows the newest a little later.
const DELETED_AFTER: Duration = Duration::from_secs(10);

impl Keeper {
    pub(super) fn look_at_topics(&mut self, now: Moment, timeout: Duration) {
        let names: Vec<&str> = self.parts.topics.iter().map(|topic| &*topic.name).collect();
        let infos = match self.parts.broker.topics(&names, timeout) {
            Ok(infos) => infos,
            Err(error) => {
                tracing::debug!(reason = %error, "the input topics could not be looked at; it is tried again later");
                return;
            }
        };
        let (mut other, mut deleted) = (Vec::new(), Vec::new());
        for (topic, info) in self.parts.topics.iter_mut().zip(infos) {
            let info = match info {
                Ok(info) => info,
                Err(error) if error.kind == Kind::UnknownTopic => {
                    let since = topic.missing_since.get_or_insert_with(|| {
                        tracing::warn!(
                            topic = &*topic.name,
                            reason = %error,
                            "the brokers do not know the input topic any more; if it stays away, the flow stops"
                        );
                        now
                    });
                    if now.since(*since) >= DELETED_AFTER {
                        deleted.push(topic.name.to_string());
                    }
                    continue;
                }
                // Whoever knows an error of the topic's knows the topic.
                Err(_) => {
                    topic.missing_since = None;
                    continue;
                }
            };
            topic.missing_since = None;
            if topic.id.zip(info.id).is_some_and(|(then, now)| then != now) {
                other.push(topic.name.to_string());
                continue;
            }
            if info.partitions <= topic.partitions {
                continue;
            }
            let (from, to) = (topic.partitions, info.partitions);
            tracing::warn!(
                topic = &*topic.name,
                read = from,
                partitions = to,
                "partitions were added to the topic; they are not read until the flow is started again, which reads them from \
                 their beginning"
            );
            self.partitions_added += u64::try_from(to - from).unwrap_or_default();
            let added = (from..to).map(|number| TopicPartition::new(topic.name.clone(), number));
            self.parts.board.write(|status| status.added.extend(added));
            topic.partitions = to;
        }
        self.tell_topics();
        if !other.is_empty() {
            self.end(Failure::new(another_topic(&other.join(", "))));
        } else if !deleted.is_empty() && !self.parts.stop.is_requested() {
            // What was read of the others is still committed.
            self.failures.push(Failure::new(format!(
                "{}: the input topic was deleted while the flow runs; the flow stops, and can start again when the topic is \
                 there",
                deleted.join(", ")
            )));
            self.parts.stop.request();
        }
    }

    /// Tells the board what is known of the input topics.
    pub(super) fn tell_topics(&self) {
        let Some(board) = &self.parts.notes else { return };
        let missing = self.parts.topics.iter().filter(|topic| topic.missing_since.is_some());
        board.set_topics(
            missing.map(|topic| topic.name.to_string()).collect(),
            self.parts.board.read().added.iter().map(AddedPartition::from).collect(),
        );
    }

    /// Tells the workers what the output topics take now. One that became compacted would answer a record without a key
    /// with an error that some clients try again for ever, so it must be known before.
    pub(super) fn look_at_outputs(&self, timeout: Duration) {
        if self.parts.outputs.is_empty() {
            return;
        }
        let infos = match self.parts.broker.output_topics(&self.parts.outputs, timeout) {
            Ok(infos) => infos,
            Err(error) => {
                tracing::debug!(reason = %error, "the output topics could not be looked at; it is tried again later");
                return;
            }
        };
        // What could not be read is no news; a topic that is gone shows when it is written to.
        let known = infos.into_iter().enumerate().filter_map(|(at, info)| Some((OutputId(at), info.ok()?)));
        for (output, info) in known.filter(|(_, info)| info.described.is_ok()) {
            for desk in &self.parts.desks {
                desk.tell_about(output, Ok(info.clone()));
            }
        }
    }

    /// Whether brokers did not know a topic when it was last looked at.
    pub(super) fn is_missing(&self, topic: &str) -> bool {
        self.parts.topics.iter().any(|kept| &*kept.name == topic && kept.missing_since.is_some())
    }
}

/// What is said of a topic that is another one than at the start.
pub(crate) fn another_topic(names: &str) -> String {
    format!(
        "{names}: the topic was deleted and made again while the flow runs; the flow stops, and the next start reads it from \
         its beginning"
    )
}
