//! The keeper against a broker whose answers take their time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_delivery::RunId;
use loom_kafka::memory::{ManualClock, MemoryBroker, MemoryClient};
use loom_kafka::{
    Assigned, Bounds, Broker, Committed, ConsumerSettings, CredentialSettings, Group, GroupEntry, KafkaError,
    Kind, Member, OutputInfo, OutputSettings, Reader, Rights, TopicInfo, TopicSink, Waker,
};
use loom_types::{CommitOffset, Moment, PartitionId, TopicPartition};

use super::lease::look;
use super::{Desk, Gate, Keeper, KeeperBoard, Kept, KeptTopic, LeaseKeeper, Parts, describe};
use crate::identity::Identity;
use crate::stop::{Bell, Stop};
use crate::worker::Next;

const INTERVAL: Duration = Duration::from_secs(5);

/// Every question but those of the lease takes as long as it may, and then has its answer.
struct Slow {
    client: MemoryClient,
    clock: ManualClock,
    /// Those of the lease take as long too, and have none.
    lease_is_silent: bool,
}

impl Slow {
    fn takes(&self, timeout: Duration) {
        self.clock.advance(timeout);
    }
}

type Answers<T> = Result<Vec<Result<T, KafkaError>>, KafkaError>;

impl Broker for Slow {
    fn topics(&self, names: &[&str], timeout: Duration) -> Answers<TopicInfo> {
        self.takes(timeout);
        self.client.topics(names, timeout)
    }

    fn output_topics(&self, outputs: &[OutputSettings], timeout: Duration) -> Answers<OutputInfo> {
        self.takes(timeout);
        self.client.output_topics(outputs, timeout)
    }

    fn topic_names(&self, timeout: Duration) -> Result<Vec<String>, KafkaError> {
        self.client.topic_names(timeout)
    }

