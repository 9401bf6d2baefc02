//! Cases that seeds have found, each as a scenario of its own: seeds draw something else as soon as the simulation grows.
//!
//! When processes start is left to chance, so a case is run with several seeds, and its history tells whether it came to
//! what it is about.

use std::time::Duration;

use fastrand::Rng;
use loom_kafka::memory::Network;

use super::Report;
use super::acts::{Act, At, CommitTrouble, Event, Question};
use super::executor;
use super::fates::Fates;
use super::flow::Payload;
use super::scenario::Scenario;

/// See the module's description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// The input topic is made again between a process's first look at it and its first record: what the group has is of
    /// the topic that was looked at, and the process goes on from it until it finds out.
    MadeAgainDuringStart,
    /// The input topic is made again under a process, and a record of the new one stops the flow.
    StopsBehindMadeAgain,
    /// A commit of a process that was killed arrives when all faults are over, in the life of another process, which
    /// does not know the one that sent it.
    CommitArrivesAfterCalm,
    /// The log is cut and grows again, and a process that reads it from the beginning commits nothing: the next one starts
    /// at an offset of the log as it was, and goes back to the cut.
    OldCommitAfterReplay,
    /// The log is cut a second time while a process waits to go on at the first cut.
    CutTwice,
    /// All is done and committed, and a replay of it takes longer than a commit may.
    SlowReplay,
}

impl Case {
    /// What the history has where it came to the case.
    #[must_use]
    pub fn shows(self) -> &'static str {
        match self {
            Case::MadeAgainDuringStart => "torn: true",
            Case::StopsBehindMadeAgain => "`errors.unrouted: stop` stops the flow",
            Case::CommitArrivesAfterCalm => "were set from outside",
            Case::OldCommitAfterReplay => "in0/0 is sought to 10",
            Case::CutTwice => "in0/0 is sought to 5",
            Case::SlowReplay => "from: Beginning",
        }
    }

    fn scenario(self) -> Scenario {
        match self {
            Case::MadeAgainDuringStart => Scenario::one_step(
                Fates::good(),
                false,
                vec![
                    at(0, produce(5)),
                    at(1000, Act::Stop),
                    at(1000, Act::StartFails { question: Question::OutputTopics, times: 9 }),
                    at(7000, Act::Remake { partition: 0 }),
                    at(7000, produce(10)),
                    at(60_000, Act::Calm),
                ],
            ),
            Case::StopsBehindMadeAgain => Scenario::one_step(
                Fates::failing(),
                true,
                vec![at(1000, Act::Remake { partition: 0 }), at(1000, produce(1)), at(60_000, Act::Calm)],
            ),
            Case::CommitArrivesAfterCalm => {
                let late = CommitTrouble::Late(Duration::from_secs(20), Duration::from_secs(1));
                Scenario::one_step(
                    Fates::good(),
                    false,
                    vec![
                        // The first process has the lease, and the second one therefore watches it: the third one knows
                        // of the first only.
                        at(1000, Act::Kill),
                        at(1000, Act::Expire),
                        at(1000, Act::Commits { fault: late, times: 1 }),
                        at(7000, Act::Kill),
                        at(7000, Act::Calm),
                    ],
                )
            }
            Case::OldCommitAfterReplay => {
                let events = vec![
                    at(0, produce(20)),
                    at(1000, Act::Stop),
                    at(1001, Act::Elect { partition: 0, part: 0.5 }),
                    at(1001, produce(20)),
                    at(1001, Act::Commits { fault: CommitTrouble::Unanswered, times: 1 }),
                    at(7000, Act::Kill),
                    at(7000, Act::Calm),
                ];
                Scenario { beginnings: 0.5, ..Scenario::one_step(Fates::good(), false, events) }
            }
            Case::CutTwice => Scenario::one_step(
                Fates::good(),
                false,
                vec![
                    at(0, produce(10)),
                    at(1000, Act::NoAcks { output: 0, lasts: Duration::from_secs(9) }),
                    at(1001, produce(10)),
                    at(3000, Act::Elect { partition: 0, part: 0.5 }),
                    at(6000, Act::Elect { partition: 0, part: 0.5 }),
                    at(60_000, Act::Calm),
                ],
            ),
            Case::SlowReplay => {
                let slow = Duration::from_secs(8)..=Duration::from_secs(8);
                let events = vec![at(0, produce(40)), at(2_000_000, Act::Stop), at(2_000_000, Act::Calm)];
                let plain = Scenario::one_step(Fates::good(), false, events);
                let yaml = plain.yaml.replacen("records: 1000", "records: 1", 1);
                let network = Network { send: slow, ..Network::default() };
                Scenario { beginnings: 0.5, network, yaml, ..plain }
            }
        }
    }
}

/// Runs a case, and keeps its history.
#[must_use]
pub fn case(case: Case, seed: u64) -> Report {
    executor::run(seed, case.scenario(), Rng::with_seed(seed), true)
}

fn at(ms: u64, act: Act) -> Event {
    Event { at: At::Time(Duration::from_millis(ms)), act }
}

fn produce(records: usize) -> Act {
    Act::Produce { partition: 0, payloads: vec![Payload::Json(String::new()); records] }
}
