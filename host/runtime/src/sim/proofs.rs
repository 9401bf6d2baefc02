//! Back-pressure at length: one record that cannot get through for an hour, at full input.

use std::time::Duration;

use fastrand::Rng;
use loom_kafka::memory::Network;

use super::Report;
use super::acts::{Act, At, Event};
use super::executor;
use super::fates::Fates;
use super::flow::{End, Flow, Node, Process, What};
use super::scenario::Scenario;

/// How long the record is stuck, in simulated time.
pub const STUCK: Duration = Duration::from_secs(3600);

/// Records for each partition and second.
const FEED: usize = 10;

const YAML: &str = "name: stuck
kafka:
  consumer: { brokers: [memory], group_id: g, topics: [in0], delivery: at_least_once, auto_offset_reset: earliest }
  producer: { brokers: [memory] }
runtime: { shutdown_timeout: 25s, max_outstanding: { records: 1000, bytes: 1MiB } }
plugins: { s0: { component: s0.wasm, breaker: off } }
";

/// Four partitions that get records all the time, through a step that asks for one record of the first partition again
/// and again. The report's gauges tell what each partition held meanwhile.
#[must_use]
pub fn stuck(seed: u64) -> Report {
    let end = End::Topic { output: 0, keyed: false, now: false, terminal: 0, dlq: None, errors: None };
    let step = Node { what: What::Step { step: 0, waits: None, retries: None }, errors: None };
    let flow = Flow {
        process: Process { nodes: vec![step], end },
        routes: Default::default(),
        default_route: None,
        steps: 1,
        predicates: 0,
        sinks: 0,
        terminals: 1,
        waits: false,
        expanders: 0,
        remote: Vec::new(),
        counted: Vec::new(),
        stops: false,
    };
    let yaml = format!("{YAML}{}", flow.yaml());
    let feed = Event { at: At::Step(0), act: Act::Feed { records: FEED, until: STUCK } };
    let scenario = Scenario {
        flow,
        // The first partition's records are the first of each feed.
        fates: Fates::stuck(4 * FEED as u64 + 3, STUCK),
        sinks: Vec::new(),
        topics: vec![("in0".to_owned(), 4)],
        outputs: vec![2],
        network: Network::default(),
        forward: false,
        once: false,
        shutdown: Duration::from_secs(25),
        most_workers: 2,
        spurious: 0.0,
        events: vec![feed, Event { at: At::Time(STUCK), act: Act::Calm }],
        yaml,
    };
    executor::run(seed, scenario, Rng::with_seed(seed), false)
}
