//! Nodes: each is a mapping of its own, whose first key is the node key and whose other keys are its options.

use super::{COUNT, Key, LONGEST_MS, Mapping, NAME, NODE_ERRORS, PROCESS, Value};

/// Every node, in the order in which people are told of them.
pub(crate) static NODES: [&Mapping; 16] = [
    &STEP,
    &MAP,
    &EXPAND,
    &BATCH_STEP,
    &BATCH_EXPAND,
    &FILTER,
    &COLLECT_BATCH,
    &FOR_EACH,
    &EXPLODE,
    &ROUTER,
    &FORK,
    &BROADCAST,
    &EXPAND_ROUTES,
    &INTO_TOPIC,
    &INTO_SINK,
    &DRAIN,
];

/// The node with that key.
pub(crate) fn node(key: &str) -> Option<&'static Mapping> {
    NODES.iter().copied().find(|node| node.keys[0].name == key)
}

/// A plugin where an expression could stand.
pub(crate) static PLUGIN_REFERENCE: Mapping = Mapping::new(
    "pluginReference",
    "A plugin instead of an expression.",
    &[Key::new("plugin", NAME, "A name under `plugins`.").required().example("vip")],
);

const TIMEOUT: Key =
    Key::new("timeout", Value::Duration, "Time of one call, instead of the plugin's own limit.")
        .example("100ms");
const RETRIES: Key = Key::new(
    "retries",
    Value::Whole { least: 0, most: u64::MAX },
    "How often a record is tried again that was answered `retry`; without it there is no bound.",
)
.example("5");
const CONCURRENCY: Key = Key::new(
    "concurrency",
    Value::Whole { least: 1, most: 1000 },
    "Calls at a time, one record (or one batch) each, for plugins that wait for others.",
)
.example("16");
const ORDERED: Key =
    Key::new("ordered", Value::Boolean, "Whether records of a partition leave in their order.")
        .default("true");
const ON_TRAP: Key = Key::new(
    "on_trap",
    Value::Words(&["rerun", "fail_batch", "reset"]),
    "What a trap in a batch leads to: its rows run again one by one, or all fail. `rerun` is the default, `fail_batch` \
     for plugins with a folder that they may write or with the network.",
)
.example("rerun");
const ERRORS: Key = Key::new(
    "errors",
    Value::Mapping(&NODE_ERRORS),
    "Error routes of this node; they come before those of the flow.",
)
.example("{ business: [ { into_topic: orders.refused } ] }");

const LABEL: Key = Key::new(
    "name",
    Value::Label,
    "What the node is called in status, metrics, envelopes and tests, beside its path: letters, digits, `_`, `-` and `.`, and no \
     two nodes have one name.",
)
.example("enrich-order");

static STEP: Mapping = Mapping::new(
    "step",
    "A plugin changes each record.",
    &[
        Key::new("step", NAME, "The plugin: each record has exactly one output, or fails.")
            .required()
            .example("enrich"),
        TIMEOUT,
        RETRIES,
        CONCURRENCY,
        ORDERED,
        ON_TRAP,
        ERRORS,
        LABEL,
    ],
);

static MAP: Mapping = Mapping::new(
    "map",
    "An expression makes the new payload.",
    &[
        Key::new("map", Value::Expression, "A CEL expression; its value becomes the JSON payload.")
            .required()
            .example("\"{'id': payload.id}\""),
        ERRORS,
        LABEL,
    ],
);

static EXPAND: Mapping = Mapping::new(
    "expand",
    "A plugin makes zero or more records of each.",
    &[
        Key::new("expand", NAME, "The plugin.").required().example("split"),
        TIMEOUT,
        RETRIES,
        CONCURRENCY,
        ORDERED,
        ON_TRAP,
        ERRORS,
        LABEL,
    ],
);

static BATCH_STEP: Mapping = Mapping::new(
    "batch_step",
    "A plugin changes the records of a batch.",
    &[
        Key::new("batch_step", NAME, "The plugin: one output for each record, in order.")
            .required()
            .example("score"),
        TIMEOUT,
        RETRIES,
        CONCURRENCY,
        ORDERED,
        ON_TRAP,
        ERRORS,
        LABEL,
    ],
);

static BATCH_EXPAND: Mapping = Mapping::new(
    "batch_expand",
    "A plugin makes records of a batch.",
    &[
        Key::new("batch_expand", NAME, "The plugin: each output names the records that it stands for.")
            .required()
            .example("summarise"),
        TIMEOUT,
        RETRIES,
        CONCURRENCY,
        ORDERED,
        ON_TRAP,
        ERRORS,
        LABEL,
    ],
);

