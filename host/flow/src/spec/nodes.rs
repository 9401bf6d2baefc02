//! Each node's own keys.
//!
//! Parts of the language that cannot run yet are read in full, so that what is wrong inside them is found, and refused
//! at their place.

use super::cx::Cx;
use super::errors::{ErrorsSpec, errors};
use super::exprs::{Choice, Wants, choice, expression};
use super::fields::{Field, Fields, items};
use super::foreign::looks_computed;
use super::process::{CallOptions, IntoTopic, Kind, ProcessSpec, process};
use super::switch::{SwitchKind, label_routes, switch};
use super::values::{Text, Zero, boolean, count, duration, millis, name, size, whole, word};
use crate::ask::Role;
use crate::issue::Code;
use crate::plan::{FlushBounds, OnTrap, Timestamp};
use crate::report::Problem;

/// Calls at a time that a node may have.
const MOST_CALLS: u64 = 1000;

/// Reads the node whose key is `key`, with the options beside it.
pub(super) fn node(
    cx: &mut Cx<'_>,
    key: &'static str,
    field: &Field<'_>,
    fields: &mut Fields<'_>,
) -> (Kind, Option<ErrorsSpec>) {
    let kind = match key {
        "step" => call(cx, key, Role::Step, field, fields),
        "expand" => call(cx, key, Role::Expand, field, fields),
        "batch_step" => call(cx, key, Role::BatchStep, field, fields),
        "batch_expand" => call(cx, key, Role::BatchExpand, field, fields),
        "explode" => call(cx, key, Role::TypedExpander, field, fields),
        "map" => Kind::Map(expression(cx, field, Wants::Payload)),
        "filter" => Kind::Filter(choice(cx, field, Wants::Predicate)),
        "collect_batch" => collect_batch(cx, field),
        "for_each" => {
            nothing(cx, field);
            Kind::ForEach
        }
        "router" => Kind::Router(switch(cx, field, SwitchKind::Router)),
        "fork" => Kind::Fork(switch(cx, field, SwitchKind::Fork)),
        "broadcast" => broadcast(cx, field),
        "expand_routes" => {
            let options = call_options(cx, fields);
            expand_routes(cx, field, options)
        }
        "into_topic" => into_topic(cx, field, fields),
        "into_sink" => into_sink(cx, field, fields),
        "drain" => {
            nothing(cx, field);
            Kind::Drain
        }
        _ => Kind::Unknown,
    };
    let errors = if fields.knows("errors") {
        fields.take("errors").and_then(|field| errors(cx, &field, false))
    } else {
        None
    };
    (kind, errors)
}

fn nothing(cx: &mut Cx<'_>, field: &Field<'_>) {
    if !field.node.is_null() && Fields::of(cx, field).is_some_and(|fields| !fields.is_empty()) {
        cx.error(&field.place(), Code::WrongType, format!("`{}` takes no value", field.key));
    }
}

fn call(cx: &mut Cx<'_>, key: &'static str, role: Role, field: &Field<'_>, fields: &mut Fields<'_>) -> Kind {
    let plugin = name(cx, field);
    let options = call_options(cx, fields);
    Kind::Call { key, role, plugin, options }
}

fn call_options(cx: &mut Cx<'_>, fields: &mut Fields<'_>) -> CallOptions {
    const ON_TRAP: [(&str, Option<OnTrap>); 3] =
        [("rerun", Some(OnTrap::Rerun)), ("fail_batch", Some(OnTrap::FailBatch)), ("reset", None)];
    let timeout = fields.take("timeout").and_then(|field| duration(cx, &field));
    let retries = retries(cx, fields);
    let concurrency = fields.take("concurrency").and_then(|field| concurrency(cx, &field));
    let ordered = fields.take("ordered").and_then(|field| boolean(cx, &field));
    let on_trap = fields.take("on_trap").and_then(|field| {
        let at = word(cx, &field, &ON_TRAP)?;
        if at.value.is_none() {
            cx.not_available(&at.place, "`on_trap: reset`");
        }
        at.value
    });
    CallOptions { timeout, retries, on_trap, concurrency, ordered }
}

