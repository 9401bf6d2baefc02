//! The simulation over many seeds, and the faults that it must find; see `loom_runtime::sim`.

use loom_runtime::sim::{Case, Focus, Mutation, STUCK, Seeds, Tally, case, many, replay, stuck};

/// Two threads: what the smallest machine has that runs these tests.
const THREADS: usize = 2;

/// Seeds within which each deliberate fault has to be found.
const FOUND_WITHIN: u64 = 1000;

/// What `LOOM_SIM_SEEDS` says, or this many.
fn seeds() -> u64 {
    std::env::var("LOOM_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// Panics with the end of the first failed seed's history.
fn must_hold(tally: &Tally, focus: Focus) {
    println!("{tally:?}");
    if let Some(first) = tally.failed.first() {
        let report = replay(first.seed, focus);
        let last = report.history.len().saturating_sub(60);
        panic!(
            "seeds failed: {:#?}\nthe end of the first one's history:\n{}\n{}",
            tally.failed,
            report.flow,
            report.history[last..].join("\n")
        );
    }
}

#[test]
fn what_is_promised_holds_for_ten_thousand_seeds() {
    let focus = Focus::Anything;
    let all = Seeds { from: 0, count: seeds(), threads: THREADS, enough: 3, focus, mutation: None };
    must_hold(&many(all, |_| {}), focus);
}

/// A case holds whatever chance leaves open in it, and comes to what it is about.
fn must_hold_in_each(what: Case) {
    let mut shown = 0;
    for seed in 0..50 {
        let report = case(what, seed);
        let history = report.history.join("\n");
        assert_eq!(report.failure, None, "{what:?}, seed {seed}:\n{}\n{history}", report.flow);
        shown += usize::from(history.contains(what.shows()));
    }
    assert!(shown >= 5, "{what:?} came to what it is about {shown} times");
}

#[test]
fn what_the_group_has_is_of_the_topic_that_a_process_looked_at() {
    must_hold_in_each(Case::MadeAgainDuringStart);
}

#[test]
fn a_record_of_a_topic_that_was_made_again_may_stop_the_flow() {
    must_hold_in_each(Case::StopsBehindMadeAgain);
}

#[test]
fn a_commit_of_a_killed_process_may_arrive_after_all_faults_are_over() {
    must_hold_in_each(Case::CommitArrivesAfterCalm);
}

#[test]
fn an_old_commit_of_a_log_that_was_cut_leads_back_to_the_cut() {
    must_hold_in_each(Case::OldCommitAfterReplay);
}

#[test]
fn a_log_may_be_cut_again_before_its_reader_goes_on() {
    must_hold_in_each(Case::CutTwice);
}

#[test]
fn a_replay_may_take_longer_than_a_commit() {
    must_hold_in_each(Case::SlowReplay);
}

#[test]
fn nothing_deadlocks_whatever_the_bounds() {
    let focus = Focus::TightBounds;
    let all = Seeds { from: 0, count: seeds() / 10, threads: THREADS, enough: 3, focus, mutation: None };
    must_hold(&many(all, |_| {}), focus);
}

#[test]
fn rows_that_are_made_of_rows_keep_what_is_promised_and_their_bounds() {
    let focus = Focus::Expanders;
    let all = Seeds { from: 0, count: seeds() / 10, threads: THREADS, enough: 3, focus, mutation: None };
    must_hold(&many(all, |_| {}), focus);
}

#[test]
fn what_is_promised_holds_behind_routers() {
    let focus = Focus::Routers;
    let all = Seeds { from: 0, count: seeds() / 10, threads: THREADS, enough: 3, focus, mutation: None };
    must_hold(&many(all, |_| {}), focus);
}

#[test]
fn one_stuck_record_for_an_hour_holds_no_more_and_others_are_at_full_speed() {
    let report = stuck(1);
    assert_eq!(report.failure, None);
    assert!(report.simulated >= STUCK && report.records > 100_000, "{} records", report.records);
    let [held, others @ ..] = &report.gauges[..] else { panic!("four partitions have gauges") };
    assert!(held.ever.0 > 1, "the stuck record holds others up behind it: {held:?}");
    assert_eq!(held.early, held.ever, "after five minutes nothing more is held");
    for other in others {
        assert!(other.behind <= 10, "another partition fell behind one second's records: {other:?}");
    }
}

#[test]
fn each_deliberate_fault_is_found_within_a_thousand_seeds() {
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let focus = match mutation {
            Mutation::BoundIsNoReason => Focus::TightBounds,
            Mutation::BranchIsOvertaken => Focus::Routers,
            _ => Focus::Anything,
        };
        let mutation = Some(mutation);
        let seeds = Seeds { from: 0, count: FOUND_WITHIN, threads: THREADS, enough: 1, focus, mutation };
        let tally = many(seeds, |_| {});
        match tally.failed.first() {
            Some(found) => println!("{mutation:?}: seed {}, {:.1?}: {}", found.seed, tally.took, found.why),
            None => missed.push(mutation),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn a_seed_repeats_its_history() {
    for seed in 0..20 {
        let focus = Focus::Anything;
        let (one, other) = (replay(seed, focus), replay(seed, focus));
        assert!(one.history.len() > 10, "seed {seed} says what happened");
        assert_eq!(one.history, other.history, "seed {seed}");
    }
}
