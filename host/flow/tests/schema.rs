//! The JSON Schema and the compiler say the same of a flow, held against a validator that is not ours.
//!
//! Seeds hold every key of the language. Each key is then misspelt, left out and given values of every kind, and both
//! are asked; `default` is what the plan has without the key.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jsonschema::Validator;
use loom_flow::{Code, Compiled, Severity};
use serde_json::{Map, Value, json};

use crate::support::World;

static SCHEMA: LazyLock<Value> = LazyLock::new(loom_flow::schema);
static VALIDATOR: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::draft202012::new(&SCHEMA).expect("the schema is a schema"));

/// Every key of the language, the later ones too.
const EVERYTHING: &str = r#"
name: orders
source: consumer
kafka:
  consumer:
    brokers: [localhost:9092]
    group_id: g
    topics: [in]
    poll_backoff_ms: 50
    commit_keepalive_ms: 1000
    delivery: at_least_once
    enable_auto_commit: false
    auto_offset_reset: latest
    offset_out_of_range: fail
    tombstones: forward
    batch_size: 10
    security: { protocol: SASL_SSL, sasl_mechanism: PLAIN, sasl_username: u, sasl_password: p }
    extra: { fetch.min.bytes: 1 }
    poll_timeout_ms: 5
  consumers: { other: { brokers: [localhost:9092], group_id: g, topics: [in] } }
  producer: { brokers: [localhost:9092], compression: zstd, idempotence: false, extra: { linger.ms: 5 } }
  producers: { audit: { brokers: [localhost:9092], topic: audit.v2, security: { protocol: SSL } } }
runtime:
  completions: local
  epoch_interval: 10s
  epoch_timeout: 5s
  swap_timeout: 30s
  startup_timeout: 1m
  shutdown_timeout: 10s
  lease_interval: 2s
  commit_interval_ms: 0
  max_outstanding: { records: 10, bytes: 1MiB }
  prefetch: 1MiB
plugins:
  s:
    component: step.wasm
    digest: sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
    config: { any: [1, two] }
    limits: { memory: 1MiB, timeout: 1s, lifecycle: 1s, output: 1MiB, log: 1KiB }
    breaker: off
    allow:
      env: [A]
      http: ["api.example.com:443"]
      tcp: ["db:5432"]
      dirs: [{ host: ./ref, guest: /ref, mode: rw }]
  p: { component: predicate.wasm }
  k: { component: sink.wasm }
process:
  - step: s
    name: first
    timeout: 1s
    retries: 0
    concurrency: 2
    ordered: true
    on_trap: rerun
    errors: { wire: [ drain ], routing: [ drain ], task: [ drain ], business: [ drain ], delivery: [ drain ], default: [ drain ] }
  - { map: "{'id': payload.id}", name: mapped, errors: { default: [ drain ] } }
  - { filter: { plugin: p }, name: filtered, errors: { default: [ drain ] } }
  - { expand: s, name: expanded, timeout: 1s, retries: 1, concurrency: 2, ordered: true, on_trap: rerun, errors: {} }
  - { collect_batch: { max_records: 10, max_bytes: 1MiB, timeout_ms: 5, key: payload.k }, name: collected }
  - { batch_step: s, name: stepped, timeout: 1s, retries: 1, concurrency: 2, ordered: true, on_trap: rerun, errors: {} }
  - for_each
  - { for_each: , name: each }
  - { batch_expand: s, name: gathered, timeout: 1s, retries: 1, concurrency: 2, ordered: true, on_trap: rerun, errors: {} }
  - { explode: s, name: exploded, timeout: 1s, retries: 1, concurrency: 2, ordered: true, on_trap: rerun, errors: {} }
  - { router: { by: msg.type, branches: { a: [ { step: s } ], b: [] }, default: pass }, name: routed, errors: {} }
  - router: { when: [ { if: payload.a, process: [ { step: s } ] } ], default: [ { step: s } ] }
  - fork:
      when:
        - if: payload.total > 1000.0
          process:
            - name: copied
              broadcast:
                - [ { into_topic: audit, key: payload.k, partitioner: s, allow_repartition: false, dlq: dead, timestamp: now, name: audited, errors: {} } ]
                - [ { into_sink: k, name: sunk, timeout: 1s, retries: 1, flush: { records: 5, bytes: 1KiB, interval: 1s }, errors: {} } ]
        - if: { plugin: p }
          process: [ { fork: { by: payload.t, branches: { x: [ drain ] }, default: [ { drain: , name: drained } ] } } ]
      default:
        - { expand_routes: { plugin: s, routes: { x: [ drain ] }, default: [ drain ] }, name: typed, timeout: 1s, retries: 1, concurrency: 2, ordered: true, on_trap: rerun, errors: {} }
    name: forked
    errors: { task: [ drain ] }
