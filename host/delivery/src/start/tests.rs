use loom_types::{CommitOffset, TopicId};
use proptest::prelude::*;

use super::{Asked, Facts, GroupOffset, Refused, Reset, Start, Warning, choose};

const TOPIC: Option<TopicId> = Some(TopicId([1; 16]));
const OTHER: Option<TopicId> = Some(TopicId([2; 16]));

fn facts() -> Facts {
    Facts {
        asked: None,
        resume: None,
        committed: None,
        siblings_committed: false,
        topic: TOPIC,
        low: CommitOffset(0),
        high: CommitOffset(500),
        log_end: CommitOffset(500),
        reset: Reset::Earliest,
        refuse_out_of_range: false,
    }
}

fn offset(value: i64) -> Option<CommitOffset> {
    Some(CommitOffset(value))
}

fn group(value: i64) -> Option<GroupOffset> {
    Some(GroupOffset { offset: CommitOffset(value), topic: TOPIC, replay: None })
}

fn at(value: i64) -> Option<Asked> {
    Some(Asked::At(CommitOffset(value)))
}

#[test]
fn a_resumed_position_comes_before_the_committed_offset_before_the_reset() {
    let resumed = choose(&Facts { resume: offset(55), committed: group(40), ..facts() }).unwrap();
    assert_eq!((resumed.position, resumed.floor, resumed.warnings), (CommitOffset(55), offset(40), vec![]));
    let committed = choose(&Facts { committed: group(40), ..facts() }).unwrap();
    assert_eq!(
        committed,
        Start { position: CommitOffset(40), floor: offset(40), commit_first: false, warnings: vec![] }
    );
    let earliest = choose(&facts()).unwrap();
    assert_eq!((earliest.position, earliest.commit_first), (CommitOffset(0), true));
    let latest = choose(&Facts { reset: Reset::Latest, ..facts() }).unwrap();
    assert_eq!((latest.position, latest.commit_first), (CommitOffset(500), true));
}

#[test]
fn a_partition_that_was_added_starts_at_its_beginning_whatever_the_reset() {
    let start = choose(&Facts { siblings_committed: true, reset: Reset::Latest, ..facts() }).unwrap();
    assert_eq!((start.position, start.commit_first), (CommitOffset(0), true));
    assert_eq!(start.warnings, [Warning::Added]);
}

#[test]
fn a_resume_behind_the_committed_offset_is_warned_about_with_both() {
    let start = choose(&Facts { resume: offset(60), committed: group(100), ..facts() }).unwrap();
    assert_eq!((start.position, start.floor), (CommitOffset(60), offset(100)));
    let warning = Warning::Replay { from: CommitOffset(60), committed: CommitOffset(100), asked: false };
    assert_eq!(start.warnings, [warning]);
}

#[test]
fn an_offset_that_retention_passed_goes_on_from_the_beginning() {
    let expired = Facts { committed: group(40), low: CommitOffset(100), ..facts() };
    let start = choose(&expired).unwrap();
    assert_eq!((start.position, start.floor, start.commit_first), (CommitOffset(100), offset(40), false));
    assert_eq!(start.warnings, [Warning::Expired { committed: CommitOffset(40), low: CommitOffset(100) }]);
    let refused = choose(&Facts { refuse_out_of_range: true, ..expired });
    let (low, log_end) = (CommitOffset(100), CommitOffset(500));
    assert_eq!(refused, Err(Refused { committed: CommitOffset(40), low, log_end, made_again: false }));
}

#[test]
fn a_topic_that_was_made_again_starts_at_its_beginning_without_a_floor_wherever_the_offset_lies() {
    // Ten records and five thousand: the offset is beyond the end, and inside.
    for high in [10, 5000].map(CommitOffset) {
        let again = Facts { committed: group(1000), topic: OTHER, high, log_end: high, ..facts() };
        let start = choose(&again).unwrap();
        assert_eq!((start.position, start.floor, start.commit_first), (CommitOffset(0), None, true));
        let warning = Warning::MadeAgain { committed: CommitOffset(1000), log_end: high };
        assert_eq!(start.warnings, [warning]);
        let refused = choose(&Facts { refuse_out_of_range: true, ..again }).unwrap_err();
        assert!(refused.made_again && refused.to_string().contains("made again"), "{refused}");
    }
}

#[test]
fn beyond_the_end_an_unknown_topic_counts_as_made_again_and_the_same_one_as_cut() {
    let plain = Some(GroupOffset::plain(CommitOffset(1000)));
    let unknown = choose(&Facts { committed: plain, ..facts() }).unwrap();
    assert_eq!((unknown.position, unknown.floor), (CommitOffset(0), None));
    let cut = Facts { committed: group(1000), ..facts() };
    let start = choose(&cut).unwrap();
    assert_eq!((start.position, start.floor), (CommitOffset(500), offset(500)));
    assert_eq!(start.warnings, [Warning::Cut { committed: CommitOffset(1000), log_end: CommitOffset(500) }]);
    assert!(choose(&Facts { refuse_out_of_range: true, ..cut }).is_err());
}

