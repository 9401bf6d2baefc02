//! `errors`: routes by kind, at the top and at nodes.

use loom_types::ErrorKind;

use super::cx::Cx;
use super::fields::{Field, Fields};
use super::process::{ProcessSpec, process};
use super::values::{At, rate, word};
use crate::plan::{Delivery, Rate, Unrouted};
use crate::report::Place;

/// The routes of one `errors`.
#[derive(Debug)]
pub(crate) struct ErrorsSpec {
    pub(crate) place: Place,
    /// By [`ErrorKind::index`].
    pub(crate) kinds: [Option<ProcessSpec>; ErrorKind::ALL.len()],
    /// For kinds without one.
    pub(crate) default: Option<ProcessSpec>,
    /// Only at the top. None where the mode of delivery decides.
    pub(crate) unrouted: Option<Unrouted>,
    /// Only at the top.
    pub(crate) max_dropped: Option<At<Rate>>,
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
    let (mut unrouted, mut max_dropped) = (None, None);
    if top {
        let words = [("drop", Unrouted::Drop), ("stop", Unrouted::Stop)];
        let field = fields.take("unrouted");
        unrouted = field.and_then(|field| word(cx, &field, &words)).map(|at| at.value);
        max_dropped = fields.take("max_dropped").and_then(|field| rate(cx, &field));
    }
    let place = fields.place.clone();
    fields.finish(cx, if top { "`errors`" } else { "a node's `errors`" });
    Some(ErrorsSpec { place, kinds, default, unrouted, max_dropped })
}

/// What becomes of a failed record that no route takes. A flow that promises to lose nothing loses nothing in silence
/// because a route was forgotten.
pub(crate) fn unrouted(errors: Option<&ErrorsSpec>, delivery: Delivery) -> Unrouted {
    errors.and_then(|errors| errors.unrouted).unwrap_or(match delivery {
        Delivery::AtLeastOnce => Unrouted::Stop,
        Delivery::AtMostOnce => Unrouted::Drop,
    })
}
