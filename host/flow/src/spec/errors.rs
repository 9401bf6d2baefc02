//! `errors`: routes by kind, at the top and at nodes.

use loom_types::ErrorKind;

use super::cx::Cx;
use super::fields::{Field, Fields};
use super::process::{ProcessSpec, process};
use super::values::word;
use crate::plan::Unrouted;
use crate::report::Place;

/// The routes of one `errors`.
#[derive(Debug)]
pub(crate) struct ErrorsSpec {
    pub(crate) place: Place,
    /// By [`ErrorKind::index`].
    pub(crate) kinds: [Option<ProcessSpec>; ErrorKind::ALL.len()],
    /// For kinds without one.
    pub(crate) default: Option<ProcessSpec>,
    /// Only at the top.
    pub(crate) unrouted: Unrouted,
}

impl ErrorsSpec {
    /// Its routes in the order of kinds, `default` last.
    pub(crate) fn routes(&self) -> impl Iterator<Item = &ProcessSpec> {
        self.kinds.iter().flatten().chain(&self.default)
    }
}

pub(crate) fn errors(cx: &mut Cx<'_>, field: &Field<'_>, top: bool) -> Option<ErrorsSpec> {
    let mut fields = Fields::of(cx, field)?;
    let kinds = ErrorKind::ALL.map(|kind| fields.take(kind.name()).and_then(|field| process(cx, &field)));
    let default = fields.take("default").and_then(|field| process(cx, &field));
    let mut unrouted = Unrouted::Drop;
    if top && let Some(field) = fields.take("unrouted") {
        let words = [("drop", Unrouted::Drop), ("stop", Unrouted::Stop)];
        unrouted = word(cx, &field, &words).map_or(Unrouted::Drop, |at| at.value);
    }
    let place = fields.place.clone();
    fields.finish(cx, if top { "`errors`" } else { "a node's `errors`" });
    Some(ErrorsSpec { place, kinds, default, unrouted })
}
