//! `--write`: expectations made from what came out, to be read before they are kept.
//!
//! What a case says stays its own: of an expectation that has keys those alone are written anew, a record that is as
//! expected keeps its words, and a flow that fails where it should not is never made the expectation. What differs
//! from run to run, as the time of a failure, is left out.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use loom_flow::Plan;
use loom_flow::cases::{Case, ExpectPlace, OutputRecord, Placed, ReadCases};
use serde_json::Value;

use super::align::{Step, in_any_order};
use super::error_row::ErrorRow;
use super::life::{Dropped, Made};
use super::records::{Actual, differences};
use super::stage::{Played, partitions};
use super::yaml::{Yaml, mapping, of_json, text};

/// The file's text with the expectations of these cases; none where there is none to write.
pub fn filled(read: &ReadCases, cases: &[(&Case, &Played)], plan: &Plan) -> Option<String> {
    let mut edits: Vec<(ExpectPlace, Yaml)> = cases
        .iter()
        .filter_map(|(case, played)| Some((case.expect.place?, expectation(case, played, plan, read.text()))))
        .collect();
    // From the end on, so that places before stay right.
    edits.sort_by_key(|(place, _)| std::cmp::Reverse(place.start));
    let none = edits.is_empty();
    let text = edits.iter().fold(read.text().to_owned(), |text, (place, yaml)| yaml.put(&text, *place));
    (!none).then_some(text)
}

/// Whether a case may be filled: its text is its own, and not another's through a merge too, and its flow ended as it says.
pub fn can_be_filled(read: &ReadCases, case: &Case, played: &Played) -> bool {
    let start = |case: &Case| case.expect.place.map(|place| place.start);
    let all = read.file.iter().flat_map(|file| &file.cases);
    let its_own = start(case).is_some() && all.filter(|other| start(other) == start(case)).count() == 1;
    its_own && played.failures.is_empty() == case.expect.stops.is_none()
}

