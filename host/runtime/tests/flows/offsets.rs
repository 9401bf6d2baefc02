//! The group's offsets from outside of a run: read, moved, and left alone while somebody works for the group.

use std::sync::Arc;
use std::time::Duration;

use loom_delivery::Mark;
use loom_flow::Plan;
use loom_kafka::memory::{MemoryBroker, Record};
use loom_kafka::{Broker, Member};
use loom_runtime::offsets::{self, Move, MoveTo};
use loom_runtime::{AssemblyError, Identity, Options, Status, Stop, consumer_settings};
use loom_types::CommitOffset;

use crate::harness::{
    committed_at, flow, in0, payloads, place, plan, produce, set_committed, start, start_with, wide_broker,
};

const QUICK: &str = "runtime: { lease_interval: 50ms }\nprocess: [ { into_topic: out } ]\n";

/// The group, as the command sees it.
struct Group {
    plan: Arc<Plan>,
    client: Arc<dyn Broker>,
    stop: Stop,
}

impl Group {
    fn of(broker: &MemoryBroker) -> Group {
        let plan = plan(&flow("", QUICK));
        let client = Arc::new(broker.as_broker(consumer_settings(&plan)));
        Group { plan, client, stop: Stop::new() }
    }

    fn moves(&self, to: MoveTo) -> Result<Vec<Move>, Vec<AssemblyError>> {
        let found = offsets::read(&self.plan, &*self.client, &self.stop)?;
        offsets::moves(&self.plan, &*self.client, found, to, &self.stop)
    }

    fn targets(&self, to: MoveTo) -> Vec<i64> {
        self.moves(to).unwrap().iter().map(|one| one.to.0).collect()
    }

    fn unowned(&self) -> Result<(), AssemblyError> {
        offsets::unowned(&self.plan, &*self.client, &self.stop, std::thread::sleep)
    }
}

#[test]
fn offsets_are_read_with_bounds_lag_and_writer() {
    let broker = wide_broker(2, &["out"]);
    produce(&broker, &["a", "b", "c"]);
    let running = start(&flow("", QUICK), &broker);
    running.until_committed(3);
    running.stop();
    produce(&broker, &["d"]);
    let group = Group::of(&broker);
    let found = offsets::read(&group.plan, &*group.client, &group.stop).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(
        (found[0].partition.clone(), found[0].lag(), found[0].bounds.high),
        (in0(), Some(1), CommitOffset(4))
    );
    let mark = found[0].mark().expect("a flow wrote it");
    assert_eq!(mark.topic, broker.topic_id("in"));
    assert!(mark.run.is_some() && !found[0].is_of_another_topic());
    broker.delete_topic("in");
    broker.create_topic("in", 2);
    let found = offsets::read(&group.plan, &*group.client, &group.stop).unwrap();
    assert!(found[0].is_of_another_topic());
}

#[test]
fn offsets_are_moved_and_the_next_start_goes_on_there() {
    let broker = wide_broker(2, &["out"]);
    for (n, partition) in [(0, 0), (1, 0), (2, 0), (3, 1)] {
        broker.produce("in", partition, Record::value(n.to_string()).at(1_000 + n));
    }
    set_committed(&broker, 3);
    let group = Group::of(&broker);
    assert_eq!(group.targets(MoveTo::Beginning), [0, 0]);
    assert_eq!(group.targets(MoveTo::End), [3, 1]);
    assert_eq!(group.targets(MoveTo::Time(1_002)), [2, 0]);
    assert_eq!(group.targets(MoveTo::Time(5_000)), [3, 1], "the end, where there is no such record");
    let outside = group.moves(MoveTo::Offset(CommitOffset(2))).unwrap_err();
    assert_eq!(outside.len(), 1);
    assert_eq!(outside[0].message, "in/1 holds offset 0, and its end is 1: 2 is outside of it");
    let outside = group.moves(MoveTo::Offset(CommitOffset(4))).unwrap_err();
    assert_eq!(outside[0].message, "in/0 holds offsets 0 to 2, and its end is 3: 4 is outside of it");

    group.unowned().unwrap();
    let mut moves = group.moves(MoveTo::Time(1_002)).unwrap();
    moves.retain(|one| one.from.partition == in0());
    offsets::commit(&group.plan, &*group.client, &moves, &group.stop).unwrap();
    let committed = broker.committed("g", &in0()).expect("it was moved");
    assert_eq!(committed.offset, CommitOffset(2));
    let mark = Mark::parse(&committed.metadata).expect("it is marked");
    assert_eq!((mark.topic, mark.run), (broker.topic_id("in"), None));
    assert_eq!(committed_at(&broker, &place("in", 1)), None, "it was not asked for");

    let running = start(&flow("", QUICK), &broker);
    running.until_committed(3);
    running.until_committed_at(&place("in", 1), 1);
    assert_eq!(running.stop().failures, []);
    let mut seen = payloads(&broker, "out");
    seen.sort();
    assert_eq!(seen, ["2", "3"]);
}

#[test]
fn while_a_host_holds_the_lease_or_others_are_in_the_group_nothing_may_be_moved() {
    let broker = wide_broker(1, &["out"]);
    let group = Group::of(&broker);
    // Of another machine: an owner of this very process would count as one that has ended.
    let identity =
        Identity { host: "elsewhere".to_owned(), place: "other".to_owned(), ..Identity::of_this_process() };
    let running = start_with(&flow("", QUICK), &broker, Options { identity, ..Options::default() });
    running.until("the lease is held", |view| view.committed("g.owner", &in0()).is_some());
    let refused = group.unowned().unwrap_err();
    assert_eq!(refused.status, Status::Runtime);
    assert!(refused.message.contains("group g is in use: run "), "{}", refused.message);
    assert_eq!(running.stop().failures, []);
    // It was released.
    group.unowned().unwrap();

    let member = Member { client_id: "other-service".to_owned(), host: "/10.0.0.7".to_owned() };
    broker.join_group("g", member);
    let refused = group.unowned().unwrap_err();
    assert_eq!(refused.status, Status::Runtime);
    assert!(refused.message.contains("other-service at /10.0.0.7"), "{}", refused.message);
}

#[test]
fn the_lease_of_a_host_that_is_gone_is_watched_and_then_no_obstacle() {
    let broker = wide_broker(1, &["out"]);
    let group = Group::of(&broker);
    let gone = "loom1 run=0000000000000007 host=elsewhere process=1 place=x start=0";
    broker.set_committed("g.owner", &in0(), CommitOffset(9), gone);
    let mut waits = Vec::new();
    offsets::unowned(&group.plan, &*group.client, &group.stop, |wait| waits.push(wait)).unwrap();
    assert_eq!(waits, [Duration::from_millis(50); 2], "two intervals");
}
