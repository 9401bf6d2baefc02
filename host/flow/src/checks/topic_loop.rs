//! `TOPIC_LOOP`: what is written to a topic that the flow reads comes back to it.
//!
//! A topic of that name on other brokers is another topic, as a flow that copies between clusters has it. One address in
//! common makes them the same cluster: each side may name some of its brokers.

use std::collections::{BTreeMap, BTreeSet};

use super::Checks;
use crate::entry::{Entry, Raised, flow};
use crate::issue::{Code, Severity};
use crate::report::Problem;
use crate::spec::{IntoTopic, Kind, Text, canonical, nodes};

pub(crate) const ENTRY: Entry = Entry {
    title: "An output writes to a topic that the flow reads",
    severity: Severity::Warning,
    meaning: "The topic of this `into_topic`, or of its `dlq`, is one that the flow reads, on brokers that it \
              reads from. Each record that is written there comes back as a new one. Error routes are looked at \
              too.",
    why: "A record that takes this way every time goes round for ever, and each round costs what the first one \
              did. Where a record may come back, as for another attempt, the flow must count the rounds: \
              `loom-error-attempt` is set for it.",
    fails: flow!(
        "\
process:
  - filter: payload.total > 10
  - into_topic: orders.big
errors: { default: [ { into_topic: orders.in } ] }
"
    ),
    repaired: flow!(
        "\
process:
  - filter: payload.total > 10
  - into_topic: orders.big
errors: { default: [ { into_topic: orders.failed } ] }
"
    ),
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>) {
    let Some(consumer) = checks.flow.consumer() else { return };
    let Some(topics) = &consumer.topics else { return };
    let read: BTreeMap<&str, &Text> =
        topics.value.iter().filter(|read| !read.open).map(|read| (read.value.as_str(), read)).collect();
    let brokers: BTreeSet<String> = consumer.brokers.iter().map(|broker| canonical(broker)).collect();
    for (node, _) in nodes(&checks.processes) {
        let Kind::IntoTopic(IntoTopic { output, dlq, .. }) = &node.kind else { continue };
        for output in output.iter().chain(dlq).filter(|output| !output.open) {
            let Some(producer) = checks.producer(&output.value) else { continue };
            let topic = producer.topic.as_ref().unwrap_or(output);
            let Some(read) = read.get(topic.value.as_str()).filter(|_| !topic.open) else { continue };
            if !producer.brokers.iter().any(|broker| brokers.contains(&canonical(broker))) {
                continue;
            }
            let message =
                format!("this flow reads the topic `{}`: what is written here comes back to it", read.shown);
            let problem = Problem::warning(Code::TopicLoop, message)
                .related(read.place.span, "read here")
                .hint("write to a topic that the flow does not read, or make sure that no record goes round for ever");
            checks.report.push(&output.place, problem);
        }
    }
}
