//! One problem of a flow: what is wrong, where, and what to do.
//!
//! Issues are collected, never thrown: one compilation reports all of them, in the order of the file. A message never
//! holds a value that came from the environment or from a file; it names the reference as written.

use std::fmt;

use crate::entry::Entry;
use crate::spec::nearest;

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
    /// The flow is right, and its brokers do not have or allow what it needs: status 4.
    Broker,
}

/// Declares [`Code`] with its texts and the file that documents it, so that a code cannot be without one.
macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal in $domain:ident, $($module:ident)::+;)+) => {
        /// What kind of problem an issue is. The text of a code never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Code {
            /// Every code, in the order of their texts.
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

            /// What is documented of it.
            #[must_use]
            pub fn entry(self) -> &'static Entry {
                match self {
                    $(Code::$variant => &crate::checks::$($module)::+::ENTRY,)+
                }
            }
        }
    };
}

codes! {
    /// A `broadcast` that another node follows.
    BroadcastNotLast = "BROADCAST_NOT_LAST" in Flow, broadcast_not_last;
    /// No broker answers, or none lets the flow in.
    BrokerUnreachable = "BROKER_UNREACHABLE" in Broker, at_broker::broker_unreachable;
    /// Two keys that exclude each other.
    ConflictingKeys = "CONFLICTING_KEYS" in Flow, read::conflicting_keys;
    /// `delivery` and the deprecated `enable_auto_commit` contradict each other.
    DeliveryConflict = "DELIVERY_CONFLICT" in Flow, delivery_conflict;
    /// A window in a flow of several processes, under `at_least_once`.
    DeliveryKeyedMultiprocess = "DELIVERY_KEYED_MULTIPROCESS" in Runtime, at_start::delivery_keyed_multiprocess;
    /// Nothing says when offsets are committed, so that a crash loses records.
    DeliveryUnset = "DELIVERY_UNSET" in Flow, delivery_unset;
    /// A key that works no longer or will go away.
    Deprecated = "DEPRECATED" in Flow, read::deprecated;
    /// A branch with a condition that an earlier one has.
    DuplicateBranch = "DUPLICATE_BRANCH" in Flow, duplicate_branch;
    /// A key that its mapping already has.
    DuplicateKey = "DUPLICATE_KEY" in Flow, read::duplicate_key;
    /// `errors` where it has no effect: inside an error route.
    ErrorsIgnored = "ERRORS_IGNORED" in Flow, errors_ignored;
    /// Records that fail in this way are dropped: no route takes them.
    ErrorKindUnrouted = "ERROR_KIND_UNROUTED" in Flow, error_kind_unrouted;
    /// Typed rows that no `router` takes at once.
    ExplodeWithoutRouter = "EXPLODE_WITHOUT_ROUTER" in Flow, explode_without_router;
    /// An expression that does not parse, or names what there is not, or has the wrong type.
    ExpressionInvalid = "EXPRESSION_INVALID" in Flow, read::expression_invalid;
    /// An expression that YAML takes for something else.
    ExpressionQuoting = "EXPRESSION_QUOTING" in Flow, read::expression_quoting;
    /// A file that cannot be read as a flow at all: empty, too large, not text, not YAML.
    FileInvalid = "FILE_INVALID" in Flow, read::file_invalid;
    /// A branch of a `fork` that ends without a terminal.
    ForkBranchNoTerminal = "FORK_BRANCH_NO_TERMINAL" in Flow, fork_branch_no_terminal;
    /// A `fork` that another node follows.
    ForkNotLast = "FORK_NOT_LAST" in Flow, fork_not_last;
    /// Branches by label without the selector that picks one.
    ForkSelectorMissing = "FORK_SELECTOR_MISSING" in Flow, read::fork_selector_missing;
    /// A `fork` that leaves records without a branch, under `at_least_once`.
    ForkUnmatchedUnrouted = "FORK_UNMATCHED_UNROUTED" in Flow, fork_unmatched_unrouted;
    /// A group that is named after a machine or a pod, and lost with it.
    GroupIdUnstable = "GROUP_ID_UNSTABLE" in Flow, group_id_unstable;
    /// A group with live members, which takes no offsets from others.
    GroupInUse = "GROUP_IN_USE" in Runtime, at_broker::group_in_use;
    /// A `${…}` that is not one of the forms there are.
    InterpolationInvalid = "INTERPOLATION_INVALID" in Flow, read::interpolation_invalid;
    /// A client setting that is missing, unknown, refused, or not the flow's to set.
    KafkaConfigInvalid = "KAFKA_CONFIG_INVALID" in Flow, kafka_config_invalid;
    /// A key that must be there.
    MissingKey = "MISSING_KEY" in Flow, read::missing_key;
    /// A path through the process that ends without a terminal.
    MissingTerminalOutput = "MISSING_TERMINAL_OUTPUT" in Flow, missing_terminal_output;
    /// A mapping that is no node: no node key, or more than one.
    NodeInvalid = "NODE_INVALID" in Flow, read::node_invalid;
    /// A node or branch that no record can reach.
    NodeUnreachable = "NODE_UNREACHABLE" in Flow, node_unreachable;
    /// A right that the flow needs and does not have.
    NotAuthorized = "NOT_AUTHORIZED" in Broker, at_broker::not_authorized;
    /// Part of the language that this version cannot run.
    NotAvailable = "NOT_AVAILABLE" in Flow, read::not_available;
    /// A plugin that refuses its configuration.
    PluginConfigInvalid = "PLUGIN_CONFIG_INVALID" in Runtime, at_start::plugin_config_invalid;
    /// A component that is made for another host: another track of the contract, an import that nobody has.
    PluginIncompatible = "PLUGIN_INCOMPATIBLE" in Runtime, plugin_incompatible;
    /// A component that cannot be read or is none.
    PluginLoadFailed = "PLUGIN_LOAD_FAILED" in Flow, plugin_load_failed;
    /// A component without the export that its place needs.
    PluginRoleMissing = "PLUGIN_ROLE_MISSING" in Runtime, plugin_role_missing;
    /// A name that `plugins` does not have.
    PluginUnknown = "PLUGIN_UNKNOWN" in Flow, plugin_unknown;
    /// A plugin that no node names.
    PluginUnused = "PLUGIN_UNUSED" in Flow, plugin_unused;
    /// A node inside a `router` that makes several rows of one.
    RouterBranchFanoutUnsupported = "ROUTER_BRANCH_FANOUT_UNSUPPORTED" in Flow, router_branch_fanout_unsupported;
    /// Branches of a `router` that end in different shapes.
    RouterBranchShapeDivergence = "ROUTER_BRANCH_SHAPE_DIVERGENCE" in Flow, router_branch_shape_divergence;
    /// A node inside a `router` that batches, ends or routes records.
    RouterBranchUnsafeNode = "ROUTER_BRANCH_UNSAFE_NODE" in Flow, router_branch_unsafe_node;
    /// A node that gets records where it takes batches, or the other way round.
    ShapeMismatch = "SHAPE_MISMATCH" in Flow, shape_mismatch;
    /// A sink that cannot say what it has written, under `at_least_once`.
    SinkUntracked = "SINK_UNTRACKED" in Runtime, sink_untracked;
    /// A terminal that another node follows.
    TerminalNotLast = "TERMINAL_NOT_LAST" in Flow, terminal_not_last;
    /// An output into a topic that the flow reads.
    TopicLoop = "TOPIC_LOOP" in Flow, topic_loop;
    /// A topic that does not exist.
    TopicMissing = "TOPIC_MISSING" in Broker, at_broker::topic_missing;
    /// A key that its mapping does not know.
    UnknownKey = "UNKNOWN_KEY" in Flow, read::unknown_key;
    /// A branch or route that ends without a terminal, so that its records drain.
    UnterminatedBranch = "UNTERMINATED_BRANCH" in Flow, unterminated_branch;
    /// A value of the right type that means nothing here.
    ValueInvalid = "VALUE_INVALID" in Flow, read::value_invalid;
    /// A variable or file that an interpolation or expression names and that is not there.
    VariableUnset = "VARIABLE_UNSET" in Flow, read::variable_unset;
    /// A value of the wrong type.
    WrongType = "WRONG_TYPE" in Flow, read::wrong_type;
}

impl Code {
    /// The code of a text, in whatever case; the error is the nearest text, if one is near enough to be meant.
    ///
    /// # Errors
    /// There is no such code.
    pub fn parse(text: &str) -> Result<Code, Option<&'static str>> {
        let upper = text.trim().to_ascii_uppercase().replace('-', "_");
        let found = Code::ALL.iter().find(|code| code.as_str() == upper);
        found.copied().ok_or_else(|| {
            let texts: Vec<&'static str> = Code::ALL.iter().map(|code| code.as_str()).collect();
            nearest(&upper, &texts)
        })
    }
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

    #[test]
    fn a_code_is_found_in_any_case_and_a_mistyped_one_is_answered_with_the_nearest() {
        assert_eq!(Code::parse("unknown-key"), Ok(Code::UnknownKey));
        assert_eq!(Code::parse("SHAPE_MISMACH"), Err(Some("SHAPE_MISMATCH")));
        assert_eq!(Code::parse("E0308"), Err(None));
    }
}
