//! `GROUP_ID_UNSTABLE`: a group that is named after a pod, a machine or a run is another one after the next start.
//!
//! Kubernetes makes the ends of its names from an alphabet without vowels, so that no word of a language looks like one.

use super::Checks;
use crate::entry::{Entry, Raised};
use crate::issue::{Code, Severity};
use crate::report::Problem;

pub(crate) const ENTRY: Entry = Entry {
    title: "The group is named after a pod or a machine, and lost with it",
    severity: Severity::Warning,
    meaning: "The offsets of a flow are kept under its `group_id`. This one holds a variable that differs from pod \
              to pod or from start to start, such as `${HOSTNAME}`, or its value looks like the name of a pod, a \
              container or a UUID. The value itself is never shown.",
    why: "After the next deployment the group has no offsets: the flow starts again where `auto_offset_reset` \
              says, and reads everything once more or skips what came meanwhile. Two pods would each read \
              everything. The host spreads partitions without group membership, so all processes of a flow share \
              one `group_id`.",
    fails: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: \"orders-${HOSTNAME:-local}\"
    topics: [orders.in]
    delivery: at_least_once
process: [ drain ]
",
    repaired: "\
name: orders
kafka:
  consumer:
    brokers: [\"kafka:9092\"]
    group_id: orders-service
    topics: [orders.in]
    delivery: at_least_once
process: [ drain ]
",
    raised: Raised::ByCheck,
};

/// Variables whose values differ from pod to pod, machine to machine or start to start.
const PER_POD: [&str; 13] = [
    "HOSTNAME",
    "HOST",
    "COMPUTERNAME",
    "POD",
    "POD_NAME",
    "POD_ID",
    "POD_UID",
    "POD_IP",
    "NODE_NAME",
    "CONTAINER_ID",
    "PID",
    "RANDOM",
    "UUID",
];

pub(super) fn check(checks: &mut Checks<'_>) {
    let consumers = checks.flow.kafka.iter().flat_map(|kafka| &kafka.consumers);
    for group in consumers.filter_map(|consumer| consumer.group_id.as_ref()) {
        let why = if let Some(name) = per_pod_variable(&group.shown) {
            format!("`${{{name}}}` is another text in each pod")
        } else if !group.open && looks_temporary(&group.value) {
            "its value looks like the name of one pod, container or run".to_owned()
        } else {
            continue;
        };
        let message =
            format!("the offsets of the group `{}` would not survive a restart: {why}", group.shown);
        let problem = Problem::warning(Code::GroupIdUnstable, message)
            .hint("give the service one name, the same in every process: `group_id: orders-service`");
        checks.report.push(&group.place, problem);
    }
}

/// The first such variable that a text refers to.
fn per_pod_variable(written: &str) -> Option<&'static str> {
    // `$${` is a literal `${`.
    written.replace("$${", "").split("${").skip(1).find_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        PER_POD.into_iter().find(|name| *name == &rest[..end])
    })
}

fn looks_temporary(value: &str) -> bool {
    let parts: Vec<&str> = value.split(['-', '_', '.']).collect();
    let uuid = parts.windows(5).any(|part| {
        let lengths: Vec<usize> = part.iter().map(|part| part.len()).collect();
        lengths == [8, 4, 4, 4, 12] && part.iter().all(|part| is_hex(part))
    });
    let last = parts.last().copied().unwrap_or_default();
    let container = last.len() == 12 && is_hex(last) && mixed(last);
    uuid || container || is_pod(value)
}

/// `NAME-HASH-SUFFIX`, as the pods of a deployment are named.
fn is_pod(value: &str) -> bool {
    const ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";
    let mut parts = value.rsplit('-');
    let (suffix, hash, name) = (parts.next(), parts.next(), parts.next());
    let made_of = |part: Option<&str>, lengths: std::ops::RangeInclusive<usize>| {
        part.is_some_and(|part| lengths.contains(&part.len()) && part.chars().all(|c| ALPHABET.contains(c)))
    };
    name.is_some_and(|name| !name.is_empty()) && made_of(suffix, 5..=5) && made_of(hash, 8..=10)
}

fn is_hex(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Digits and letters, as neither a word nor a date has both.
fn mixed(part: &str) -> bool {
    part.bytes().any(|byte| byte.is_ascii_digit()) && part.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::{looks_temporary, per_pod_variable};

    #[test]
    fn names_of_pods_containers_and_runs_are_told_from_names_of_services() {
        for temporary in [
            "orders-7d9f8b6c5d-x2k4q",
            "orders-service-5f6d8c9b7-zxcvb",
            "orders-3f2a9c1b4d5e",
            "run-2f1c8f9e-0d0b-4c3a-9a53-0f0a8a3c7b1d",
        ] {
            assert!(looks_temporary(temporary), "{temporary}");
        }
        for lasting in [
            "orders",
            "orders-service",
            "orders-standard-split",
            "orders-2026-01-01",
            "eu-west-1-orders",
            "orders-v2",
            "team.orders_big-0",
            "0123",
            "payments-deadbeef",
            "20260101120000",
            "",
        ] {
            assert!(!looks_temporary(lasting), "{lasting}");
        }
    }

    #[test]
    fn a_variable_of_the_pod_is_found_with_and_without_default() {
        assert_eq!(per_pod_variable("a-${HOSTNAME}"), Some("HOSTNAME"));
        assert_eq!(per_pod_variable("${STAGE}-${POD_NAME:-x}"), Some("POD_NAME"));
        assert_eq!(per_pod_variable("${HOSTNAMES}-HOSTNAME-$HOSTNAME"), None);
    }
}