errors: { wire: [ drain ], routing: [ drain ], task: [ drain ], business: [ drain ], delivery: [ drain ], default: [ drain ], unrouted: stop, max_dropped: 100/min }
"#;

/// What the compiler says of a file's form alone; the schema must say no to each.
const FORM: [Code; 7] = [
    Code::MissingKey,
    Code::UnknownKey,
    Code::WrongType,
    Code::NodeInvalid,
    Code::ConflictingKeys,
    Code::ForkSelectorMissing,
    Code::ExpressionQuoting,
];

/// YAML as the instance that an editor checks: keys are texts, merges are made.
fn instance(yaml: &str) -> Value {
    let mut document: serde_yaml::Value = serde_yaml::from_str(yaml).expect("YAML");
    document.apply_merge().expect("merge keys are right");
    to_json(document)
}

fn to_json(value: serde_yaml::Value) -> Value {
    match value {
        serde_yaml::Value::Sequence(items) => items.into_iter().map(to_json).collect(),
        serde_yaml::Value::Mapping(entries) => {
            let key = |key: serde_yaml::Value| match key {
                serde_yaml::Value::String(text) => text,
                other => serde_yaml::to_string(&other).expect("a key").trim().to_owned(),
            };
            entries.into_iter().map(|(name, value)| (key(name), to_json(value))).collect()
        }
        other => serde_json::to_value(other).expect("a scalar"),
    }
}

fn schema_errors(document: &Value) -> Vec<String> {
    VALIDATOR.iter_errors(document).map(|error| format!("{} at {}", error, error.instance_path)).collect()
}

fn compile(document: &Value) -> Compiled {
    // JSON is YAML.
    World::new().var("A", "1").compile(&document.to_string())
}

fn has_form_error(compiled: &Compiled) -> bool {
    let is_form = |code: Code, message: &str| {
        // What the Kafka section lacks has a code of its own.
        let kafka = code == Code::KafkaConfigInvalid
            && (message.contains("needs")
                || message.contains("no `kafka`")
                || message.contains("has no effect"));
        FORM.contains(&code) || kafka
    };
    compiled
        .issues
        .iter()
        .any(|issue| issue.severity == Severity::Error && is_form(issue.code, &issue.message))
}

/// The issues without what cannot run yet.
fn said(compiled: &Compiled) -> Vec<String> {
    let of_form = compiled.issues.iter().filter(|issue| issue.code != Code::NotAvailable);
    of_form.map(|issue| format!("{} {}: {}", issue.code, issue.path, issue.message)).collect()
}

/// A key of a closed mapping in a document: the mapping's definition, the key, and where the mapping is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Spot {
    definition: String,
    key: String,
    mapping: String,
}

impl Spot {
    fn name(&self) -> String {
        format!("{}.{}", self.definition, self.key)
    }

    /// The document with the mapping changed.
    fn change(&self, document: &Value, change: impl FnOnce(&mut Map<String, Value>)) -> Value {
        let mut document = document.clone();
        let mapping = document.pointer_mut(&self.mapping).and_then(Value::as_object_mut);
        change(mapping.expect("the mapping is there"));
        document
    }
}

/// Every key of the language in a document, found by going through schema and document together.
fn spots(document: &Value) -> Vec<Spot> {
    let mut found = Vec::new();
    walk(&SCHEMA, "flow", document, "", &mut found);
    found
}

