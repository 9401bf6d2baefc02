//! `KAFKA_CONFIG_INVALID`: what the flow says about Kafka is complete, and Kafka's client takes it.

mod consumers;
mod extra_keys;
mod outputs;

use super::Checks;
use crate::Mode;
use crate::ask::KafkaKeys;
use crate::entry::{Entry, Raised};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "The flow says too little or something wrong about Kafka",
    severity: Severity::Error,
    meaning: "One of these, which the message names:\n\n- `kafka` is missing, or the consumer that `source` names, \
              or one of `brokers`, `group_id` and `topics`;\n\n- a topic or an address that cannot be one; a topic \
              that is listed twice;\n\n- an output for which there is neither an entry in `kafka.producers` nor a \
              default `kafka.producer`, or several outputs on a default producer with a `topic`;\n\n- a setting in \
              `extra` that the host manages itself or that would break a promise, that the client does not know, or \
              whose value it or the host refuses (`docs/kafka-settings.md` has the list);\n\n- settings with which the \
              client would not start: values that contradict each other, a certificate that cannot be read. The \
              client itself is asked.",
    why: "Such a flow fails at its start, or worse, does something else than was meant: commits nothing, or \
              writes records out of their order.",
    fails: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: orders
    topics: [orders.in]
    delivery: at_least_once
    extra: { group.id: other, fetch.min.byte: 1 }
process: [ { into_topic: orders.copy } ]
",
    repaired: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: orders
    topics: [orders.in]
    delivery: at_least_once
    extra: { fetch.min.bytes: 1 }
  producer: { brokers: [\"kafka:9092\"] }
process: [ { into_topic: orders.copy } ]
",
    raised: Raised::ByCheck,
};

pub(super) fn check(checks: &mut Checks<'_>, keys: &dyn KafkaKeys, mode: Mode) {
    consumers::check(checks);
    extra_keys::check(checks, keys, mode);
    outputs::check(checks);
}
