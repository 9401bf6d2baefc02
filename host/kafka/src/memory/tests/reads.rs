//! What happens to a partition while it is read: transactions, retention, elections, deletion, silence.

use loom_types::{CommitOffset, PartitionId, TopicPartition};

use super::{ASK, broker_with, client, error, input};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::{Reading, Signal, WIDE};
use crate::contract::{Broker, Notice};
use crate::error::Kind;
use crate::facts::{Assigned, Bounds};
use crate::memory::{MemoryBroker, Record};

fn reading(broker: &MemoryBroker, start: i64) -> Reading {
    Reading::start(&MemoryFixture::default(), &client(broker), &[("in", 0, start)])
}

#[test]
fn an_open_transaction_holds_the_end_back() {
    let (broker, _) = broker_with(2);
    let mut reading = reading(&broker, 0);
    reading.end(2);
    let transaction = broker.begin("in", 0);
    broker.produce_in(&transaction, Record::value("2"));
    broker.produce("in", 0, Record::value("3"));
    let taken = reading.take(0, WIDE);
    assert_eq!((taken.rows, taken.end, taken.more), (0, None, false));
    let bounds = client(&broker).bounds(&input(), ASK).unwrap();
    assert_eq!(bounds, Bounds { low: CommitOffset(0), high: CommitOffset(2) }, "the last stable offset");
    assert_eq!(client(&broker).log_end(&input(), ASK).unwrap(), CommitOffset(4), "the log goes on");
    let calls = reading.signal.calls();
    broker.end(&transaction, true);
    assert!(reading.signal.calls() > calls, "the end of a transaction wakes");
    reading.end(5);
    assert_eq!(reading.seen[0].offsets(), [0, 1, 2, 3]);

    let transaction = broker.begin("in", 0);
    broker.produce_in(&transaction, Record::value("5"));
    broker.produce("in", 0, Record::value("6"));
    broker.end(&transaction, false);
    reading.end(8);
    assert_eq!(reading.seen[0].offsets(), [0, 1, 2, 3, 6], "what was aborted is not given out");
}

#[test]
fn retention_is_told_behind_what_was_fetched() {
    let (broker, _) = broker_with(10);
    broker.faults().read_ahead(4);
    let mut reading = reading(&broker, 0);
    assert_eq!(reading.take(0, crate::contract::Budget { rows: 1, bytes: 1000 }).rows, 1);
    broker.delete_before("in", 0, CommitOffset(8));
    broker.faults().go_down();
    assert_eq!(reading.take(0, WIDE).rows, 3, "the client has them already");
    assert_eq!(reading.take(0, WIDE).rows, 0);
    broker.faults().come_up();
    assert!(matches!(reading.notice(0), Notice::OutOfRange));
    assert_eq!(reading.seen[0].offsets(), [0, 1, 2, 3]);
    reading.seek(0, 8);
    reading.end(10);
    assert_eq!(reading.seen[0].offsets(), [8, 9]);
}

#[test]
fn a_seek_forgets_what_was_fetched() {
    let (broker, _) = broker_with(10);
    broker.faults().read_ahead(5);
    let mut reading = reading(&broker, 0);
    reading.take(0, crate::contract::Budget { rows: 1, bytes: 1000 });
    reading.seek(0, 7);
    reading.end(10);
    assert_eq!(reading.seen[0].offsets(), [7, 8, 9]);
}

#[test]
fn retention_wakes_who_waits_there() {
    let (broker, _) = broker_with(3);
    let mut reading = reading(&broker, 0);
    reading.end(3);
    broker.leave_gap("in", 0, 5);
    broker.take_until_quiet(&mut reading);
    let calls = reading.signal.calls();
    broker.delete_before("in", 0, CommitOffset(8));
    assert!(reading.signal.calls() > calls);
}

impl MemoryBroker {
    fn take_until_quiet(&self, reading: &mut Reading) {
        while reading.take(0, WIDE).more {}
    }
}

#[test]
fn a_log_that_was_cut_is_told_also_when_it_has_grown_again() {
    let (broker, _) = broker_with(10);
    let mut reading = reading(&broker, 0);
    reading.records(10);
    broker.elect_leader("in", 0, CommitOffset(10));
    for number in 10..12 {
        broker.produce("in", 0, Record::value(number.to_string()));
    }
    reading.records(12);
    assert_eq!(reading.seen[0].leader_epoch, Some(1), "an election that loses nothing is no news");
    broker.elect_leader("in", 0, CommitOffset(6));
    for number in 6..20 {
        broker.produce("in", 0, Record::value(format!("other {number}")));
    }
    let notice = reading.notice(0);
    assert!(
        matches!(notice, Notice::Cut { end: CommitOffset(6) }),
        "the records from 6 to 12 are others now: {notice:?}"
    );

    for (epoch, cut) in [(Some(0), true), (Some(2), false), (None, false)] {
        let assigned = Assigned {
            id: PartitionId(0),
            partition: input(),
            topic: 0,
            start: CommitOffset(10),
            leader_epoch: epoch,
        };
        let mut reader = client(&broker).reader(vec![assigned], 1, Signal::new().waker()).unwrap();
        let mut builder = loom_types::BatchBuilder::new([std::sync::Arc::from("in")].into());
        let taken = reader.source.take(PartitionId(0), WIDE, &mut builder);
        assert_eq!(
            matches!(taken.notice, Some(Notice::Cut { end: CommitOffset(6) })),
            cut,
            "{epoch:?}: {taken:?}"
        );
        assert_eq!(taken.rows, if cut { 0 } else { 10 });
    }
}