fn walk(schema: &Value, definition: &str, document: &Value, at: &str, found: &mut Vec<Spot>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.strip_prefix("#/$defs/")) {
        return walk(&SCHEMA["$defs"][name], name, document, at, found);
    }
    if let Some(condition) = schema["if"].as_object() {
        let of_type = condition["type"].as_str().expect("a choice is made by type");
        let is =
            (of_type == "string") == document.is_string() && (of_type == "object") == document.is_object();
        let branch = if is { "then" } else { "else" };
        return walk(&schema[branch], definition, document, at, found);
    }
    for clause in schema["allOf"].as_array().into_iter().flatten() {
        let key = clause["if"]["required"][0].as_str();
        if key.is_some_and(|key| document.get(key).is_some()) {
            walk(&clause["then"], definition, document, at, found);
        }
    }
    match document {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(&schema["items"], definition, item, &format!("{at}/{index}"), found);
            }
        }
        Value::Object(entries) => {
            for (key, value) in entries {
                let escaped = key.replace('~', "~0").replace('/', "~1");
                let inner = &schema["properties"][key];
                if inner.is_object() {
                    let spot =
                        Spot { definition: definition.to_owned(), key: key.clone(), mapping: at.to_owned() };
                    found.push(spot);
                    walk(inner, definition, value, &format!("{at}/{escaped}"), found);
                } else if schema["additionalProperties"].is_object() {
                    let inner = &schema["additionalProperties"];
                    walk(inner, definition, value, &format!("{at}/{escaped}"), found);
                }
            }
        }
        _ => {}
    }
}

/// Every key of every closed mapping of the schema.
fn all_keys() -> BTreeSet<String> {
    let definitions = SCHEMA["$defs"].as_object().expect("definitions").iter();
    let definitions = definitions.map(|(name, schema)| (name.as_str(), schema)).chain([("flow", &*SCHEMA)]);
    definitions
        .filter_map(|(name, schema)| Some((name, schema["properties"].as_object()?)))
        .flat_map(|(name, keys)| keys.keys().map(move |key| format!("{name}.{key}")))
        .collect()
}

#[test]
fn the_seed_has_every_key_and_is_right_for_both() {
    let document = instance(EVERYTHING);
    assert_eq!(schema_errors(&document), Vec::<String>::new());
    let compiled = compile(&document);
    assert!(!has_form_error(&compiled), "{compiled:?}");
    let met: BTreeSet<String> = spots(&document).iter().map(Spot::name).collect();
    let all = all_keys();
    assert!(all.len() > 150, "{all:?}");
    assert_eq!(all.difference(&met).collect::<Vec<_>>(), Vec::<&String>::new(), "keys that the seed lacks");
}

#[test]
fn a_misspelt_key_fails_in_both() {
    let document = instance(EVERYTHING);
    for spot in spots(&document) {
        let swapped: String = spot.key.chars().rev().collect();
        let shorter = spot.key[..spot.key.len() - 1].to_owned();
        for wrong in
            [format!("{}x", spot.key), shorter, swapped, spot.key.to_uppercase(), spot.key.replace('_', "-")]
        {
            if wrong.is_empty() || wrong == spot.key {
                continue;
            }
            let changed = spot.change(&document, |mapping| {
                let value = mapping.remove(&spot.key).expect("the key is there");
                mapping.insert(wrong.clone(), value);
            });
            assert!(!schema_errors(&changed).is_empty(), "the schema takes `{wrong}` for {}", spot.name());
            let compiled = compile(&changed);
            let said = said(&compiled);
            assert!(has_form_error(&compiled), "`check` takes `{wrong}` for {}: {said:?}", spot.name());
        }
    }
}

#[test]
fn a_key_left_out_is_missed_by_both_or_by_none() {
    let document = instance(EVERYTHING);
    for spot in spots(&document) {
        let changed = spot.change(&document, |mapping| drop(mapping.remove(&spot.key)));
        let (schema, compiled) = (schema_errors(&changed), compile(&changed));
        assert_eq!(
            !schema.is_empty(),
            has_form_error(&compiled),
            "without {} at {}: {schema:?} against {:?}",
            spot.name(),
            spot.mapping,
            said(&compiled)
        );
    }
}

/// Values of every kind.
fn values() -> Vec<Value> {
    vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1),
        json!(-1),
        json!(7.5),
        json!(100_000_000_000_000_u64),
        json!(""),
        json!(" "),
        json!("word"),
        json!("12"),
        json!("0"),
        json!("10s"),
        json!("0s"),
        json!("1.5h"),
        json!("5MiB"),
        json!("1.5 kb"),
        json!("0B"),
        json!("true"),
        json!("${A}"),
        json!("pass"),
        json!([]),
        json!(["word"]),
        json!(["drain"]),
        json!([{ "drain": null }]),
        json!([[]]),
        json!({}),
        json!({ "plugin": "p" }),
        json!({ "word": "word" }),
        json!({ "word": [] }),
    ]
}

