//! `fork` and `router`: branches by condition (`when`) or by label (`by` and `branches`).

use super::cx::Cx;
use super::exprs::{Choice, Wants, choice};
use super::fields::{Field, Fields, items, named};
use super::nodes::labelled;
use super::process::{ProcessSpec, process};
use crate::issue::Code;
use crate::reader::{Content, Scalar};
use crate::report::Problem;

/// Which of the two nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SwitchKind {
    Fork,
    Router,
}

/// The branches of a node.
#[derive(Debug)]
pub(crate) struct SwitchSpec {
    pub(crate) branches: Branches,
    pub(crate) default: Default,
}

#[derive(Debug)]
pub(crate) enum Branches {
    /// In order; a branch whose process was not understood has none.
    When(Vec<(Choice, Option<ProcessSpec>)>),
    By(Choice, Vec<(String, ProcessSpec)>),
    /// Reported already.
    Invalid,
}

#[derive(Debug)]
pub(crate) enum Default {
    None,
    /// A router's `default: pass`.
    Pass,
    Process(ProcessSpec),
    /// Reported already.
    Invalid,
}

pub(super) fn switch(cx: &mut Cx<'_>, field: &Field<'_>, kind: SwitchKind) -> SwitchSpec {
    let invalid = SwitchSpec { branches: Branches::Invalid, default: Default::Invalid };
    let Some(mut fields) = Fields::of(cx, field) else { return invalid };
    let by = fields.take("by");
    let when = fields.take("when");
    let labels = fields.take("branches");
    let default = match fields.take("default") {
        Some(field) => default(cx, &field, kind),
        None => Default::None,
    };
    let node = field.key;
    let form = match (&by, &when, &labels) {
        (Some(other), Some(when), _) | (None, Some(when), Some(other)) => {
            let message = format!("`{node}` has both `when` and `{}`", other.key);
            let problem = Problem::error(Code::ConflictingKeys, message)
                .related(when.key_span, "the other form")
                .hint("`when` picks by conditions, `by` with `branches` by a label; keep one");
            cx.push(&other.key_place(), problem);
            None
        }
        (_, None, None) => {
            let problem = Problem::error(Code::MissingKey, format!("`{node}` has no branches"))
                .hint("give it `when`, or `by` with `branches`");
            cx.push(&field.key_place(), problem);
            None
        }
        _ => Some(()),
    };
    let selector = by.filter(|by| !by.node.is_null());
    if selector.is_none() && when.is_none() && (labels.is_some() || fields.has("by")) {
        let problem = Problem::error(Code::ForkSelectorMissing, format!("`{node}` has no selector"))
            .hint("say what picks the branch: `by: payload.type`");
        cx.push(&field.key_place(), problem);
    }
    let selector = selector.map(|field| choice(cx, &field, Wants::Label));
    let when = when.map(|field| when_branches(cx, &field));
    let labels = labels.map(|field| label_routes(cx, &field, "branches"));
    let what = format!("`{node}`");
    fields.finish(cx, &what);
    let branches = match (when, labels) {
        // Branches of a contradictory form are kept, so that what is wrong inside them is found.
        (Some(when), _) => Branches::When(when),
        (None, Some(labels)) => Branches::By(selector.unwrap_or(Choice::Invalid), labels),
        (None, None) => Branches::Invalid,
    };
    SwitchSpec { branches, default: if form.is_some() { default } else { or_invalid(default) } }
}

/// Where the form is wrong, a missing default is not a finding of its own.
fn or_invalid(default: Default) -> Default {
    match default {
        Default::None => Default::Invalid,
        other => other,
    }
}

fn default(cx: &mut Cx<'_>, field: &Field<'_>, kind: SwitchKind) -> Default {
    if let Content::Scalar(Scalar { text, .. }) = &field.node.content
        && text == "pass"
    {
        if kind == SwitchKind::Router {
            return Default::Pass;
        }
        let problem = Problem::error(
            Code::ValueInvalid,
            "a `fork` is a terminal: nothing comes after it to pass on to",
        )
        .hint("give `default` a process, such as `[ drain ]`");
        cx.push(&field.place(), problem);
        return Default::Invalid;
    }
    process(cx, field).map_or(Default::Invalid, Default::Process)
}

fn when_branches(cx: &mut Cx<'_>, field: &Field<'_>) -> Vec<(Choice, Option<ProcessSpec>)> {
    let Some(items) = items(cx, field, "branches") else { return Vec::new() };
    if items.is_empty() {
        cx.error(&field.key_place(), Code::ValueInvalid, "`when` has no branches");
    }
    let mut branches = Vec::new();
    for item in items {
        let Some(mut fields) = Fields::of(cx, &item) else { continue };
        let condition = fields.need(cx, "if");
        let condition = condition.map_or(Choice::Invalid, |field| choice(cx, &field, Wants::Predicate));
        let process = fields.need(cx, "process").and_then(|field| process(cx, &field));
        fields.finish(cx, "a branch of `when`");
        branches.push((condition, process));
    }
    branches
}

/// Processes by label or type.
pub(super) fn label_routes(cx: &mut Cx<'_>, field: &Field<'_>, what: &str) -> Vec<(String, ProcessSpec)> {
    let Some(all) = named(cx, field) else { return Vec::new() };
    if all.is_empty() {
        cx.error(&field.key_place(), Code::ValueInvalid, format!("`{what}` is empty"));
    }
    all.iter().filter_map(|field| labelled(cx, field)).collect()
}
