//! Calls that fail as the script says, and a cluster that is away.

use loom_types::{CommitOffset, PartitionId};

use super::{ASK, broker_with, client, error, input};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::{Reading, WIDE, Writing};
use crate::contract::{Broker, CommitEntry, Notice, OutputIndex, Stamp};
use crate::error::Kind;
use crate::facts::Group;
use crate::memory::{Call, Record, When};

#[test]
fn rules_strike_in_the_order_they_were_written() {
    let (broker, _) = broker_with(0);
    broker.set_committed("rep", &input(), CommitOffset(40), "m");
    let faults = broker.faults();
    faults.fail(Call::Committed, When::next(2), error(Kind::Coordinator, "NOT_COORDINATOR"));
    faults.fail(Call::Committed, When::nth(2), error(Kind::Coordinator, "REQUEST_TIMED_OUT"));
    let client = client(&broker);
    let mut codes = Vec::new();
    for _ in 0..6 {
        match client.committed(Group::Input, &[input()], ASK) {
            Err(error) => codes.push(error.code),
            Ok(found) => {
                let committed = found[0].clone().unwrap().unwrap();
                assert_eq!((committed.offset, &*committed.metadata), (CommitOffset(40), "m"));
                codes.push("ok");
            }
        }
    }
    assert_eq!(codes, ["NOT_COORDINATOR", "NOT_COORDINATOR", "ok", "REQUEST_TIMED_OUT", "ok", "ok"]);
    assert_eq!(broker.view(|view| view.calls(Call::Committed)), 6);
}

#[test]
fn one_place_of_an_answer_can_be_an_error() {
    let (broker, _) = broker_with(0);
    broker.create_topic("b", 2);
    let faults = broker.faults();
    let loading = error(Kind::Coordinator, "COORDINATOR_LOAD_IN_PROGRESS");
    let (b0, b1) = (loom_types::TopicPartition::new("b", 0), loom_types::TopicPartition::new("b", 1));
    faults.fail_partition(Call::Committed, b1.clone(), When::next(1), loading.clone());
    let client = client(&broker);
    let places = [input(), b0.clone(), b1.clone()];
    assert_eq!(client.committed(Group::Input, &places, ASK).unwrap(), [Ok(None), Ok(None), Err(loading)]);
    assert_eq!(client.committed(Group::Input, &places, ASK).unwrap(), [Ok(None), Ok(None), Ok(None)]);

    let denied = error(Kind::Authorization, "TOPIC_AUTHORIZATION_FAILED");
    faults.fail_topic(Call::Committed, "b", When::always(), denied.clone());
    faults.fail_topic(Call::Topics, "b", When::always(), denied.clone());
    assert_eq!(
        client.committed(Group::Input, &places, ASK).unwrap(),
        [Ok(None), Err(denied.clone()), Err(denied.clone())]
    );
    assert_eq!(client.topics(&["b", "in"], ASK).unwrap()[0], Err(denied.clone()));
    assert!(client.bounds(&b0, ASK).is_ok(), "another call is not meant");
    faults.clear();
    assert!(client.topics(&["b"], ASK).unwrap()[0].is_ok());
}

#[test]
fn a_notice_comes_in_the_order_of_the_queue() {
    let (broker, _) = broker_with(10);
    let fixture = MemoryFixture::default();
    let broken = error(Kind::Other, "BAD_MSG");
    broker.faults().notice(&input(), CommitOffset(4), Notice::Failed(broken));
    let client = client(&broker);
    let mut reading = Reading::start(&fixture, &client, &[("in", 0, 0)]);
    let notice = reading.notice(0);
    assert!(matches!(notice, Notice::Failed(error) if error.code == "BAD_MSG"));
    assert_eq!(reading.seen[0].offsets(), [0, 1, 2, 3]);
    reading.records(10);
    assert_eq!(reading.seen[0].offsets(), (0..10).collect::<Vec<_>>());

    // At the tail it wakes.
    let calls = reading.signal.calls();
    broker.faults().notice(&input(), CommitOffset(10), Notice::OutOfRange);
    assert!(reading.signal.calls() > calls);
    assert!(matches!(reading.notice(0), Notice::OutOfRange));
}

