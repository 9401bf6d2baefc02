//! The consumer that the flow reads exists, and its topics and group can be ones.

use std::collections::BTreeSet;

use crate::checks::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::{ConsumerSpec, Text, nearest};

pub(super) fn check(checks: &mut Checks<'_>) {
    let flow = checks.flow;
    if !flow.has_kafka {
        let problem = Problem::error(Code::KafkaConfigInvalid, "the flow has no `kafka` section")
            .hint("give it `kafka: { consumer: { brokers, group_id, topics, delivery } }`");
        checks.report.push(&flow.place, problem);
        return;
    }
    let Some(kafka) = &flow.kafka else { return };
    if flow.consumer().is_none() {
        let names: Vec<&str> = kafka.consumers.iter().map(|consumer| consumer.name.as_str()).collect();
        match &flow.source {
            // Which one it is depends on a variable, which was said.
            Some(source) if source.open => {}
            Some(source) if source.value != "consumer" => {
                let message = format!("`kafka.consumers` has no `{}`", source.shown);
                let near = nearest(&source.value, &names).filter(|_| !source.sealed);
                let problem = Problem::error(Code::KafkaConfigInvalid, message)
                    .maybe_hint(near.map(|near| format!("did you mean `{near}`?")));
                checks.report.push(&source.place, problem);
            }
            _ => {
                let hint =
                    names.first().map(|name| format!("read one of `kafka.consumers`: `source: {name}`"));
                let problem = Problem::error(Code::KafkaConfigInvalid, "`kafka` has no `consumer`");
                checks.report.push(&kafka.place, problem.maybe_hint(hint));
            }
        }
    }
    for consumer in &kafka.consumers {
        topics(checks, consumer);
    }
}

fn topics(checks: &mut Checks<'_>, consumer: &ConsumerSpec) {
    let Some(topics) = &consumer.topics else { return };
    if topics.value.is_empty() {
        let message = format!("`{}` is empty: the flow would read nothing", topics.place.path);
        checks.report.push(&topics.place, Problem::error(Code::KafkaConfigInvalid, message));
    }
    let mut seen = BTreeSet::new();
    for topic in &topics.value {
        topic_name(checks, topic);
        if !topic.open && !seen.insert(topic.value.as_str()) {
            let message = format!("the topic `{}` is listed twice", topic.shown);
            checks.report.push(&topic.place, Problem::error(Code::KafkaConfigInvalid, message));
        }
    }
}

/// Reports a text that Kafka does not take as a topic's name.
pub(super) fn topic_name(checks: &mut Checks<'_>, topic: &Text) {
    let name = topic.value.as_str();
    let fits = (1..=249).contains(&name.len())
        && !matches!(name, "." | "..")
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if !fits && !topic.open {
        let message = format!("`{}` is no name of a topic", topic.shown);
        let problem = Problem::error(Code::KafkaConfigInvalid, message)
            .hint("a topic's name has 1 to 249 letters, digits, `.`, `_` and `-`");
        checks.report.push(&topic.place, problem);
    }
}
