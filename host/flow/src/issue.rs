//! One problem of a flow: what is wrong, where, and what to do.
//!
//! Issues are collected, never thrown: one compilation reports all of them, in the order of the file. A message never
//! holds a value that came from the environment or from a file; it names the reference as written.

use std::fmt;

/// Whether a flow with this issue can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The flow is refused.
    Error,
    /// The flow runs, and probably does not do what was meant.
    Warning,
}

impl Severity {
    /// The word in output: `error` or `warning`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// Whose fault an issue is. It decides the exit status of `run` and `dev`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Domain {
    /// The flow, or a file that it names, is wrong: status 1.
    Flow,
    /// The flow may be right, its pairing with these components is not: a *runtime configuration* error, status 3.
    Runtime,
}

/// Declares [`Code`] with its texts, so that a code cannot be without one.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal in $domain:ident;)+) => {
        /// What kind of problem an issue is. The text of a code never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Code {
            /// Every code, in alphabetical order of its section.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            /// The code as printed, such as `UNKNOWN_KEY`.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$variant => $text,)+
                }
            }

            /// Whose fault an error with this code is.
            #[must_use]
            pub fn domain(self) -> Domain {
                match self {
                    $(Code::$variant => Domain::$domain,)+
                }
            }
        }
    };
}

codes! {
    /// A `broadcast` that another node follows.
    BroadcastNotLast = "BROADCAST_NOT_LAST" in Flow;
    /// Two keys that exclude each other.
    ConflictingKeys = "CONFLICTING_KEYS" in Flow;
    /// `delivery` and the deprecated `enable_auto_commit` contradict each other.
    DeliveryConflict = "DELIVERY_CONFLICT" in Flow;
    /// A key that works no longer or will go away.
    Deprecated = "DEPRECATED" in Flow;
    /// A key that its mapping already has.
    DuplicateKey = "DUPLICATE_KEY" in Flow;
    /// `errors` where it has no effect: inside an error route.
    ErrorsIgnored = "ERRORS_IGNORED" in Flow;
    /// Records that fail in this way are dropped: no route takes them.
    ErrorKindUnrouted = "ERROR_KIND_UNROUTED" in Flow;
    /// An expression that does not parse, or names what there is not, or has the wrong type.
    ExpressionInvalid = "EXPRESSION_INVALID" in Flow;
    /// An expression that YAML takes for something else.
    ExpressionQuoting = "EXPRESSION_QUOTING" in Flow;
    /// A file that cannot be read as a flow at all: empty, too large, not text, not YAML.
    FileInvalid = "FILE_INVALID" in Flow;
    /// A branch of a `fork` that ends without a terminal.
    ForkBranchNoTerminal = "FORK_BRANCH_NO_TERMINAL" in Flow;
    /// A `fork` that another node follows.
    ForkNotLast = "FORK_NOT_LAST" in Flow;
    /// Branches by label without the selector that picks one.
    ForkSelectorMissing = "FORK_SELECTOR_MISSING" in Flow;
    /// A `fork` that leaves records without a branch, under `at_least_once`.
    ForkUnmatchedUnrouted = "FORK_UNMATCHED_UNROUTED" in Flow;
    /// A `${…}` that is not one of the forms there are.
    InterpolationInvalid = "INTERPOLATION_INVALID" in Flow;
    /// A client setting that is missing, unknown, refused, or not the flow's to set.
    KafkaConfigInvalid = "KAFKA_CONFIG_INVALID" in Flow;
    /// A key that must be there.
    MissingKey = "MISSING_KEY" in Flow;
    /// A path through the process that ends without a terminal.
    MissingTerminalOutput = "MISSING_TERMINAL_OUTPUT" in Flow;
    /// A mapping that is no node: no node key, or more than one.
    NodeInvalid = "NODE_INVALID" in Flow;
    /// Part of the language that this version cannot run.
    NotAvailable = "NOT_AVAILABLE" in Flow;
    /// A component that is made for another host: another track of the contract, an import that nobody has.
    PluginIncompatible = "PLUGIN_INCOMPATIBLE" in Runtime;
    /// A component that cannot be read or is none.
    PluginLoadFailed = "PLUGIN_LOAD_FAILED" in Flow;
    /// A component without the export that its place needs.
    PluginRoleMissing = "PLUGIN_ROLE_MISSING" in Runtime;
    /// A name that `plugins` does not have.
    PluginUnknown = "PLUGIN_UNKNOWN" in Flow;
    /// A sink that cannot say what it has written, under `at_least_once`.
    SinkUntracked = "SINK_UNTRACKED" in Runtime;
    /// A terminal that another node follows.
    TerminalNotLast = "TERMINAL_NOT_LAST" in Flow;
    /// A key that its mapping does not know.
    UnknownKey = "UNKNOWN_KEY" in Flow;
    /// A branch or route that ends without a terminal, so that its records drain.
    UnterminatedBranch = "UNTERMINATED_BRANCH" in Flow;
    /// A value of the right type that means nothing here.
    ValueInvalid = "VALUE_INVALID" in Flow;
    /// A variable or file that an interpolation or expression names and that is not there.
    VariableUnset = "VARIABLE_UNSET" in Flow;
    /// A value of the wrong type.
    WrongType = "WRONG_TYPE" in Flow;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A stretch of the flow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stretch {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Byte offset in the text.
    pub offset: usize,
    /// Length in bytes; may be 0.
    pub len: usize,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    /// Whether it stops the flow.
    pub severity: Severity,
    /// Which kind of problem.
    pub code: Code,
    /// What is wrong, in one or two sentences.
    pub message: String,
    /// The flow file's name as given.
    pub file: String,
    /// Where.
    pub at: Stretch,
    /// Another place that the problem is about, and what is there.
    pub related: Option<(Stretch, String)>,
    /// The field's or node's path, such as `process[1].fork.default`; empty for the whole file.
    pub path: String,
    /// What to do, if one thing is certain.
    pub hint: Option<String>,
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stretch { line, column, .. } = self.at;
        write!(f, "{}[{}] {}:{line}:{column}: {}", self.severity.name(), self.code, self.file, self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::Code;

    #[test]
    fn codes_are_unique_and_sorted() {
        let texts: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert!(texts.windows(2).all(|pair| pair[0] < pair[1]), "{texts:?}");
    }
}
