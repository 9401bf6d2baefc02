//! Words that other tools have for keys, with what stands here for them: whoever comes from one writes its words first.

use super::fields::Field;
use crate::reader::{Content, Scalar};

/// For a node's key that there is not.
pub(super) fn node(key: &str) -> Option<&'static str> {
    Some(match key {
        "switch" | "case" | "choose" | "choice" | "branch" | "if" | "when" | "cond" | "condition"
        | "route" => {
            "branches are a `router`, behind which records go on, or a `fork`, in which they end: \
             `router: { when: [ { if: EXPRESSION, process: [ … ] } ], default: pass }`"
        }
        "mapping" | "mutation" | "bloblang" | "transform" | "jq" | "jmespath" | "jslt" | "project"
        | "select" | "set" => {
            "an expression that makes the new payload is `map: EXPRESSION`: `map: \"{'id': payload.id}\"`"
        }
        "where" | "predicate" | "drop_if" | "drop_on" | "keep" => {
            "`filter: EXPRESSION` keeps the records for which it is true"
        }
        "output" | "outputs" | "sink" | "sinks" | "to" | "to_topic" | "topic" | "publish" | "produce"
        | "producer" | "kafka" | "kafka_franz" | "write" => {
            "records are written by `into_topic: TOPIC`, or by a plugin as `into_sink: NAME`"
        }
        "processor" | "processors" | "plugin" | "wasm" | "call" | "function" | "func" | "udf" | "task"
        | "component" | "run" | "exec" | "command" | "script" | "javascript" | "js" | "python" | "lambda"
        | "handler" => {
            "a plugin is called by `step: NAME`, where `plugins` has `NAME: { component: FILE.wasm }`"
        }
        "pipeline" | "steps" | "nodes" | "do" | "then" | "try" | "sequence" => {
            "nodes stand in the list itself, one behind the other"
        }
        "split" | "unarchive" | "flat_map" | "flatmap" | "flatMap" | "unnest" | "foreach" => {
            "a plugin that makes several records of one is `expand: NAME`"
        }
        "batch" | "batching" | "window" | "group_by" | "group_by_value" | "buffer" | "aggregate" => {
            "records are gathered by `collect_batch: { max_records: 100, timeout_ms: 500 }`, and given to a plugin by \
             `batch_step: NAME`"
        }
        "parallel" | "fanout" | "fan_out" | "tee" | "duplicate" => {
            "every record goes to every branch of a `broadcast: [ [ … ], [ … ] ]`"
        }
        "catch" | "on_error" | "on_failure" | "error_handler" | "dead_letter" | "dlq" => {
            "failures take the routes of `errors: { default: [ { into_topic: TOPIC } ] }`, of a node or of the flow"
        }
        "drop" | "discard" | "noop" | "ignore" | "deleted" | "trash" => {
            "records end without output in `drain`"
        }
        _ => return None,
    })
}

/// For a key at the top that there is not.
pub(super) fn flow(key: &str) -> Option<&'static str> {
    const READ: &str =
        "what is read stands in `kafka: { consumer: { brokers: [ … ], group_id: NAME, topics: [TOPIC] } }`";
    Some(match key {
        "pipeline" | "processors" | "steps" | "nodes" | "tasks" | "stages" | "flow" | "stream"
        | "transforms" | "mapping" | "switch" => "what is done with records is a list of nodes in `process`",
        "input" | "inputs" | "from" | "in" | "consumer" | "consumers" | "brokers" | "bootstrap_servers"
        | "topics" | "topic" | "group_id" | "group" => READ,
        "output" | "outputs" | "sink" | "sinks" | "to" | "out" | "producer" | "producers" | "destination" => {
            "where records are written stands in `process`, as `into_topic: TOPIC`; its brokers stand in \
             `kafka: { producer: { brokers: [ … ] } }`"
        }
        "components" | "modules" | "functions" | "resources" | "processor_resources" => {
            "components have their names in `plugins: { NAME: { component: FILE.wasm } }`"
        }
        "on_error" | "error" | "dlq" | "dead_letter" => {
            "failures take the routes of `errors: { default: [ … ] }`"
        }
        _ => return None,
    })
}

/// For a mapping where the key takes a name: `expand: { plugin: x }`, `into_topic: { topic: x }`.
pub(super) fn name_in_mapping(field: &Field<'_>) -> Option<String> {
    const NAMES: [&str; 7] = ["plugin", "topic", "name", "component", "output", "sink", "ref"];
    let Content::Mapping(entries) = &field.node.content else { return None };
    let entry = NAMES.iter().find_map(|name| entries.iter().find(|entry| entry.key.text == *name))?;
    let Content::Scalar(Scalar { text, .. }) = &entry.value.content else { return None };
    let beside = if entries.len() > 1 { "; options stand beside it" } else { "" };
    Some(format!("write `{}: {text}`{beside}", field.key))
}

/// Whether a text that is taken for a name was meant to be computed.
pub(super) fn looks_computed(text: &str) -> bool {
    let reads = ["payload.", "msg.", "env.", "this.", "payload[", "msg["];
    reads.iter().any(|root| text.starts_with(root))
        || text.contains(['{', '}', '(', ')', '\'', '"', '+', '?', '$', '%', '*'])
}
