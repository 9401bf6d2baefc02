//! The keys of a test file, one mapping after the other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use loom_types::{Ending, ErrorKind};

use super::records::{input, output};
use super::{
    CallEnd, Case, CaseFile, Expect, ExpectPlace, ExpectedError, Fault, FaultKind, KillAt, OutputRecord,
    Placed, RecordAt, Unfilled,
};
use crate::grammar::{self, MOST_PARTITIONS, MOST_WORKERS};
use crate::issue::{Code, Stretch};
use crate::reader::{Content, Node};
use crate::report::{Place, Problem};
use crate::spec::fields::{Field, Fields, items, list, named, nearest};
use crate::spec::values::{At, Zero, duration, name, whole, word};
use crate::spec::{Cx, Text};

/// What a case may take after its last record, where it does not say.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The counts of the ledger.
const COUNTS: [&str; 7] = ["registered", "resolved", "outstanding", "skipped", "minted", "consumed", "live"];

pub(super) fn file(cx: &mut Cx<'_>, root: &Node, unfilled: Unfilled) -> Option<CaseFile> {
    let Content::Mapping(entries) = &root.content else {
        let place = Place { span: root.span, path: Arc::from("") };
        let message = format!("a test file is a mapping, not {}", root.what());
        cx.push(&place, Problem::error(Code::FileInvalid, message).hint("it has `cases`, a list of them"));
        return None;
    };
    let span = entries.first().map_or(root.span, |entry| entry.key.span);
    let place = Place { span, path: Arc::from("") };
    let mut fields = Fields::new(entries, place.clone(), &grammar::CASES);
    let flow = placed_name(cx, fields.take("flow"));
    let overlays = fields.take("overlays").and_then(|field| items(cx, &field, "files")).unwrap_or_default();
    let overlays = overlays.into_iter().filter_map(|item| placed_name(cx, Some(item))).collect();
    let cases = match fields.take("cases") {
        Some(field) => items(cx, &field, "cases").map(|items| (field, items)),
        None => {
            let problem = Problem::error(Code::MissingKey, "a test file needs `cases`");
            cx.push(&place, problem.hint("write `cases: [ { name: …, records: [ … ], expect: { … } } ]`"));
            None
        }
    };
    let mut read = Vec::new();
    if let Some((field, items)) = cases {
        if items.is_empty() {
            cx.error(&field.place(), Code::ValueInvalid, "`cases` holds no case");
        }
        read.extend(items.iter().filter_map(|item| case(cx, item, unfilled)));
        same_names(cx, &items, &read);
    }
    fields.finish(cx, "a test file");
    Some(CaseFile { flow, overlays, cases: read })
}

/// A report names a case by its name alone.
fn same_names(cx: &mut Cx<'_>, items: &[Field<'_>], cases: &[Case]) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, case) in cases.iter().enumerate() {
        if let Some(first) = seen.insert(&case.name.value, index)
            && let Some(item) = items.get(index)
        {
            let line = cases[first].name.at.line;
            let message = format!("the case at line {line} is called `{}` too", case.name.value);
            cx.error(&item.place(), Code::DuplicateKey, message);
        }
    }
}

fn case(cx: &mut Cx<'_>, item: &Field<'_>, unfilled: Unfilled) -> Option<Case> {
    let mut fields = Fields::of(cx, item)?;
    let called = fields.need(cx, "name").and_then(|field| name(cx, &field));
    let workers = fields.take("workers").and_then(|field| bounded(cx, &field, MOST_WORKERS));
    let partitions = fields.take("partitions").and_then(|field| bounded(cx, &field, MOST_PARTITIONS));
    let captures =
        fields.take("sinks").and_then(|field| word(cx, &field, &[("run", false), ("capture", true)]));
    let timeout = fields.take("timeout").and_then(|field| duration(cx, &field));
    let records = fields.take("records").and_then(|field| items(cx, &field, "records")).unwrap_or_default();
    let records = records.iter().filter_map(|item| input(cx, item)).collect();
    let faults = fields.take("faults").and_then(|field| items(cx, &field, "faults")).unwrap_or_default();
    let faults = faults.iter().filter_map(|item| fault(cx, item)).collect();
    let in_braces = cx.report.text(item.node.span).slice(item.node.span).starts_with('{');
    let expect = fields.need(cx, "expect").and_then(|field| expect(cx, &field, unfilled, in_braces));
    fields.finish(cx, "a case");
    Some(Case {
        name: placed(cx, called?),
        workers: workers.and_then(|number| usize::try_from(number).ok()),
        partitions: partitions.and_then(|number| i32::try_from(number).ok()),
        captures_sinks: captures.is_some_and(|at| at.value),
        timeout: timeout.unwrap_or(TIMEOUT),
        records,
        faults,
        expect: expect?,
    })
}

