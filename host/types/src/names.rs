//! Closed lists that name things in the flow language, logs, metrics, status and tests. One word a thing.

use std::fmt;

/// Why a record did not get through a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorKind {
    /// A node needs the payload and it cannot be decoded.
    Wire,
    /// A router found no branch, or an expanded row's type has no route.
    Routing,
    /// A plugin or an expression failed.
    Task,
    /// A plugin or a sink rejected the record.
    Business,
    /// An output or a sink refused the record for good.
    Delivery,
}

impl ErrorKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: [ErrorKind; 5] =
        [ErrorKind::Wire, ErrorKind::Routing, ErrorKind::Task, ErrorKind::Business, ErrorKind::Delivery];

    /// The word in `errors:`, in envelopes and in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Wire => "wire",
            ErrorKind::Routing => "routing",
            ErrorKind::Task => "task",
            ErrorKind::Business => "business",
            ErrorKind::Delivery => "delivery",
        }
    }

    /// As an index into a table with one entry for each kind.
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a row ended. Every row ends in exactly one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ending {
    /// Acknowledged by an output topic.
    Topic,
    /// Completed by a sink.
    Sink,
    /// Acknowledged by a dead-letter topic.
    DeadLetter,
    /// Ended inside the error route of this kind, whatever its terminal.
    ErrorRoute(ErrorKind),
    /// Failed, and no route took it.
    Dropped(ErrorKind),
    /// A filter said no.
    Filtered,
    /// Reached a `drain`, or the end of a branch without a terminal.
    Drained,
    /// Its node made nothing of it.
    NoOutput,
}

impl Ending {
    /// How many endings there are; see [`Ending::index`].
    pub const COUNT: usize = 16;

    /// Every ending, by its index.
    pub const ALL: [Ending; Ending::COUNT] = [
        Ending::Topic,
        Ending::Sink,
        Ending::DeadLetter,
        Ending::Filtered,
        Ending::Drained,
        Ending::NoOutput,
        Ending::ErrorRoute(ErrorKind::Wire),
        Ending::ErrorRoute(ErrorKind::Routing),
        Ending::ErrorRoute(ErrorKind::Task),
        Ending::ErrorRoute(ErrorKind::Business),
        Ending::ErrorRoute(ErrorKind::Delivery),
        Ending::Dropped(ErrorKind::Wire),
        Ending::Dropped(ErrorKind::Routing),
        Ending::Dropped(ErrorKind::Task),
        Ending::Dropped(ErrorKind::Business),
        Ending::Dropped(ErrorKind::Delivery),
    ];

    /// As an index into a table of [`Ending::COUNT`] entries.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Ending::Topic => 0,
            Ending::Sink => 1,
            Ending::DeadLetter => 2,
            Ending::Filtered => 3,
            Ending::Drained => 4,
            Ending::NoOutput => 5,
            Ending::ErrorRoute(kind) => 6 + kind.index(),
            Ending::Dropped(kind) => 11 + kind.index(),
        }
    }

    /// The name in logs, metrics and the ledger, such as `topic` or `dropped(task)`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Ending::Topic => "topic",
            Ending::Sink => "sink",
            Ending::DeadLetter => "dead_letter",
            Ending::Filtered => "filtered",
            Ending::Drained => "drained",
            Ending::NoOutput => "no_output",
            Ending::ErrorRoute(ErrorKind::Wire) => "error_route(wire)",
            Ending::ErrorRoute(ErrorKind::Routing) => "error_route(routing)",
            Ending::ErrorRoute(ErrorKind::Task) => "error_route(task)",
            Ending::ErrorRoute(ErrorKind::Business) => "error_route(business)",
            Ending::ErrorRoute(ErrorKind::Delivery) => "error_route(delivery)",
            Ending::Dropped(ErrorKind::Wire) => "dropped(wire)",
            Ending::Dropped(ErrorKind::Routing) => "dropped(routing)",
            Ending::Dropped(ErrorKind::Task) => "dropped(task)",
            Ending::Dropped(ErrorKind::Business) => "dropped(business)",
            Ending::Dropped(ErrorKind::Delivery) => "dropped(delivery)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Ending;

    #[test]
    fn every_ending_stands_at_its_index() {
        for (index, ending) in Ending::ALL.iter().enumerate() {
            assert_eq!(ending.index(), index, "{ending:?}");
        }
    }
}
