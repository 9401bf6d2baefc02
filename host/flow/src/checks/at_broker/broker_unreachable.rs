//! `BROKER_UNREACHABLE`: no broker answers, or none lets the flow in.

use crate::entry::{Entry, Raised};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "No broker answers, or none lets the flow in",
    severity: Severity::Error,
    meaning: "Within `runtime.startup_timeout` no broker of the list answered what the start asks, or what answered refused \
              the credentials or the connection. The message has the client's own words.",
    why: "Nothing can be read or written. A flow that runs waits for brokers that go away; one that starts says so, \
              since mostly an address or a setting is wrong.",
    fails: "\
name: orders
kafka:
  consumer: { brokers: [\"kafka:9093\"], group_id: orders, topics: [orders.in], delivery: at_least_once }
  producer: { brokers: [\"kafka:9093\"] }
process: [ { into_topic: orders.out } ]
errors: { default: [ { into_topic: orders.failed } ] }
",
    repaired: "\
name: orders
kafka:
  consumer: { brokers: [\"kafka:9092\"], group_id: orders, topics: [orders.in], delivery: at_least_once }
  producer: { brokers: [\"kafka:9092\"] }
process: [ { into_topic: orders.out } ]
errors: { default: [ { into_topic: orders.failed } ] }
",
    raised: Raised::ByBroker,
};