#[test]
fn a_topic_that_is_deleted_is_told_once_and_one_made_again_is_read_on() {
    let (broker, _) = broker_with(5);
    let id = broker.topic_id("in");
    let mut reading = reading(&broker, 0);
    reading.end(5);
    let calls = reading.signal.calls();
    broker.delete_topic("in");
    assert!(reading.signal.calls() > calls);
    let notice = reading.notice(0);
    assert!(matches!(&notice, Notice::Failed(error) if error.kind == Kind::UnknownTopic), "{notice:?}");
    assert!(reading.take(0, WIDE).notice.is_none(), "once");
    broker.create_topic("in", 1);
    assert_ne!(broker.topic_id("in"), id);
    assert!(matches!(reading.notice(0), Notice::OutOfRange), "it has no offset 5");

    let mut reading = self::reading(&broker, 0);
    reading.end(0);
    broker.delete_topic("in");
    broker.create_topic("in", 1);
    broker.produce("in", 0, Record::value("another"));
    reading.records(1);
    assert_eq!(reading.seen[0].payloads(), ["another"], "a client does not see that it is another");
}

#[test]
fn more_partitions_are_seen_by_who_asks() {
    let (broker, _) = broker_with(1);
    let client = client(&broker);
    broker.add_partitions("in", 3);
    assert_eq!(client.topics(&["in"], ASK).unwrap()[0].as_ref().unwrap().partitions, 3);
    broker.produce("in", 2, Record::value("late"));
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("in", 2, 0)]);
    reading.records(1);
}

#[test]
fn a_partition_falls_silent_and_the_others_go_on() {
    let (broker, _) = broker_with(3);
    broker.add_partitions("in", 2);
    broker.produce("in", 1, Record::value("x"));
    broker.faults().silence(&input(), true);
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("in", 0, 0), ("in", 1, 0)]);
    let taken = reading.take(0, WIDE);
    assert_eq!((taken.rows, taken.end, taken.more, taken.notice.is_none()), (0, None, false, true));
    assert_eq!(reading.take(1, WIDE).rows, 1);
    let calls = reading.signal.calls();
    broker.faults().silence(&input(), false);
    assert!(reading.signal.calls() > calls);
    assert_eq!(reading.take(0, WIDE).rows, 3);
}

#[test]
fn a_wake_up_can_be_lost_and_the_record_is_there_all_the_same() {
    let (broker, _) = broker_with(0);
    let mut reading = reading(&broker, 0);
    reading.end(0);
    broker.take_until_quiet(&mut reading);
    broker.faults().lose_wakes(&input(), 1);
    let calls = reading.signal.calls();
    broker.produce("in", 0, Record::value("0"));
    assert_eq!(reading.signal.calls(), calls);
    broker.produce("in", 0, Record::value("1"));
    assert_eq!(reading.signal.calls(), calls, "nobody waits any more: that is what a lost wake-up costs");
    assert_eq!(reading.take(0, WIDE).rows, 2);
    broker.produce("in", 0, Record::value("2"));
    assert!(reading.signal.calls() > calls);
    broker.faults().wake_all();
}

#[test]
fn offsets_are_reset_and_deleted_from_outside() {
    let (broker, _) = broker_with(5);
    broker.add_partitions("in", 2);
    let other = TopicPartition::new("in", 1);
    for place in [&input(), &other] {
        broker.set_committed("rep", place, CommitOffset(3), "m");
    }
    broker.forget_committed("rep", &input());
    assert_eq!(broker.committed("rep", &input()), None);
    assert!(broker.committed("rep", &other).is_some());
    broker.expire_group("rep");
    assert_eq!(broker.committed("rep", &other), None);
}

#[test]
fn a_script_s_notice_comes_behind_what_was_fetched_too() {
    let (broker, _) = broker_with(6);
    broker.faults().read_ahead(2);
    let failed = || Notice::Failed(error(Kind::Other, "_BAD_COMPRESSION"));
    broker.faults().notice(&input(), CommitOffset(3), failed());
    let mut reading = reading(&broker, 0);
    assert!(matches!(reading.notice(0), Notice::Failed(_)));
    assert_eq!(reading.seen[0].offsets(), [0, 1, 2]);
    reading.end(6);
    assert_eq!(reading.seen[0].records.len(), 6);
}

#[test]
fn a_take_is_of_one_epoch() {
    let (broker, _) = broker_with(3);
    broker.elect_leader("in", 0, CommitOffset(3));
    broker.produce("in", 0, Record::value("3"));
    let mut reading = reading(&broker, 0);
    let one = reading.take(0, WIDE);
    assert_eq!((one.rows, one.leader_epoch, one.more), (3, Some(0), true));
    let other = reading.take(0, WIDE);
    assert_eq!((other.rows, other.leader_epoch, other.end), (1, Some(1), Some(CommitOffset(4))));
    assert_eq!(other.log_end, Some(CommitOffset(4)));
}

#[test]
fn a_damaged_batch_is_told_from_wherever_it_is_met_and_nothing_behind_it_is_given_out() {
    let (broker, _) = broker_with(10);
    broker.faults().break_batch(&input(), CommitOffset(3), CommitOffset(5));
    let mut reading = reading(&broker, 0);
    let taken = reading.take(0, WIDE);
    assert_eq!((taken.rows, taken.more), (3, true));
    for at in [3, 4, 5] {
        let notice = reading.notice(0);
        assert!(matches!(notice, Notice::Broken { first: CommitOffset(3), .. }), "from {at}: {notice:?}");
        assert_eq!(reading.take(0, WIDE).rows, 0, "it waits for a seek");
        reading.seek(0, at + 1);
    }
    assert_eq!(reading.take(0, WIDE).rows, 4);
    reading.seek(0, 3);
    broker.faults().mend_batches(&input());
    assert_eq!(reading.take(0, WIDE).rows, 7);
}
