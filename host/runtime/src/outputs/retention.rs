//! Records that are written with a time before all that their topic keeps: the broker acknowledges them, and may delete them at
//! once, so nobody else says that they are gone.

use std::time::Duration;

use super::pending::Pending;

/// Counts them for one topic, and tells of the first one.
#[derive(Debug, Default)]
pub(super) struct PastRetention {
    rows: u64,
}

impl PastRetention {
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Looks at rows that are new. `keeps`: how long the topic keeps a record by the time that it carries.
    pub(super) fn look<'a>(
        &mut self,
        output: &str,
        keeps: Duration,
        wall_ms: i64,
        new: impl Iterator<Item = &'a Pending>,
    ) {
        let from = wall_ms.saturating_sub(i64::try_from(keeps.as_millis()).unwrap_or(i64::MAX));
        for source in new.flat_map(|entry| entry.older_than(from)) {
            if self.rows == 0 {
                tracing::warn!(
                    output,
                    topic = &**source.topic,
                    partition = source.partition,
                    offset = source.offset.0,
                    timestamp_ms = source.timestamp_ms,
                    retention_ms = keeps.as_millis() as u64,
                    "a record is older than what the output topic keeps (retention.ms): the broker acknowledges it and may \
                     delete it at once. `timestamp: now` at the `into_topic` writes the present time instead"
                );
            }
            self.rows += 1;
        }
    }
}