static FILTER: Mapping = Mapping::new(
    "filter",
    "Records that say no are complete.",
    &[
        Key::new("filter", Value::Choice, "A CEL expression that gives a boolean, or `{ plugin: NAME }`.")
            .required()
            .example("payload.total > 10"),
        ERRORS,
        LABEL,
    ],
);

static COLLECT_BATCH: Mapping = Mapping::new(
    "collect_batch",
    "Gathers records into batches.",
    &[
        Key::new("collect_batch", Value::Mapping(&BATCH_BOUNDS), "When a batch leaves: at the first bound.")
            .required()
            .example("{ max_records: 100, timeout_ms: 500 }"),
        LABEL,
    ],
);

static BATCH_BOUNDS: Mapping = Mapping {
    name: "batchBounds",
    doc: "When a batch leaves, at the first of its bounds, of which it has one at least, and which records are gathered together.",
    keys: &[
        Key::new("max_records", COUNT, "Records of a batch, at most.").example("100"),
        Key::new(
            "max_bytes",
            Value::Size,
            "Size of a batch, at most: payloads, keys and headers. A larger record goes alone.",
        )
        .example("1MiB"),
        Key::new(
            "timeout_ms",
            Value::Whole { least: 1, most: LONGEST_MS },
            "Milliseconds after its first record at which a batch leaves.",
        )
        .example("500"),
        Key::new(
            "key",
            Value::Choice,
            "Records with the same key are gathered together: a CEL expression as at `into_topic`, or `{ plugin: NAME }`, a \
             partitioner. Their own keys stay. Without it those of a source partition are.",
        )
        .example("payload.customer"),
    ],
    forms: &[],
    some: &["max_records", "max_bytes", "timeout_ms"],
    together: None,
};

static FOR_EACH: Mapping = Mapping::new(
    "for_each",
    "Makes single records of a batch again.",
    &[Key::new("for_each", Value::Nothing, "It has no value.").required(), LABEL],
);

static EXPLODE: Mapping = Mapping::new(
    "explode",
    "A plugin makes records of several types; a `router` by `msg.type` follows.",
    &[
        Key::new("explode", NAME, "The plugin, a typed expander.").required().example("parts"),
        TIMEOUT,
        RETRIES,
        CONCURRENCY,
        ORDERED,
        ON_TRAP,
        ERRORS,
        LABEL,
    ],
);

static ROUTER: Mapping = Mapping::new(
    "router",
    "Each record takes one branch, and all go on together.",
    &[
        Key::new(
            "router",
            Value::Mapping(&ROUTER_BRANCHES),
            "Branches by condition (`when`), or by label (`by` and `branches`).",
        )
        .required()
        .example("{ when: [ { if: payload.total > 10, process: [ { step: big } ] } ], default: pass }"),
        ERRORS,
        LABEL,
    ],
);

static FORK: Mapping = Mapping::new(
    "fork",
    "Each record ends in exactly one branch.",
    &[
        Key::new(
            "fork",
            Value::Mapping(&FORK_BRANCHES),
            "Branches by condition (`when`), or by label (`by` and `branches`).",
        )
        .required()
        .example(
            "{ when: [ { if: payload.total > 10, process: [ { into_topic: big } ] } ], default: [ drain ] }",
        ),
        ERRORS,
        LABEL,
    ],
);

const BY: Key = Key::new(
    "by",
    Value::Choice,
    "A CEL expression whose value, as text, is the branch's label; or `{ plugin: NAME }`, a selector.",
)
.example("payload.type");
const CONDITIONAL: &Value = &Value::Mapping(&WHEN_BRANCH);
const WHEN: Key = Key::new(
    "when",
    Value::List { of: CONDITIONAL, least: 1 },
    "Branches with conditions: the first that holds takes the record.",
)
.example("[ { if: payload.total > 10, process: [ { into_topic: big } ] } ]");
const BRANCHES: Key =
    Key::new("branches", Value::Named { of: &PROCESS, least: 1 }, "A process for each label.")
        .example("{ order: [ { into_topic: orders } ] }");
const FORMS: &[&[&str]] = &[&["when"], &["by", "branches"]];

static ROUTER_BRANCHES: Mapping = Mapping {
    name: "routerBranches",
    doc: "Branches by condition, or by label.",
    keys: &[
        BY,
        WHEN,
        BRANCHES,
        Key::new(
            "default",
            Value::PassOrProcess,
            "For what no branch takes; `pass` lets it through unchanged.",
        )
        .example("pass"),
    ],
    forms: FORMS,
    some: &[],
    together: None,
};