    fn committed(
        &self,
        group: Group,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> Answers<Option<Committed>> {
        if group == Group::Input || self.lease_is_silent {
            self.takes(timeout);
        }
        if group == Group::Owner && self.lease_is_silent {
            let message = "asking for the lease took too long".to_owned();
            return Err(KafkaError { kind: Kind::Coordinator, code: "_TIMED_OUT", message });
        }
        self.client.committed(group, partitions, timeout)
    }

    fn commit_now(&self, group: Group, entries: &[GroupEntry], timeout: Duration) -> Answers<()> {
        self.client.commit_now(group, entries, timeout)
    }

    fn members(&self, timeout: Duration) -> Result<Vec<Member>, KafkaError> {
        self.takes(timeout);
        self.client.members(timeout)
    }

    fn offsets_at(
        &self,
        partitions: &[TopicPartition],
        timestamp_ms: i64,
        timeout: Duration,
    ) -> Answers<Option<CommitOffset>> {
        self.client.offsets_at(partitions, timestamp_ms, timeout)
    }

    fn rights(&self, timeout: Duration) -> Result<Rights, KafkaError> {
        self.client.rights(timeout)
    }

    fn bounds(&self, partition: &TopicPartition, timeout: Duration) -> Result<Bounds, KafkaError> {
        self.takes(timeout);
        self.client.bounds(partition, timeout)
    }

    fn log_end(&self, partition: &TopicPartition, timeout: Duration) -> Result<CommitOffset, KafkaError> {
        self.takes(timeout);
        self.client.log_end(partition, timeout)
    }

    fn reader(&self, assigned: Vec<Assigned>, sharing: usize, waker: Waker) -> Result<Reader, KafkaError> {
        self.client.reader(assigned, sharing, waker)
    }

    fn writer(
        &self,
        outputs: &[OutputSettings],
        room: usize,
        waker: Waker,
    ) -> Result<Box<dyn TopicSink>, KafkaError> {
        self.client.writer(outputs, room, waker)
    }
}

fn client(broker: &MemoryBroker) -> MemoryClient {
    broker.as_broker(ConsumerSettings {
        brokers: vec!["memory".into()],
        group_id: "g".into(),
        credentials: CredentialSettings::default(),
        forward_tombstones: false,
        prefetch: 1 << 20,
        poll_backoff: Duration::from_millis(50),
        extra: BTreeMap::new(),
    })
}

fn place() -> TopicPartition {
    TopicPartition::new("in", 0)
}

fn holder(run: u64) -> loom_delivery::lease::Holder {
    let identity = Identity { run: RunId(run), place: format!("p{run}"), ..Identity::of_this_process() };
    identity.holder(false)
}

/// A keeper of a worker with so many partitions.
fn keeper(broker: Arc<dyn Broker>, partitions: u32, lease: LeaseKeeper, stop: &Stop) -> (Keeper, Arc<Desk>) {
    let bell = Arc::new(Bell::default());
    let desk = Arc::new(Desk::new(partitions as usize, Arc::new(Bell::default()), bell.clone()));
    let kept = (0..partitions).map(|number| Kept {
        worker: 0,
        id: PartitionId(number),
        name: TopicPartition::new("in", number as i32),
        initial: None,
    });
    let keeper = Keeper::new(Parts {
        broker,
        group: "g".into(),
        run: RunId(7),
        lease,
        predecessor: None,
        interval: Some(INTERVAL),
        partitions: kept.collect(),
        topics: vec![KeptTopic {
            name: "in".into(),
            id: None,
            partitions: partitions as i32,
            missing_since: None,
        }],
        outputs: Vec::new(),
        desks: vec![desk.clone()],
        gate: Arc::new(Gate::default()),
        stop: stop.clone(),
        bell,
        board: KeeperBoard::default(),
        notes: None,
    });
    (keeper, desk)
}

/// A live owner whose broker answers everything but the lease at the last moment, asked about all of its partitions again
/// and again, is seen to live: between two signs of life no newcomer's watch runs out.
#[test]
fn however_many_questions_wait_the_lease_goes_first() {
    let clock = ManualClock::new();
    let broker = MemoryBroker::new(clock.clock());
    broker.create_topic("in", 100);
    let slow = Slow { client: client(&broker), clock: clock.clone(), lease_is_silent: false };
    let lease = LeaseKeeper::new("g", place(), holder(7), None);
    let stop = Stop::new();
    let (mut keeper, desk) = keeper(Arc::new(slow), 100, lease, &stop);
    let (mut last, mut longest) = (Moment::START, Duration::ZERO);
    let mut beat = None;
    while clock.now() < Moment(Duration::from_secs(300)) {
        (0..100).for_each(|number| desk.ask(PartitionId(number)));
        desk.ask_who();
        let next = keeper.step(clock.now());
        let seen = broker.committed("g.owner", &place()).map(|entry| entry.metadata);
        if seen != beat {
            longest = longest.max(clock.now().since(last));
            (beat, last) = (seen, clock.now());
        }
        if let Next::Sleep(wait) = next {
            clock.advance(wait);
        }
    }
    let answered = desk.told().len();
    assert!(longest <= INTERVAL + Duration::from_secs(1), "a sign of life came after {longest:?}");
    assert!(answered > 20, "and {answered} questions were answered");
    assert!(!stop.is_requested());
}

/// A beat whose answer does not come takes all the time until the next one: what workers ask is answered between them.
#[test]
fn however_long_the_lease_takes_questions_are_answered() {
    let clock = ManualClock::new();
    let broker = MemoryBroker::new(clock.clock());
    broker.create_topic("in", 10);
    let slow = Slow { client: client(&broker), clock: clock.clone(), lease_is_silent: true };
    let lease = LeaseKeeper::new("g", place(), holder(7), None);
    let (mut keeper, desk) = keeper(Arc::new(slow), 10, lease, &Stop::new());
    (0..10).for_each(|number| desk.ask(PartitionId(number)));
    while clock.now() < Moment(Duration::from_secs(200)) {
        if let Next::Sleep(wait) = keeper.step(clock.now()) {
            clock.advance(wait);
        }
    }
    assert_eq!(desk.told().len(), 10);
}

#[test]
fn a_round_that_another_one_follows_holds_on_to_the_lease() {
    for (anew, released) in [(false, true), (true, false)] {
        let clock = ManualClock::new();
        let broker = MemoryBroker::new(clock.clock());
        broker.create_topic("in", 1);
        let stop = Stop::new();
        let lease = LeaseKeeper::new("g", place(), holder(7), None);
        let (mut keeper, _) = keeper(Arc::new(client(&broker)), 1, lease, &stop);
        keeper.step(clock.now());
        if anew {
            stop.request_anew()
        } else {
            stop.request()
        }
        keeper.close();
        let left = look(&client(&broker), &place(), INTERVAL).unwrap().and_then(|seen| seen.holder);
        let left = left.expect("the entry of the round");
        assert_eq!(left.released, released, "{}", describe(&left));
        // Where none follows after all, it is released.
        super::release_left(&client(&broker), &place(), &holder(7), INTERVAL);
        let left = look(&client(&broker), &place(), INTERVAL).unwrap().and_then(|seen| seen.holder);
        assert!(left.is_some_and(|left| left.released));
        // Another's is left alone.
        let other = LeaseKeeper::new("g", place(), holder(9), None);
        let (mut other, _) = self::keeper(Arc::new(client(&broker)), 1, other, &Stop::new());
        other.step(clock.now());
        super::release_left(&client(&broker), &place(), &holder(7), INTERVAL);
        let left = look(&client(&broker), &place(), INTERVAL).unwrap().and_then(|seen| seen.holder);
        assert!(left.is_some_and(|left| left.run == RunId(9) && !left.released));
    }
}
