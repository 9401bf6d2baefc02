//! What the compiler asks of others. This crate knows no process environment, no component reader and no Kafka client;
//! the binary fills these in, and tests answer as they like.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::path::Path;
use std::time::Duration;

use crate::plan::Security;

/// Variables and files that `${…}` may name.
pub trait Environment {
    /// The value of a variable; none if it is not set.
    fn var(&self, name: &str) -> Option<String>;

    /// The bytes of a file that `${file:PATH}` names.
    ///
    /// # Errors
    /// What the file system answered.
    fn file(&self, path: &Path) -> io::Result<Vec<u8>>;
}

/// A part that a component can play.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// One record in, one out.
    Step,
    /// One record in, any number out.
    Expand,
    /// A batch in, one output for each input.
    BatchStep,
    /// A batch in, any number out.
    BatchExpand,
    /// A yes or no about a record.
    Predicate,
    /// A label for a record.
    Selector,
    /// A key for a record.
    Partitioner,
    /// One record in, rows of named types out.
    TypedExpander,
    /// Writes records somewhere.
    Sink,
}

impl Role {
    /// The role as people say it, such as `batch step`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Step => "step",
            Role::Expand => "expander",
            Role::BatchStep => "batch step",
            Role::BatchExpand => "batch expander",
            Role::Predicate => "predicate",
            Role::Selector => "selector",
            Role::Partitioner => "partitioner",
            Role::TypedExpander => "typed expander",
            Role::Sink => "sink",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a component's types tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ComponentFacts {
    /// The parts that it can play, in either form.
    pub roles: BTreeSet<Role>,
    /// Whether it exports `bind-commit-tracker`.
    pub tracked: bool,
}

/// Reads components.
pub trait Components {
    /// What the file's types tell. Asked once for each file.
    ///
    /// # Errors
    /// Why the file cannot be read, or is no component for this host: a sentence without a full stop.
    fn facts(&self, path: &Path) -> Result<ComponentFacts, String>;

    /// What to do about a file without facts, such as the file that is meant.
    fn hint(&self, path: &Path) -> Option<String> {
        let _ = path;
        None
    }

    /// Whether a file without facts is a component all the same, made for another host: the file is right, and its
    /// pairing with this runtime is not.
    fn is_foreign(&self, path: &Path) -> bool {
        let _ = path;
        false
    }
}

/// Which client a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKind {
    /// Reads the flow's topics.
    Consumer,
    /// Writes the flow's outputs.
    Producer,
}

impl ClientKind {
    /// `consumer` or `producer`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ClientKind::Consumer => "consumer",
            ClientKind::Producer => "producer",
        }
    }
}

/// Why a flow may not set a key of the Kafka client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyRefusal {
    /// The client knows no such key.
    Unknown,
    /// A field of the flow sets it, or the host; the reason.
    Managed(String),
    /// It would break a promise of the host, or do nothing; the reason.
    Forbidden(String),
    /// The client takes the value, and the host does not; why.
    OutOfBounds(String),
    /// The client knows the key and not this value, or not for this client; the client's own words.
    Refused(String),
}

/// What a client is started with.
#[derive(Clone, Debug)]
pub struct ClientSettings<'a> {
    /// Which client.
    pub client: ClientKind,
    /// How it proves itself.
    pub security: &'a Security,
    /// A producer's.
    pub compression: Option<&'a str>,
    /// A producer's.
    pub idempotence: bool,
    /// What consumers of the process may read ahead, in bytes.
    pub prefetch: u64,
    /// A consumer's.
    pub poll_backoff: Duration,
    /// Keys and values of `extra`.
    pub extra: Vec<(&'a str, &'a str)>,
}

/// Knows the Kafka client's settings.
pub trait KafkaKeys {
    /// Whether a flow may set the key to this value.
    ///
    /// # Errors
    /// Why it may not.
    fn check(&self, client: ClientKind, key: &str, value: &str) -> Result<(), KeyRefusal>;

    /// Whether the client would start with all of its settings; it must not speak to anybody for that. Asked where each
    /// key alone was fine.
    ///
    /// # Errors
    /// Why it would not, in the client's own words, which name keys in backquotes.
    fn check_all(&self, settings: &ClientSettings<'_>) -> Result<(), String> {
        let _ = settings;
        Ok(())
    }

    /// The keys that a flow may set, to suggest the nearest; may be empty.
    fn known(&self) -> &[&str] {
        &[]
    }
}