#[test]
fn an_offset_behind_an_open_transaction_is_one_of_the_log_and_goes_on_where_it_stands() {
    let open = |committed, topic| Facts { committed, topic, log_end: CommitOffset(1000), ..facts() };
    let plain = Some(GroupOffset::plain(CommitOffset(1000)));
    for facts in [open(group(1000), TOPIC), open(group(501), TOPIC), open(plain, TOPIC), open(plain, None)] {
        let facts = Facts { refuse_out_of_range: true, ..facts };
        let committed = facts.committed.unwrap().offset;
        let start = choose(&facts).unwrap();
        assert_eq!((start.position, start.floor), (committed, Some(committed)), "{facts:?}");
        assert_eq!((start.commit_first, start.warnings), (false, vec![]), "{facts:?}");
    }
    // A replay, and a restored position, behind it are none of a log that was cut either.
    let replaying = group(1000).map(|group| GroupOffset { replay: offset(700), ..group });
    let replay = choose(&open(replaying, TOPIC)).unwrap();
    assert_eq!((replay.position, replay.floor), (CommitOffset(700), offset(1000)));
    let resumed = choose(&Facts { resume: offset(800), ..open(group(900), TOPIC) }).unwrap();
    assert_eq!(
        (resumed.position, resumed.warnings),
        (
            CommitOffset(800),
            vec![Warning::Replay { from: CommitOffset(800), committed: CommitOffset(900), asked: false }]
        )
    );
    // Beyond the log's end it is as ever.
    let cut = choose(&open(group(1001), TOPIC)).unwrap();
    assert_eq!((cut.position, cut.floor), (CommitOffset(1000), offset(1000)));
    assert!(matches!(
        choose(&open(Some(GroupOffset::plain(CommitOffset(1001))), None)).unwrap().warnings[..],
        [Warning::MadeAgain { .. }]
    ));
    // What was never committed starts where something can be read.
    let latest = choose(&Facts { reset: Reset::Latest, ..open(None, TOPIC) }).unwrap();
    assert_eq!(latest.position, CommitOffset(500));
}

#[test]
fn what_is_asked_for_keeps_the_floor_behind_it_and_is_committed_first_ahead_of_it() {
    let behind = choose(&Facts { asked: at(0), committed: group(100), ..facts() }).unwrap();
    assert_eq!((behind.position, behind.floor, behind.commit_first), (CommitOffset(0), offset(100), false));
    let warning = Warning::Replay { from: CommitOffset(0), committed: CommitOffset(100), asked: true };
    assert_eq!(behind.warnings, [warning]);
    let ahead = choose(&Facts { asked: at(500), committed: group(100), ..facts() }).unwrap();
    assert_eq!((ahead.position, ahead.floor, ahead.commit_first), (CommitOffset(500), offset(100), true));
    let warning = Warning::Skip { committed: CommitOffset(100), to: CommitOffset(500) };
    assert_eq!(ahead.warnings, [warning]);
    let nothing_known = choose(&Facts { asked: at(200), reset: Reset::Latest, ..facts() }).unwrap();
    assert_eq!((nothing_known.position, nothing_known.commit_first), (CommitOffset(200), true));
    // The way out where an offset outside is refused.
    let refusing = Facts { asked: at(900), committed: group(1000), refuse_out_of_range: true, ..facts() };
    assert_eq!(choose(&refusing).unwrap().position, CommitOffset(500));
}

#[test]
fn a_replay_that_was_cut_goes_on_unless_the_committed_offset_is_asked_for() {
    let replaying = group(100).map(|group| GroupOffset { replay: offset(40), ..group });
    let start = choose(&Facts { committed: replaying, ..facts() }).unwrap();
    assert_eq!((start.position, start.floor), (CommitOffset(40), offset(100)));
    let warning = Warning::ReplayGoesOn { at: CommitOffset(40), committed: CommitOffset(100) };
    assert_eq!(start.warnings, [warning]);
    let left = choose(&Facts { asked: Some(Asked::Committed), committed: replaying, ..facts() }).unwrap();
    assert_eq!((left.position, left.floor, left.warnings), (CommitOffset(100), offset(100), vec![]));
}

fn id() -> impl Strategy<Value = Option<TopicId>> {
    prop_oneof![Just(None), Just(TOPIC), Just(OTHER)]
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let small = || (0..40_i64).prop_map(CommitOffset);
    let group = (small(), id(), proptest::option::of(small()))
        .prop_map(|(offset, topic, replay)| GroupOffset { offset, topic, replay });
    let asked = prop_oneof![Just(Asked::Committed), small().prop_map(Asked::At)];
    let places = (small(), small()).prop_map(|(one, other)| (one.min(other), one.max(other)));
    let wishes = (proptest::option::of(asked), proptest::option::of(small()), proptest::option::of(group));
    (wishes, any::<[bool; 3]>(), id(), places, 0..10_i64).prop_map(
        |((asked, resume, committed), [siblings_committed, latest, refuse], topic, (low, high), open)| {
            Facts {
                asked,
                resume,
                committed,
                siblings_committed,
                topic,
                low,
                high,
                log_end: CommitOffset(high.0 + open),
                reset: if latest { Reset::Latest } else { Reset::Earliest },
                refuse_out_of_range: refuse,
            }
        },
    )
}

proptest! {
    #[test]
    fn every_start_can_be_read_and_committed_and_skips_nothing_untold(facts in any_facts()) {
        let Ok(start) = choose(&facts) else {
            prop_assert!(facts.refuse_out_of_range && facts.committed.is_some());
            return Ok(());
        };
        prop_assert!(start.position >= facts.low && start.position <= facts.log_end);
        prop_assert!(start.floor.is_none_or(|floor| floor <= facts.log_end), "every commit would be held back");
        // A floor is the group's offset or the end that it was cut to.
        if let (Some(floor), Some(committed)) = (start.floor, facts.committed) {
            prop_assert!(floor == committed.offset || floor == facts.log_end && floor < committed.offset);
        }
        // Records between what the group has and the position are never left out without a word.
        if let (Some(committed), None) = (facts.committed, facts.resume)
            && start.position > committed.offset
        {
            prop_assert!(!start.warnings.is_empty(), "{start:?}");
        }
        // Without an offset of this topic the choice must not be made twice.
        if facts.committed.is_none() || start.floor.is_none() {
            prop_assert!(start.commit_first);
        }
    }
}
