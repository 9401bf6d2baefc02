//! What a start would ask the brokers, asked without starting anything: for `check --broker`.

use std::time::Instant;

use loom_flow::{Need, Plan};
use loom_kafka::Broker;
use loom_types::TopicPartition;

use super::topics::Patience;
use super::{ownership, questions, topics};
use crate::clock::SystemClock;
use crate::failure::AssemblyError;
use crate::stop::Stop;

/// Everything that the brokers have against a flow; nothing where it could start. Blocks up to the plan's
/// `startup_timeout` while brokers cannot answer; nothing is written, and no topic is created.
#[must_use]
pub fn preflight(plan: &Plan, broker: &dyn Broker) -> Vec<AssemblyError> {
    let clock = Box::new(SystemClock::since(Instant::now()));
    let mut patience = Patience::new(plan.runtime.startup_timeout, Stop::new(), clock);
    let mut errors = Vec::new();
    let found = match topics::look_up(plan, broker, &mut patience) {
        Ok(found) => Some(found.inputs),
        Err(refused) => {
            errors.extend(refused);
            None
        }
    };
    // Who does not answer about topics answers nothing else.
    if errors.iter().any(|error| error.about == Some(Need::Brokers)) {
        return errors;
    }
    let group = &plan.consumer.group_id;
    errors.extend(ownership::no_members(group, broker, &mut patience).err().map(of_group));
    let Some(inputs) = found else { return errors };
    let partitions = topics::partitions_of(plan, &inputs);
    let partitions: Vec<TopicPartition> = partitions.into_iter().map(|(_, partition)| partition).collect();
    errors.extend(questions::committed(group, broker, &partitions, &mut patience).err().map(of_group));
    for partition in &partitions {
        // One partition stands for its topic: rights are the topic's.
        if partition.partition == 0
            && let Err(error) = questions::bounds(broker, partition, &mut patience)
        {
            errors.push(AssemblyError { about: Some(Need::Input(partition.topic.to_string())), ..error });
        }
    }
    errors
}

fn of_group(error: AssemblyError) -> AssemblyError {
    AssemblyError { about: Some(Need::Group), ..error }
}