fn fault(cx: &mut Cx<'_>, item: &Field<'_>) -> Option<Fault> {
    let mut fields = Fields::of(cx, item)?;
    let place = item.place();
    let call = placed_name(cx, fields.take("call"));
    let flush = placed_name(cx, fields.take("flush"));
    let refuse = placed_name(cx, fields.take("refuse"));
    let kills = [("read", KillAt::Read), ("written", KillAt::Written)];
    let kill = fields.take("kill").and_then(|field| word(cx, &field, &kills));
    let record = record_at(cx, &mut fields);
    let ends = [
        ("trap", CallEnd::Trap),
        ("timeout", CallEnd::Timeout),
        ("fail", CallEnd::Fail),
        ("reject", CallEnd::Reject),
        ("retry", CallEnd::Retry),
    ];
    let ends = fields.take("ends").and_then(|field| word(cx, &field, &ends));
    let times = fields.take("times").and_then(|field| whole(cx, &field, Zero::Refused));
    let reason = placed_name(cx, fields.take("reason"));
    let end = ends.as_ref().map_or(CallEnd::Fail, |at| at.value);
    let (what, name, without) = match (call, flush, refuse, kill) {
        (Some(whom), None, None, None) => (FaultKind::Call { whom, ends: end }, "call", &[][..]),
        (None, Some(whom), None, None) => (FaultKind::Flush { whom, ends: end }, "flush", &["at"][..]),
        (None, None, Some(output), None) => (FaultKind::Refuse { output }, "refuse", &["ends"][..]),
        (None, None, None, Some(at)) => (FaultKind::Kill(at.value), "kill", &["ends", "times", "reason"][..]),
        _ => {
            let given = ["call", "flush", "refuse", "kill"].into_iter().filter(|key| fields.has(key));
            let (code, message) = match given.collect::<Vec<_>>()[..] {
                [] => (Code::MissingKey, "a fault needs `call`, `flush`, `refuse` or `kill`".to_owned()),
                [first, second, ..] => {
                    (Code::ConflictingKeys, format!("`{first}` and `{second}` are two faults"))
                }
                // The one that is there was not understood, and that was said.
                [_] => {
                    fields.finish(cx, "a fault");
                    return None;
                }
            };
            cx.error(&place, code, message);
            fields.finish(cx, "a fault");
            return None;
        }
    };
    for key in without.iter().filter(|key| fields.has(key)) {
        cx.error(&place, Code::ConflictingKeys, format!("`{key}` has no meaning beside `{name}`"));
    }
    if matches!(what, FaultKind::Kill(_)) && !fields.has("at") {
        let problem = Problem::error(Code::MissingKey, "`kill` needs `at`, the record that it happens at");
        cx.push(&place, problem.hint("write `at: 0` for the first record"));
    }
    fields.finish(cx, "a fault");
    let (at, times, reason) = (stretch(cx, &place), times.map(|at| at.value), reason.map(|text| text.value));
    Some(Fault { at, what, record, times, reason })
}

/// `at`, and beside it `partition` and `topic`.
fn record_at(cx: &mut Cx<'_>, fields: &mut Fields<'_>) -> Option<Placed<RecordAt>> {
    let topic = placed_name(cx, fields.take("topic")).map(|topic| topic.value);
    let in_partition = fields.take("partition").and_then(|field| partition(cx, &field));
    let field = fields.take("at")?;
    let offset = number(cx, &field)?;
    let value = RecordAt { topic, partition: in_partition.map_or(0, |at| at.value), offset };
    Some(Placed { value, at: stretch(cx, &field.place()) })
}

