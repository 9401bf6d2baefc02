//! Generated documents. A grammar makes flows that are right by construction, and they must be found right; the same flows
//! with their structure broken must be answered with a plan or an error, soon, in order, and without a secret.
//!
//! Every document comes from a number of its own: a failure names it, and `LOOM_DOCUMENT=N` tries that one alone.
//! `LOOM_DOCUMENTS` says how many are tried; without it, 20,000.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use loom_flow::{Code, HumanStyle, Severity, to_json};

use crate::support::{Stopwatch, World};
use grammar::{Chance, Doc, flow, mutate, write};

mod grammar;

const CANARY: &str = "canary-4711";

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

fn documents() -> Vec<u64> {
    match number("LOOM_DOCUMENT") {
        Some(one) => vec![one],
        None => (0..number("LOOM_DOCUMENTS").unwrap_or(20_000)).collect(),
    }
}

fn world() -> World {
    World::new().var("CANARY", CANARY).file("secret", CANARY.as_bytes())
}

#[test]
fn a_flow_that_is_right_by_construction_has_no_error() {
    for number in documents().into_iter().step_by(20) {
        let chance = &mut Chance(number);
        let doc = flow(chance);
        let text = write(&doc, chance);
        let compiled = world().compile(&text);
        let wrong: Vec<String> = compiled
            .issues
            .iter()
            .filter(|issue| issue.severity == Severity::Error && issue.code != Code::NotAvailable)
            .map(ToString::to_string)
            .collect();
        assert!(wrong.is_empty(), "document {number}: {wrong:#?}\n{text}");
        assert!(
            !compiled.issues.iter().any(|issue| issue.code == Code::NodeUnreachable),
            "document {number}"
        );
    }
}

#[test]
fn a_flow_with_a_broken_structure_is_answered() {
    let documents = documents();
    let next = AtomicUsize::new(0);
    let some = || {
        while let Some(number) = documents.get(next.fetch_add(1, Ordering::Relaxed)) {
            answered(*number);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(some);
        some();
    });
}

fn answered(number: u64) {
    let chance = &mut Chance(number.wrapping_mul(31));
    let mut doc = flow(chance);
    // Mostly a part of a flow, in a place where it does not belong.
    let other = flow(chance);
    for _ in 0..=chance.below(4) {
        let spare = match (&other, chance.below(8)) {
            (Doc::Map(entries), 1..) => &entries[chance.below(entries.len())].1,
            _ => &other,
        };
        mutate(&mut doc, chance, spare);
    }
    let mut text = write(&doc, chance);
    match chance.below(12) {
        0 => text = text.replace('\n', "\r\n"),
        1 => text.insert(0, '\u{feff}'),
        2 => text.push_str("\n---\nname: second\n"),
        3 => text = text.replacen("  ", "\t", 1 + chance.below(3)),
        4 => {
            let cut = chance.below(text.len() + 1);
            let whole = (0..=cut).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            text.truncate(whole);
        }
        _ => {}
    }
    let watch = Stopwatch::start();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let compiled = world().compile(&text);
        let offsets: Vec<usize> = compiled.issues.iter().map(|issue| issue.at.offset).collect();
        assert!(offsets.is_sorted(), "not in the order of the file: {offsets:?}");
        for issue in &compiled.issues {
            assert!(issue.at.line >= 1 && issue.at.column >= 1 && !issue.message.is_empty(), "{issue:?}");
            assert!(issue.at.offset + issue.at.len <= text.len(), "{issue:?}");
        }
        let json = to_json(&compiled.issues);
        assert!(!json.contains(CANARY), "{json}");
        // Excerpts are drawn slowly, and by one piece of code.
        if number.is_multiple_of(16) {
            let shown = compiled.render(HumanStyle::default());
            assert!(!shown.contains(CANARY), "{shown}");
        }
    }));
    let took = watch.took();
    assert!(outcome.is_ok(), "document {number}:\n{text}");
    assert!(took < Duration::from_secs(5), "document {number} took {took:?}:\n{text}");
}
