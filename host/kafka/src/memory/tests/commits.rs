//! Commit requests that go wrong, and the history of all requests.

use std::time::Duration;

use loom_delivery::RunId;
use loom_delivery::readback::{Expected, Guard};
use loom_types::{CommitOffset, Moment, PartitionId, TopicPartition};

use super::{broker_with, client, error, input};
use crate::conformance::MemoryFixture;
use crate::conformance::harness::Reading;
use crate::contract::{CommitAnswer, CommitEntry};
use crate::error::Kind;
use crate::memory::{Call, CommitFault, When};

fn entry(partition: u32, offset: i64) -> CommitEntry {
    CommitEntry {
        partition: PartitionId(partition),
        offset: CommitOffset(offset),
        metadata: format!("at {offset}"),
        leader_epoch: None,
        guard: None,
    }
}

fn answers(reading: &mut Reading) -> Vec<CommitAnswer> {
    let mut answers = Vec::new();
    reading.reader.offsets.answers(&mut answers);
    answers
}

#[test]
fn a_commit_goes_wrong_in_every_scripted_way() {
    let (broker, clock) = broker_with(10);
    let fixture = MemoryFixture::default();
    let client = client(&broker);
    let mut reading = Reading::start(&fixture, &client, &[("in", 0, 0)]);
    let faults = broker.faults();
    let refused = error(Kind::Authorization, "GROUP_AUTHORIZATION_FAILED");
    faults.commit(When::next(1), CommitFault::Local(error(Kind::Other, "_STATE")));
    faults.commit(When::next(1), CommitFault::Refused(refused));
    faults
        .commit(When::next(1), CommitFault::AppliedThenFailed(error(Kind::Coordinator, "REQUEST_TIMED_OUT")));
    faults.commit(When::next(1), CommitFault::Unanswered);
    let committed = || broker.committed("rep", &input()).map(|committed| committed.offset.0);

    assert_eq!(reading.reader.offsets.commit(&[entry(0, 1)]).unwrap_err().code, "_STATE");
    assert!(answers(&mut reading).is_empty());
    assert_eq!(committed(), None);

    let calls = reading.signal.calls();
    let request = reading.reader.offsets.commit(&[entry(0, 2)]).unwrap();
    assert!(reading.signal.calls() > calls, "an answer wakes");
    let answer = answers(&mut reading).pop().expect("an answer");
    assert_eq!(answer.request, request);
    assert_eq!(answer.results[0].1.as_ref().unwrap_err().code, "GROUP_AUTHORIZATION_FAILED");
    assert_eq!(committed(), None);

    let request = reading.reader.offsets.commit(&[entry(0, 3)]).unwrap();
    let answer = answers(&mut reading).pop().expect("an answer");
    assert_eq!(answer.request, request);
    assert_eq!(answer.results[0].1.as_ref().unwrap_err().code, "REQUEST_TIMED_OUT");
    assert_eq!(committed(), Some(3), "applied, and reported failed");

    clock.advance(Duration::from_secs(7));
    reading.reader.offsets.commit(&[entry(0, 4)]).unwrap();
    assert!(answers(&mut reading).is_empty(), "lost");
    assert_eq!(committed(), Some(3));

    reading.reader.offsets.commit(&[entry(0, 5)]).unwrap();
    assert!(answers(&mut reading)[0].results[0].1.is_ok());
    assert_eq!(broker.committed("rep", &input()).unwrap().metadata, "at 5");

    let history = broker.commits("rep");
    let seen: Vec<_> = history
        .iter()
        .map(|request| {
            let entry = &request.entries[0];
            (entry.offset.0, entry.applied, entry.answer.as_ref().map(Result::is_ok), request.at)
        })
        .collect();
    let (start, later) = (Moment::START, Moment::START + Duration::from_secs(7));
    assert_eq!(
        seen,
        [
            (2, false, Some(false), start),
            (3, true, Some(false), start),
            (4, false, None, later),
            (5, true, Some(true), later)
        ]
    );
    assert_eq!(broker.view(|view| view.calls(Call::Commit)), 5);
}