/// Calls at a time. Each needs an instance with memory of its own, so that large numbers are mistakes.
fn concurrency(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<usize> {
    let at = whole(cx, field, Zero::Refused)?;
    if at.value > MOST_CALLS {
        let message = format!("`concurrency` takes at most {MOST_CALLS}: each call at a time is an instance");
        cx.error(&at.place, Code::ValueInvalid, message);
        return None;
    }
    usize::try_from(at.value).ok()
}

fn retries(cx: &mut Cx<'_>, fields: &mut Fields<'_>) -> Option<u32> {
    let retries = whole(cx, &fields.take("retries")?, Zero::Allowed)?;
    Some(u32::try_from(retries.value).unwrap_or(u32::MAX))
}

fn collect_batch(cx: &mut Cx<'_>, field: &Field<'_>) -> Kind {
    let Some(mut fields) = Fields::of(cx, field) else { return Kind::Unknown };
    let (records, bytes) = (fields.take("max_records"), fields.take("max_bytes"));
    let time = fields.take("timeout_ms");
    if records.is_none() && bytes.is_none() && time.is_none() {
        let message = "`collect_batch` has no bound at which a batch would leave";
        let problem = Problem::error(Code::ValueInvalid, message)
            .hint("give it some of `max_records`, `max_bytes` and `timeout_ms`: `{ max_records: 100, timeout_ms: 500 }`");
        cx.push(&field.key_place(), problem);
    }
    let max_records = records.and_then(|field| count(cx, &field));
    let max_bytes = bytes.and_then(|field| size(cx, &field));
    let timeout = time.and_then(|field| millis(cx, &field, Zero::Refused));
    let key = fields.take("key").map(|field| choice(cx, &field, Wants::Key));
    fields.finish(cx, "`collect_batch`");
    Kind::CollectBatch { max_records, max_bytes, timeout, key }
}

fn broadcast(cx: &mut Cx<'_>, field: &Field<'_>) -> Kind {
    let Some(items) = items(cx, field, "processes") else { return Kind::Unknown };
    if items.is_empty() {
        cx.error(&field.key_place(), Code::ValueInvalid, "`broadcast` has no branches");
    }
    Kind::Broadcast(items.iter().filter_map(|item| process(cx, item)).collect())
}

fn expand_routes(cx: &mut Cx<'_>, field: &Field<'_>, options: CallOptions) -> Kind {
    let Some(mut fields) = Fields::of(cx, field) else { return Kind::Unknown };
    let plugin = fields.need(cx, "plugin").and_then(|field| name(cx, &field));
    let routes =
        fields.need(cx, "routes").map(|field| label_routes(cx, &field, "routes")).unwrap_or_default();
    let default = fields.take("default").and_then(|field| process(cx, &field));
    fields.finish(cx, "`expand_routes`");
    Kind::ExpandRoutes { plugin, options, routes, default }
}

fn into_topic(cx: &mut Cx<'_>, field: &Field<'_>, fields: &mut Fields<'_>) -> Kind {
    let output = topic(cx, field);
    let key = fields.take("key").map(|field| choice(cx, &field, Wants::Key));
    let made_by = fields.take("partitioner");
    let repartition = fields.take("allow_repartition").and_then(|field| boolean(cx, &field));
    let repartition = repartition.filter(|at| at.value);
    if let (Some(at), None) = (&repartition, &made_by) {
        let message =
            "`allow_repartition: true` has no effect: there is no `partitioner` that could make keys";
        let problem = Problem::warning(Code::ValueInvalid, message).hint(
            "name one beside it, `partitioner: NAME`; `key`, which needs no leave, replaces every record's key",
        );
        cx.push(&at.place, problem);
    }
    let partitioner = made_by.and_then(|field| partitioner(cx, &field));
    let allow_repartition = repartition.is_some();
    let dlq = fields.take("dlq").and_then(|field| topic(cx, &field));
    let times = [("source", Timestamp::Source), ("now", Timestamp::Now)];
    let timestamp = fields.take("timestamp").and_then(|field| word(cx, &field, &times));
    let timestamp = timestamp.map_or(Timestamp::Source, |at| at.value);
    Kind::IntoTopic(IntoTopic { output, key, partitioner, allow_repartition, dlq, timestamp })
}

/// An output's name. It is one for all records, which is worth a warning where it reads as if it were computed.
fn topic(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Text> {
    let text = name(cx, field)?;
    if !text.open && looks_computed(&text.shown) && !text.sealed {
        let message = format!("`{}` is the name of one topic here, and no expression", text.shown);
        let problem = Problem::warning(Code::ValueInvalid, message).hint(
            "which topic a record goes to is chosen by a `fork`: `by: EXPRESSION`, with a branch for each topic",
        );
        cx.push(&text.place, problem);
    }
    Some(text)
}

/// A partitioner is always a plugin: its name, or `{ plugin: NAME }` as elsewhere.
fn partitioner(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<Text> {
    match &field.node.content {
        crate::reader::Content::Mapping(_) => match choice(cx, field, Wants::Key) {
            Choice::Plugin(plugin) => Some(plugin),
            Choice::Expr(_) | Choice::Invalid => None,
        },
        _ => name(cx, field),
    }
}

fn into_sink(cx: &mut Cx<'_>, field: &Field<'_>, fields: &mut Fields<'_>) -> Kind {
    let plugin = name(cx, field);
    let timeout = fields.take("timeout").and_then(|field| duration(cx, &field));
    let retries = retries(cx, fields);
    let mut flush =
        FlushBounds { records: 1000, bytes: 1 << 20, interval: std::time::Duration::from_secs(1) };
    if let Some(mut bounds) = fields.take("flush").and_then(|field| Fields::of(cx, &field)) {
        if let Some(records) = bounds.take("records").and_then(|field| count(cx, &field)) {
            flush.records = records;
        }
        if let Some(bytes) = bounds.take("bytes").and_then(|field| size(cx, &field)) {
            flush.bytes = bytes;
        }
        if let Some(interval) = bounds.take("interval").and_then(|field| duration(cx, &field)) {
            flush.interval = interval;
        }
        bounds.finish(cx, "`flush`");
    }
    Kind::IntoSink { plugin, timeout, retries, flush }
}

/// A process under a key of the user's.
pub(super) fn labelled(cx: &mut Cx<'_>, field: &Field<'_>) -> Option<(String, ProcessSpec)> {
    Some((field.key.to_owned(), process(cx, field)?))
}
