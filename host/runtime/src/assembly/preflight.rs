//! What a start would ask the brokers, asked without starting anything: for `check --broker`.

use std::collections::BTreeMap;
use std::thread;
use std::time::Instant;

use loom_flow::plan::OutputPlan;
use loom_flow::{Need, Plan};
use loom_kafka::{Broker, OutputSettings};
use loom_types::TopicPartition;

use super::topics::{ASKING_PRODUCERS, Patience};
use super::{ownership, questions, topics};
use crate::clock::SystemClock;
use crate::failure::AssemblyError;
use crate::settings::output_settings;
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
        return with_every_dead_connection(plan, broker, errors);
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

/// The errors with one for each producer's brokers that do not answer either: a start ends at the first that is dead. All are
/// asked at a time, so that many take no longer than one.
fn with_every_dead_connection(
    plan: &Plan,
    broker: &dyn Broker,
    mut errors: Vec<AssemblyError>,
) -> Vec<AssemblyError> {
    let of_producers = |error: &AssemblyError| error.message.starts_with(ASKING_PRODUCERS);
    // Where the consumer's brokers are dead, producers of the same brokers say nothing new.
    let consumer_is_dead = errors.iter().any(|error| !of_producers(error));
    let settings = output_settings(&plan.outputs, &[]);
    let mut producers: BTreeMap<&str, (&OutputPlan, &OutputSettings)> = BTreeMap::new();
    for (output, settings) in plan.outputs.iter().zip(&settings) {
        if !(consumer_is_dead && output.brokers == plan.consumer.brokers) {
            producers.entry(&output.producer).or_insert((output, settings));
        }
    }
    let dead: Vec<AssemblyError> = thread::scope(|scope| {
        let ask = |(output, settings): (&OutputPlan, &OutputSettings)| {
            let clock = Box::new(SystemClock::since(Instant::now()));
            let mut patience = Patience::new(plan.runtime.startup_timeout, Stop::new(), clock);
            let (brokers, producer) = (output.brokers.join(", "), &output.producer);
            let what = format!("asking {brokers} (kafka.{producer}.brokers) about its topics");
            let question = |timeout| broker.output_topics(std::slice::from_ref(settings), timeout);
            let error = patience.ask_topics(&what, question).err()?;
            Some(AssemblyError { about: Some(Need::Output(output.name.clone())), ..error })
        };
        let asked: Vec<_> = producers.into_values().map(|one| scope.spawn(move || ask(one))).collect();
        asked.into_iter().filter_map(|one| one.join().ok().flatten()).collect()
    });
    if !dead.is_empty() {
        errors.retain(|error| !of_producers(error));
    }
    errors.extend(dead);
    errors
}

fn of_group(error: AssemblyError) -> AssemblyError {
    AssemblyError { about: Some(Need::Group), ..error }
}
