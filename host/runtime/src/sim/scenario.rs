//! Everything about one simulation that its seed decides before it starts: the flow, the topics, the bounds, and what
//! happens when.

use std::fmt::Write as _;
use std::time::Duration;

use fastrand::Rng;
use loom_types::TopicPartition;

use super::fates::Fates;
use super::flow::{Draw, Flow, Payload};
use super::sinks::SinkManner;

/// The chaos lasts no longer than this, in simulated time.
const LONGEST: Duration = Duration::from_secs(120);

/// When something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// At this time.
    Time(Duration),
    /// After so many steps of workers.
    Step(u64),
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub at: At,
    pub act: Act,
}

/// What happens. Partitions and outputs are numbers.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Produce {
        partition: usize,
        payloads: Vec<Payload>,
    },
    /// A transaction's marker.
    Control {
        partition: usize,
    },
    Gap {
        partition: usize,
        offsets: i64,
    },
    /// Compaction removes the last record that was not given out.
    Compact {
        partition: usize,
    },
    /// Retention removes this part of a partition.
    Retain {
        partition: usize,
        part: f64,
    },
    CommitFails {
        fault: CommitTrouble,
        times: u64,
    },
    CommitFailsIn {
        partition: usize,
        times: u64,
    },
    /// Answers to commits come this much later.
    SlowCommits {
        by: Duration,
    },
    QueueFull {
        times: u64,
    },
    TakeFails {
        times: u64,
    },
    /// Acknowledgements of an output come this much later.
    SlowAcks {
        output: usize,
        by: Duration,
    },
    /// Acknowledgements of an output do not come for so long.
    NoAcks {
        output: usize,
        lasts: Duration,
    },
    AcksBack {
        output: usize,
    },
    Down {
        lasts: Duration,
    },
    Up,
    /// An output refuses rows for good.
    Refuse {
        output: usize,
        times: u64,
    },
    /// Rows are written, or not, and nothing is heard of them.
    Lose {
        output: usize,
        written: bool,
    },
    /// A client says that brokers are away.
    ClientErrors,
    /// Questions at the next start have no answer.
    StartFails {
        question: Question,
        times: u64,
    },
    Kill,
    Stop,
    Calm,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CommitTrouble {
    Local,
    Refused,
    AppliedThenFailed,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Topics,
    OutputTopics,
    Committed,
    CommittedPartition(usize),
}

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub flow: Flow,
    pub fates: Fates,
    pub sinks: Vec<SinkManner>,
    pub topics: Vec<(String, i32)>,
    /// Partitions by output.
    pub outputs: Vec<i32>,
    pub forward: bool,
    pub shutdown: Duration,
    pub most_workers: usize,
    /// How likely a worker is stepped that nothing woke.
    pub spurious: f64,
    pub events: Vec<Event>,
    pub yaml: String,
}