fn expect(cx: &mut Cx<'_>, field: &Field<'_>, unfilled: Unfilled, in_braces: bool) -> Option<Expect> {
    if field.node.is_null() && unfilled == Unfilled::Refused {
        let message = "`expect` says nothing, and would hold whatever comes";
        let problem = Problem::error(Code::ValueInvalid, message).hint(
            "let `loom-host test --write` fill it, or write `expect: {}` where the flow only has to end well",
        );
        cx.push(&field.key_place(), problem);
        return None;
    }
    let mut fields = Fields::of(cx, field)?;
    let topics = fields.take("topics").map(|field| outputs(cx, &field));
    let sinks = fields.take("sinks").map(|field| outputs(cx, &field));
    let orders = [("kept", false), ("any", true)];
    let any_order = fields.take("order").and_then(|field| word(cx, &field, &orders));
    let errors = fields.take("errors").and_then(|field| items(cx, &field, "errors")).unwrap_or_default();
    let errors = errors.iter().filter_map(|item| error(cx, item)).collect();
    let mut counts = BTreeMap::new();
    let mut ended = BTreeMap::new();
    if let Some(field) = fields.take("ledger") {
        (counts, ended) = ledger(cx, &field).unwrap_or_default();
    }
    let offsets = fields.take("offsets").map(|field| offsets(cx, &field)).unwrap_or_default();
    let stops = placed_name(cx, fields.take("stops"));
    fields.finish(cx, "`expect`");
    Some(Expect {
        at: stretch(cx, &field.key_place()),
        unfilled: field.node.is_null(),
        place: expect_place(cx, field, in_braces),
        topics,
        sinks,
        any_order: any_order.is_some_and(|at| at.value),
        errors,
        ledger: counts,
        ended,
        offsets,
        stops,
    })
}

/// What stands behind the key, where it is this case's alone.
fn expect_place(cx: &Cx<'_>, field: &Field<'_>, in_braces: bool) -> Option<ExpectPlace> {
    let text = cx.report.text(field.key_span);
    let key = text.stretch(field.key_span);
    let key_end = key.offset + key.len;
    let rest = text.as_str().get(key_end..)?;
    let colon = rest.find(':').filter(|at| rest[..*at].trim().is_empty())?;
    let start = key_end + colon + 1;
    let value = text.stretch(field.node.span);
    let end = if field.node.is_null() && value.len == 0 { start } else { value.offset + value.len };
    let written = text.as_str().get(start..end)?;
    // What an alias stands for is somewhere else, and what an anchor names is of use to others.
    let comes_after = field.node.is_null() || value.offset >= start;
    let shared = written.trim_start().starts_with(['&', '*']);
    let indent = (!in_braces).then_some(key.column - 1);
    (comes_after && !shared).then(|| ExpectPlace { start, end: start + written.trim_end().len(), indent })
}

fn outputs(cx: &mut Cx<'_>, field: &Field<'_>) -> BTreeMap<String, Placed<Vec<OutputRecord>>> {
    let mut all = BTreeMap::new();
    for of_one in named(cx, field).unwrap_or_default() {
        let Some(items) = items(cx, &of_one, "records") else { continue };
        let value = items.iter().filter_map(|item| output(cx, item)).collect();
        all.insert(of_one.key.to_owned(), Placed { value, at: stretch(cx, &of_one.key_place()) });
    }
    all
}

fn error(cx: &mut Cx<'_>, item: &Field<'_>) -> Option<ExpectedError> {
    let mut fields = Fields::of(cx, item)?;
    let kinds = ErrorKind::ALL.map(|kind| (kind.name(), kind));
    let kind = fields.take("kind").and_then(|field| word(cx, &field, &kinds)).map(|at| at.value);
    let node = placed_name(cx, fields.take("node")).map(|node| node.value);
    let offset = fields.take("at").and_then(|field| number(cx, &field));
    let in_partition = fields.take("partition").and_then(|field| partition(cx, &field)).map(|at| at.value);
    let topic = placed_name(cx, fields.take("topic")).map(|topic| topic.value);
    let reason = placed_name(cx, fields.take("reason")).map(|reason| reason.value);
    fields.finish(cx, "an error");
    let at = stretch(cx, &item.place());
    Some(ExpectedError { at, kind, node, topic, partition: in_partition, offset, reason })
}