static FORK_BRANCHES: Mapping = Mapping {
    name: "forkBranches",
    doc: "Branches by condition, or by label; each reaches a terminal.",
    keys: &[
        BY,
        WHEN,
        BRANCHES,
        Key::new("default", PROCESS, "For what no branch takes; needed under `at_least_once`.")
            .example("[ drain ]"),
    ],
    forms: FORMS,
    some: &[],
    together: None,
};

static WHEN_BRANCH: Mapping = Mapping::new(
    "whenBranch",
    "A branch with its condition.",
    &[
        Key::new("if", Value::Choice, "A CEL expression that gives a boolean, or `{ plugin: NAME }`.")
            .required()
            .example("payload.total > 10"),
        Key::new("process", PROCESS, "What happens to the records of this branch.")
            .required()
            .example("[ { into_topic: big } ]"),
    ],
);

static BROADCAST: Mapping = Mapping::new(
    "broadcast",
    "Every record goes to every branch.",
    &[
        Key::new("broadcast", Value::List { of: &PROCESS, least: 1 }, "The branches, a process each.")
            .required()
            .example("[ [ { into_topic: copies } ], [ { into_sink: archive } ] ]"),
        LABEL,
    ],
);

static EXPAND_ROUTES: Mapping = Mapping::new(
    "expand_routes",
    "A plugin makes records of several types; each type has a process of its own.",
    &[
        Key::new("expand_routes", Value::Mapping(&TYPE_ROUTES), "The plugin and the processes.")
            .required()
            .example("{ plugin: parts, routes: { line: [ { into_topic: lines } ] } }"),
        TIMEOUT,
        RETRIES,
        CONCURRENCY,
        ORDERED,
        ON_TRAP,
        ERRORS,
        LABEL,
    ],
);

static TYPE_ROUTES: Mapping = Mapping::new(
    "typeRoutes",
    "A typed expander, and a process for each type of record.",
    &[
        Key::new("plugin", NAME, "The plugin, a typed expander.").required().example("parts"),
        Key::new("routes", Value::Named { of: &PROCESS, least: 1 }, "A process for each type.")
            .required()
            .example("{ line: [ { into_topic: lines } ] }"),
        Key::new("default", PROCESS, "For types without a route.").example("[ drain ]"),
    ],
);

static INTO_TOPIC: Mapping = Mapping::new(
    "into_topic",
    "Writes each record to Kafka.",
    &[
        Key::new(
            "into_topic",
            NAME,
            "The output's logical name: the topic, unless `kafka.producers` has an entry of that name.",
        )
        .required()
        .example("orders.out"),
        Key::new(
            "key",
            Value::Choice,
            "A CEL expression for the new key: a string, bytes, an integer or a boolean; `null` is no key. Or `{ plugin: NAME \
             }`, a partitioner. Without it the record's key stays.",
        )
        .example("payload.customer"),
        Key::new("partitioner", Value::PluginChoice, "A plugin that makes the key of records without one.")
            .example("spread"),
        Key::new("allow_repartition", Value::Boolean, "Whether `partitioner` replaces a key that is there.")
            .default("false"),
        Key::new("dlq", NAME, "The output for records that this one refuses for good.").example("orders.dead"),
        Key::new("timestamp", Value::Words(&["source", "now"]), "Which time the record carries: the source's, or now.")
            .default("source"),
        ERRORS,
        LABEL,
    ],
);

static INTO_SINK: Mapping = Mapping::new(
    "into_sink",
    "Hands each record to a sink component.",
    &[
        Key::new("into_sink", NAME, "The plugin, a sink.").required().example("archive"),
        Key::new("timeout", Value::Duration, "Time of one `write`, instead of the plugin's own limit.")
            .example("1s"),
        RETRIES,
        Key::new("flush", Value::Mapping(&FLUSH), "When the host calls `flush`: at the first bound.")
            .example("{ records: 1000, bytes: 1MiB, interval: 1s }"),
        ERRORS,
        LABEL,
    ],
);

static FLUSH: Mapping = Mapping::new(
    "flush",
    "When the host calls a sink's `flush`: at the first bound.",
    &[
        Key::new("records", COUNT, "Unflushed records.").default("1000"),
        Key::new("bytes", Value::Size, "Unflushed bytes.").default("1MiB"),
        Key::new("interval", Value::Duration, "Age of the oldest unflushed record.").default("1s"),
    ],
);

static DRAIN: Mapping = Mapping::new(
    "drain",
    "Completes and discards each record.",
    &[Key::new("drain", Value::Nothing, "It has no value.").required(), LABEL],
);