impl Scenario {
    pub(super) fn draw(dice: &mut Rng) -> Scenario {
        let topics: Vec<(String, i32)> = (0..[1, 1, 1, 2, 3][dice.usize(..5)])
            .map(|topic| (format!("in{topic}"), dice.i32(1..6)))
            .collect();
        let outputs: Vec<i32> = (0..dice.usize(1..4)).map(|_| dice.i32(1..4)).collect();
        let flow = Draw::flow(dice, outputs.len());
        let chaos = LONGEST.mul_f64(dice.f64() * dice.f64());
        let fates = Fates::draw(dice, flow.steps, flow.predicates, chaos);
        let sinks = (0..flow.sinks).map(|_| SinkManner::draw(dice, chaos)).collect();
        let forward = dice.f64() < 0.3;
        let shutdown = Duration::from_secs([5, 25][dice.usize(..2)]);
        let partitions: usize = topics.iter().map(|(_, partitions)| *partitions as usize).sum();
        let yaml = yaml(dice, &flow, &topics, forward, shutdown);
        let most_workers = [1, 1, 2, 3][dice.usize(..4)];
        let spurious = [0.0, 0.05, 0.3][dice.usize(..3)];
        let events = Events { dice, partitions, outputs: outputs.len(), chaos }.draw();
        Scenario {
            flow,
            fates,
            sinks,
            topics,
            outputs,
            forward,
            shutdown,
            most_workers,
            spurious,
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

/// The flow's file.
fn yaml(dice: &mut Rng, flow: &Flow, topics: &[(String, i32)], forward: bool, shutdown: Duration) -> String {
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
        [1, 2, 5, 20, 1000][dice.usize(..5)],
        ["1", "100", "256MiB", "256MiB"][dice.usize(..4)],
    );
    let names = [('s', flow.steps), ('p', flow.predicates), ('k', flow.sinks)];
    for (letter, count) in names {
        for number in 0..count {
            let breaker = if dice.f64() < 0.2 { ", breaker: off" } else { "" };
            let _ = writeln!(text, "  {letter}{number}: {{ component: {letter}{number}.wasm{breaker} }}");
        }
    }
    if flow.steps + flow.predicates + flow.sinks == 0 {
        text.truncate(text.len() - "plugins:\n".len());
    }
    text.push_str(&flow.yaml());
    text
}

struct Events<'a> {
    dice: &'a mut Rng,
    partitions: usize,
    outputs: usize,
    chaos: Duration,
}

impl Events<'_> {
    fn draw(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        // A burst before the start, and more while it runs.
        for _ in 0..self.dice.usize(1..12) {
            let at = if self.dice.f64() < 0.4 { At::Step(0) } else { self.at() };
            events.push(Event { at, act: self.produce() });
        }
        let faults = if self.dice.f64() < 0.15 { 0 } else { self.dice.usize(..10) };
        for _ in 0..faults {
            let act = self.fault();
            events.push(Event { at: self.at(), act });
        }
        for _ in 0..[0, 0, 1, 1, 2, 4][self.dice.usize(..6)] {
            let act = if self.dice.f64() < 0.6 { Act::Kill } else { Act::Stop };
            events.push(Event { at: self.at(), act });
        }
        events.push(Event { at: At::Time(self.chaos), act: Act::Calm });
        events
    }

    fn at(&mut self) -> At {
        if self.dice.bool() {
            At::Step(self.dice.u64(1..60) * self.dice.u64(1..10))
        } else {
            At::Time(self.chaos.mul_f64(self.dice.f64()))
        }
    }

    fn produce(&mut self) -> Act {
        let partition = self.dice.usize(..self.partitions);
        let count = [1, 2, 5, 15, 40][self.dice.usize(..5)];
        let payloads = (0..count).map(|_| match self.dice.usize(..20) {
            0 => Payload::Broken,
            1 | 2 => Payload::Tombstone,
            _ => Payload::Json(String::new()),
        });
        Act::Produce { partition, payloads: payloads.collect() }
    }

    fn lasts(&mut self) -> Duration {
        Duration::from_millis(self.dice.u64(1..20) * self.dice.u64(1..2000))
    }

    fn fault(&mut self) -> Act {
        let partition = self.dice.usize(..self.partitions);
        let output = self.dice.usize(..self.outputs);
        let times = self.dice.u64(1..4);
        match self.dice.usize(..24) {
            0 | 1 => Act::Control { partition },
            2 | 3 => Act::Gap { partition, offsets: self.dice.i64(1..4) },
            4 => Act::Compact { partition },
            5 => Act::Retain { partition, part: self.dice.f64() },
            6..9 => {
                let all = [CommitTrouble::Local, CommitTrouble::Refused, CommitTrouble::AppliedThenFailed];
                Act::CommitFails { fault: all[self.dice.usize(..3)], times }
            }
            9 | 10 => Act::CommitFailsIn { partition, times },
            11 => Act::SlowCommits { by: self.lasts() / 10 },
            12 => Act::QueueFull { times },
            13 => Act::TakeFails { times },
            14 | 15 => Act::SlowAcks { output, by: self.lasts() / 4 },
            16 | 17 => Act::NoAcks { output, lasts: self.lasts() },
            18 => Act::Down { lasts: self.lasts() },
            19 => Act::Refuse { output, times },
            20 => Act::Lose { output, written: self.dice.bool() },
            21 => Act::ClientErrors,
            _ => {
                let all = [
                    Question::Topics,
                    Question::OutputTopics,
                    Question::Committed,
                    Question::CommittedPartition(partition),
                ];
                Act::StartFails { question: all[self.dice.usize(..all.len())], times }
            }
        }
    }
}
