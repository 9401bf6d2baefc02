//! `DEPRECATED`: raised where a deprecated key is read; the hint names what replaces it.

use crate::entry::{Entry, Raised};
use crate::issue::Severity;

pub(crate) const ENTRY: Entry = Entry {
    title: "A deprecated key",
    severity: Severity::Warning,
    meaning: "The key works as it did, or no longer does anything, and will go away. Deprecated are, in a \
              consumer, `enable_auto_commit` (`delivery` says all of it) and `poll_timeout_ms` (it has no effect; \
              `poll_backoff_ms` bounds the sleep after an empty poll).",
    why: "A key without effect lets a reader believe that it has one.",
    fails: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: orders
    topics: [orders.in]
    enable_auto_commit: false
    poll_timeout_ms: 100
process: [ drain ]
",
    repaired: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: orders
    topics: [orders.in]
    delivery: at_least_once
    poll_backoff_ms: 100
process: [ drain ]
",
    raised: Raised::ByCheck,
};
