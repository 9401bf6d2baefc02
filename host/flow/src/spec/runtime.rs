//! `runtime`: bounds and times of the run.

use std::time::Duration;

use super::cx::Cx;
use super::fields::{Field, Fields};
use super::values::{Zero, count, duration, millis, size, word};
use crate::plan::RuntimePlan;

/// What holds where the flow says nothing.
fn defaults() -> RuntimePlan {
    RuntimePlan {
        startup_timeout: Duration::from_secs(30),
        shutdown_timeout: Duration::from_secs(25),
        commit_interval: Duration::from_millis(200),
        lease_interval: Duration::from_secs(5),
        max_outstanding_records: 100_000,
        max_outstanding_bytes: 256 << 20,
        prefetch: 256 << 20,
    }
}

/// Times of parts that cannot run yet: their default says what happens anyway, another value would promise something.
const LATER: [(&str, u64); 3] = [("epoch_interval", 10), ("epoch_timeout", 5), ("swap_timeout", 30)];

pub(crate) fn runtime(cx: &mut Cx<'_>, field: Option<Field<'_>>) -> RuntimePlan {
    let mut plan = defaults();
    let Some(field) = field else { return plan };
    let Some(mut fields) = Fields::of(cx, &field) else { return plan };
    if let Some(field) = fields.take("completions")
        && word(cx, &field, &[("local", false), ("routed", true)]).is_some_and(|at| at.value)
    {
        cx.not_available(&field.place(), "`completions: routed`");
    }
    for (key, default) in LATER {
        if let Some(field) = fields.take(key)
            && duration(cx, &field).is_some_and(|value| value != Duration::from_secs(default))
        {
            cx.not_available(&field.place(), &format!("a value of `{key}` other than {default}s"));
        }
    }
    for (key, time) in [
        ("startup_timeout", &mut plan.startup_timeout),
        ("shutdown_timeout", &mut plan.shutdown_timeout),
        ("lease_interval", &mut plan.lease_interval),
    ] {
        if let Some(value) = fields.take(key).and_then(|field| duration(cx, &field)) {
            *time = value;
        }
    }
    if let Some(value) = fields.take("commit_interval_ms").and_then(|field| millis(cx, &field, Zero::Allowed))
    {
        plan.commit_interval = value;
    }
    if let Some(field) = fields.take("max_outstanding") {
        max_outstanding(cx, &field, &mut plan);
    }
    if let Some(value) = fields.take("prefetch").and_then(|field| size(cx, &field)) {
        plan.prefetch = value;
    }
    fields.finish(cx, "`runtime`");
    plan
}

fn max_outstanding(cx: &mut Cx<'_>, field: &Field<'_>, plan: &mut RuntimePlan) {
    let Some(mut fields) = Fields::of(cx, field) else { return };
    if let Some(value) = fields.take("records").and_then(|field| count(cx, &field)) {
        plan.max_outstanding_records = value;
    }
    if let Some(value) = fields.take("bytes").and_then(|field| size(cx, &field)) {
        plan.max_outstanding_bytes = value;
    }
    fields.finish(cx, "`runtime.max_outstanding`");
}
