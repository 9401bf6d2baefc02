//! `GROUP_IN_USE`: somebody else's consumers are in the flow's group.

use crate::entry::{Entry, Raised};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "The group has live members",
    severity: Severity::Error,
    meaning: "Consumers of another program are members of this `group_id`. A flow owns its partitions itself: its group only \
              stores offsets, and has no members.",
    why: "Kafka refuses offsets from outside while a group has members, so nothing that the flow does could be committed.",
    fails: "\
name: orders
kafka:
  consumer: { brokers: [\"kafka:9092\"], group_id: reports, topics: [orders.in], delivery: at_least_once }
  producer: { brokers: [\"kafka:9092\"] }
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
