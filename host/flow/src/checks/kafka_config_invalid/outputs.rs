//! Every output that a node names has a producer and a topic of its own.

use std::collections::BTreeSet;

use super::consumers::topic_name;
use crate::checks::Checks;
use crate::issue::Code;
use crate::report::Problem;
use crate::spec::{KafkaSpec, Kind, Text, nearest, nodes};

pub(super) fn check(checks: &mut Checks<'_>) {
    let Some(kafka) = &checks.flow.kafka else { return };
    let outputs = outputs(checks);
    let mut on_default = BTreeSet::new();
    let mut named = BTreeSet::new();
    for output in outputs {
        if checks.producers.contains_key(output.value.as_str()) {
            continue;
        }
        match &kafka.producer {
            // It may be the name of one that is there.
            None if output.open => {}
            None => no_producer(checks, kafka, output),
            Some(producer) => {
                if !output.open {
                    on_default.insert(output.value.as_str());
                }
                // Without a topic of the producer's, the logical name is the topic.
                if producer.topic.is_none() && named.insert(output.value.as_str()) {
                    topic_name(checks, output);
                }
            }
        }
    }
    for producer in &kafka.producers {
        match &producer.topic {
            Some(topic) => topic_name(checks, topic),
            None => {
                let name = Text {
                    value: producer.name.clone(),
                    shown: producer.name.clone(),
                    open: false,
                    sealed: false,
                    place: producer.place.clone(),
                };
                topic_name(checks, &name);
            }
        }
    }
    let Some(topic) = kafka.producer.as_ref().and_then(|producer| producer.topic.as_ref()) else { return };
    topic_name(checks, topic);
    if on_default.len() > 1 {
        let names: Vec<String> = on_default.iter().map(|name| format!("`{name}`")).collect();
        let message = format!(
            "`kafka.producer` has a `topic`, and several outputs would write to it: {}",
            names.join(", ")
        );
        let problem = Problem::error(Code::KafkaConfigInvalid, message)
            .hint("remove it, so that each output's name is its topic, or give outputs entries of their own under `kafka.producers`");
        checks.report.push(&topic.place, problem);
    }
}

/// The logical names that nodes use, each use once.
fn outputs<'a>(checks: &Checks<'a>) -> Vec<&'a Text> {
    let mut names = Vec::new();
    for (node, _) in nodes(&checks.processes) {
        if let Kind::IntoTopic(topic) = &node.kind {
            names.extend(topic.output.iter().chain(&topic.dlq));
        }
    }
    names
}

fn no_producer(checks: &mut Checks<'_>, kafka: &KafkaSpec, output: &Text) {
    let names: Vec<&str> = kafka.producers.iter().map(|producer| producer.name.as_str()).collect();
    let hint = match nearest(&output.value, &names).filter(|_| !output.sealed) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "add `kafka.producer: { brokers: […] }`, the default for every output".to_owned(),
    };
    let message = format!(
        "nothing says how to write to `{name}`: there is neither `kafka.producers.{name}` nor `kafka.producer`",
        name = output.shown
    );
    checks.report.push(&output.place, Problem::error(Code::KafkaConfigInvalid, message).hint(hint));
}
