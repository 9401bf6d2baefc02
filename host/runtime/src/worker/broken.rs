//! A batch of the log that cannot be read: its checksum is not its own, or nobody knows its format.
//!
//! What it holds is not known, so it is no gap: the partition stands still in front of it, others go on. It is read again
//! now and then, since it may have been damaged on its way, and another copy may be whole. Status and log say which offsets
//! it has, and how a person leaves it out.

use std::time::Duration;

use loom_kafka::KafkaError;
use loom_types::{CommitOffset, PartitionId};

use super::{Outside, Trouble, Worker};

/// It is read again after so long at first, and then after twice as long each time, up to the second.
const READ_AGAIN: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// See the module's description.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    first: CommitOffset,
    /// As far as it was found out.
    last: Option<CommitOffset>,
    error: KafkaError,
    /// Before the next try.
    wait: Duration,
}

impl Worker {
    /// The client could not read the batch at the position.
    pub(super) fn is_broken(&mut self, index: usize, first: CommitOffset, error: KafkaError) {
        let now = self.flow.shared.now;
        let position = self.flow.shared.accounts.tracker(PartitionId(index as u32)).position();
        let partition = &mut self.partitions[index];
        let before = partition.broken.take().filter(|broken| broken.first == first);
        let last = before.as_ref().and_then(|broken| broken.last);
        let wait = before.as_ref().map_or(READ_AGAIN[0], |broken| (broken.wait * 2).min(READ_AGAIN[1]));
        partition.outside = Outside::Later(now + wait);
        partition.broken = Some(Broken { first, last, error, wait });
        if last.is_none() {
            self.desk.ask_where_ends(PartitionId(index as u32), first);
        }
        self.say_broken(index, position);
        // The first line waits for where it ends, which the keeper finds out.
        if before.is_some() {
            self.log_broken(index);
        }
    }

    /// The keeper says where a batch ends.
    pub(super) fn ends_at(&mut self, index: usize, first: CommitOffset, last: Option<CommitOffset>) {
        let position = self.flow.shared.accounts.tracker(PartitionId(index as u32)).position();
        let Some(broken) = self.partitions[index].broken.as_mut().filter(|broken| broken.first == first)
        else {
            return;
        };
        broken.last = last.or(broken.last);
        self.say_broken(index, position);
        self.log_broken(index);
    }

    /// What status and `why` say of it.
    fn say_broken(&mut self, index: usize, position: CommitOffset) {
        let now = self.flow.shared.now;
        let partition = &mut self.partitions[index];
        if let Some(broken) = &partition.broken {
            let text = broken.text(&partition.name.topic, partition.name.partition, position);
            partition.trouble = Some(Trouble { text, last: now });
        }
    }

    fn log_broken(&mut self, index: usize) {
        let now = self.flow.shared.now;
        let partition = &mut self.partitions[index];
        let Some(broken) = partition.broken.clone() else { return };
        let Some(text) = partition.trouble.as_ref().map(|trouble| trouble.text.clone()) else { return };
        if partition.may_tell(broken.error.code, now) {
            let name = &partition.name;
            tracing::error!(
                topic = &*name.topic,
                partition = name.partition,
                first = broken.first.0,
                last = broken.last.map(|last| last.0),
                "{text}"
            );
        }
    }
}

impl Broken {
    fn text(&self, topic: &str, partition: i32, position: CommitOffset) -> String {
        let Broken { first, last, error, .. } = self;
        // A batch may begin below the position, where that was set by hand; never beyond its own end.
        let offsets = match last {
            Some(last) => format!("of offsets {first} to {last}"),
            None => format!("that begins at offset {first}"),
        };
        let behind = last.map_or_else(|| "OFFSET".to_owned(), |last| (last.0 + 1).to_string());
        let unknown = if last.is_some() {
            ""
        } else {
            ", where OFFSET is the first one behind it, which could not be found out"
        };
        format!(
            "the batch {offsets} cannot be read ({error}): the partition stands still at {position}, and the batch is tried \
             again now and then. To leave it out, stop the flow, and then: `loom-host offsets reset FLOW --topic {topic} \
             --partition {partition} --to {behind}`{unknown}"
        )
    }
}
