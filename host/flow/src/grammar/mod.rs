//! The keys of the language, in one table: what each takes, what it is for, what holds without it.
//!
//! The reader (`spec`) can take no key that is not in here, and what it refuses as unknown is what is not in here;
//! [`crate::schema`] writes the same table as a JSON Schema. So what an editor says of a key and what `check` says of it
//! cannot differ. A key that the reader forgets, or reads as something else than the table says, trips an assertion in
//! every test that meets its mapping.

mod cases;
mod kafka;
mod nodes;
mod plugins;

pub(crate) use cases::{CASES, MOST_PARTITIONS, MOST_WORKERS};
pub(crate) use nodes::{NODES, PLUGIN_REFERENCE, node};

use plugins::PLUGIN;

/// What a key takes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Value {
    /// Any single value.
    Text,
    /// A single value that is not empty.
    Name,
    /// A name of letters, digits, `_`, `-` and `.`.
    Label,
    /// A whole number within bounds.
    Whole { least: u64, most: u64 },
    /// A time with its unit, above zero.
    Duration,
    /// A size in bytes, above zero.
    Size,
    /// So many in a second, a minute or an hour.
    Rate,
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Words(&'static [&'static str]),
    /// A CEL expression.
    Expression,
    /// A CEL expression, or `{ plugin: NAME }`.
    Choice,
    /// A plugin's name, or `{ plugin: NAME }`.
    PluginChoice,
    /// A list of at least so many.
    List { of: &'static Value, least: usize },
    /// A mapping whose keys are the language's.
    Mapping(&'static Mapping),
    /// A mapping whose keys are the user's, at least so many.
    Named { of: &'static Value, least: usize },
    /// A list of nodes, at least so many; one that may be empty may also be nothing.
    Process { least: usize },
    /// `pass`, or a list of nodes.
    PassOrProcess,
    /// One node.
    Node,
    /// Anything.
    Any,
    /// Nothing.
    Nothing,
}

/// What a key is worth today.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It works.
    Current,
    /// It works, and something else is better.
    Deprecated,
    /// It is part of the language, and this version cannot run it.
    Later,
}

/// One key of a mapping.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) value: Value,
    /// What it is for, in a sentence or two.
    pub(crate) doc: &'static str,
    pub(crate) required: bool,
    /// What holds without it, as YAML.
    pub(crate) default: Option<&'static str>,
    /// How it may look, as YAML.
    pub(crate) example: Option<&'static str>,
    pub(crate) standing: Standing,
}

impl Key {
    const fn new(name: &'static str, value: Value, doc: &'static str) -> Key {
        Key { name, value, doc, required: false, default: None, example: None, standing: Standing::Current }
    }

    const fn required(self) -> Key {
        Key { required: true, ..self }
    }

    const fn default(self, yaml: &'static str) -> Key {
        Key { default: Some(yaml), ..self }
    }

    const fn example(self, yaml: &'static str) -> Key {
        Key { example: Some(yaml), ..self }
    }

    const fn deprecated(self) -> Key {
        Key { standing: Standing::Deprecated, ..self }
    }

    const fn later(self) -> Key {
        Key { standing: Standing::Later, ..self }
    }
}

/// A mapping with a closed list of keys.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Its name in the schema.
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    /// In the order in which people are told of them.
    pub(crate) keys: &'static [Key],
    /// Sets of keys that exclude one another: a mapping has all of exactly one. Empty where keys are free to combine.
    pub(crate) forms: &'static [&'static [&'static str]],
    /// Keys of which a mapping has one at least. Empty where it needs none.
    pub(crate) some: &'static [&'static str],
    pub(crate) together: Option<Together>,
}

/// Keys of a mapping that another key's word asks for, all of them, and that have no effect without it.
#[derive(Debug)]
pub(crate) struct Together {
    pub(crate) key: &'static str,
    /// Its words with which they are needed.
    pub(crate) with: &'static [&'static str],
    /// Its words with which they have no effect, as without the key.
    pub(crate) without: &'static [&'static str],
    pub(crate) keys: &'static [&'static str],
}

