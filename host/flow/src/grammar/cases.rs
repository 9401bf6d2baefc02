//! The keys of a test file, in the form of the language's own table: what a case gives to a flow, what it lets go wrong,
//! and what must come of it.

use super::{COUNT, Key, Mapping, NAME, NAMES, Value};

const OFFSET: Value = Value::Whole { least: 0, most: i64::MAX as u64 };
const PARTITION: Value = Value::Whole { least: 0, most: MOST_PARTITIONS - 1 };
const NUMBER: Value = Value::Whole { least: 0, most: u64::MAX };

/// Partitions of an input topic in a case, at most.
pub(crate) const MOST_PARTITIONS: u64 = 1000;
/// Workers of a case, at most.
pub(crate) const MOST_WORKERS: u64 = 64;

/// The whole file.
pub(crate) static CASES: Mapping = Mapping::new(
    "cases",
    "Cases of a flow: records in, what must come out.",
    &[
        Key::new(
            "flow",
            NAME,
            "The flow's file; a relative path is beside this file. Without it `NAME.test.yaml` is about `NAME.yaml`, or \
             `flow.yaml` where there is no such file.",
        )
        .example("flow.yaml"),
        Key::new("overlays", NAMES, "Files that are laid over the flow, the later over the earlier.")
            .example("[staging.yaml]"),
        Key::new("cases", Value::List { of: &Value::Mapping(&CASE), least: 1 }, "The cases.").required().example(
            "[ { name: small orders pass, records: [ { json: { total: 5 } } ], expect: { topics: { orders.small: [ { json: { total: 5 } } ] } } } ]",
        ),
    ],
);

static CASE: Mapping = Mapping::new(
    "case",
    "One run of the flow, from the first record to the last commit, on a broker of its own.",
    &[
        Key::new("name", NAME, "What the case shows, in a sentence.")
            .required()
            .example("large orders leave by themselves"),
        Key::new("workers", Value::Whole { least: 1, most: MOST_WORKERS }, "Worker threads of the run.").default("1"),
        Key::new(
            "partitions",
            Value::Whole { least: 1, most: MOST_PARTITIONS },
            "Partitions of each input topic; one more than the largest that a record names, without it.",
        )
        .example("2"),
        Key::new(
            "sinks",
            Value::Words(&["run", "capture"]),
            "`run` calls the sinks' components. `capture` calls none: what they would get counts as written.",
        )
        .default("run"),
        Key::new(
            "timeout",
            Value::Duration,
            "How long after the last record its flow may take to resolve them all.",
        )
        .default("10s"),
        Key::new(
            "records",
            Value::List { of: &Value::Mapping(&INPUT_RECORD), least: 0 },
            "What the flow reads; offsets count from 0 in each partition.",
        )
        .example("[ { key: c-1, json: { total: 5 } } ]"),
        Key::new("faults", Value::List { of: &Value::Mapping(&FAULT), least: 0 }, "What goes wrong on the way.")
            .example("[ { call: enrich, at: 1, ends: trap } ]"),
        Key::new("expect", Value::Mapping(&EXPECT), "What must have come of it at the end.").required().example(
            "{ topics: { orders.small: [ { key: c-1, fields: { total: 5 } } ] }, offsets: { orders.in: { 0: 1 } } }",
        ),
    ],
);

const TOPIC: Key =
    Key::new("topic", NAME, "The input topic; the flow's first one without it.").example("orders.in");
const AT: Key = Key::new("at", OFFSET, "The record's offset in its partition.").example("1");
const PARTITION_OF_IT: Key = Key::new("partition", PARTITION, "The record's partition.").default("0");
const KEY: Key = Key::new("key", Value::Any, "The key: a text, null, or `{ base64: … }`.").example("c-1");
const TIMESTAMP: Key = Key::new(
    "timestamp_ms",
    Value::Whole { least: 0, most: i64::MAX as u64 },
    "Its time, in milliseconds since 1970-01-01 UTC.",
)
.example("1767225600000");
const VALUE: Key =
    Key::new("value", Value::Any, "The payload as it stands: a text, or null for none (a tombstone).")
        .example("not JSON");
const BASE64: Key = Key::new("base64", Value::Text, "The payload's bytes.").example("AAEC");

static INPUT_RECORD: Mapping = Mapping {
    forms: &[&["value"], &["json"], &["base64"]],
    ..Mapping::new(
        "inputRecord",
        "A record that the flow reads.",
        &[
            TOPIC,
            Key::new("partition", PARTITION, "Its partition; by the key, or in turn, without it.").example("0"),
            KEY,
            Key::new(
                "headers",
                Value::Any,
                "Headers: a mapping of names to values, or a list of `[name, value]`. Values are as for `key`.",
            )
            .example("{ trace: abc }"),
            TIMESTAMP,
            VALUE,
            Key::new("json", Value::Any, "The payload as YAML; the record holds it as JSON without white space.")
                .example("{ total: 5 }"),
            BASE64,
        ],
    )
};

static OUTPUT_RECORD: Mapping = Mapping::new(
    "outputRecord",
    "A record that was written. What is not said of it is not compared.",
    &[
        Key::new("key", Value::Any, "Its key: a text, null for none, or `{ base64: … }`.").example("c-1"),
        Key::new("headers", Value::Any, "Headers that it has, among others: as for a record that is read.")
            .example("{ trace: abc }"),
        TIMESTAMP,
        VALUE,
        Key::new(
            "json",
            Value::Any,
            "The payload is this JSON, whatever the order of its fields and its white space.",
        )
        .example("{ total: 5 }"),
        Key::new(
            "fields",
            Value::Any,
            "The payload is JSON that has these fields, among others, at every depth.",
        )
        .example("{ total: 5 }"),
        BASE64,
    ],
);