fn expectation(case: &Case, played: &Played, plan: &Plan, source: &str) -> Yaml {
    let old = &case.expect;
    let new = old.is_empty();
    let inline = |text: String| Yaml::Inline(text);
    let mut entries: Vec<(&str, Yaml)> = Vec::new();
    if new || old.topics.is_some() {
        entries.push(("topics", lists(old.topics.as_ref(), &played.seen.written, source)));
    }
    if old.sinks.is_some() || new && !played.seen.sunk.is_empty() {
        entries.push(("sinks", lists(old.sinks.as_ref(), &played.seen.sunk, source)));
    }
    let no_order = new && (case.workers.is_some_and(|workers| workers > 1) || partitions(case) > 1);
    if old.any_order || no_order {
        entries.push(("order", inline("any".to_owned())));
    }
    if !played.seen.dropped.is_empty() {
        let errors = played.seen.dropped.iter().map(|one| error(one, case, plan));
        entries.push(("errors", Yaml::List(errors.collect())));
    }
    if let Some(summary) = &played.summary
        && !(old.ledger.is_empty() && old.ended.is_empty())
    {
        entries.push(("ledger", inline(ledger(case, &summary.ledger()))));
    }
    let wanted = |place: &(String, i32)| new || old.offsets.contains_key(place);
    let mut offsets: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for ((topic, partition), offset) in played.committed.iter().filter(|(place, _)| wanted(place)) {
        offsets.entry(topic).or_default().push(format!("{partition}: {offset}"));
    }
    if !offsets.is_empty() {
        let topics = offsets
            .into_iter()
            .map(|(topic, offsets)| format!("{}: {}", text(topic), mapping(offsets.into_iter())));
        entries.push(("offsets", inline(mapping(topics))));
    }
    if let (Some(stops), Some(failure)) = (&old.stops, played.failures.first()) {
        let holds = played.failures.iter().any(|failure| failure.contains(&stops.value));
        let first = failure.lines().next().unwrap_or_default();
        entries.push(("stops", inline(text(if holds { &stops.value } else { first }))));
    }
    Yaml::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Records by topic or sink; those that were named stay, with none where none came.
fn lists(
    expected: Option<&BTreeMap<String, Placed<Vec<OutputRecord>>>>,
    made: &[Made],
    source: &str,
) -> Yaml {
    let mut by_name: BTreeMap<&str, Vec<Actual<'_>>> = BTreeMap::new();
    for name in expected.into_iter().flat_map(BTreeMap::keys) {
        by_name.entry(name).or_default();
    }
    for made in made {
        by_name.entry(&made.into).or_default().push(Actual::new(&made.record));
    }
    let nothing = Vec::new();
    let list = |(name, records): (&str, Vec<Actual<'_>>)| {
        let wanted = expected.and_then(|all| all.get(name)).map_or(&nothing, |placed| &placed.value);
        (name.to_owned(), Yaml::List(written(wanted, &records, source)))
    };
    Yaml::Map(by_name.into_iter().map(list).collect())
}

/// Each record in YAML: as it was expected where it is so, on one line.
fn written(wanted: &[OutputRecord], records: &[Actual<'_>], source: &str) -> Vec<String> {
    let fits = |one: usize, is: usize| differences(&wanted[one], &records[is]).is_empty();
    let mut kept: Vec<Option<String>> = vec![None; records.len()];
    for step in in_any_order(wanted.len(), records.len(), fits) {
        if let Step::Pair(one, is) = step {
            let at = wanted[one].at;
            let said = source.get(at.offset..at.offset + at.len).unwrap_or_default();
            // Blanks and a comment behind it are no part of it. A sign that begins one may stand in a text, too.
            let quoted = said.contains(['"', '\'']) && said.contains(" #");
            let said = if quoted { "" } else { said.split(" #").next().unwrap_or_default().trim_end() };
            let one_line = said.starts_with('{') && said.ends_with('}') && !said.contains(['\n', '&', '*']);
            kept[is] = one_line.then(|| said.to_owned());
        }
    }
    records.iter().zip(kept).map(|(record, kept)| kept.unwrap_or_else(|| of_record(record))).collect()
}

fn of_record(made: &Actual<'_>) -> String {
    let record = made.record;
    let failure = ErrorRow::of(made);
    let mut parts = Vec::new();
    if let Some(key) = &record.key {
        parts.push(format!("key: {}", of_bytes(Some(key))));
    }
    // Of those that an error route sets, some hold times.
    let own = record.headers.iter().filter(|(name, _)| !name.starts_with(b"loom-error-"));
    let own: Vec<_> =
        own.filter_map(|(name, value)| Some((std::str::from_utf8(name).ok()?, value))).collect();
    if !own.is_empty() {
        let pairs =
            own.iter().map(|(name, value)| format!("[{}, {}]", text(name), of_bytes(value.as_deref())));
        parts.push(format!("headers: [ {} ]", pairs.collect::<Vec<_>>().join(", ")));
    }
    parts.push(match (failure, made.json(), &record.payload) {
        // The form with headers has the record's own payload.
        (Some(ErrorRow { kind, node, offset, in_envelope: true, .. }), ..) => {
            format!("fields: {{ kind: {kind}, node: {}, record: {{ offset: {offset} }} }}", text(&node))
        }
        (_, Some(Ok(json)), _) => format!("json: {}", of_json(json)),
        (_, _, None) => "value: null".to_owned(),
        (_, _, Some(bytes)) => match std::str::from_utf8(bytes) {
            Ok(payload) => format!("value: {}", text(payload)),
            Err(_) => format!("base64: {}", text(&STANDARD.encode(bytes))),
        },
    });
    mapping(parts.into_iter())
}

fn of_bytes(bytes: Option<&[u8]>) -> String {
    match bytes.map(|bytes| (std::str::from_utf8(bytes), bytes)) {
        None => "null".to_owned(),
        Some((Ok(value), _)) => text(value),
        Some((Err(_), bytes)) => format!("{{ base64: {} }}", text(&STANDARD.encode(bytes))),
    }
}

fn error(dropped: &Dropped, case: &Case, plan: &Plan) -> String {
    let Dropped { node, kind, origin, .. } = dropped;
    let mut parts =
        vec![format!("kind: {kind}"), format!("node: {}", text(node)), format!("at: {}", origin.offset)];
    if partitions(case) > 1 {
        parts.push(format!("partition: {}", origin.partition));
    }
    if plan.consumer.topics.len() > 1 {
        parts.push(format!("topic: {}", text(&origin.topic)));
    }
    mapping(parts.into_iter())
}

/// The counts that the case names.
fn ledger(case: &Case, ledger: &Value) -> String {
    let count = |value: Option<&Value>| value.and_then(Value::as_u64).unwrap_or_default();
    let of = |name: &str, value: Option<&Value>| format!("{}: {}", text(name), count(value));
    let mut parts: Vec<String> = case.expect.ledger.keys().map(|name| of(name, ledger.get(name))).collect();
    if !case.expect.ended.is_empty() {
        let ended = case.expect.ended.keys().map(|name| of(name, ledger["ended"].get(name)));
        parts.push(format!("ended: {}", mapping(ended)));
    }
    mapping(parts.into_iter())
}