impl Mapping {
    const fn new(name: &'static str, doc: &'static str, keys: &'static [Key]) -> Mapping {
        Mapping { name, doc, keys, forms: &[], some: &[], together: None }
    }

    /// The key of that name.
    pub(crate) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The first of its keys whose mapping has a key of that name.
    pub(crate) fn section_with(&self, name: &str) -> Option<&'static str> {
        let has = |key: &&Key| matches!(key.value, Value::Mapping(section) if section.key(name).is_some());
        self.keys.iter().find(has).map(|key| key.name)
    }

    /// The names of its keys.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.keys.iter().map(|key| key.name).collect()
    }
}

/// A mapping without keys: what stands where nothing belongs.
pub(crate) static NONE: Mapping = Mapping::new("nothing", "", &[]);

/// Longer times are mistakes, and would overflow clocks: ten years, in milliseconds.
pub(crate) const LONGEST_MS: u64 = 10 * 366 * 24 * 60 * 60 * 1000;

const NAME: Value = Value::Name;
const TEXTS: Value = Value::List { of: &Value::Text, least: 0 };
const NAMES: Value = Value::List { of: &Value::Name, least: 0 };
const COUNT: Value = Value::Whole { least: 1, most: u64::MAX };
const PROCESS: Value = Value::Process { least: 0 };

/// The whole file.
pub(crate) static FLOW: Mapping = Mapping::new(
    "flow",
    "One service: what it reads from Kafka, what it does with each record, where it writes.",
    &[
        Key::new("name", NAME, "The flow's name, in logs, metrics and error rows.")
            .required()
            .example("orders"),
        Key::new(
            "source",
            NAME,
            "The consumer that the flow reads: `consumer`, or a name under `kafka.consumers`.",
        )
        .default("consumer"),
        Key::new("kafka", Value::Mapping(&kafka::KAFKA), "Brokers, topics and groups.").required().example(
            "{ consumer: { brokers: [\"localhost:9092\"], group_id: orders, topics: [orders.in] } }",
        ),
        Key::new("runtime", Value::Mapping(&RUNTIME), "Bounds and times of the run."),
        Key::new(
            "plugins",
            Value::Named { of: &Value::Mapping(&PLUGIN), least: 0 },
            "WebAssembly components, by the names that nodes use.",
        )
        .example("{ enrich: { component: plugins/enrich.wasm } }"),
        Key::new(
            "process",
            Value::Process { least: 1 },
            "What happens to each record: a list of nodes that ends in a terminal.",
        )
        .required()
        .example("[ { filter: payload.total > 10 }, { into_topic: orders.out } ]"),
        Key::new(
            "errors",
            Value::Mapping(&ERRORS),
            "What happens to records that fail, by the kind of failure.",
        )
        .example("{ default: [ { into_topic: orders.failed } ] }"),
    ],
);

const WIRE: Key = Key::new("wire", PROCESS, "Records whose payload cannot be decoded.");
const ROUTING: Key = Key::new("routing", PROCESS, "Records that no branch takes.");
const TASK: Key = Key::new("task", PROCESS, "Records that a plugin or an expression failed on.");
const BUSINESS: Key = Key::new("business", PROCESS, "Records that a plugin rejected.");
const DELIVERY: Key = Key::new("delivery", PROCESS, "Records that an output or a sink refused for good.");
const REST: Key = Key::new("default", PROCESS, "All kinds that have no route of their own.")
    .example("[ { into_topic: orders.failed } ]");

static ERRORS: Mapping = Mapping::new(
    "errors",
    "Error routes: a process for each kind of failure.",
    &[
        WIRE,
        ROUTING,
        TASK,
        BUSINESS,
        DELIVERY,
        REST,
        Key::new(
            "unrouted",
            Value::Words(&["drop", "stop"]),
            "What becomes of a failed record that no route takes: `drop` completes it, counted and logged; `stop` stops \
             the flow before it. Without it, `stop` under `delivery: at_least_once`, `drop` otherwise.",
        )
        .example("stop"),
        Key::new(
            "max_dropped",
            Value::Rate,
            "How many rows may be dropped in a time: above it the flow is not ready. Without it there is no bound.",
        )
        .example("100/min"),
    ],
);