type Counts = BTreeMap<String, Placed<u64>>;

fn ledger(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<(Counts, Counts)> {
    let mut fields = Fields::of(cx, field)?;
    let mut counts = BTreeMap::new();
    for key in COUNTS {
        if let Some(at) = fields.take(key).and_then(|field| whole(cx, &field, Zero::Allowed)) {
            counts.insert(key.to_owned(), placed_at(cx, at));
        }
    }
    let mut ended = BTreeMap::new();
    let known: Vec<&str> = Ending::ALL.iter().map(|ending| ending.name()).collect();
    if let Some(field) = fields.take("ended") {
        for of_one in named(cx, &field).unwrap_or_default() {
            if !known.contains(&of_one.key) {
                let message = format!("there is no ending `{}`", of_one.key);
                let hint = match nearest(of_one.key, &known) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("the endings are {}", list(&known)),
                };
                cx.push(&of_one.key_place(), Problem::error(Code::UnknownKey, message).hint(hint));
            } else if let Some(at) = whole(cx, &of_one, Zero::Allowed) {
                ended.insert(of_one.key.to_owned(), placed_at(cx, at));
            }
        }
    }
    fields.finish(cx, "`expect.ledger`");
    Some((counts, ended))
}

fn offsets(cx: &mut Cx<'_>, field: &Field<'_>) -> BTreeMap<(String, i32), Placed<i64>> {
    let mut all = BTreeMap::new();
    for topic in named(cx, field).unwrap_or_default() {
        for place in named(cx, &topic).unwrap_or_default() {
            let Some(number) = number(cx, &place) else { continue };
            let Ok(partition) = place.key.parse::<i32>() else {
                let message = format!("a partition is a number, not `{}`", place.key);
                cx.push(
                    &place.key_place(),
                    Problem::error(Code::ValueInvalid, message).hint("write `{ TOPIC: { 0: 3 } }`"),
                );
                continue;
            };
            let at = stretch(cx, &place.place());
            all.insert((topic.key.to_owned(), partition), Placed { value: number, at });
        }
    }
    all
}

/// A name with its place.
pub(super) fn placed_name(cx: &mut Cx<'_>, field: Option<Field<'_>>) -> Option<Placed<String>> {
    let text = name(cx, &field?)?;
    Some(placed(cx, text))
}

/// A number that an offset or a time can be.
pub(super) fn number(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<i64> {
    let at = whole(cx, field, Zero::Allowed)?;
    let number = i64::try_from(at.value).ok();
    if number.is_none() {
        cx.error(&at.place, Code::ValueInvalid, format!("`{}` is too large", field.key));
    }
    number
}

/// A partition's number.
pub(super) fn partition(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Placed<i32>> {
    let at = whole(cx, field, Zero::Allowed)?;
    match i32::try_from(at.value) {
        Ok(value) if u64::from(value.unsigned_abs()) < MOST_PARTITIONS => {
            Some(Placed { value, at: stretch(cx, &at.place) })
        }
        _ => {
            let message = format!("a case has {MOST_PARTITIONS} partitions at most");
            cx.error(&at.place, Code::ValueInvalid, message);
            None
        }
    }
}

/// A number of at least 1 and at most this.
fn bounded(cx: &mut Cx<'_>, field: &Field<'_>, most: u64) -> Option<u64> {
    let at = whole(cx, field, Zero::Refused)?;
    if at.value > most {
        cx.error(&at.place, Code::ValueInvalid, format!("`{}` is {most} at most in a case", field.key));
        return None;
    }
    Some(at.value)
}

/// Where a place is, as issues and differences have it.
pub(super) fn stretch(cx: &Cx<'_>, place: &Place) -> Stretch {
    cx.report.text(place.span).stretch(place.span)
}

fn placed(cx: &Cx<'_>, text: Text) -> Placed<String> {
    Placed { at: stretch(cx, &text.place), value: text.value }
}

fn placed_at<T>(cx: &Cx<'_>, at: At<T>) -> Placed<T> {
    Placed { at: stretch(cx, &at.place), value: at.value }
}