#[test]
fn values_of_every_kind_are_right_for_both_or_for_none() {
    let document = instance(EVERYTHING);
    // Of a form that the schema knows nothing of: the compiler's word on texts that have a grammar of their own, and what
    // is wrong only because of another key.
    let beyond = [
        "flow.source",
        "consumer.brokers",
        "consumer.topics",
        "producer.brokers",
        "plugin.digest",
        "plugin.component",
        "allow.env",
        "allow.http",
        "allow.tcp",
        "allow.dirs",
        "dir.guest",
        "dir.host",
    ];
    let mut both_refuse = 0;
    for spot in spots(&document) {
        for value in values() {
            let changed =
                spot.change(&document, |mapping| drop(mapping.insert(spot.key.clone(), value.clone())));
            let (schema, compiled) = (schema_errors(&changed), compile(&changed));
            let new = |issue: &&loom_flow::Issue| {
                issue.severity == Severity::Error
                    && !matches!(issue.code, Code::NotAvailable | Code::DeliveryConflict)
            };
            let errors: Vec<_> = compiled.issues.iter().filter(new).collect();
            let place = format!("{} = {value}", spot.name());
            if !schema.is_empty() {
                both_refuse += 1;
                assert!(!errors.is_empty(), "only the schema refuses {place}: {schema:?}");
                continue;
            }
            // `null` in JSON may be the expression `null`, and may be nothing.
            let expression = value.is_null() || value == json!("${A}");
            let of_value = errors.iter().filter(|issue| {
                FORM.contains(&issue.code)
                    || (issue.code == Code::ValueInvalid && !beyond.contains(&&*spot.name()))
            });
            let wrong: Vec<_> = of_value.collect();
            assert!(wrong.is_empty() || expression, "only `check` refuses {place}: {wrong:?}");
        }
    }
    assert!(both_refuse > 2000, "{both_refuse}");
}

/// Flows that lie in files: examples, fixtures, and the whole flows of the documentation.
fn written_flows() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut files: Vec<PathBuf> = Vec::new();
    let folder = |path: PathBuf| {
        let entries = std::fs::read_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        entries.map(|entry| entry.expect("an entry").path()).collect::<Vec<_>>()
    };
    for example in folder(root.join("plugins-example")).into_iter().filter(|path| path.is_dir()) {
        files.extend(folder(example));
    }
    files.extend(folder(here.join("diagnostics")));
    let is_flow = |name: &str| name.ends_with(".yaml") && !name.ends_with(".test.yaml");
    files.retain(|file| is_flow(&file.to_string_lossy()));
    let mut flows: Vec<(String, String)> = Vec::new();
    for file in files {
        // What is no text is for other tests.
        if let Ok(text) = std::fs::read_to_string(&file) {
            flows.push((file.display().to_string(), text));
        }
    }
    for page in ["README.md", "docs/flow-language.md"] {
        let text = std::fs::read_to_string(root.join(page)).expect("a page");
        let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
        flows.extend(
            blocks
                .filter(|block| block.contains("process:"))
                .map(|block| (page.to_owned(), block.to_owned())),
        );
    }
    flows
}

#[test]
fn every_written_flow_is_right_for_both_or_for_none() {
    let (mut right, mut wrong) = (0, 0);
    for (name, text) in written_flows() {
        // Which roles components have is no matter of form.
        let mut world = World::new();
        world.options.plugins = false;
        let compiled = world.compile(&text);
        let Ok(mut document) = serde_yaml::from_str::<serde_yaml::Value>(&text) else { continue };
        if document.apply_merge().is_err() {
            continue;
        }
        let errors = schema_errors(&to_json(document));
        if compiled.errors() == 0 {
            assert_eq!(errors, Vec::<String>::new(), "{name}");
            right += 1;
        } else if has_form_error(&compiled) {
            assert!(!errors.is_empty(), "{name}: {compiled:?}");
            wrong += 1;
        }
    }
    assert!(right >= 4 && wrong >= 4, "{right} right and {wrong} wrong flows were found");
}