static NODE_ERRORS: Mapping = Mapping::new(
    "nodeErrors",
    "Error routes of one node; they come before those of the flow.",
    &[WIRE, ROUTING, TASK, BUSINESS, DELIVERY, REST],
);

static RUNTIME: Mapping = Mapping::new(
    "runtime",
    "Bounds and times of the run.",
    &[
        Key::new(
            "completions",
            Value::Words(&["local", "routed"]),
            "Where completions of a keyed node go: `routed` sends them back to the worker that owns the partition.",
        )
        .default("local"),
        Key::new("epoch_interval", Value::Duration, "Between two epochs of recovery.").default("10s"),
        Key::new("epoch_timeout", Value::Duration, "How long an epoch may take to drain.").default("5s"),
        Key::new("swap_timeout", Value::Duration, "How long a swap of a plugin may take to drain.").default("30s"),
        Key::new("startup_timeout", Value::Duration, "How long to try to reach the brokers.").default("30s"),
        Key::new("shutdown_timeout", Value::Duration, "How long a graceful stop may take.").default("25s"),
        Key::new(
            "lease_interval",
            Value::Duration,
            "Between two signs of life of the lease, and between two looks at the group's offsets.",
        )
        .default("5s"),
        Key::new(
            "commit_interval_ms",
            Value::Whole { least: 0, most: LONGEST_MS },
            "Milliseconds between two commits; 0 commits in every cycle.",
        )
        .default("200"),
        Key::new(
            "max_outstanding",
            Value::Mapping(&MAX_OUTSTANDING),
            "Rows of the process that are in the flow and not resolved, at most.",
        )
        .example("{ records: 100000, bytes: 256MiB }"),
        Key::new("prefetch", Value::Size, "What Kafka clients of the process may read ahead, in all.")
            .default("256MiB"),
    ],
);

static MAX_OUTSTANDING: Mapping = Mapping::new(
    "maxOutstanding",
    "Rows of the process that are in the flow and not resolved, at most.",
    &[
        Key::new("records", COUNT, "How many.").default("100000"),
        Key::new("bytes", Value::Size, "How large together.").default("256MiB"),
    ],
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CASES, FLOW, Mapping, NODES, Value};

    fn mappings(
        mapping: &'static Mapping,
        seen: &mut BTreeSet<&'static str>,
        all: &mut Vec<&'static Mapping>,
    ) {
        if !seen.insert(mapping.name) {
            assert!(
                all.iter().any(|known| std::ptr::eq(*known, mapping)),
                "two mappings are called `{}`",
                mapping.name
            );
            return;
        }
        all.push(mapping);
        mapping.keys.iter().for_each(|key| values(&key.value, seen, all));
    }

    fn values(value: &'static Value, seen: &mut BTreeSet<&'static str>, all: &mut Vec<&'static Mapping>) {
        match value {
            Value::Mapping(mapping) => mappings(mapping, seen, all),
            Value::List { of, .. } | Value::Named { of, .. } => values(of, seen, all),
            _ => {}
        }
    }

    #[test]
    fn every_key_stands_once_and_says_what_it_is_for() {
        let mut all = Vec::new();
        let mut seen = BTreeSet::new();
        mappings(&FLOW, &mut seen, &mut all);
        NODES.iter().for_each(|node| mappings(node, &mut seen, &mut all));
        mappings(&CASES, &mut seen, &mut all);
        assert!(all.len() > 32, "{seen:?}");
        for mapping in all {
            let names: BTreeSet<_> = mapping.names().into_iter().collect();
            assert_eq!(names.len(), mapping.keys.len(), "{}", mapping.name);
            for key in mapping.keys {
                assert!(key.doc.ends_with('.'), "{}.{} has no sentence", mapping.name, key.name);
                assert!(!(key.required && key.default.is_some()), "{}.{}", mapping.name, key.name);
            }
            assert!(mapping.some.iter().all(|name| mapping.key(name).is_some()), "{}", mapping.name);
            for form in mapping.forms {
                assert!(form.iter().all(|name| mapping.key(name).is_some()), "{}: {form:?}", mapping.name);
            }
        }
    }
}