#[test]
fn one_partition_of_a_commit_can_be_refused() {
    let (broker, _) = broker_with(10);
    broker.create_topic("b", 1);
    let fixture = MemoryFixture::default();
    let client = client(&broker);
    let mut reading = Reading::start(&fixture, &client, &[("in", 0, 0), ("b", 0, 0)]);
    let b = TopicPartition::new("b", 0);
    broker.faults().fail_partition(
        Call::Commit,
        b.clone(),
        When::next(1),
        error(Kind::Coordinator, "NOT_COORDINATOR"),
    );
    for (round, fine) in [false, true].into_iter().enumerate() {
        reading.reader.offsets.commit(&[entry(1, 1), entry(0, 6)]).unwrap();
        let answer = answers(&mut reading).pop().expect("an answer");
        let results: Vec<_> = answer.results.iter().map(|(id, result)| (id.0, result.is_ok())).collect();
        assert_eq!(results, [(1, fine), (0, true)], "round {round}");
        assert_eq!(broker.committed("rep", &b).is_some(), fine);
        assert_eq!(broker.committed("rep", &input()).unwrap().offset, CommitOffset(6));
    }
}

#[test]
fn a_guarded_commit_is_not_set_over_what_others_set() {
    let (broker, _) = broker_with(10);
    broker.create_topic("other", 1);
    let (one, other) = (input(), TopicPartition::new("other", 0));
    let fixture = MemoryFixture::default();
    let client = client(&broker);
    let mut reading = Reading::start(&fixture, &client, &[("in", 0, 0), ("other", 0, 0)]);
    let expected = Expected { initial: None, predecessor: None, acknowledged: None };
    let guarded = |partition, offset| CommitEntry {
        guard: Some(Guard { run: RunId(7), expected: expected.clone() }),
        ..entry(partition, offset)
    };
    broker.set_committed("rep", &one, CommitOffset(4), "a tool's");
    reading.reader.offsets.commit(&[guarded(0, 6), guarded(1, 0)]).unwrap();
    let mut answer = answers(&mut reading).pop().expect("an answer");
    let error = answer.results.remove(0).1.unwrap_err();
    assert_eq!(error.kind, Kind::Moved);
    assert!(error.message.contains("in/0 to 4"), "{error}");
    assert_eq!(answer.results, [(PartitionId(1), Ok(()))], "the others are committed");
    assert_eq!(broker.committed("rep", &one).unwrap().offset, CommitOffset(4));
    assert_eq!(broker.committed("rep", &other).unwrap().offset, CommitOffset(0));
}

#[test]
fn a_long_run_keeps_no_history() {
    let (broker, _) = broker_with(10);
    broker.keep_commits(false);
    let fixture = MemoryFixture::default();
    let client = client(&broker);
    let mut reading = Reading::start(&fixture, &client, &[("in", 0, 0)]);
    reading.reader.offsets.commit(&[entry(0, 5)]).unwrap();
    assert!(answers(&mut reading)[0].results[0].1.is_ok());
    assert!(broker.commits("rep").is_empty());
    assert_eq!(broker.committed("rep", &input()).unwrap().offset, CommitOffset(5));
}

#[test]
fn a_commit_on_its_way_lands_after_its_reader_is_gone() {
    let (broker, clock) = broker_with(10);
    let client = client(&broker);
    let mut reading = Reading::start(&MemoryFixture::default(), &client, &[("in", 0, 0)]);
    let (one, three) = (Duration::from_secs(1), Duration::from_secs(3));
    broker.faults().commit(When::next(1), CommitFault::Late { arrives: one, answered: three });
    broker.faults().commit(When::next(1), CommitFault::Lost { answered: three });
    let late = reading.reader.offsets.commit(&[entry(0, 4)]).unwrap();
    let lost = reading.reader.offsets.commit(&[entry(0, 5)]).unwrap();
    let committed = || broker.committed("rep", &input()).map(|committed| committed.offset.0);
    assert_eq!((committed(), answers(&mut reading).len()), (None, 0));
    assert_eq!(broker.next_event(), Some(Moment::START + one));
    clock.advance(one);
    broker.tick();
    assert_eq!((committed(), answers(&mut reading).len()), (Some(4), 0));
    let calls = reading.signal.calls();
    clock.advance(three - one);
    broker.tick();
    assert!(reading.signal.calls() > calls, "an answer wakes");
    let told = answers(&mut reading);
    assert_eq!(told.iter().map(|answer| answer.request).collect::<Vec<_>>(), [late, lost]);
    assert!(told[0].results[0].1.is_ok());
    assert_eq!(told[1].results[0].1.as_ref().unwrap_err().kind, Kind::Coordinator);
    assert_eq!(committed(), Some(4));

    broker.faults().commit(When::next(1), CommitFault::Late { arrives: one, answered: three });
    reading.reader.offsets.commit(&[entry(0, 7)]).unwrap();
    drop(reading);
    clock.advance(one);
    broker.tick();
    assert_eq!(committed(), Some(7));
    clock.advance(three);
    broker.tick();
    assert_eq!(broker.next_event(), None);
}
