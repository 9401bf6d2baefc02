//! Everything about one simulation that its seed decides before it starts: the flow, the topics, the bounds, and what
//! happens when.

use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;
use loom_types::TopicPartition;

use loom_kafka::memory::Network;

use super::Focus;
use super::acts::{Event, Events};
use super::draw::Draw;
use super::fates::Fates;
use super::flow::Flow;
use super::sinks::SinkManner;

/// The chaos lasts no longer than this, in simulated time.
const LONGEST: Duration = Duration::from_secs(120);

const ONE_STEP: &str = "name: simulated
kafka:
  consumer: { brokers: [memory], group_id: g, topics: [in0], delivery: at_least_once, auto_offset_reset: earliest }
  producer: { brokers: [memory] }
runtime: { shutdown_timeout: 25s, max_outstanding: { records: 1000, bytes: 1MiB } }
plugins: { s0: { component: s0.wasm, breaker: off } }
";

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub flow: Flow,
    pub fates: Fates,
    pub sinks: Vec<SinkManner>,
    pub topics: Vec<(String, i32)>,
    /// Partitions by output.
    pub outputs: Vec<i32>,
    /// How long rows are on their way.
    pub network: Network,
    pub forward: bool,
    /// At most once.
    pub once: bool,
    pub shutdown: Duration,
    pub most_workers: usize,
    /// How likely a process starts from the beginning.
    pub beginnings: f64,
    /// How likely a worker is stepped that nothing woke.
    pub spurious: f64,
    pub events: Vec<Event>,
    pub yaml: String,
}

impl Scenario {
    pub(super) fn draw(dice: &mut Rng, focus: Focus) -> Scenario {
        let topics: Vec<(String, i32)> = (0..[1, 1, 1, 2, 3][dice.usize(..5)])
            .map(|topic| (format!("in{topic}"), dice.i32(1..6)))
            .collect();
        let outputs: Vec<i32> = (0..[1, 1, 2, 3][dice.usize(..4)]).map(|_| dice.i32(1..4)).collect();
        let flow = Draw::flow(dice, outputs.len(), focus);
        let chaos = LONGEST.mul_f64(dice.f64() * dice.f64());
        let fates = Fates::draw(dice, flow.steps, flow.predicates, chaos);
        let sinks = (0..flow.sinks).map(|_| SinkManner::draw(dice, chaos)).collect();
        let forward = dice.f64() < 0.3;
        let shutdown = Duration::from_secs([5, 25][dice.usize(..2)]);
        let partitions: usize = topics.iter().map(|(_, partitions)| *partitions as usize).sum();
        let once = focus == Focus::Anything && dice.f64() < 0.12;
        let mut yaml = yaml(dice, focus, &flow, &topics, forward, shutdown);
        if once {
            yaml = yaml.replacen("at_least_once", "at_most_once", 1);
        }
        let most_workers = [1, 1, 2, 3][dice.usize(..4)];
        let spurious = [0.0, 0.05, 0.3][dice.usize(..3)];
        let events = Events { dice, partitions, outputs: outputs.len(), chaos }.draw();
        let network = network(dice);
        Scenario {
            flow,
            network,
            fates,
            sinks,
            topics,
            outputs,
            forward,
            once,
            shutdown,
            most_workers,
            beginnings: 0.05,
            spurious,
            events,
            yaml,
        }
    }

    /// [`Flow::one_step`] on one partition, by one worker, with no chance in it but when processes start.
    pub(super) fn one_step(fates: Fates, stops: bool, events: Vec<Event>) -> Scenario {
        let flow = Flow::one_step(stops);
        let yaml = format!("{ONE_STEP}{}", flow.yaml());
        Scenario {
            flow,
            network: Network::default(),
            fates,
            sinks: Vec::new(),
            topics: vec![("in0".to_owned(), 1)],
            outputs: vec![1],
            forward: false,
            once: false,
            shutdown: Duration::from_secs(25),
            most_workers: 1,
            beginnings: 0.0,
            spurious: 0.0,
            events,
            yaml,
        }
    }

    /// The input partitions, in the order of their numbers.
    pub(super) fn partitions(&self) -> Vec<TopicPartition> {
        let all = self.topics.iter().flat_map(|(topic, partitions)| {
            (0..*partitions).map(move |partition| TopicPartition::new(topic.as_str(), partition))
        });
        all.collect()
    }
}

/// How long rows are on their way: mostly no time at all, so that much happens in few steps.
fn network(dice: &mut Rng) -> Network {
    if dice.f64() < 0.6 {
        return Network::default();
    }
    let most = [1, 20, 500, 8000][dice.usize(..4)];
    let mut until = || Duration::ZERO..=Duration::from_millis(dice.u64(..=most));
    let (send, acknowledge) = (until(), until());
    let linger = Duration::from_millis([0, 0, 5, 300][dice.usize(..4)]);
    Network { linger, send, acknowledge }
}

/// The flow's file.
fn yaml(
    dice: &mut Rng,
    focus: Focus,
    flow: &Flow,
    topics: &[(String, i32)],
    forward: bool,
    shutdown: Duration,
) -> String {
    let names: Vec<&str> = topics.iter().map(|(name, _)| &**name).collect();
    let mut text = format!(
        "name: simulated\nkafka:\n  consumer:\n    brokers: [memory]\n    group_id: {}\n    topics: [{}]\n    \
         delivery: at_least_once\n    tombstones: {}\n    auto_offset_reset: {}\n    batch_size: {}\n    \
         poll_backoff_ms: {}\n",
        super::GROUP,
        names.join(", "),
        if forward { "forward" } else { "skip" },
        if dice.f64() < 0.7 { "earliest" } else { "latest" },
        [1, 2, 7, 500][dice.usize(..4)],
        [20, 50, 1000, 5000][dice.usize(..4)],
    );
    let (records, bytes) = match focus {
        Focus::Anything | Focus::Routers => {
            ([1, 2, 5, 20, 1000][dice.usize(..5)], ["1", "100", "256MiB", "256MiB"][dice.usize(..4)])
        }
        Focus::TightBounds | Focus::Expanders => {
            (dice.usize(1..6), ["1", "2", "60", "256MiB"][dice.usize(..4)])
        }
    };
    let queue = [0, 0, 1, 3][dice.usize(..4)];
    let extra = if queue > 0 {
        format!(", extra: {{ queue.buffering.max.messages: {queue} }}")
    } else {
        String::new()
    };
    let _ = write!(
        text,
        "  producer: {{ brokers: [memory]{extra} }}\nruntime:\n  shutdown_timeout: {}s\n  startup_timeout: 30s\n  \
         commit_interval_ms: {}\n  max_outstanding: {{ records: {}, bytes: {} }}\nplugins:\n",
        shutdown.as_secs(),
        [0, 0, 5, 200, 5000][dice.usize(..5)],
        records,
        bytes,
    );
    let names = [('s', flow.steps), ('p', flow.predicates), ('k', flow.sinks)];
    for (letter, count) in names {
        for number in 0..count {
            let breaker = if dice.f64() < 0.2 { ", breaker: off" } else { "" };
            let remote = letter == 'p' && flow.remote.contains(&number);
            let allow = if remote { ", allow: { http: [\"service:80\"] }" } else { "" };
            let component = format!("component: {letter}{number}.wasm{breaker}{allow}");
            let _ = writeln!(text, "  {letter}{number}: {{ {component} }}");
        }
    }
    if flow.steps + flow.predicates + flow.sinks == 0 {
        text.truncate(text.len() - "plugins:\n".len());
    }
    text.push_str(&flow.yaml());
    text
}
