//! What came of a case, held against what was expected: every difference, with its place in the test file.

use std::collections::BTreeMap;

use loom_flow::Stretch;
use loom_flow::cases::{Case, ExpectedError, OutputRecord, Placed};
use serde_json::Value;

use super::align::{Step, in_any_order, in_order};
use super::life::{Dropped, Made};
use super::records::{Actual, cut, differences, shown};
use super::stage::Played;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What it is about, in the test file.
    pub at: Stretch,
    pub message: String,
    /// More of it, line by line.
    pub details: Vec<String>,
}

/// Every difference, in the order of the file; none where the case passes.
pub fn compare(case: &Case, played: &Played) -> Vec<Difference> {
    let mut compare = Compare { found: Vec::new(), any_order: case.expect.any_order };
    let at = case.expect.at;
    compare.ending(case, played);
    compare.lists("topic", at, case.expect.topics.as_ref(), &played.seen.written);
    compare.lists("sink", at, case.expect.sinks.as_ref(), &played.seen.sunk);
    compare.errors(at, &case.expect.errors, &played.seen.dropped);
    compare.ledger(case, played);
    for ((topic, partition), offset) in &case.expect.offsets {
        let committed = played.committed.get(&(topic.clone(), *partition));
        if committed != Some(&offset.value) {
            let is = committed.map_or_else(|| "no offset".to_owned(), ToString::to_string);
            compare.push(
                offset.at,
                format!("{topic}/{partition} is committed at {is}, expected {}", offset.value),
            );
        }
    }
    for at in &played.unstruck {
        compare.push(*at, "this fault never happened".to_owned());
    }
    let mut found = compare.found;
    found.sort_by_key(|difference| difference.at.offset);
    found
}

struct Compare {
    found: Vec<Difference>,
    any_order: bool,
}

impl Compare {
    fn push(&mut self, at: Stretch, message: String) {
        self.detail(at, message, Vec::new());
    }

    fn detail(&mut self, at: Stretch, message: String, details: Vec<String>) {
        self.found.push(Difference { at, message, details });
    }

    /// Whether the flow ended as it should.
    fn ending(&mut self, case: &Case, played: &Played) {
        match &case.expect.stops {
            None if played.failures.is_empty() => {}
            None => self.detail(case.expect.at, "the flow failed".to_owned(), played.failures.clone()),
            Some(stops) if played.failures.iter().any(|failure| failure.contains(&stops.value)) => {}
            Some(stops) if played.failures.is_empty() => {
                self.push(stops.at, format!("the flow ended well, expected it to stop: {}", stops.value));
            }
            Some(stops) => {
                let message = format!("the flow stopped for another reason, expected: {}", stops.value);
                self.detail(stops.at, message, played.failures.clone());
            }
        }
    }

    fn lists(
        &mut self,
        what: &str,
        at: Stretch,
        expected: Option<&BTreeMap<String, Placed<Vec<OutputRecord>>>>,
        made: &[Made],
    ) {
        let Some(expected) = expected else { return };
        let mut by_name: BTreeMap<&str, Vec<Actual<'_>>> = BTreeMap::new();
        for made in made {
            by_name.entry(&made.into).or_default().push(Actual::new(&made.record));
        }
        for (name, records) in expected {
            let is = by_name.remove(name.as_str()).unwrap_or_default();
            self.list(&format!("{what} `{name}`"), records, &is);
        }
        for (name, records) in by_name {
            let count = records.len();
            let has = if count == 1 { "1 record".to_owned() } else { format!("{count} records") };
            let message = format!("{what} `{name}` has {has}, and none was expected");
            self.detail(at, message, records.iter().map(shown).collect());
        }
    }

    fn list(&mut self, name: &str, expected: &Placed<Vec<OutputRecord>>, is: &[Actual<'_>]) {
        let fits = |wanted: usize, at: usize| differences(&expected.value[wanted], &is[at]).is_empty();
        let (wanted, actual) = (expected.value.len(), is.len());
        let steps =
            if self.any_order { in_any_order(wanted, actual, fits) } else { in_order(wanted, actual, fits) };
        let mut moved = Vec::new();
        for step in steps {
            match step {
                Step::Moved(wanted, at) => {
                    moved
                        .push(format!("record {wanted} came as number {at} of {actual}: {}", shown(&is[at])));
                }
                Step::Pair(wanted, at) => {
                    let mut details = differences(&expected.value[wanted], &is[at]);
                    if !details.is_empty() {
                        details.push(format!("it is {}", shown(&is[at])));
                        let message = format!("{name}: record {wanted} is not as expected");
                        self.detail(expected.value[wanted].at, message, details);
                    }
                }
                Step::Missing(wanted) => {
                    self.push(expected.value[wanted].at, format!("{name}: record {wanted} is missing"));
                }
                Step::Extra(at) => {
                    let message = format!("{name}: a record was not expected, number {at} of {actual}");
                    self.detail(expected.at, message, vec![shown(&is[at])]);
                }
            }
        }
        if !moved.is_empty() {
            moved.push("where the order says nothing, write `order: any`".to_owned());
            self.detail(expected.at, format!("{name}: what was expected came in another order"), moved);
        }
    }

    fn errors(&mut self, at: Stretch, expected: &[ExpectedError], dropped: &[Dropped]) {
        let fits = |wanted: usize, is: usize| is_expected(&expected[wanted], &dropped[is]);
        for step in in_any_order(expected.len(), dropped.len(), fits) {
            match step {
                Step::Pair(..) | Step::Moved(..) => {}
                Step::Missing(wanted) => {
                    self.push(expected[wanted].at, "this failure did not happen".to_owned());
                }
                Step::Extra(is) => {
                    let Dropped { node, kind, reason, origin, .. } = &dropped[is];
                    let place = format!("{}/{} at {}", origin.topic, origin.partition, origin.offset);
                    let message = format!("{node} {kind}: {place} was dropped: {}", cut(reason));
                    self.push(at, message);
                }
            }
        }
    }

    fn ledger(&mut self, case: &Case, played: &Played) {
        let Some(summary) = &played.summary else { return };
        let ledger = summary.ledger();
        let count = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
        let totals = case.expect.ledger.iter().map(|(name, wanted)| (name, wanted, count(ledger.get(name))));
        let ended = &ledger["ended"];
        let ended = case.expect.ended.iter().map(|(name, wanted)| (name, wanted, count(ended.get(name))));
        for (name, wanted, is) in totals.chain(ended) {
            if is != wanted.value {
                self.push(wanted.at, format!("the ledger has {name} {is}, expected {}", wanted.value));
            }
        }
    }
}

fn is_expected(expected: &ExpectedError, dropped: &Dropped) -> bool {
    let ExpectedError { at: _, kind, node, topic, partition, offset, reason } = expected;
    let origin = &dropped.origin;
    kind.is_none_or(|kind| kind == dropped.kind)
        && node.as_ref().is_none_or(|node| *node == dropped.node)
        && topic.as_ref().is_none_or(|topic| *topic == origin.topic)
        && partition.is_none_or(|partition| partition == origin.partition)
        && offset.is_none_or(|offset| offset == origin.offset)
        && reason.as_ref().is_none_or(|reason| dropped.reason.contains(reason))
}
