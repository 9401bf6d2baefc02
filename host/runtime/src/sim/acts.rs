//! What can happen to a simulated world from outside, and when; and the drawing of it.

use std::time::Duration;

use fastrand::Rng;

use super::flow::Payload;

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
    /// So many records for every partition each second, until then.
    Feed {
        records: usize,
        until: Duration,
    },
    /// Records in a transaction, which ends so much later.
    Transaction {
        partition: usize,
        payloads: Vec<Payload>,
        lasts: Duration,
        commit: bool,
    },
    TransactionEnds {
        partition: usize,
        commit: bool,
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
    /// Another leader is elected; of the log it has this part.
    Elect {
        partition: usize,
        part: f64,
    },
    /// A topic is deleted and made again.
    Remake {
        partition: usize,
    },
    /// A topic gets another partition.
    Grow {
        partition: usize,
    },
    Commits {
        fault: CommitTrouble,
        times: u64,
    },
    CommitFailsIn {
        partition: usize,
        times: u64,
        for_good: bool,
    },
    /// The group's offset for a partition vanishes.
    Vanish {
        partition: usize,
    },
    /// All of the group's offsets expire.
    Expire,
    /// Somebody sets the group's offset.
    SetOffset {
        partition: usize,
        part: f64,
    },
    /// Somebody else's consumers are in the group for so long.
    Members {
        lasts: Duration,
    },
    MembersLeave,
    QueueFull {
        times: u64,
    },
    TakeFails {
        times: u64,
    },
    /// The broker does not say for a while where a partition lies.
    BoundsFail {
        times: u64,
    },
    /// The next wake-ups at a partition are lost.
    LoseWakes {
        partition: usize,
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
    /// Clients do not see an output's topic for so long.
    Hide {
        output: usize,
        lasts: Duration,
    },
    Seen,
    Down {
        lasts: Duration,
    },
    Up,
    /// An output refuses rows for good.
    Refuse {
        output: usize,
        times: u64,
    },
    /// An output refuses batches whole, for what each `every`th record is.
    RefuseBatches {
        output: usize,
        every: usize,
        times: u64,
    },
    /// Rows are written, or not, and nothing is heard of them.
    Lose {
        output: usize,
        written: bool,
    },
    /// No producer can go on: its id is no longer known.
    Fence,
    /// A client says that brokers are away.
    ClientErrors,
    /// Questions at the next start have no answer.
    StartFails {
        question: Question,
        times: u64,
    },
    Kill,
    Stop,
    /// A second host starts.
    Rival {
        take_over: bool,
    },
    Calm,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CommitTrouble {
    Local,
    Refused,
    AppliedThenFailed,
    /// Nothing is set, and no answer comes.
    Unanswered,
    /// Nothing is set, and it is answered so much later.
    Lost(Duration),
    /// It is set, and answered, later.
    Late(Duration, Duration),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Question {
    Topics,
    OutputTopics,
    Committed,
    CommittedPartition(usize),
    Bounds,
}

/// How many kinds of fault there are.
const KINDS: usize = 41;

/// Draws what happens.
pub(super) struct Events<'a> {
    pub dice: &'a mut Rng,
    pub partitions: usize,
    pub outputs: usize,
    /// How long things happen.
    pub chaos: Duration,
}

impl Events<'_> {
    pub(super) fn draw(mut self) -> Vec<Event> {
        let mut events = Vec::new();
        // A burst before the start, and more while it runs.
        for _ in 0..self.dice.usize(1..12) {
            let at = if self.dice.f64() < 0.4 { At::Step(0) } else { self.at() };
            events.push(Event { at, act: self.produce() });
        }
        let faults = if self.dice.f64() < 0.15 { 0 } else { self.dice.usize(..10) };
        // Some worlds have one trouble, again and again.
        let only = (self.dice.f64() < 0.2).then(|| self.kind());
        for _ in 0..faults {
            let kind = only.unwrap_or_else(|| self.kind());
            let act = self.fault(kind);
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

    fn payloads(&mut self) -> Vec<Payload> {
        let count = [1, 2, 5, 15, 40][self.dice.usize(..5)];
        let payloads = (0..count).map(|_| match self.dice.usize(..20) {
            0 => Payload::Broken,
            1 | 2 => Payload::Tombstone,
            _ => Payload::Json(String::new()),
        });
        payloads.collect()
    }

    fn produce(&mut self) -> Act {
        Act::Produce { partition: self.dice.usize(..self.partitions), payloads: self.payloads() }
    }

    fn lasts(&mut self) -> Duration {
        Duration::from_millis(self.dice.u64(1..20) * self.dice.u64(1..2000))
    }

    /// A kind of fault: a number for [`Events::fault`].
    fn kind(&mut self) -> usize {
        self.dice.usize(..KINDS)
    }

    fn commit_trouble(&mut self) -> CommitTrouble {
        match self.dice.usize(..7) {
            0 => CommitTrouble::Local,
            1 => CommitTrouble::Refused,
            2 => CommitTrouble::AppliedThenFailed,
            3 => CommitTrouble::Unanswered,
            4 => CommitTrouble::Lost(self.lasts() / 4),
            _ => CommitTrouble::Late(self.lasts() / 4, self.lasts() / 4),
        }
    }

    fn fault(&mut self, kind: usize) -> Act {
        let partition = self.dice.usize(..self.partitions);
        let output = self.dice.usize(..self.outputs);
        let times = self.dice.u64(1..4);
        match kind {
            0 => Act::Control { partition },
            1 | 2 => Act::Gap { partition, offsets: self.dice.i64(1..4) },
            3 => Act::Compact { partition },
            4 => Act::Retain { partition, part: self.dice.f64() },
            5..9 => Act::Commits { fault: self.commit_trouble(), times },
            9 | 10 => Act::CommitFailsIn { partition, times, for_good: self.dice.f64() < 0.3 },
            11 => Act::Commits { fault: self.commit_trouble(), times: self.dice.u64(5..50) },
            12 => Act::QueueFull { times },
            13 => Act::TakeFails { times },
            14 | 15 => Act::SlowAcks { output, by: self.lasts() / 4 },
            16 | 17 => Act::NoAcks { output, lasts: self.lasts() },
            18 => Act::Down { lasts: self.lasts() },
            19 => Act::Refuse { output, times },
            20 => Act::Lose { output, written: self.dice.bool() },
            21 => Act::ClientErrors,
            22 => Act::RefuseBatches { output, every: self.dice.usize(1..8), times: self.dice.u64(1..6) },
            23 => Act::Vanish { partition },
            24 => Act::Expire,
            25 | 26 => Act::SetOffset { partition, part: self.dice.f64() },
            27 => Act::BoundsFail { times },
            28 => Act::LoseWakes { partition, times },
            29 | 30 => Act::Transaction {
                partition,
                payloads: self.payloads(),
                lasts: self.lasts(),
                commit: self.dice.f64() < 0.7,
            },
            31 => Act::Elect { partition, part: if self.dice.bool() { 1.0 } else { self.dice.f64() } },
            32 => Act::Remake { partition },
            33 => Act::Grow { partition },
            34 => Act::Members { lasts: self.lasts() },
            35 => Act::Hide { output, lasts: self.lasts() },
            36 => Act::Fence,
            37 | 38 => Act::Rival { take_over: self.dice.bool() },
            _ => {
                let all = [
                    Question::Topics,
                    Question::OutputTopics,
                    Question::Committed,
                    Question::CommittedPartition(partition),
                    Question::Bounds,
                ];
                Act::StartFails { question: all[self.dice.usize(..all.len())], times }
            }
        }
    }
}
