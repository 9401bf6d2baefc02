//! The roles of the contract that a component can have, each in its forms.

use super::BIND_TRACKER;

/// What a component is, by its exports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Roles {
    /// A step over one record.
    pub step: bool,
    /// A step over columns.
    pub column_step: bool,
    /// An expander of one record.
    pub expand: bool,
    /// An expander over columns.
    pub column_expand: bool,
    /// A step over a batch.
    pub batch_step: bool,
    /// An expander over a batch.
    pub batch_expand: bool,
    /// An expander of one record into rows of named types.
    pub typed_expand: bool,
    /// A selector over one record.
    pub selector: bool,
    /// A partitioner over one record.
    pub partitioner: bool,
    /// A predicate over one record.
    pub predicate: bool,
    /// A predicate over columns.
    pub column_predicate: bool,
    /// A sink.
    pub sink: bool,
    /// A sink that takes the commit tracker.
    pub tracked: bool,
    /// Takes configuration.
    pub setup: bool,
}

impl Roles {
    /// Whether it is a step, in either form.
    #[must_use]
    pub fn is_step(&self) -> bool {
        self.step || self.column_step
    }

    /// Whether it is an expander, in either form.
    #[must_use]
    pub fn is_expander(&self) -> bool {
        self.expand || self.column_expand
    }

    /// Whether it is a predicate, in either form.
    #[must_use]
    pub fn is_predicate(&self) -> bool {
        self.predicate || self.column_predicate
    }

    /// The interfaces behind the roles, for people: `step, column-step`.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        [
            (self.step, "step"),
            (self.column_step, "column-step"),
            (self.expand, "expand"),
            (self.column_expand, "column-expand"),
            (self.batch_step, "batch-step"),
            (self.batch_expand, "batch-expand"),
            (self.typed_expand, "typed-expand"),
            (self.selector, "selector"),
            (self.partitioner, "partitioner"),
            (self.predicate, "predicate"),
            (self.column_predicate, "column-predicate"),
            (self.sink, "sink"),
            (self.tracked, BIND_TRACKER),
            (self.setup, "setup"),
        ]
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
        .collect()
    }

    /// An interface of the contract is there.
    pub(super) fn add(&mut self, interface: &str) {
        match interface {
            "step" => self.step = true,
            "column-step" => self.column_step = true,
            "expand" => self.expand = true,
            "column-expand" => self.column_expand = true,
            "batch-step" => self.batch_step = true,
            "batch-expand" => self.batch_expand = true,
            "typed-expand" => self.typed_expand = true,
            "selector" => self.selector = true,
            "partitioner" => self.partitioner = true,
            "predicate" => self.predicate = true,
            "column-predicate" => self.column_predicate = true,
            "sink" => self.sink = true,
            "setup" => self.setup = true,
            // Language tools export more than is asked for.
            _ => {}
        }
    }
}
