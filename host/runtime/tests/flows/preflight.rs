//! What a start would ask the brokers, without a start.

use loom_flow::Need;
use loom_kafka::Member;
use loom_kafka::memory::Right;
use loom_runtime::{consumer_settings, preflight};

use crate::harness::{broker, flow, plan};

const FLOW: &str = "process: [ { into_topic: out } ]\nerrors: { default: [ { into_topic: failed } ] }\n";

/// Codes, with what each is about.
fn asked(broker: &loom_kafka::memory::MemoryBroker) -> Vec<(Option<&'static str>, Option<Need>)> {
    let plan = plan(&flow("", FLOW));
    let errors = preflight(&plan, &broker.as_broker(consumer_settings(&plan)));
    errors.into_iter().map(|error| (error.code, error.about)).collect()
}

#[test]
fn a_flow_that_could_start_has_nothing_against_it() {
    let against = asked(&broker(&["out", "failed"]));
    assert!(against.is_empty(), "{against:?}");
}

#[test]
fn everything_that_brokers_have_against_a_flow_is_told_at_once() {
    let output = |name: &str| Some(Need::Output(name.to_owned()));
    let with_guest = broker(&["outt"]);
    with_guest.join_group("g", Member { client_id: "other".to_owned(), host: "/h".to_owned() });
    assert_eq!(
        asked(&with_guest),
        [
            // As the plan has them: error routes come first.
            (Some("TOPIC_MISSING"), output("failed")),
            (Some("TOPIC_MISSING"), output("out")),
            (Some("GROUP_IN_USE"), Some(Need::Group)),
        ]
    );
    let barred = broker(&["out", "failed"]);
    barred.faults().deny(Right::Write("out".into()));
    assert_eq!(asked(&barred), [(Some("NOT_AUTHORIZED"), output("out"))]);
    let barred = broker(&["out", "failed"]);
    barred.faults().deny(Right::Group("g".to_owned()));
    assert_eq!(asked(&barred), [(Some("NOT_AUTHORIZED"), Some(Need::Group))]);
}
