//! The simulation over many seeds, and the faults that it must find; see `loom_runtime::sim`.

use loom_runtime::sim::{Mutation, Seeds, many, replay};

/// Two threads: what the smallest machine has that runs these tests.
const THREADS: usize = 2;

/// Seeds within which each deliberate fault has to be found.
const FOUND_WITHIN: u64 = 1000;

/// What `LOOM_SIM_SEEDS` says, or this many.
fn seeds() -> u64 {
    std::env::var("LOOM_SIM_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[test]
fn what_is_promised_holds_for_ten_thousand_seeds() {
    let all = Seeds { from: 0, count: seeds(), threads: THREADS, enough: 3, mutation: None };
    let tally = many(all, |_| {});
    println!("{tally:?}");
    if let Some(first) = tally.failed.first() {
        let report = replay(first.seed);
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
fn each_deliberate_fault_is_found_within_a_thousand_seeds() {
    let mut missed = Vec::new();
    for mutation in Mutation::ALL {
        let seeds =
            Seeds { from: 0, count: FOUND_WITHIN, threads: THREADS, enough: 1, mutation: Some(mutation) };
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
        let (one, other) = (replay(seed), replay(seed));
        assert!(one.history.len() > 10, "seed {seed} says what happened");
        assert_eq!(one.history, other.history, "seed {seed}");
    }
}