/// The keys that run today, at values that are not their defaults.
const RUNS: &str = r#"
name: orders
source: consumer
kafka:
  consumer: { brokers: [localhost:9092], group_id: g, topics: [in], poll_backoff_ms: 1, commit_keepalive_ms: 1, auto_offset_reset: latest, offset_out_of_range: fail, tombstones: forward, batch_size: 1 }
  producer: { brokers: [localhost:9092], idempotence: false }
runtime: { completions: local, epoch_interval: 10s, epoch_timeout: 5s, swap_timeout: 30s, startup_timeout: 1s, shutdown_timeout: 1s, lease_interval: 1s, commit_interval_ms: 1, max_outstanding: { records: 1, bytes: 1B }, prefetch: 1B }
plugins:
  s: { component: step.wasm, breaker: off, limits: { memory: 1MiB, timeout: 1s, lifecycle: 1s, output: 1MiB, log: 1MiB }, allow: { dirs: [ { host: a, guest: /a, mode: rw } ] } }
  k: { component: sink.wasm }
process:
  - { step: s, ordered: false, concurrency: 2 }
  - broadcast: [ [ { into_topic: a, timestamp: now, allow_repartition: false } ], [ { into_sink: k, flush: { records: 1, bytes: 1B, interval: 1ms } } ] ]
errors: { unrouted: stop, max_dropped: 7/h }
"#;

#[test]
fn a_default_is_what_holds_without_the_key() {
    let document = instance(RUNS);
    let mut met = BTreeSet::new();
    let plan = |document: &Value, spot: &Spot| match compile(document).plan {
        Some(plan) => format!("{plan:?}"),
        None => panic!("{}: {:?}", spot.name(), compile(document)),
    };
    for spot in spots(&document) {
        let definition =
            if spot.definition == "flow" { &*SCHEMA } else { &SCHEMA["$defs"][&spot.definition] };
        let default = &definition["properties"][&spot.key]["default"];
        // What a plugin may take is the component engine's to say, and held against it where both are known.
        if default.is_null() || !met.insert(spot.name()) || spot.definition == "limits" {
            continue;
        }
        let given = spot.change(&document, |mapping| drop(mapping.insert(spot.key.clone(), default.clone())));
        let without = spot.change(&document, |mapping| drop(mapping.remove(&spot.key)));
        assert_eq!(plan(&given, &spot), plan(&without, &spot), "{}", spot.name());
    }
    let with_default: BTreeSet<String> = all_keys()
        .into_iter()
        .filter(|name| {
            let (definition, key) = name.split_once('.').expect("a definition and a key");
            let definition = if definition == "flow" { &*SCHEMA } else { &SCHEMA["$defs"][definition] };
            !definition["properties"][key]["default"].is_null()
        })
        .collect();
    // Nodes that cannot run yet have no plan to hold their `ordered` against; it is one key for all of them.
    let missed: Vec<&String> =
        with_default.difference(&met).filter(|name| !name.ends_with(".ordered")).collect();
    assert!(missed.is_empty(), "{missed:?}");
}

#[test]
fn the_schema_says_which_parts_cannot_run_yet() {
    let document = instance(EVERYTHING);
    let compiled = compile(&document);
    let refused: BTreeSet<&str> = compiled
        .issues
        .iter()
        .filter(|issue| issue.code == Code::NotAvailable)
        .filter_map(|issue| issue.message.strip_prefix('`')?.split('`').next())
        .collect();
    for spot in spots(&document) {
        let definition =
            if spot.definition == "flow" { &*SCHEMA } else { &SCHEMA["$defs"][&spot.definition] };
        let doc = definition["properties"][&spot.key]["description"].as_str().expect("a description");
        let later = doc.starts_with("Not in this version.");
        let name = if spot.definition == "allow" { format!("allow.{}", spot.key) } else { spot.key.clone() };
        // `allow_repartition: false` is what holds anyway.
        if later && spot.key != "allow_repartition" {
            assert!(
                refused.contains(name.as_str()),
                "{} runs, and its description says that it does not",
                spot.name()
            );
        } else if spot.definition == spot.key {
            assert!(
                !refused.contains(name.as_str()),
                "{} does not run; its description must say so",
                spot.name()
            );
        }
    }
}
