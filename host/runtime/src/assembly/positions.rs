//! Each partition gets its start, from the group's offsets and the partition's bounds.

use std::collections::BTreeSet;

use loom_delivery::start::{Facts, Reset, Start, Warning, choose as choose_start};
use loom_flow::Plan;
use loom_flow::plan::{OffsetReset, OutOfRange};
use loom_kafka::{Broker, Committed, Group, KafkaError, Kind};
use loom_types::{CommitOffset, TopicPartition};

use super::topics::Patience;
use crate::failure::AssemblyError;

/// A partition and where it starts.
#[derive(Clone, Debug)]
pub(crate) struct Position {
    pub partition: TopicPartition,
    /// Index into the plan's topics.
    pub topic: u16,
    /// What the group has for it.
    pub committed: Option<CommitOffset>,
    pub start: Start,
}

/// Decides for every partition; what must be told is logged.
pub(super) fn choose(
    plan: &Plan,
    broker: &dyn Broker,
    partitions: Vec<(u16, TopicPartition)>,
    patience: &mut Patience,
) -> Result<Vec<Position>, Vec<AssemblyError>> {
    let names: Vec<TopicPartition> = partitions.iter().map(|(_, partition)| partition.clone()).collect();
    let what = format!("fetching the offsets of group {}", plan.consumer.group_id);
    let committed = patience
        .ask(&what, |timeout| answered(&names, broker.committed(Group::Input, &names, timeout)?))
        .map_err(|error| vec![error])?;
    let known: BTreeSet<u16> = partitions
        .iter()
        .zip(&committed)
        .filter(|(_, committed)| committed.is_some())
        .map(|((topic, _), _)| *topic)
        .collect();

    let mut positions = Vec::new();
    let mut errors = Vec::new();
    for ((topic, partition), committed) in partitions.into_iter().zip(committed) {
        let what = format!("asking for the bounds of {partition}");
        let bounds =
            patience.ask(&what, |timeout| broker.bounds(&partition, timeout)).map_err(|error| vec![error])?;
        let committed = committed.map(|committed| committed.offset);
        let facts = Facts {
            resume: None,
            committed,
            siblings_committed: known.contains(&topic),
            low: bounds.low,
            high: bounds.high,
            reset: match plan.consumer.auto_offset_reset {
                OffsetReset::Earliest => Reset::Earliest,
                OffsetReset::Latest => Reset::Latest,
            },
            refuse_out_of_range: plan.consumer.offset_out_of_range == OutOfRange::Fail,
        };
        match choose_start(&facts) {
            Ok(start) => {
                start.warnings.iter().for_each(|warning| warn(&partition, *warning));
                positions.push(Position { partition, topic, committed, start });
            }
            Err(refused) => errors.push(AssemblyError::failed(format!("{partition}: {refused}"))),
        }
    }
    if errors.is_empty() { Ok(positions) } else { Err(errors) }
}

/// An error inside an answer counts like an error of the call: it never becomes "no offset".
fn answered(
    names: &[TopicPartition],
    answers: Vec<Result<Option<Committed>, KafkaError>>,
) -> Result<Vec<Option<Committed>>, KafkaError> {
    // What will not pass is told before what may.
    let mut errors: Vec<(usize, &KafkaError)> =
        answers.iter().enumerate().filter_map(|(at, answer)| Some((at, answer.as_ref().err()?))).collect();
    errors.sort_by_key(|(_, error)| matches!(error.kind, Kind::Coordinator | Kind::Transient));
    if let Some((at, error)) = errors.first() {
        return Err(KafkaError { message: format!("{}: {}", names[*at], error.message), ..(*error).clone() });
    }
    Ok(answers.into_iter().map(|answer| answer.unwrap_or_default()).collect())
}

fn warn(partition: &TopicPartition, warning: Warning) {
    let (topic, number) = (&*partition.topic, partition.partition);
    match warning {
        Warning::Replay { resume, committed } => tracing::warn!(
            topic,
            partition = number,
            resume = resume.0,
            committed = committed.0,
            again = committed.0 - resume.0,
            "the restored position lies behind the committed offset: records are processed again"
        ),
        Warning::Expired { committed, low } => tracing::warn!(
            topic,
            partition = number,
            committed = committed.0,
            beginning = low.0,
            gone = low.0 - committed.0,
            "retention removed records that were not processed; going on from the beginning"
        ),
        Warning::BeyondEnd { committed, high } => tracing::warn!(
            topic,
            partition = number,
            committed = committed.0,
            end = high.0,
            "the committed offset lies beyond the end: the topic was made again or cut; going on from the beginning"
        ),
        Warning::Added => tracing::warn!(
            topic,
            partition = number,
            "the group knows the topic and not this partition: it was added, and is read from its beginning"
        ),
    }
}
