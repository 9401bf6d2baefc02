//! What a start and the `offsets` commands ask alike: what the group has, where a time is, where a partition lies.
//!
//! An error inside an answer counts like an error of the call, and names its partition: it never becomes "no offset".

use loom_kafka::{Bounds, Broker, Committed, Group, KafkaError, Kind};
use loom_types::{CommitOffset, TopicPartition};

use super::topics::Patience;
use crate::failure::AssemblyError;

/// What the group has for each partition, in the order asked.
pub(super) fn committed(
    group: &str,
    broker: &dyn Broker,
    partitions: &[TopicPartition],
    patience: &mut Patience,
) -> Result<Vec<Option<Committed>>, AssemblyError> {
    let what = format!("fetching the offsets of group {group}");
    let topic = partitions.first().map_or("", |partition| &*partition.topic);
    let ask = |timeout| {
        let answers = broker.committed(Group::Input, partitions, timeout);
        answered(partitions, group, answers.map_err(|error| error.naming_right("Read", topic, group))?)
    };
    patience.ask(&what, ask)
}

/// The first record of a time or a later one in each partition, in milliseconds since 1970-01-01 UTC; none = there is
/// none yet.
pub(super) fn offsets_at(
    broker: &dyn Broker,
    partitions: &[TopicPartition],
    time: i64,
    patience: &mut Patience,
) -> Result<Vec<Option<CommitOffset>>, AssemblyError> {
    let ask = |timeout| answered(partitions, "", broker.offsets_at(partitions, time, timeout)?);
    patience.ask("looking a time up in the partitions", ask)
}

/// Where a partition begins and ends.
pub(super) fn bounds(
    broker: &dyn Broker,
    partition: &TopicPartition,
    patience: &mut Patience,
) -> Result<Bounds, AssemblyError> {
    patience
        .ask(&format!("asking for the bounds of {partition}"), |timeout| broker.bounds(partition, timeout))
}

/// Where a partition's log ends: asked only where an offset, `furthest`, lies behind what can be read.
pub(super) fn log_end(
    broker: &dyn Broker,
    partition: &TopicPartition,
    bounds: Bounds,
    furthest: Option<CommitOffset>,
    patience: &mut Patience,
) -> Result<CommitOffset, AssemblyError> {
    if furthest.is_none_or(|furthest| furthest <= bounds.high) {
        return Ok(bounds.high);
    }
    let what = format!("asking where the log of {partition} ends");
    patience.ask(&what, |timeout| broker.log_end(partition, timeout))
}

/// The end that people ask for: of what can be read, but never behind what the group has committed in the same log.
pub(super) fn end(bounds: Bounds, log_end: CommitOffset, committed: Option<CommitOffset>) -> CommitOffset {
    committed
        .filter(|committed| *committed <= log_end)
        .map_or(bounds.high, |committed| committed.max(bounds.high))
}

fn answered<T>(
    names: &[TopicPartition],
    group: &str,
    answers: Vec<Result<Option<T>, KafkaError>>,
) -> Result<Vec<Option<T>>, KafkaError> {
    // What will not pass is told before what may.
    let mut errors: Vec<(usize, &KafkaError)> =
        answers.iter().enumerate().filter_map(|(at, answer)| Some((at, answer.as_ref().err()?))).collect();
    errors.sort_by_key(|(_, error)| matches!(error.kind, Kind::Coordinator | Kind::Transient));
    if let Some((at, error)) = errors.first() {
        let error = (*error).clone().naming_right("Read", &names[*at].topic, group);
        return Err(KafkaError { message: format!("{}: {}", names[*at], error.message), ..error });
    }
    answers.into_iter().collect()
}