static FAULT: Mapping = Mapping {
    forms: &[&["call"], &["flush"], &["refuse"], &["kill"]],
    ..Mapping::new(
        "fault",
        "Something that goes wrong.",
        &[
            Key::new(
                "call",
                NAME,
                "A plugin, or a node by its name or path, whose calls on the record end as `ends` says: a step's, a predicate's, a \
                 sink's `write`. A call on several records in which it is counts.",
            )
            .example("enrich"),
            Key::new("flush", NAME, "A sink, or its node by its name or path, whose `flush` ends as `ends` says.")
                .example("warehouse"),
            Key::new("refuse", NAME, "An output that refuses the record for good.").example("orders.big"),
            Key::new(
                "kill",
                Value::Words(&["read", "written"]),
                "The process is killed, and another one begins where the committed offsets are: `read` as the record is \
                 about to be read, `written` when an output of it was just written and nobody has heard so.",
            )
            .example("written"),
            AT,
            PARTITION_OF_IT,
            TOPIC,
            Key::new(
                "ends",
                Value::Words(&["trap", "timeout", "fail", "reject", "retry"]),
                "How the call ends: the plugin traps, runs out of time, or answers so.",
            )
            .default("fail"),
            Key::new("times", COUNT, "How often; every time, without it.").example("1"),
            Key::new("reason", NAME, "What is said of it.").example("disk full"),
        ],
    )
};

const RECORDS: Value =
    Value::Named { of: &Value::List { of: &Value::Mapping(&OUTPUT_RECORD), least: 0 }, least: 0 };

static EXPECT: Mapping = Mapping::new(
    "expect",
    "What must have come of a case at its end. A failure that it does not name fails the case.",
    &[
        Key::new(
            "topics",
            RECORDS,
            "The records of each topic, all of them. With it, topics that it does not name stay empty.",
        )
        .example("{ orders.small: [ { json: { total: 5 } } ] }"),
        Key::new(
            "sinks",
            RECORDS,
            "What each sink wrote, by the plugin's name, all of it. With it, sinks that it does not name write nothing.",
        )
        .example("{ warehouse: [ { fields: { total: 5 } } ] }"),
        Key::new(
            "order",
            Value::Words(&["kept", "any"]),
            "`kept`: records come in the order that is given. `any`: in whatever order, as when several partitions go into \
             one topic.",
        )
        .default("kept"),
        Key::new(
            "errors",
            Value::List { of: &Value::Mapping(&EXPECTED_ERROR), least: 0 },
            "Failures that no error route took, all of them, in any order. None without it.",
        )
        .example("[ { kind: task, node: \"process[0]\", at: 1 } ]"),
        Key::new("ledger", Value::Mapping(&LEDGER), "Counts of the ledger, those that are named.")
            .example("{ registered: 3, ended: { topic: 2, filtered: 1 } }"),
        Key::new(
            "offsets",
            Value::Named { of: &Value::Named { of: &OFFSET, least: 0 }, least: 0 },
            "The committed offset of partitions, by topic and partition: the next record that would be read.",
        )
        .example("{ orders.in: { 0: 3 } }"),
        Key::new(
            "stops",
            NAME,
            "The flow stops with a failure that holds this text. Without it the flow ends well.",
        )
        .example("refused"),
    ],
);

static EXPECTED_ERROR: Mapping = Mapping::new(
    "expectedError",
    "A failure that no error route took. What is not said of it is not compared.",
    &[
        Key::new(
            "kind",
            Value::Words(&["wire", "routing", "task", "business", "delivery"]),
            "The kind of failure.",
        )
        .example("task"),
        Key::new("node", NAME, "The node's name or path.").example("process[0]"),
        AT,
        Key::new("partition", PARTITION, "The record's partition.").example("0"),
        Key::new("topic", NAME, "The record's topic.").example("orders.in"),
        Key::new("reason", NAME, "The reason holds this text.").example("no such field"),
    ],
);

static LEDGER: Mapping = Mapping::new(
    "expectedLedger",
    "Counts of the ledger; after a kill those of the last process.",
    &[
        Key::new("registered", NUMBER, "Records that were read.").example("3"),
        Key::new("resolved", NUMBER, "Records whose every row has ended.").example("3"),
        Key::new("outstanding", NUMBER, "Records that are not resolved.").example("0"),
        Key::new("skipped", NUMBER, "Tombstones that were skipped.").example("0"),
        Key::new("minted", NUMBER, "Rows that began.").example("3"),
        Key::new("consumed", NUMBER, "Rows that nodes took in for others.").example("0"),
        Key::new("live", NUMBER, "Rows that have not ended.").example("0"),
        Key::new(
            "ended",
            Value::Named { of: &NUMBER, least: 0 },
            "Rows by how they ended: `topic`, `sink`, `dead_letter`, `filtered`, `drained`, `no_output`, \
             `error_route(KIND)`, `dropped(KIND)`. An ending that is not named is not compared.",
        )
        .example("{ topic: 2, \"dropped(task)\": 1 }"),
    ],
);
