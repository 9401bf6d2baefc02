//! The input topics, looked at again while the flow runs: whether they are still the same, and whether they grew.

use loom_types::TopicPartition;

use super::{Commits, Keeper};
use crate::failure::Failure;

impl Keeper {
    pub(super) fn look_at_topics(&mut self) {
        if self.parts.gate.get() == Commits::Shut {
            return;
        }
        let names: Vec<&str> = self.parts.topics.iter().map(|topic| &*topic.name).collect();
        let infos = match self.parts.broker.topics(&names, self.timeout()) {
            Ok(infos) => infos,
            Err(error) => {
                tracing::debug!(reason = %error, "the input topics could not be looked at; it is tried again later");
                return;
            }
        };
        let mut other = Vec::new();
        for (topic, info) in self.parts.topics.iter_mut().zip(infos) {
            let Ok(info) = info else { continue };
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
        let added: Vec<String> =
            self.parts.board.read().added.iter().map(|partition| partition.to_string()).collect();
        if !added.is_empty() {
            self.note("partitions_added", format!("read after a restart: {}", added.join(", ")));
        }
        if !other.is_empty() {
            self.end(Failure::new(another_topic(&other.join(", "))));
        }
    }
}

/// What is said of a topic that is another one than at the start.
pub(crate) fn another_topic(names: &str) -> String {
    format!(
        "{names}: the topic was deleted and made again while the flow runs; the flow stops, and the next start reads it from \
         its beginning"
    )
}