#[test]
fn a_cluster_that_is_away_holds_everything_up_and_loses_nothing() {
    let (broker, _) = broker_with(5);
    broker.create_topic("out", 1);
    let fixture = MemoryFixture::default();
    let client = client(&broker);
    let mut reading = Reading::start(&fixture, &client, &[("in", 0, 0)]);
    let mut writing = Writing::start(&fixture, &client, &["out"], &[]);
    broker.faults().go_down();

    assert_eq!(client.topics(&["in"], ASK).unwrap_err().kind, Kind::Transient);
    let taken = reading.take(0, WIDE);
    assert!(taken.rows == 0 && !taken.more && taken.end.is_none() && taken.notice.is_none());
    let mut errors = Vec::new();
    reading.reader.source.client_errors(&mut errors);
    writing.sink.client_errors(&mut errors);
    assert_eq!(errors.iter().map(|error| error.code).collect::<Vec<_>>(), ["_ALL_BROKERS_DOWN"; 2]);

    let records: Vec<_> = (0..3).map(|number| Record::value(number.to_string())).collect();
    let (batch, mut tokens) = writing.batch(&records);
    assert_eq!(writing.sink.send(OutputIndex(0), &batch, &[0, 1, 2], Stamp::Source, &mut tokens), 3);
    assert!(!writing.collect(), "nothing is acknowledged");
    assert_eq!((writing.sink.in_flight(), broker.records("out").len()), (3, 0));

    let entry = CommitEntry {
        partition: PartitionId(0),
        offset: CommitOffset(1),
        metadata: String::new(),
        leader_epoch: None,
        guard: None,
    };
    reading.reader.offsets.commit(&[entry]).unwrap();
    let mut answers = Vec::new();
    reading.reader.offsets.answers(&mut answers);
    assert_eq!(answers[0].results[0].1.as_ref().unwrap_err().kind, Kind::Coordinator);
    assert_eq!(broker.committed("rep", &input()), None);

    let (reads, writes) = (reading.signal.calls(), writing.signal.calls());
    broker.faults().come_up();
    assert!(reading.signal.calls() > reads && writing.signal.calls() > writes, "coming back wakes");
    reading.records(5);
    writing.settle();
    writing.assert_written();
    let payloads = broker.view(|view| view.payloads("out"));
    assert_eq!(payloads.into_iter().flatten().collect::<Vec<_>>(), ["0", "1", "2"]);
}

#[test]
fn a_queue_that_is_full_by_the_script_has_room_again() {
    let (broker, _) = broker_with(0);
    broker.create_topic("out", 1);
    let fixture = MemoryFixture::default();
    let client = client(&broker);
    let mut writing = Writing::start(&fixture, &client, &["out"], &[]);
    broker.faults().fail(Call::Send, When::next(2), error(Kind::Transient, "_QUEUE_FULL"));
    writing.write(0, &[Record::value("a"), Record::value("b")], Stamp::Source);
    assert_eq!(broker.records("out").len(), 2);
    assert_eq!(broker.view(|view| view.calls(Call::Send)), 3);
}

#[test]
fn clients_report_errors_that_belong_to_no_record() {
    let (broker, _) = broker_with(0);
    broker.create_topic("out", 1);
    let fixture = MemoryFixture::default();
    let client = client(&broker);
    let mut reading = Reading::start(&fixture, &client, &[("in", 0, 0)]);
    let mut writing = Writing::start(&fixture, &client, &["out"], &[]);
    broker.faults().reader_error(error(Kind::Authentication, "_AUTHENTICATION"));
    broker.faults().writer_error(error(Kind::Fatal, "_FATAL"));
    assert!(reading.signal.calls() > 0 && writing.signal.calls() > 0);
    let (mut read, mut wrote) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        reading.reader.source.client_errors(&mut read);
        writing.sink.client_errors(&mut wrote);
    }
    assert_eq!(read.iter().map(|error| error.kind).collect::<Vec<_>>(), [Kind::Authentication]);
    assert_eq!(wrote.iter().map(|error| error.kind).collect::<Vec<_>>(), [Kind::Fatal]);
}
